"""A job whose env names programs that must run in no process of the supervisor: each would leave a mark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("java", "spark-submit", "python3")


@dataclass(frozen=True)
class HostileTools:
    """A Spark home and a Java home in one, with all programs on its ``bin``."""

    home: Path

    @property
    def marker(self) -> Path:
        return self.home / "marker"

    @property
    def env(self) -> dict[str, str]:
        """``java`` also by PATH, the host's scripts by what Spark reads from SPARK_CONF_DIR."""
        return {
            "SPARK_HOME": str(self.home),
            "JAVA_HOME": str(self.home),
            "PATH": f"{self.home}/bin:/usr/bin:/bin",
            "PYSPARK_PYTHON": str(self.home / "bin" / "python3"),
            "SPARK_CONF_DIR": str(self.home / "conf"),
        }

    def ran(self) -> str:
        """Which of them was executed; empty: none."""
        return self.marker.read_text() if self.marker.exists() else ""


def make_hostile_tools(directory: Path) -> HostileTools:
    tools = HostileTools(directory)
    script = f'#!/bin/sh\necho "$0 $*" >> {tools.marker}\nexit 3\n'
    for name in ("bin", "jars", "conf"):
        (directory / name).mkdir(parents=True)
    for name in PROGRAMS:
        (directory / "bin" / name).write_text(script)
        (directory / "bin" / name).chmod(0o755)
    (directory / "conf" / "spark-env.sh").write_text(f"echo spark-env >> {tools.marker}\n")
    (directory / "jars" / "spark-core_2.13-4.1.2.jar").touch()
    (directory / "release").write_text('JAVA_VERSION="17.0.1"\n')
    return tools
