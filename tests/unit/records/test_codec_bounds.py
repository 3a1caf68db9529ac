"""A record whose values can't be is no record: it is unreadable, and its job's trouble alone. Never is it absent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.daemon.leader.controller import Controller
from supervisor.errors import Corrupt
from supervisor.model.bounds import JobName, SupervisorId
from supervisor.model.records import Assignment, EpochRecord, JobRef, Lease, LedTerm, OwnState, Result
from supervisor.model.restart import RestartPolicy
from supervisor.records.bulk import bulk_decoder
from supervisor.records.codec import decode, encode, kind_of
from supervisor.registry.blobs import Blobs
from supervisor.settings.addresses import _WORD as WORD_OF_SETTINGS
from supervisor.spec.fields import _NAME as NAME_OF_SPEC
from tests.fakes.registry_bench import Bench
from tests.golden.sample_records import SAMPLES
from tests.unit.daemon.leader.test_controller import Rig

ODD_NUMBERS = (2**63, -(2**63) - 1, 10**400, 1e18 * 1.1, -1e300)
PATHS = ("../up", "a/b", "/etc", "..", ".", "a\n", "a\x00", "ä", "")


def _numbers_in(body: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every number, at every level."""
    for key, value in list(
        body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    ):
        if isinstance(value, int | float) and not isinstance(value, bool) and key != "v":
            yield body, key
        yield from _numbers_in(value)


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_no_number_of_any_record_is_without_bounds(record: Any) -> None:
    for odd in ODD_NUMBERS:
        body = json.loads(encode(record))
        rows = [
            value for value in body.values() if isinstance(record, EpochRecord) and isinstance(value, list)
        ]
        for place, key in list(_numbers_in(body)):
            if place in rows or any(place in each for each in rows):
                continue  # a row is left out: below
            kept, place[key] = place[key], odd
            data = json.dumps(body).encode()
            with pytest.raises(Corrupt):
                decode(type(record), data, "p")
            assert bulk_decoder(type(record))(data) is None
            place[key] = kept


@pytest.mark.parametrize("odd", [*ODD_NUMBERS, True, 1.0, "6", None])
def test_a_row_with_an_odd_number_is_left_out(odd: Any) -> None:
    rows = [[odd, "host-b", "op3"], [7, "host-a", "op4"]]
    body = {"epoch": 7, "supervisor": "host-a", "op": "op4", "v": 1, "recent": rows, "recorded": rows[0]}
    read = decode(EpochRecord, json.dumps(body).encode(), "p")
    assert read.recent == (LedTerm(7, "host-a", "op4"),) and read.recorded is None


@pytest.mark.parametrize("cls", [JobRef, Lease, Assignment, Result])
@pytest.mark.parametrize("field", ["name", "uid"])
@pytest.mark.parametrize("odd", PATHS)
def test_a_name_or_uid_that_leads_elsewhere_is_no_name(cls: type[Any], field: str, odd: str) -> None:
    sample = next(each for each in SAMPLES if type(each) is cls)
    data = encode(replace(sample, **{field: odd}))
    with pytest.raises(Corrupt, match=field):
        decode(cls, data, "p")
    assert bulk_decoder(cls)(data) is None


def test_names_are_what_a_spec_and_the_settings_let_be() -> None:
    for alias, pattern in ((JobName, NAME_OF_SPEC), (SupervisorId, WORD_OF_SETTINGS)):
        _, like = kind_of(alias)
        assert like is not None and like.pattern.pattern == pattern.pattern.replace("(", "(?:")


def test_a_file_name_that_leads_elsewhere_is_no_artifact(tmp_path: Path) -> None:
    with pytest.raises(Corrupt):
        Blobs(None).fetch_artifact(f"artifacts/a/u/{'ab' * 32}/..", tmp_path)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.bench.submit("odd", checkpoint="s3://bkt/odd")
    rig.bench.submit("good")
    return rig


def _spoil(bench: Bench, path: str, *keys: str, value: Any) -> None:
    body = json.loads(bench.zoo.client().read(path).data)  # type: ignore[union-attr]
    place = body
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    bench.zoo.put(path, json.dumps(body).encode())


@pytest.mark.parametrize(
    "keys", [("terms", "memory"), ("terms", "priority"), ("terms", "restart", "memory_step"), ("uid",)]
)
def test_a_reference_out_of_bounds_is_left_alone_said_and_can_be_cancelled(
    rig: Rig, keys: tuple[str, ...]
) -> None:
    bench = rig.bench
    _spoil(bench, bench.layout.job("odd"), *keys, value=10**400 if keys != ("uid",) else "../../tmp")
    done = rig.controller.reconcile_once()
    assert [one.action.name for one in done.results] == ["good"]
    (note,) = [note for note in done.plan.notes if note.name == "odd"]
    assert note.quarantined and keys[-1] in note.why
    bench.commands().cancel("odd")
    assert not bench.has(bench.layout.job("odd"))


@pytest.mark.parametrize(
    ("key", "value"), [("attempt", -1), ("memory", 2**70), ("supervisor", "../s1"), ("uid", "a/b")]
)
def test_an_ownership_out_of_bounds_is_never_taken_for_absent_and_can_be_cancelled(
    rig: Rig, key: str, value: Any
) -> None:
    bench = rig.bench
    bench.run("odd")
    _spoil(bench, bench.layout.own("odd"), key, value=value)
    before = {path: node for path, node in bench.zoo.tree().items() if "odd" in path}
    for _ in range(3):
        assert all(one.action.name == "good" for one in rig.controller.reconcile_once().results)
    assert {path: node for path, node in bench.zoo.tree().items() if "odd" in path} == before
    bench.commands().cancel("odd")
    assert not bench.has(bench.layout.job("odd"))


def test_what_a_policy_may_say_in_a_spec_is_within_its_bounds(rig: Rig) -> None:
    widest = RestartPolicy(
        max_s=86_400.0, reset_after_s=365 * 86_400.0, attempts=1_000_000, memory_step=10.0, memory_max=1024**5
    )
    job = rig.bench.ref("odd").record
    rig.bench.put(
        rig.bench.layout.job("odd"),
        replace(job, terms=replace(job.terms, memory=1024**5, priority=-1000, restart=widest)),
    )
    assert rig.bench.ref("odd").record.terms.restart == widest
    assert isinstance(rig.controller, Controller) and rig.bench.own("odd").state is OwnState.VACANT
