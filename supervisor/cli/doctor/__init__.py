"""Implements the ``doctor`` command: checks what really breaks in the field, and says what to do about it.

``catalogue`` lists all checks, as data: an area collects facts with bounded I/O (``clients``), and each check
of it is a pure function from those facts to one ``DoctorFinding``. ``examine`` runs the areas side by side,
``command`` prints. Nothing here changes anything that lasts: every probe removes what it made.
"""
