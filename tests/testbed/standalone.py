"""A real Spark standalone cluster: masters and workers of the installed PySpark, as processes of their own.

Their addresses are those of this machine, unless another one is given (a namespace's). With an ensemble there are two masters,
of which one leads: it keeps what it must not forget in ZooKeeper.
"""

from __future__ import annotations

import json
import os
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supervisor.spark.toolchain import installed_spark_home
from tests.testbed.cluster_processes import ClusterProcesses
from tests.waiting import wait_until

START_S = 120.0
DAEMON_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class StandaloneCluster(ClusterProcesses):
    """``master`` is what a driver is told, ``web`` where each master is asked. ``memory``, ``cores``: of each worker."""

    def __init__(
        self,
        directory: Path,
        *,
        address: str = "127.0.0.1",
        zookeeper: str | None = None,
        workers: int = 1,
        cores: int = 2,
        memory: str = "1500m",
    ) -> None:
        home = installed_spark_home()
        assert home is not None
        super().__init__(directory, address)
        self._home = home
        self._options = DAEMON_JVM
        if zookeeper is not None:
            self._options += (
                " -Dspark.deploy.recoveryMode=ZOOKEEPER"
                f" -Dspark.deploy.zookeeper.url={zookeeper} -Dspark.deploy.zookeeper.dir=/spark-{uuid.uuid4().hex[:8]}"
            )
        self._masters = {
            f"m{i}": (self._free_port(), self._free_port()) for i in range(2 if zookeeper else 1)
        }
        self.master = "spark://" + ",".join(f"{address}:{port}" for port, _ in self._masters.values())
        self.web = [f"http://{address}:{web}" for _, web in self._masters.values()]
        self._sizes = ("--cores", str(cores), "--memory", memory)
        try:
            for name in self._masters:
                self.start_master(name)
            wait_until(
                lambda: self.leading_master() is not None, START_S, "a master that leads", period_s=0.5
            )
            for i in range(workers):
                self.start_worker(f"w{i}")
            self.wait_workers(workers)
        except BaseException:
            self.stop()
            raise

    def settings(self, **conf: str) -> dict[str, Any]:
        """An entry of ``clusters`` in supervisor.yaml."""
        return {"master": self.master, "web": self.web, "driver_host": self._address, "conf": conf}

    # -- masters and workers ------------------------------------------------------------------------------------------

    def start_master(self, name: str) -> None:
        port, web = self._masters[name]
        words = ("--host", self._address, "--port", str(port), "--webui-port", str(web))
        self._start(name, "org.apache.spark.deploy.master.Master", *words)

    def start_worker(self, name: str) -> None:
        work = self._directory / f"work-{name}"
        words = ("--host", self._address, "--webui-port", "0", "--work-dir", str(work), *self._sizes)
        self._start(name, "org.apache.spark.deploy.worker.Worker", *words, self.master)

    def leading_master(self) -> str | None:
        return next((name for name in self._masters if self._state(name).get("status") == "ALIVE"), None)

    def wait_workers(self, count: int) -> None:
        def there() -> bool:
            name = self.leading_master()
            workers = self._state(name)["workers"] if name else []
            return sum(1 for worker in workers if worker["state"] == "ALIVE") >= count

        wait_until(there, START_S, f"{count} workers", period_s=0.5)

    # -- applications -------------------------------------------------------------------------------------------------

    def applications(self) -> list[str]:
        """The ids of those that the leading master takes for running or waiting."""
        name = self.leading_master()
        return [app["id"] for app in self._state(name).get("activeapps", ())] if name else []

    def registered(self) -> int:
        """How many applications the leading master has seen, as far as it remembers."""
        name = self.leading_master()
        state = self._state(name) if name else {}
        return len(state.get("activeapps", ())) + len(state.get("completedapps", ()))

    def executors(self) -> list[int]:
        return self._started_below(b"CoarseGrainedExecutorBackend")

    def _state(self, name: str) -> dict[str, Any]:
        url = f"http://{self._address}:{self._masters[name][1]}/json/"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                state: dict[str, Any] = json.load(answer)
                return state
        except (OSError, ValueError):
            return {}

    def _start(self, name: str, *words: str) -> None:
        env = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
        env |= {"SPARK_HOME": str(self._home), "SPARK_DAEMON_JAVA_OPTS": self._options}
        env["SPARK_DAEMON_MEMORY"] = "192m"
        self._start_process(name, (str(self._home / "bin" / "spark-class"), *words), env)


@contextmanager
def standalone_cluster(directory: Path, **options: Any) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(directory, **options) as made:
        yield made
