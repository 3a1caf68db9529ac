"""The reference page is what the code says now, and says something about everything."""

from __future__ import annotations

import json

from supervisor.cli.doctor.catalogue import listed
from supervisor.logs.events import EVENTS
from tests import reference
from tests.unit.test_metrics import ANNOUNCED, BESIDE


def test_the_page_is_not_stale() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run: python -m tests.reference"


def test_it_names_every_metric_event_exit_code_and_check_of_doctor() -> None:
    page = reference.page()
    for name, kind in (ANNOUNCED | BESIDE).items():
        assert f"| `spark_supervisor_{name}{'_total' if kind == 'counter' else ''}` | {kind} |" in page
    assert all(f"| `{name}` |" in page for name in EVENTS)
    assert all(f"\n| {code} |" in page for code in range(8))
    assert all(f"| {area} | `{check}` |" in page for area, check, _ in listed())


def test_it_has_units_bounds_and_defaults() -> None:
    page = reference.page()
    assert "| `lease` | duration, 5s to 5m | `30s` |" in page
    assert "| `resources.memory` | size, " in page
    assert "| `checkpoint` | text | null |" in page
    assert "`spark_supervisor_job_restarts_total` | counter | job, cause |" in page


def test_metrics_that_are_times_say_so() -> None:
    for metric in reference.families():
        if metric.name.endswith("_seconds"):
            assert "second" in metric.documentation.lower(), json.dumps([metric.name, metric.documentation])
