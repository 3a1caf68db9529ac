"""Provides the storage fence: a checkpoint manager for ``s3a://``, with which a second driver loses at its
next write.

``FencedCheckpointFileManager.java`` is the manager, ``build`` compiles it on the user's host, and ``choice``
says for which drivers. Leases keep two drivers from running at once (protocol §7). The fence is for what
leases cannot know: a guest that its hypervisor froze, and drivers that somebody else started.
"""
