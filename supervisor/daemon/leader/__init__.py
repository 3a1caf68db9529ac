"""The duties of one term of leadership. Each effect asks the term first; each write is fenced by the epoch.

``leader`` starts and ends them: ``controller`` (observe, plan, check, act), ``sweeper`` (records and blobs of uids
that are gone), ``remover`` (checkpoints that are to be deleted), ``scheduled_savepoints``, ``notifier``, and
``way_back`` (savepoint and copy of an update that goes back to a savepoint). ``term_loop`` has what the duties
share: may this term act, and the loop. ``left_behind`` asks, beside the pass, what a failed target has left in the
checkpoint.
"""
