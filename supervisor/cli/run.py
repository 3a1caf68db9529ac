"""``run``: the daemon. Contends for leadership, hosts drivers, serves HTTP, until it is told to stop."""

from __future__ import annotations

from supervisor.cli.options import Chosen, command


@command
def run(chosen: Chosen) -> int:
    """Run the supervisor daemon on this host, until SIGTERM or SIGINT."""
    settings = chosen.settings()
    from supervisor.logs import configure_logs
    from supervisor.wiring.daemon import build_supervisor

    configure_logs("DEBUG" if chosen.debug else "INFO")
    return build_supervisor(settings).run()
