"""The supervisor's lifetimes and loops. ``process`` puts ``leader`` and ``host`` together, which do not know each
other.

What raises for one item of a loop is that item's trouble: ``error_boundary`` of ``loops`` logs it and goes on.
``watchdog`` ends a supervisor that is stuck.
"""
