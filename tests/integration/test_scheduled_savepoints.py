"""Savepoints that the leader makes by itself, with the real child processes: on a file store and on a real S3 API."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.clients.store.area import Area, open_area
from supervisor.daemon.leader.savepoint_task import SavepointTasks, WantedSavepoint
from supervisor.errors import Conflict, NotYet
from supervisor.model.location import normalise
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.operations.context import store_of
from supervisor.records.ids import new_uid
from supervisor.registry.blobs import Blobs
from supervisor.savepoints.manifest import SavepointStage
from supervisor.savepoints.operations import schedule_of
from supervisor.savepoints.schedule import id_of, slot_of
from supervisor.settings.file import Settings, load_settings
from supervisor.spec.job import canonical_json, parse_spec
from supervisor.spec.s3a import S3Access
from tests.fakes.registry_bench import Bench
from tests.fakes.zookeeper import MemoryClient
from tests.testbed.moto import MotoServer
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import files

UID = new_uid("clicks")
POLICY = SavepointPolicy(every_s=3600.0, keep=2)
YES = lambda: True  # noqa: E731


class StoredJob:
    """A store with the spec of ``clicks`` in it, and its checkpoint."""

    def __init__(self, directory: Path, url: str, checkpoint: str, endpoint: str | None) -> None:
        config = directory / "supervisor.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "cluster": "test",
                    "zookeeper": {"hosts": "zk:2181"},
                    "store": {"url": url, "endpoint_url": endpoint},
                }
            )
        )
        self.settings: Settings = load_settings(config, {})
        self.checkpoint: Area = open_area(checkpoint, S3Access(endpoint))
        spec = parse_spec(f"name: clicks\napplication: s3://jobs/a.py\ncheckpoint: {checkpoint}\n", "x")
        ref = Blobs(store_of(self.settings)).put_spec("clicks", UID, 1, canonical_json(spec))
        self.wanted = WantedSavepoint("clicks", UID, 1, checkpoint, normalise(checkpoint), ref, POLICY, True)
        bench: Any = Bench()
        client: Any = MemoryClient(bench.zoo)
        client.start()
        self.tasks = SavepointTasks(self.settings, client, bench.layout)

    def fill(self, directory: Path) -> None:
        source = unpack("files", directory)
        for key in files(source):
            self.checkpoint.write(key, (source / key).read_bytes())


@pytest.fixture(params=["file", "s3"])
def stored_job(request: pytest.FixtureRequest, tmp_path: Path) -> StoredJob:
    if request.param == "file":
        return StoredJob(tmp_path, f"file://{tmp_path}/store", f"file://{tmp_path}/ck", None)
    moto: MotoServer = request.getfixturevalue("moto_server")
    bucket = request.getfixturevalue("s3_bucket")
    prefix = uuid.uuid4().hex
    return StoredJob(
        tmp_path, f"s3://{bucket}/{prefix}/store", f"s3a://{bucket}/{prefix}/ck", moto.endpoint_url
    )


def test_made_shown_and_removed_by_a_process_of_its_own(stored_job: StoredJob, tmp_path: Path) -> None:
    shelf, slot_at_s = (
        stored_job.tasks.shelf,
        slot_of("clicks", POLICY.every_s, stored_job.tasks.shelf.now_s()),
    )
    savepoint = id_of(slot_at_s)
    with pytest.raises(NotYet, match="no checkpoint of Spark's"):
        stored_job.tasks.create(stored_job.wanted, savepoint, 60, YES)
    stored_job.fill(tmp_path)
    made = stored_job.tasks.create(stored_job.wanted, savepoint, 60, YES)
    entry = shelf.find("clicks", savepoint)
    assert (entry.stage, made.batches, made.objects) == (SavepointStage.COMPLETE, (2,), 17)
    assert entry.scheduled is not None and entry.scheduled.source == stored_job.wanted.source
    newest, due_at = schedule_of(stored_job.settings, "clicks", stored_job.wanted.checkpoint, POLICY)
    assert newest == savepoint and due_at is not None
    assert entry.begun is not None and stored_job.tasks.in_use()(entry.begun.location) is None
    shelf.area_of(entry.begun).write("restores/x.json", b'{"target": "s3://b/x", "at": "now"}')
    with pytest.raises(Conflict, match="being restored"):
        stored_job.tasks.delete("clicks", savepoint, 60, YES)
    shelf.area_of(entry.begun).remove("restores/x.json")
    stored_job.tasks.delete("clicks", savepoint, 60, YES)
    assert shelf.ids("clicks") == ()


def test_before_the_first_commit_nothing_is_begun(stored_job: StoredJob, tmp_path: Path) -> None:
    stored_job.fill(tmp_path)
    for item in [*stored_job.checkpoint.items("commits")]:
        stored_job.checkpoint.remove(item.key)
    with pytest.raises(NotYet):
        stored_job.tasks.create(stored_job.wanted, "scheduled-20261122-060000", 60, YES)
    assert stored_job.tasks.shelf.ids("clicks") == ()
