"""From a View to a Plan: pure, without a clock or I/O.

``make`` decides each row by ``decide``, whose cells stand in ``table``; ``place`` and ``placement`` choose hosts,
``prepare`` says which drivers are wanted before their attempt, ``moves`` which jobs leave their host now.
``startable`` answers whether a job could be started anywhere now, and ``stops`` asks that for every stop.
``after_restore`` waits until drivers of a lost registry are dead. ``check`` asks each action again from the records
alone. ``explain``, ``pending`` and ``remedies`` make the same plan for people: what is next, what is waited for,
what helps.
"""
