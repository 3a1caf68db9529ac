"""Every guarded write to ZooKeeper, and the blobs. The argument for a multi's guards stands in its docstring.

``user_writes`` and ``operator_writes`` are for commands, ``leader_writes``, ``promotion_writes``,
``update_savepoint_writes`` and ``notification_writes`` for the leader, ``attempt_writes`` for shims and guardians.
``resolve_outcome`` finds out what came of a write whose answer was lost. ``checkpoint_claims`` says whose a location
is, ``pending_deletions`` why nobody can take one that is to be deleted. ``blobs`` stores by content; ``blob_sweep``
and ``record_sweep`` find what nobody needs, in two scans. ``reference_room`` keeps room in a record for what is
written later. ``audit`` is the chain of who asked for what.
"""
