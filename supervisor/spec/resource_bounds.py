"""The bounds that the operator sets for what one job takes of a host (``policy.resources.max``). Pure.

``spec.policy_judge`` refuses what asks for more; ``daemon.host.admission`` gives a job that asks for no limit of its own the
bound. So no spec has a driver without a limit where the operator wants one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from supervisor.errors import Complaint
from supervisor.settings.policy import ResourceBounds
from supervisor.settings.units import format_size
from supervisor.spec.job import JobSpec

_LIMITS: Final = ("memory_limit_bytes", "cpu", "tasks")


def bounded(spec: JobSpec, bounds: ResourceBounds) -> JobSpec:
    """Returns ``spec`` with the bound in place of each limit that it does not have."""
    missing = {
        key: getattr(bounds, key)
        for key in _LIMITS
        if getattr(bounds, key) is not None and getattr(spec.resources, key) is None
    }
    if not missing:
        return spec
    return spec.model_copy(update={"resources": spec.resources.model_copy(update=missing)})


def above_bounds(spec: JobSpec, bounds: ResourceBounds) -> Iterator[Complaint]:
    """Yields a complaint for each key of ``spec`` that asks for more than the operator allows one job."""
    resources, restart = spec.resources, spec.restart
    sizes = (
        ("resources.memory", resources.memory_bytes, "memory", bounds.memory_bytes),
        ("resources.memory", resources.memory_bytes, "memory_limit", bounds.memory_limit_bytes),
        ("resources.memory_limit", resources.memory_limit_bytes, "memory_limit", bounds.memory_limit_bytes),
        ("restart.memory_max", restart.memory_max_bytes, "memory", bounds.memory_bytes),
        ("restart.memory_max", restart.memory_max_bytes, "memory_limit", bounds.memory_limit_bytes),
    )
    for key, asked, rule, most in sizes:
        if asked is not None and most is not None and asked > most:
            yield _above(key, format_size(asked), rule, format_size(most))
    numbers = (("cpu", resources.cpu, bounds.cpu), ("tasks", resources.tasks, bounds.tasks))
    for rule, number, most_of_it in numbers:
        if number is not None and most_of_it is not None and number > most_of_it:
            yield _above(f"resources.{rule}", f"{number:g}", rule, f"{most_of_it:g}")


def _above(key: str, asked: str, rule: str, most: str) -> Complaint:
    return Complaint(
        f"{key}: {asked} is above policy.resources.max.{rule} ({most})", f"ask for at most {most}"
    )
