"""``api.changes``: who applies the events to what it has read knows what the supervisor knows."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.api.changes import (
    JOB_EVENTS_MAX,
    NAMED_JOBS_MAX,
    ClusterKnown,
    ClusterReading,
    changes,
    rows_by_name,
)
from supervisor.model.job_row import JobRow

AT = "2026-11-27T04:00:00.000Z"


def row(name: str, state: str = "running", **more: Any) -> JobRow:
    return JobRow(name=name, uid=more.pop("uid", "1"), state=state, **more)


def known(jobs: list[JobRow], status: dict[str, Any] | None = None) -> ClusterKnown:
    return ClusterKnown().after(reading(jobs, status))


def reading(jobs: list[JobRow] | None, status: dict[str, Any] | None = None) -> ClusterReading:
    return ClusterReading(None if jobs is None else rows_by_name(jobs), status or {})


ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from("abcd"),
        st.sampled_from(["running", "failed", "pending"]),
        uid=st.sampled_from("12"),
        reason=st.sampled_from(["", "x"]),
    ),
    max_size=5,
)


@given(st.lists(st.one_of(ROWS, st.none()), min_size=1, max_size=8))
def test_events_lead_from_one_reading_to_the_next(readings: list[list[JobRow] | None]) -> None:
    now, client = ClusterKnown(), None
    for rows in readings:
        seen = reading(rows)
        events = changes(now, seen, AT)
        after = now.after(seen)
        if client is None and after.jobs is not None:
            client = {name: (each.uid, each.state) for name, each in after.jobs.items()}  # it reads the list
        elif client is not None:
            for event in events:
                if event.kind == "job":
                    assert event.data["before"] == client.get(event.data["name"], (None, None))[1]
                    client[event.data["name"]] = (event.data["uid"], event.data["state"])
                    if event.data["state"] is None:
                        del client[event.data["name"]]
            assert after.jobs is not None
            assert client == {name: (each.uid, each.state) for name, each in after.jobs.items()}
        documents = {path for event in events if event.kind == "changed" for path in event.data["documents"]}
        is_another = now.jobs != after.jobs or now.jobs_failed != after.jobs_failed
        assert ("/api/v1/jobs" in documents) == is_another
        now = after


def test_a_job_that_fails_and_one_that_is_over() -> None:
    before = known([row("a"), row("b"), row("c")])
    events = changes(before, reading([row("a", "failed", reason="exit code 1"), row("c", restarts=1)]), AT)
    assert [dict(event.data) for event in events] == [
        {"name": "a", "uid": "1", "state": "failed", "before": "running", "reason": "exit code 1", "at": AT},
        {"name": "b", "uid": "1", "state": None, "before": "running", "reason": "", "at": AT},
        {
            "documents": ["/api/v1/jobs", "/api/v1/jobs/a", "/api/v1/jobs/b", "/api/v1/jobs/c"],
            "every_job": False,
        },
    ]


def test_nothing_changed() -> None:
    jobs, status = [row("a")], {"leader": "h", "supervisors": [1]}
    assert changes(known(jobs, status), reading(jobs, dict(status)), AT) == []


def test_the_status_and_its_hosts() -> None:
    before = known([], {"leader": "h", "supervisors": [1]})
    (event,) = changes(before, reading([], {"leader": "i", "supervisors": [1]}), AT)
    assert event.data["documents"] == ["/api/v1/status"]
    (event,) = changes(before, reading([], {"leader": "h", "supervisors": [2]}), AT)
    assert event.data["documents"] == ["/api/v1/status", "/api/v1/hosts"]


def test_what_cannot_be_read_is_said_once_and_its_end_too() -> None:
    now = known([row("a")])
    (event,) = changes(now, reading(None), AT)
    assert event.data == {"documents": ["/api/v1/jobs"], "every_job": True}
    now = now.after(reading(None))
    assert changes(now, reading(None), AT) == []
    failed, changed = changes(now, reading([row("a", "failed")]), AT)
    assert failed.data["before"] == "running" and changed.data["every_job"]


def test_many_changes_are_bounded() -> None:
    before = known([row(f"j{n}") for n in range(JOB_EVENTS_MAX + 1)])
    after = [row(f"j{n}", "failed") for n in range(JOB_EVENTS_MAX + 1)]
    reset, changed = changes(before, reading(after), AT)
    assert (reset.kind, dict(reset.data)) == ("reset", {"why": "many"})
    assert changed.data == {"documents": ["/api/v1/jobs"], "every_job": True}
    some = after[: NAMED_JOBS_MAX + 1] + [row(f"j{n}") for n in range(NAMED_JOBS_MAX + 1, JOB_EVENTS_MAX + 1)]
    events = changes(before, reading(some), AT)
    assert len(events) == NAMED_JOBS_MAX + 2 and events[-1].data["every_job"]


def test_a_record_without_a_name_is_left_out() -> None:
    assert rows_by_name([JobRow(name=None), row("a")]).keys() == {"a"}
