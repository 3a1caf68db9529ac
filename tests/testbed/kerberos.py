"""A real MIT KDC on loopback, of Debian's packages, unpacked and not installed: no service is started.

``SPARK_SUPERVISOR_TEST_KDC`` names the directory into which ``unpack_kdc.sh`` has put them; a machine that has them
installed needs no such directory.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from supervisor.demo.ensemble import HeldPorts
from tests.waiting import wait_until

REALM = "TEST.INVALID"
_ROOT = os.environ.get("SPARK_SUPERVISOR_TEST_KDC", "")
_PATH = os.pathsep.join([f"{_ROOT}/usr/sbin", f"{_ROOT}/usr/bin", "/usr/sbin", "/usr/bin"])


def missing() -> str | None:
    """Why there can be no KDC here; None if there can."""
    absent = [
        name for name in ("krb5kdc", "kdb5_util", "kadmin.local") if shutil.which(name, path=_PATH) is None
    ]
    return f"no {', '.join(absent)} to run a KDC" if absent else None


class Kdc:
    """The realm ``REALM`` under ``directory``. ``config`` is its krb5.conf."""

    def __init__(self, directory: Path, ticket_life: str = "10m") -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._ports = HeldPorts(1)
        self.port = self._ports.numbers[0]
        self.config = directory / "krb5.conf"
        modules = (
            f"[dbmodules]\n db_module_dir = {_ROOT}/usr/lib/x86_64-linux-gnu/krb5/plugins/kdb\n"
            if _ROOT
            else ""
        )
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f" ticket_lifetime = {ticket_life}\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
            f"{modules}"
            f"[domain_realm]\n 127.0.0.1 = {REALM}\n localhost = {REALM}\n"
        )
        (directory / "kdc.conf").write_text(
            f"[logging]\n kdc = FILE:{directory}/requests.log\n[kdcdefaults]\n kdc_listen = 127.0.0.1:{self.port}\n kdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {directory}/principal\n"
            f"  key_stash_file = {directory}/stash\n  acl_file = {directory}/kadm5.acl\n }}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    def __enter__(self) -> Kdc:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._ports.release()

    @property
    def env(self) -> dict[str, str]:
        """What clients and the KDC itself are told by."""
        libraries = f"{_ROOT}/usr/lib/x86_64-linux-gnu" if _ROOT else ""
        profile = {"KRB5_KDC_PROFILE": str(self._directory / "kdc.conf"), "KRB5_CONFIG": str(self.config)}
        plugins = {"LD_LIBRARY_PATH": libraries} if libraries else {}
        return {**os.environ, **profile, **plugins, "PATH": _PATH}

    def start(self) -> None:
        log = (self._directory / "kdc.log").open("ab")
        self._process = subprocess.Popen(
            ["krb5kdc", "-n", "-r", REALM, "-P", str(self._directory / "pid")],
            env=self.env,
            executable=shutil.which("krb5kdc", path=_PATH),
            stdout=log,
            stderr=log,
        )
        wait_until(self._answers, 20, "the KDC")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def keytab(self, principal: str) -> Path:
        """A new principal, and a file with its (new) key."""
        path = self._directory / f"{principal.replace('/', '-')}.keytab"
        path.unlink(missing_ok=True)
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {principal}")
        assert path.exists(), principal
        return path

    def tickets_of(self, principal: str) -> int:
        """How many tickets the KDC has given for a key of ``principal``: those that are asked for with a keytab."""
        lines = (self._directory / "requests.log").read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and f" {principal}@" in line for line in lines)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _run(self, *argv: str) -> None:
        program = shutil.which(argv[0], path=_PATH)
        assert program is not None
        done = subprocess.run([program, *argv[1:]], env=self.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
