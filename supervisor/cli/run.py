"""Implements the command ``run``, the daemon. It contends for leadership, hosts drivers and serves HTTP,
until it gets SIGTERM or SIGINT."""

from __future__ import annotations

from supervisor.cli.options import Chosen, command
from supervisor.clients import umask
from supervisor.daemon.process.assemble import build_supervisor
from supervisor.daemon.process.supervisor import check_log_dir
from supervisor.logs import configure_logs


@command
def run(chosen: Chosen) -> int:
    """Run the supervisor daemon on this host, until SIGTERM or SIGINT.

    It contends for leadership, hosts drivers and serves HTTP (/livez /readyz /metrics /api/status). Drivers do not
    depend on it: they run on while it is stopped, restarted or upgraded.

    \b
    Example:
      spark-supervisor run --config /etc/spark-supervisor/supervisor.yaml
    """
    settings = chosen.settings_of_host()
    with umask.private():
        check_log_dir(settings.supervisor.log_dir)
        configure_logs("DEBUG" if chosen.debug else "INFO")
        return build_supervisor(settings).run()
