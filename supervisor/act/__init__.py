"""Carries the leader's actions out (walk, step 6).

``carry_out`` has the bounded pool, with one action in flight for each job. ``transactions`` turns an action into its
multi of ``registry``, which checks the epoch, the job and the fence. An outcome that is unknown is read back before
the next action.
"""
