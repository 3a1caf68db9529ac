"""What a person may ask for, as functions that return values. The command line and the API call the same; nothing
prints.

What a person asks, also of a server, is a value that carries itself out (``requests``; ``job_requests`` write).
``author`` is the one source of who asked, and ``auditing`` writes each write down before it happens (what stops a
job: after). ``context`` has what a command works with. ``scene`` reads what ``list``, ``show`` and ``explain`` tell,
so that they do not contradict each other; ``explain_screen`` and ``explain_words`` word it. ``submit``, ``apply`` and
``updating`` judge specs; ``going_back``, ``sink_grounds`` and ``way_back_warning`` guard each way back to an older
checkpoint. ``selection`` and ``pruning`` choose jobs. ``hosts`` and ``cluster`` are what an operator asks; ``logs``,
``log_parts`` and ``uploaded_output`` find what drivers wrote.
"""
