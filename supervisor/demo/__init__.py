"""The product shown on one machine. Nothing imports it.

``command`` tells the ``story`` on the ``stack``, which is three ZooKeeper servers (``ensemble``), two supervisors
and one job (``application``), judged by what the job itself wrote down (``record``). ``dev`` leaves the stack
running.
"""
