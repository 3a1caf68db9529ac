"""A host with real systemd, in a container: the product installed as deploy/systemd says, drivers light or real.

A drop-in lets the service write to ``/data``, as an operator says it of a shared directory. The directory ``data`` is the host's disk: configuration, store, checkpoints, and the witness, which the drivers write and
the test reads from outside. ``/run`` is a tmpfs, empty after a reboot, as on a real host.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests.faults import checker
from tests.faults.checker import WitnessNote
from tests.testbed import docker_engine
from tests.testbed.product_image import ROOT, build_image, product_image
from tests.waiting import wait_until

IMAGE = "spark-supervisor-test/systemd-host"
UNIT, DRIVERS = "spark-supervisor.service", "spark-supervisor-drivers.service"
CONFIG = "/etc/spark-supervisor/supervisor.yaml"
LIGHT = "/opt/fakes/spark"


class SystemdHost:
    """Started by ``with``: back when systemd runs and the supervisor is ready. ``hosts``: ZooKeeper on ``network``.

    ``spark_home``: of the drivers, None for the PySpark of the image.
    """

    def __init__(
        self,
        network: str,
        hosts: str,
        root: str,
        data: Path,
        name: str = "host-a",
        spark_home: str | None = LIGHT,
    ) -> None:
        self._network = network
        self._name = name
        self._container = ""
        self.data = data
        self.config = {
            "cluster": "systemd-test",
            "zookeeper": {"hosts": hosts, "root": root, "session_timeout": "4s"},
            "store": {"url": "file:///data/store"},
            "supervisor": {"id": name},
            "spark": {"home": spark_home, "class_archive": "off"},
            "defaults": {"lease": "10s", "stop_grace": "10s"},
        }

    def __enter__(self) -> SystemdHost:
        build_image(
            IMAGE,
            ROOT / "deploy" / "systemd",
            product_image(),
            ROOT / "tests" / "testbed" / "systemd" / "Dockerfile",
        )
        self.data.mkdir(exist_ok=True)
        self.data.chmod(0o777)
        etc = self.data / "etc"
        etc.mkdir()
        (etc / "supervisor.yaml").write_text(yaml.safe_dump(self.config))
        (etc / "environment").write_text("WITNESS=/data/witness.jsonl\n")
        for path in (etc, *etc.iterdir()):
            path.chmod(0o755)
        drop_in = self.data / "drop-in"
        drop_in.mkdir()
        (drop_in / "shared.conf").write_text("[Service]\nReadWritePaths=/data\n")
        # ours: what the unit's user makes is not for everybody to read
        (self.data / "witness.jsonl").touch()
        (self.data / "witness.jsonl").chmod(0o666)
        mounts = (
            f"{self.data}:/data",
            f"{etc}:/etc/spark-supervisor:ro",
            f"{drop_in}:/etc/systemd/system/{UNIT}.d:ro",
            f"{ROOT}/tests/fakes:/opt/fakes:ro",
            f"{ROOT}/tests/e2e/applications:/opt/applications:ro",
        )
        options = [option for mount in mounts for option in ("--volume", mount)]
        self._container = docker(
            "run",
            "--detach",
            "--label",
            f"{docker_engine.LABEL}={docker_engine.owner()}",
            "--hostname",
            self._name,
            "--network",
            self._network,
            "--cap-add",
            "SYS_ADMIN",
            "--security-opt",
            "seccomp=unconfined",
            "--security-opt",
            "apparmor=unconfined",
            "--cgroupns",
            "private",
            "--tmpfs",
            "/run:exec",
            "--tmpfs",
            "/run/lock",
            *options,
            IMAGE,
        ).strip()
        try:
            self.wait_ready()
        except BaseException:
            self.tell()
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.tell()
        self.remove()

    def remove(self) -> None:
        docker("rm", "--force", "--volumes", self._container)

    def wait_ready(self) -> None:
        wait_until(
            lambda: self.unit(UNIT, "ActiveState") == "active", 60, "systemd has the supervisor running"
        )

    def boot(self) -> None:
        """The host is started again after a shutdown: same disk, empty /run."""
        docker("start", self._container)
        self.wait_ready()

    def shut_down(self) -> None:
        """As an operator does it; back when the host is off."""
        docker("exec", self._container, "systemctl", "poweroff", "--no-block", check=False)
        docker("wait", self._container)

    def run(self, *command: str, user: str = "root", check: bool = True) -> str:
        """stdout of ``command`` on the host."""
        return docker("exec", "--user", user, self._container, *command, check=check)

    def unit(self, unit: str, key: str) -> str:
        return self.run("systemctl", "show", "--value", "--property", key, unit, check=False).strip()

    def supervisor(self, *command: str) -> str:
        """stdout of ``spark-supervisor COMMAND``, run as the unit's user."""
        return self.run("spark-supervisor", *command, "--config", CONFIG, user="spark")

    def submit(self, name: str, **knobs: Any) -> None:
        """A job with a light driver; back when its first batch is in."""
        spec = {
            "name": name,
            "application": "light.py",
            "args": [f"{key}={json.dumps(value)}" for key, value in knobs.items()],
            "checkpoint": f"file:///data/checkpoints/{name}",
            "resources": {"memory": "64m"},
            "env": {"WITNESS": "/data/witness.jsonl"},
        }
        (self.data / "light.py").write_text("# {}\n")
        (self.data / f"{name}.yaml").write_text(yaml.safe_dump(spec))
        self.supervisor("submit", f"/data/{name}.yaml", "--wait")

    def row(self, name: str) -> dict[str, Any]:
        """As ``show -o json`` says."""
        row: dict[str, Any] = json.loads(self.supervisor("show", name, "-o", "json"))
        return row

    def notes(self, event: str | None = None) -> list[WitnessNote]:
        """What the drivers wrote down."""
        file = self.data / "witness.jsonl"
        notes = checker.read(file) if file.exists() else []
        return [note for note in notes if event is None or note.event == event]

    def tell(self) -> None:
        """Into the report of a failed test."""
        for command in (("systemctl", "status", UNIT, DRIVERS), ("journalctl", "--no-pager", "-n", "80")):
            print(docker("exec", self._container, *command, check=False))


def docker(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0 or not check, (
        f"docker {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    )
    return done.stdout
