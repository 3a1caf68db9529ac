"""Keeps Spark streaming jobs running on a fleet of hosts: spark-supervisor. See ARCHITECTURE.md beside this
file."""

__version__ = "0.2.0"
