"""The process that holds one driver: it claims, starts, renews, stops and records, without a supervisor.

``machine`` decides, pure: its ``TABLE`` has a cell for every event in every stage, with handlers in ``connection``,
``claim``, ``lease``, ``driver``, ``prepared`` and ``end``; ``runner`` does the I/O. The lease comes first: nothing
waits in its way. ``twin`` kills the driver when the shim is gone or late. ``health`` and ``queries`` judge what
``reports`` has read; ``beginning_anew`` whether a query goes on with what the job left; ``waiting`` whether the
driver waits for its cluster. ``stopping`` stops after the batch of each query, then by SIGTERM, then by SIGKILL.
``diagnosing`` says when diagnostics are collected: before a kill for silence, and in nobody's way. Neither pydantic
nor structlog nor boto3 is imported: a shim's memory counts once for each job.
"""
