"""What every loop of a supervisor has: the boundary of an error, the watchdog, and what systemd is told."""
