"""Is the HTTP API of a supervisor: the documents of ``-o json``, over HTTP, and who asks for them; and writes, of
operators.

``service`` answers requests that read, by the operations of the command line; ``shared_reads`` bounds what they read.
``routes`` and ``write_routes`` have the paths, which are made of the requests of ``operations``.
``writes`` carries out those that write; ``bounded_writes`` bounds them, and carries each out once.
``tokens`` says who is answered. ``documents`` has the types of the documents, of which ``openapi`` makes the
description. ``client`` is the other side: the command line asks with it. ``daemon.process.api_server`` has the
connections.
"""
