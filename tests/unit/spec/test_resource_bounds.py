"""What one job may take of a host, by the operator's bounds."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.settings.policy import ResourceBounds
from supervisor.settings.sections import validated
from supervisor.spec.job import JobSpec
from supervisor.spec.resource_bounds import above_bounds, bounded


def spec(**resources: Any) -> JobSpec:
    body = {"name": "a", "application": "store:00/app.py", "unbounded": False, "resources": resources}
    return validated(JobSpec, body, "a.yaml")


def bounds(**keys: Any) -> ResourceBounds:
    return validated(ResourceBounds, keys, "supervisor.yaml")


@pytest.mark.parametrize(
    ("resources", "most", "key"),
    [
        ({"memory": "2g"}, {"memory": "1g"}, "resources.memory"),
        ({"memory": "2g"}, {"memory_limit": "1g"}, "resources.memory"),
        ({"memory": "1g", "memory_limit": "3g"}, {"memory_limit": "2g"}, "resources.memory_limit"),
        ({"cpu": 3}, {"cpu": 2.5}, "resources.cpu"),
        ({"tasks": 5000}, {"tasks": 4999}, "resources.tasks"),
    ],
)
def test_more_than_the_most_is_refused(resources: dict[str, Any], most: dict[str, Any], key: str) -> None:
    (found,) = above_bounds(spec(**resources), bounds(**most))
    assert found.what.startswith(f"{key}: ") and "policy.resources.max." in found.what
    assert list(above_bounds(spec(**resources), bounds())) == []


def test_a_limit_that_is_missing_is_the_bound_and_one_that_is_there_stays() -> None:
    most = bounds(memory_limit="4g", cpu=2, tasks=500)
    limits = bounded(spec(cpu=1.5, tasks=None), most).limits()
    assert limits is not None
    assert (limits.memory, limits.cpu, limits.tasks) == (4 * 1024**3, 1.5, 500)
    job = spec(memory_limit="1g", cpu=1, tasks=20)
    assert bounded(job, most) is job
