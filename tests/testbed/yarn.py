"""A real YARN: ResourceManager and NodeManager as processes of their own, from the jars of Maven Central.

Their addresses are those of this machine, unless another one is given (a namespace's). The ResourceManager keeps what it must not
forget in a directory, so that it can be killed and started again.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from supervisor.spark.toolchain import installed_spark_home
from tests.testbed.cluster_processes import ClusterProcesses, kill_all
from tests.testbed.maven import fetched_jars
from tests.waiting import wait_until

HADOOP = "3.5.0"
ARTIFACTS = (
    f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP}",
    "org.junit.jupiter:junit-jupiter-api:5.11.4",
    "org.slf4j:slf4j-reload4j:1.7.36",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
)
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_S = 180.0
NODE_LOST_MS = 20_000
"""After so long without a word a node, or an ApplicationMaster, is taken for lost; by default it is ten minutes."""
LIVING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
CONTAINERS = "local/"
RESOURCE_MANAGER, NODE_MANAGER = "resourcemanager", "nodemanager"
_MAIN = {
    RESOURCE_MANAGER: "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    NODE_MANAGER: "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
_LOGGING = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


class YarnCluster(ClusterProcesses):
    """``conf_dir`` is what a driver is told, ``url`` where the ResourceManager answers. ``memory_mb`` is what the node has,
    ``running_max`` how many applications may run at once."""

    def __init__(
        self,
        directory: Path,
        *,
        address: str = "127.0.0.1",
        memory_mb: int = 6144,
        running_max: int = 100,
    ) -> None:
        self._jars = fetched_jars("yarn", *ARTIFACTS)
        super().__init__(directory, address)
        self.conf_dir = directory / "conf"
        self.conf_dir.mkdir(parents=True)
        web = self._free_port()
        self.url = f"http://{address}:{web}"
        self._write("core-site", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": f"{directory}/tmp"})
        self._write("yarn-site", self._site(web, memory_mb))
        self._write("capacity-scheduler", _queue(running_max))
        (self.conf_dir / "log4j.properties").write_text(_LOGGING)
        try:
            self.start(RESOURCE_MANAGER)
            self.start(NODE_MANAGER)
            wait_until(lambda: self.nodes() == 1, START_S, "the node to be registered", period_s=0.5)
        except BaseException:
            self.stop()
            raise

    # -- for jobs -----------------------------------------------------------------------------------------------------

    def settings(self, **conf: str) -> dict[str, Any]:
        """An entry of ``clusters`` in supervisor.yaml, with ``conf`` beside what applications need here."""
        return {
            "master": "yarn",
            "conf_dir": str(self.conf_dir),
            "queue": "default",
            "driver_host": self._address,
            "conf": {**application_properties(), **conf},
        }

    def stop(self) -> None:
        self.lose_node()
        super().stop()

    # -- the two daemons ----------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Starts it; the ResourceManager knows the applications of before."""
        env = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "HADOOP_"))}
        argv = ["java", *JVM, "-cp", f"{self.conf_dir}:{self._jars}/*", _MAIN[name]]
        self._start_process(name, argv, env)
        if name == RESOURCE_MANAGER:
            wait_until(lambda: self._get("info") is not None, START_S, "the ResourceManager", period_s=0.5)

    def lose_node(self) -> None:
        """Kills the node's daemon and all its containers, as a loss of power does. The ResourceManager is left to find that out,
        within ``NODE_LOST_MS`` and some seconds."""
        self.kill(NODE_MANAGER)
        kill_all(self.containers())

    def nodes(self) -> int:
        """How many nodes the ResourceManager takes for running."""
        found = (self._get("nodes") or {}).get("nodes") or {}
        return sum(1 for node in found.get("node", ()) if node["state"] == "RUNNING")

    # -- applications -------------------------------------------------------------------------------------------------

    def applications(self, *, living: bool = True) -> list[dict[str, Any]]:
        """What the ResourceManager says of each application, the oldest first: of those that have not ended, or of all that
        it remembers."""
        found = ((self._get("apps") or {}).get("apps") or {}).get("app", ())
        return sorted(
            (app for app in found if not living or app["state"] in LIVING), key=lambda app: str(app["id"])
        )

    def executors(self) -> list[int]:
        return self._started_below(b"YarnCoarseGrainedExecutorBackend", place=CONTAINERS, is_java=True)

    def containers(self) -> list[int]:
        """The pids of all that runs in containers of the node."""
        return self._started_below(place=CONTAINERS)

    def _get(self, what: str) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"{self.url}/ws/v1/cluster/{what}", timeout=10) as answer:
                body: dict[str, Any] = json.load(answer)
                return body
        except (OSError, ValueError):
            return None

    # -- settings -----------------------------------------------------------------------------------------------------

    def _site(self, web: int, memory_mb: int) -> dict[str, str]:
        manager, node = "yarn.resourcemanager", "yarn.nodemanager"
        ports = {
            f"{manager}.{name}address": f"{self._address}:{self._free_port()}"
            for name in ("", "scheduler.", "resource-tracker.", "admin.")
        }
        ports |= {
            f"{node}.{name}address": f"{self._address}:{self._free_port()}"
            for name in ("", "localizer.", "webapp.")
        }
        return {
            **ports,
            f"{manager}.hostname": self._address,
            f"{manager}.webapp.address": f"{self._address}:{web}",
            "yarn.nm.liveness-monitor.expiry-interval-ms": str(NODE_LOST_MS),
            "yarn.am.liveness-monitor.expiry-interval-ms": str(NODE_LOST_MS),
            f"{manager}.recovery.enabled": "true",
            f"{manager}.store.class": "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore",
            f"{manager}.fs.state-store.uri": f"file://{self._directory}/state",
            f"{node}.hostname": self._address,
            f"{node}.bind-host": self._address,
            f"{node}.local-dirs": f"{self._directory}/local",
            f"{node}.log-dirs": f"{self._directory}/logs",
            f"{node}.resource.memory-mb": str(memory_mb),
            f"{node}.resource.cpu-vcores": "16",
            f"{node}.vmem-check-enabled": "false",
            f"{node}.pmem-check-enabled": "false",
            f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.scheduler.maximum-allocation-mb": str(memory_mb),
        }

    def _write(self, name: str, properties: Mapping[str, str]) -> None:
        rows = "".join(
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
            for key, value in properties.items()
        )
        (self.conf_dir / f"{name}.xml").write_text(f"<configuration>\n{rows}</configuration>\n")


def _queue(running_max: int) -> dict[str, str]:
    capacity = "yarn.scheduler.capacity"
    return {
        f"{capacity}.root.queues": "default",
        f"{capacity}.root.default.capacity": "100",
        f"{capacity}.root.default.max-parallel-apps": str(running_max),
        f"{capacity}.maximum-am-resource-percent": "0.9",
    }


def application_properties() -> dict[str, str]:
    """What an application needs here: Spark of this machine, and a small ApplicationMaster."""
    return {
        "spark.yarn.jars": f"local:{installed_spark_home()}/jars/*",
        "spark.executor.instances": "1",
        "spark.yarn.am.memory": "384m",
        "spark.yarn.am.extraJavaOptions": " ".join(JVM[1:]),
    }


@contextmanager
def yarn_cluster(directory: Path, **options: Any) -> Iterator[YarnCluster]:
    with YarnCluster(directory, **options) as made:
        yield made
