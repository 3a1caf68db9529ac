"""``python -m tests.benchmark_logs [--hosts 100]``: how long it takes to find and fetch the newest attempt's log of each job of a fleet.

As many APIs as hosts, with a log directory, a configuration and sessions of their own, on the embedded ensemble and on loopback, all in
one process; each host has run one job. A client knows the address of one host and asks it for every job, as ``logs NAME
--server`` does: that host names the other, which gives the log. Beside it: the same log asked of its own host at once, and of
the store, when its host is down. The first time each server opens its session, which is kept. Nothing is asserted. There is no
network between: each round trip of one adds three times to a log that is found, and once to one that is asked directly.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from supervisor.api.client import ApiClient
from supervisor.api.log_client import LogClient, WantedLog
from supervisor.api.service import ApiService
from supervisor.api.shared_reads import FRESH_S, SharedReads
from supervisor.clients.store.files import FileStore
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Member, Ownership, OwnState
from supervisor.model.transaction import Create, Delete, SetData, Transaction
from supervisor.operations.context import open_commands
from supervisor.operations.uploaded_output import pack
from supervisor.records.codec import decode, encode
from supervisor.records.layout import Layout
from supervisor.registry.blobs import Blobs
from supervisor.registry.uploaded_logs import UploadedKey, UploadedLogs
from supervisor.settings.api import ApiSettings
from supervisor.settings.file import Settings, load_settings
from tests.fakes.registry_bench import AT, submission
from tests.testbed.ensembles import Ensemble

ROOT = "/benchmark-logs"
LINE = b"26/11/21 10:00:00 INFO MicroBatchExecution: Committed offsets for batch 7.\n"
LINES = 2_000
"""A log of about 150 KB, which is one answer."""
TOKEN = "benchmark-of-logs-0123456789abcdef"


@dataclass(frozen=True)
class LogHost:
    """One host: its API, and the job that it has run."""

    number: int
    settings: Settings
    server: ApiHttpServer
    uid: str

    @property
    def job(self) -> str:
        return f"job-{self.number:03}"

    @property
    def url(self) -> str:
        return f"http://{self.server.address}"

    @property
    def output(self) -> Path:
        return self.settings.supervisor.log_dir / self.job / f"{self.uid}.1.log"


def main() -> None:
    given = argparse.ArgumentParser(prog="python -m tests.benchmark_logs", description=__doc__)
    given.add_argument("--hosts", type=int, default=100, help="default %(default)s")
    chosen = given.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedEnsemble(Path(directory) / "zookeeper") as ensemble,
    ):
        measure(ensemble, Path(directory), chosen.hosts)


def measure(ensemble: Ensemble, directory: Path, hosts: int) -> None:
    """Prints the figures."""
    with ExitStack() as stack:
        fleet = list(stack.enter_context(log_fleet(ensemble, directory, hosts)))
        token = directory / "token"
        first = ApiClient(fleet[0].url, token)
        found = partial(_found, first)
        report(
            f"found and fetched, first time: {hosts} jobs on {hosts} hosts",
            [timed(found, one) for one in fleet],
        )
        time.sleep(FRESH_S)
        indirect = report("found and fetched again", [timed(found, one) for one in fleet])
        time.sleep(FRESH_S)
        direct = report("asked of its own host", [timed(partial(_direct, token), one) for one in fleet])
        print(
            f"  found and fetched again / asked of its own host: {indirect / direct:.2f} x (medians)",
            flush=True,
        )
        lose(fleet)
        time.sleep(FRESH_S)
        report("of the store, its host is down", [timed(found, one) for one in fleet[1:]])


def report(what: str, took_s: list[float]) -> float:
    median = statistics.median(took_s)
    print(
        f"{what:<62} median {1000 * median:8.1f} ms   max {1000 * max(took_s):8.1f} ms   load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return median


def timed(work: Callable[[LogHost], bytes], host: LogHost) -> float:
    begun_at_s = boottime_s()
    text = work(host)
    took_s = boottime_s() - begun_at_s
    assert text == LINE * LINES, f"{len(text)} bytes of {host.job}"
    return took_s


def _found(first: ApiClient, host: LogHost) -> bytes:
    return LogClient(first, host.job).get(WantedLog(host.job).target()).text


def _direct(token: Path, host: LogHost) -> bytes:
    return ApiClient(host.url, token).get_text(WantedLog(host.job).target()).body


# -- the fleet ---------------------------------------------------------------------------------------------------------


@contextmanager
def log_fleet(ensemble: Ensemble, directory: Path, hosts: int) -> Iterator[list[LogHost]]:
    token = directory / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with ExitStack() as stack:
        fleet = [_host(stack, ensemble, directory, number) for number in range(hosts)]
        context = stack.enter_context(open_commands(fleet[0].settings))
        context.bootstrap_or_check(Blobs(FileStore(directory / "store")))
        for host in fleet:
            context.commands.submit(submission(host.job, uid=host.uid))
            _register(context.zoo(), context.layout, host)
            host.output.parent.mkdir(parents=True)
            host.output.write_bytes(LINE * LINES)
        yield fleet


def _host(stack: ExitStack, ensemble: Ensemble, directory: Path, number: int) -> LogHost:
    home = directory / f"host-{number:03}"
    home.mkdir()
    config = home / "supervisor.yaml"
    config.write_text(
        f"cluster: benchmark\nzookeeper: {{hosts: '{ensemble.hosts}', root: {ROOT}}}\n"
        f"store: {{url: 'file://{directory}/store'}}\n"
        f"supervisor: {{id: host-{number:03}, log_dir: {home}/log, runtime_dir: {home}/run}}\n"
    )
    settings = load_settings(config, {})
    service = ApiService(SharedReads(partial(open_commands, settings)), settings.supervisor.log_dir)
    api = ApiSettings.model_validate({"listen": "127.0.0.1:0", "token_files": [str(directory / "token")]})
    server = ApiHttpServer(api, service)
    server.start()
    stack.callback(server.stop)
    return LogHost(number, settings, server, f"{number:012d}-0123abcd")


def _register(zoo: ZooClient, layout: Layout, host: LogHost) -> None:
    """The supervisor is there, and the first attempt of its job has ended."""
    supervisor = host.settings.supervisor
    member = Member(
        id=supervisor.id,
        host=f"{supervisor.id}.example",
        boot_id="b",
        address="",
        memory=1 << 34,
        drivers=10,
        starting=1,
        software="0",
        since=AT,
        log_dir=str(supervisor.log_dir),
        api=host.url,
    )
    path = layout.own(host.job)
    node = zoo.read(path)
    assert node is not None
    own = decode(Ownership, node.data, path)
    ended = replace(
        own,
        state=OwnState.EXITED,
        uid=host.uid,
        attempt=1,
        claims=1,
        supervisor=supervisor.id,
        host=member.host,
    )
    operations = (
        SetData(path, encode(ended), node.stat.version),
        Create(layout.supervisor(supervisor.id), encode(member)),
    )
    zoo.commit(Transaction("benchmark", "op", operations))


def lose(fleet: list[LogHost]) -> None:
    """All but the first host have uploaded what their jobs wrote, and are down."""
    packed = fleet[0].settings.supervisor.runtime_dir / "packed"
    packed.parent.mkdir()
    with open_commands(fleet[0].settings) as context:
        for host in fleet[1:]:
            with packed.open("wb") as target:
                pack(host.output, target)
            UploadedLogs(context.store()).put(UploadedKey(host.job, host.uid, 1, 20), packed)
            member = context.layout.supervisor(host.settings.supervisor.id)
            context.zoo().commit(Transaction("benchmark", "op", (Delete(member, 0),)))


if __name__ == "__main__":
    main()
