"""Frozen values and pure functions that several rooms share. Nothing here does I/O or reads a clock.

``records`` has what is persisted, ``seen`` the three things that a read can be (found, unreadable, absent), ``view``
what the leader sees, ``actions`` what it may do, ``state`` what a job is called in which state, and why. ``exits``,
``exit_evidence`` and ``root_cause`` classify the end of a driver; ``restart`` says when the next one starts.
``lease_terms`` and ``second_killer`` have the times by which a driver is dead. ``going_back`` decides how a job goes
back to an older checkpoint, ``sinks`` and ``reported_sinks`` say by what its sinks know a batch.
"""
