"""A checkpoint that is looked at by people: each request has its own deadline, and one that has answered is not down."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from supervisor.checkpoint.inspect import inspect
from supervisor.checkpoint.judge import judge
from supervisor.clients.store import file_objects
from supervisor.clients.store.patient_tree import PatientTree
from supervisor.clients.store.tree import ObjectTree, Tree, open_tree
from supervisor.errors import Unreachable
from supervisor.spec.s3a import S3Access
from tests.fakes.faulty_s3 import FaultyS3, Handler, hang, relay
from tests.testbed.moto import MotoServer
from tests.unit.checkpoint.golden import unpack
from tests.waiting import wait_until

QUICK_S, SLOW_S, PATIENT_S = 3.0, 1.7, 60.0
"""A request of the store here takes longer than what the quick deadline leaves to one attempt: half of it."""


def slow(handler: Handler) -> None:
    time.sleep(SLOW_S)
    relay(handler)


@pytest.fixture
def faulty(moto_server: MotoServer) -> Iterator[FaultyS3]:
    made = FaultyS3(moto_server.port)
    yield made
    made.released.set()
    made.stop()


@pytest.fixture
def location(moto_server: MotoServer, tmp_path: Path) -> str:
    bucket, client, source = moto_server.new_bucket(), moto_server.client(), unpack("hdfs-v1", tmp_path)
    for path in source.rglob("*"):
        if path.is_file():
            client.put_object(Bucket=bucket, Key=f"ck/{path.relative_to(source)}", Body=path.read_bytes())
    return f"s3://{bucket}/ck"


def trees_of(location: str, faulty: FaultyS3) -> tuple[Tree, Tree]:
    access = S3Access(endpoint_url=faulty.endpoint_url, path_style=True)
    quick, patient = (open_tree(location, access, each) for each in (QUICK_S, PATIENT_S))
    assert quick is not None and patient is not None
    return quick, patient


def answers(tree: Tree) -> bool:
    with suppress(Unreachable):
        tree.level("")
        return True
    return False


@pytest.mark.usefixtures("aws_env")
def test_a_store_that_answers_slowly_is_looked_at_to_the_end(location: str, faulty: FaultyS3) -> None:
    quick, patient = trees_of(location, faulty)
    wait_until(lambda: answers(quick), 60, "the client to be made, which takes its time")
    faulty.aim("GET .*state", [slow] * 2)
    with pytest.raises(Unreachable):
        inspect(quick)
    faulty.aim("GET .*state", [slow] * 2)
    reported: list[int] = []
    tree = PatientTree(quick, patient)
    before = tree.requests
    seen = inspect(tree, checksums=True, report_progress=reported.append)
    assert [finding for finding in judge(seen) if not finding.is_notice] == []
    assert sum(reported) >= seen.amount.objects > 0, f"the progress bar is told of every object: {reported}"
    assert tree.requests > before


@pytest.mark.usefixtures("aws_env")
def test_a_store_that_never_answered_is_told_of_quickly(location: str, faulty: FaultyS3) -> None:
    quick, patient = trees_of(location, faulty)
    faulty.always = hang
    with pytest.raises(Unreachable):
        inspect(PatientTree(quick, patient))
    assert patient.requests == 0, "nobody waits with patience for a store that has shown nothing"


def test_a_directory_that_lists_slowly_is_listed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand files on a network file system: each is a question of its own to the server."""
    for number in range(40):
        (tmp_path / str(number)).touch()
    real = os.scandir

    class Slow:
        def __init__(self, path: Any) -> None:
            self.found = real(path)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            for entry in self.found:
                time.sleep(0.02)
                yield entry

        def __exit__(self, *_: object) -> None:
            self.found.close()

    monkeypatch.setattr(file_objects.os, "scandir", Slow)
    assert len(ObjectTree(file_objects.FileObjectClient(f"file://{tmp_path}", 0.5)).level("").objects) == 40

    class Stuck(Slow):
        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            time.sleep(3)
            yield from ()

    monkeypatch.setattr(file_objects.os, "scandir", Stuck)
    with pytest.raises(Unreachable):
        ObjectTree(file_objects.FileObjectClient(f"file://{tmp_path}", 0.5)).level("")
