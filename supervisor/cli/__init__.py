"""The command line. A command parses, calls one operation and prints; it reads no record and decides nothing.

``main`` has one row for each command; ``lazy`` imports its module when it is called. ``remote`` opens a command's
``gateway``: to the registry from here, or to the API there. ``several`` carries a command out for several jobs,
after ``confirm`` has asked. What reaches the screen goes through ``output``, and on a terminal through ``drawing``:
a person gets local times and wrapped reasons, a pipe gets ISO times and whole lines.
"""
