"""Savepoints: created, listed, verified, restored, by schedule, swept.

``create`` takes the newest commit and what belongs to it (``choice``), has the store copy it, judges the copy
(``view``), and writes the manifest last. ``restore`` copies it back, under a mark that one restore holds at a time
(``restore_mark``); ``resume`` makes copy and spec the job's in one multi. ``shelf`` lists and deletes, ``schedule``
says what is due, by the store's clock, ``bounds`` what may be copied at most. ``deep_verify`` has Spark read the
state.
"""
