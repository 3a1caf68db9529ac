"""Collects what a driver tree is doing, in a process of its own that can be killed at any moment.

``child`` starts that process, ``__main__`` is it, ``collection`` is the order of what it does. ``attach`` speaks with JVMs,
``python_threads`` with the interpreter of a driver; ``proc`` and ``connections`` read what the kernel says. It is called by
the shim and by ``operations.stacks``; the standard library only, because the shim imports it.
"""
