"""Has the gate of queries: a Java agent that holds each query which a prepared driver's JVM starts before its opening.

``QueryGate.java`` is the agent, ``fence.build`` compiles it on the user's host, and ``agent`` says how a driver is started
with it. ``spark/query_gate.py`` is its other half, in the driver's Python.
"""
