"""Forks, and jobs that take the place of others (protocol §9.4).

``fork`` registers the second job suspended, then makes savepoint and copy, and resumes it in one write. ``compare``
says how far both are: ``offset_reader`` of ``checkpoint`` reads what is committed, ``offset_order`` compares it.
``promote`` writes the intent, waits, runs the hook, and swaps both in one write, by ``promoting`` of ``operations``.
"""
