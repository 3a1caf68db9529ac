"""``doctor``: looks for what really breaks in the field, and says what to do about it.

``catalogue`` lists all checks, as data: an area collects facts with bounded I/O (``clients``), and each check of it is a
pure function from those facts to one ``Finding``. ``examine`` runs the areas side by side, ``command`` prints. Nothing
here changes anything that lasts: every probe takes away what it made.
"""
