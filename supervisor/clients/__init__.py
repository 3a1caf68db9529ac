"""All I/O: ZooKeeper, stores, processes, HTTP, users. With ``demo`` it alone imports kazoo, boto3 and subprocess.

Errors of libraries become those of the product here; nothing here knows a job. ``zookeeper`` is the client,
``zookeeper_session`` keeps its session, ``kazoo_connection`` its connection; TLS and SASL happen between TCP and the
first request, and what goes wrong there is a sentence (``connect_failure``), never the end of a session. ``store``
has S3 and directories. What another user can change is opened by ``foreign_files`` (checkpoints, savepoints, logs;
over no link) or, for what a job names on the host, as that user by ``opened_as``. ``threads`` ends every thread,
``companion`` and ``task_child`` start helper processes, ``containment`` kills and proves empty.
"""
