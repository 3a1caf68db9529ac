"""Runs the command line: ``python -m supervisor.cli`` is ``spark-supervisor``."""

from __future__ import annotations

from supervisor.cli.main import main

main()
