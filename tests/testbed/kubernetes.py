"""A real one-node Kubernetes: its own processes, built from Go modules once (``kubernetes/cluster.sh``), and no image registry.

Root only, and one at a time on a machine: a lock file says so. Its state lies in one place, so that ``up`` finds what a
killed run has left. Pods are on a bridge of this machine; executors see its Java and Python through read-only volumes.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any, Final

from supervisor.demo.death_guard import DeathGuard
from supervisor.spark.toolchain import installed_spark_home
from tests.testbed.cluster_processes import kill_all
from tests.testbed.maven import CACHE
from tests.testbed.subnets import free_subnet
from tests.waiting import wait_until

SCRIPT: Final = Path(__file__).with_name("kubernetes") / "cluster.sh"
RIGHTS: Final = Path(__file__).parents[2] / "deploy" / "kubernetes" / "executors.yaml"
PLACE: Final = Path("/var/tmp/spark-supervisor-kubernetes")
UP_MAX_S: Final = 1500.0
"""It includes the first build."""
READY_S: Final = 180.0
NAMESPACE: Final = "spark"
NODE: Final = "node1"
EXECUTOR: Final = b"KubernetesExecutorBackend"
IMAGE: Final = "localhost/spark-executor:test"


class KubernetesCluster:
    """``master``, ``ca`` and ``token_file`` are for ``clusters`` of supervisor.yaml; ``address`` is this machine's for pods."""

    def __init__(self) -> None:
        self._port = _free_ports()
        self._net = str(free_subnet(24).network_address).rpartition(".")[0]
        self._guard = DeathGuard()
        self.address = f"{self._net}.1"
        self.subnet = f"{self._net}.0/24"
        self.master = f"k8s://https://127.0.0.1:{self._port}"
        self.ca, self.token_file = PLACE / "pki" / "ca.crt", PLACE / "spark.token"
        try:
            self._call("up", timeout_s=UP_MAX_S)
            self._watch()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        self._call("down", timeout_s=180)
        self._guard.dismiss()

    def start(self, part: str) -> None:
        """Starts a part that was stopped, e.g. ``apiserver``."""
        self._call("start", part)
        self._watch()

    def wait_ready(self) -> None:
        """Until the API server and the node work again."""
        wait_until(self._is_ready, READY_S, "the API server and its node", period_s=1.0)

    def _is_ready(self) -> bool:
        try:
            self.kubectl("get", "--raw", "/readyz")
            self.kubectl("wait", "--for=condition=Ready", "--timeout=1s", "node", "--all")
        except AssertionError:
            return False
        return True

    def lose_node(self) -> None:
        """Stops the node's daemon and kills its executors, as a loss of power does; nobody is told."""
        self.stop("kubelet")
        kill_all(self.executor_pids(self.address))

    def stop(self, part: str) -> None:
        """Stops one part; the others are left to find that out."""
        self._call("stop", part)

    # -- for jobs -----------------------------------------------------------------------------------------------------

    def settings(self, **conf: str) -> dict[str, Any]:
        """An entry of ``clusters`` in supervisor.yaml, with ``conf`` beside what executors need here."""
        return {
            "master": self.master,
            "namespace": NAMESPACE,
            "image": IMAGE,
            "ca": str(self.ca),
            "token_file": str(self.token_file),
            "driver_host": self.address,
            "conf": {**self.executor_properties(), **conf},
        }

    def executor_properties(self) -> dict[str, str]:
        """What executors need because their image has nothing in it: the host's directories, and where things are."""
        java, home = _java_home(), installed_spark_home()
        found = {
            "spark.kubernetes.container.image.pullPolicy": "Never",
            "spark.executorEnv.JAVA_HOME": str(java),
            "spark.executorEnv.SPARK_HOME": str(home),
            "spark.kubernetes.executor.request.cores": "0.1",
        }
        for number, path in enumerate(_seen_by_executors(java)):
            volume = f"spark.kubernetes.executor.volumes.hostPath.host{number}"
            found[f"{volume}.mount.path"] = found[f"{volume}.options.path"] = str(path)
            found[f"{volume}.mount.readOnly"] = "true"
        return found

    # -- what is in it ------------------------------------------------------------------------------------------------

    def pods(self, selector: str = "") -> list[dict[str, Any]]:
        """The pods in the drivers' namespace, as the API server gives them."""
        return self._items("pods", selector)

    def running(self, selector: str = "") -> list[str]:
        """The names of pods whose containers run."""
        return [pod["metadata"]["name"] for pod in self.pods(selector) if pod["status"]["phase"] == "Running"]

    def executor_pids(self, driver: str) -> set[int]:
        """The pids of executors' JVMs that belong to a driver at this address, by the kernel."""
        found, place = set[int](), f"@{driver}:".encode()
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                words = (process / "cmdline").read_bytes() if process.name.isdigit() else b""
                if words.split(b"\0")[0].endswith(b"/java") and EXECUTOR in words and place in words:
                    found.add(int(process.name))
        return found

    def config_maps(self) -> list[dict[str, Any]]:
        """The ConfigMaps of executors."""
        return self._items("configmaps", "spark-role=executor")

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl says, as the cluster's administrator. Raises AssertionError."""
        done = self._kubectl(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr.strip()}"
        return done.stdout

    def _kubectl(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        argv = [str(PLACE / "bin" / "kube"), "kubectl", "--kubeconfig", str(PLACE / "admin.kubeconfig")]
        return subprocess.run([*argv, *words], input=stdin, capture_output=True, text=True, timeout=120)

    def can(self, *words: str) -> str:
        """``yes`` or ``no``, to ``kubectl auth can-i``; no is its exit code 1."""
        return self._kubectl("auth", "can-i", *words).stdout.strip()

    def kill_executors(self) -> None:
        """Deletes all pods at once, as an eviction without grace does; their drivers are left to find that out."""
        self.kubectl("-n", NAMESPACE, "delete", "pods", "--all", "--grace-period=1", "--wait=false")

    @contextmanager
    def cordoned(self) -> Iterator[None]:
        """Pods that are made meanwhile find no node; those that run are left alone."""
        try:
            self.kubectl("cordon", NODE)
            yield
        finally:
            self.kubectl("uncordon", NODE)

    def _items(self, kind: str, selector: str) -> list[dict[str, Any]]:
        words = ["-n", NAMESPACE, "get", kind, "-o", "json", *(["-l", selector] if selector else [])]
        items: list[dict[str, Any]] = json.loads(self.kubectl(*words))["items"]
        return items

    def as_driver(self, path: str) -> dict[str, Any]:
        """What the API server answers to the token of drivers. Raises OSError."""
        request = urllib.request.Request(f"{self.master.removeprefix('k8s://')}{path}")
        request.add_header("Authorization", f"Bearer {self.token_file.read_text().strip()}")
        context = ssl.create_default_context(cafile=str(self.ca))
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _call(self, verb: str, *words: str, timeout_s: float = 60.0) -> None:
        env = {**os.environ, "KUBE_NET": self._net, "KUBE_PORT": str(self._port)}
        env |= {"KUBE_CACHE": str(CACHE / "kubernetes"), "KUBE_RIGHTS": str(RIGHTS)}
        done = subprocess.run(
            [str(SCRIPT), verb, str(PLACE), *words],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, f"cluster.sh {verb}: {done.stderr.strip()}"

    def _watch(self) -> None:
        """Its processes end with this one, however that ends; pods are ended by the next ``up``."""
        for file in (PLACE / "pids").iterdir():
            self._guard.watch(int(file.read_text().split()[0]))


def missing() -> str | None:
    """Why there can't be one here, or None."""
    if os.geteuid() != 0:
        return "not root"
    for tool in ("go", "apt-get", "ip", "iptables"):
        if shutil.which(tool) is None:
            return f"no {tool}"
    return None


@contextmanager
def kubernetes_cluster() -> Iterator[KubernetesCluster]:
    """One that is up. Another process that wants one waits."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with PLACE.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        made = KubernetesCluster()
        try:
            yield made
        finally:
            made.down()


def _java_home() -> Path:
    java = shutil.which("java")
    assert java is not None
    return Path(java).resolve().parents[1]


def _seen_by_executors(java: Path) -> list[Path]:
    """Directories of this machine for /usr, Java and Python, none of them below another one."""
    import pyspark

    home = installed_spark_home()
    named = {Path("/usr"), java, Path(sys.prefix), Path(sys.base_prefix), Path(pyspark.__file__).parents[1]}
    named |= {home} if home is not None else set()
    for link in java.rglob("*"):  # Debian's Java has its configuration in /etc
        if link.is_symlink() and link.readlink().is_relative_to("/etc"):
            named.add(Path(*link.readlink().parts[:3]))
    return sorted(
        path for path in named if not any(path != top and path.is_relative_to(top) for top in named)
    )


def _free_ports() -> int:
    """The first of three free ports in a row, below those that the kernel gives away."""
    for port in range(16443, 32000, 7):
        try:
            for each in range(port, port + 3):
                socket.create_server(("127.0.0.1", each)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no three free ports in a row")
