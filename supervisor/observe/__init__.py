"""Reads the registry into one immutable View, and Views into documents.

``observer`` reads all jobs, or those whose doorbell has rung (``change_notifier``), many reads in a request;
``first_seen`` remembers since when something looks as it does. Each View ends with a check of the fixed znodes: if
one was removed, all below it would seem to have ended. Absent, unreadable and unread stay three things. ``listing``,
``status`` and ``usage`` make what ``list``, ``status`` and ``top`` show.
"""
