"""A second real S3 on loopback, which shares no code with moto: Ceph's gateway before one monitor and one object store
in memory. Debian: ``apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-common``. Needs root.

Used by the slow contract tests through the fixture ``radosgw``. Started and stopped by process, all below one directory.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from supervisor.demo.death_guard import DeathGuard
from tests.testbed.moto import AWS_ENV, S3Server
from tests.waiting import wait_until

PROGRAMS = {
    "radosgw": "radosgw",
    "ceph-mon": "ceph-mon",
    "ceph-osd": "ceph-osd",
    "ceph": "ceph-common",
    "radosgw-admin": "radosgw",
    "monmaptool": "ceph-common",
    "ceph-authtool": "ceph-common",
}
CONF = """[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{mon}/0]
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 2
osd pool default pgp num = 2
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 5000
mon data avail crit = 0
ms bind ipv6 = false
run dir = {home}
admin socket = {home}/$name.asok
pid file = {home}/$name.pid
log file = {home}/$name.log
keyring = {home}/keyring
crash dir = {home}
[mon.a]
mon data = {home}/mon
[osd.0]
osd data = {home}/osd
osd objectstore = memstore
memstore device bytes = 1073741824
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{http} tcp_nodelay=1
rgw data = {home}/rgw
"""


def missing() -> str | None:
    """None if all is there, else what is not, and how to get it."""
    packages = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if packages:
        return f"no radosgw; apt-get install --no-install-recommends {' '.join(packages)}"
    return "a monitor of Ceph wants to be root" if os.geteuid() != 0 else None


class RadosGateway(S3Server):
    """``endpoint_url``; its keys are those of moto, so that one environment serves both."""

    s3a: Mapping[str, str] = {"spark.hadoop.fs.s3a.signing-algorithm": "AWS4UnsignedPayloadSignerType"}
    """Version 16 answers 400 to an empty object whose payload is signed in chunks, as the SDK does without TLS."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._guard = DeathGuard()
        self._processes: list[subprocess.Popen[bytes]] = []
        mon, http = free_port(), free_port()
        fsid = str(uuid.uuid4())
        (home / "ceph.conf").write_text(CONF.format(fsid=fsid, mon=mon, http=http, home=home))
        for part in ("mon", "osd", "rgw"):
            (home / part).mkdir()
        self.endpoint_url = f"http://127.0.0.1:{http}"
        try:
            self._boot(fsid, mon, http)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._guard.dismiss()

    def _boot(self, fsid: str, mon: int, http: int) -> None:
        keyring, monmap, osd = f"{self._home}/keyring", f"{self._home}/monmap", str(uuid.uuid4())
        self._run(
            "ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"
        )
        self._run(
            "ceph-authtool",
            keyring,
            "--gen-key",
            "-n",
            "client.admin",
            "--cap",
            "mon",
            "allow *",
            "--cap",
            "osd",
            "allow *",
        )
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v1:127.0.0.1:{mon}]", monmap)
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self._start("ceph-mon", "-i", "a", "-f")
        self._run("ceph", "--connect-timeout", "60", "osd", "new", osd)
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._start_osd()
        self._start("radosgw", "-n", "client.rgw", "-f")
        wait_until(lambda: self._listens(http), 120, f"radosgw to listen; see {self._home}/client.rgw.log")
        self._run(
            "radosgw-admin",
            "user",
            "create",
            "--uid=testing",
            "--display-name=testing",
            f"--access-key={AWS_ENV['AWS_ACCESS_KEY_ID']}",
            f"--secret-key={AWS_ENV['AWS_SECRET_ACCESS_KEY']}",
        )

    def _start_osd(self) -> None:
        """Now and then it ends at once ("wrong fsid"): it asks the monitor before it has heard which cluster this is."""
        for _ in range(5):
            self._start("ceph-osd", "-i", "0", "-f")
            osd = self._processes[-1]
            wait_until(
                lambda osd=osd: osd.poll() is not None or "1 up" in self._run("ceph", "osd", "stat"),
                120,
                "the object store",
            )
            if osd.poll() is None:
                return
            self._processes.remove(osd)
        raise AssertionError(f"no object store: {self._last_words()}")

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        own = [] if arguments[0] in ("ceph-authtool", "monmaptool") else ["-c", f"{self._home}/ceph.conf"]
        return [arguments[0], *own, *arguments[1:]]

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            self._command(arguments), stdin=subprocess.DEVNULL, capture_output=True, timeout=120
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr.decode()[-2000:]}"
        return done.stdout.decode()

    def _start(self, *arguments: str) -> None:
        with (self._home / f"{arguments[0]}.out").open("wb") as out:
            process = subprocess.Popen(
                self._command(arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._processes.append(process)
        self._guard.watch(process.pid)

    def _listens(self, port: int) -> bool:
        for process in self._processes:
            assert process.poll() is None, (
                f"a part of Ceph has ended with {process.returncode}: {process.args}\n{self._last_words()}"
            )
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def _last_words(self) -> str:
        return "\n".join(
            path.read_text(errors="replace")[-1500:]
            for path in (*self._home.glob("*.out"), *self._home.glob("*.log"))
        )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
