"""Reads Spark's checkpoints; it never writes one.

``inspect`` reads offsets, commits and state, and ``judge`` says what is wrong with them, pure. ``preflight``
compares a checkpoint with what the job left (``checkpoint_expectation`` of ``model``) before a start, and says after
a failed update what its target left behind; ``planned_batch`` says whether a batch that is planned may be run by
other code. ``handed`` tells what a sink may have got. ``commit_log`` reads the progress of an application of the
JVM.
"""
