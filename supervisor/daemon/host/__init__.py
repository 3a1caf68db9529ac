"""What a supervisor does for its own host: it starts, guards, explains and cleans up. Its end touches no driver.

``agent`` sees assignments, and ``launcher`` starts them, after three questions: ``admission`` (the policy of this
host; it also verifies signatures and gives the job its cluster), ``preflight`` (is it the checkpoint that the job
left?) and, on S3, ``start_barrier``: there the check goes on beside the start, and the driver waits before the
application's first line for one verdict. ``prepared_drivers`` carries out what ``prepared`` decides of drivers that
are there before their attempt; ``handover`` says whether one is still what a start would make. ``guardian`` writes
tombstones for shims that died, by ``guarded_attempt``. ``hosted_attempts`` lists the run directories. ``leftovers``
removes what other users have left, as them; ``job_directories`` the working directories of jobs that are gone.
``log_uploads`` and ``running_uploads`` upload outputs; ``housekeeping`` keeps logs within their limits.
``archive_ahead`` and ``fence_ahead`` make class archives and the fence before they are needed. ``drain_host`` stops
every driver of the host, at its shutdown.
"""
