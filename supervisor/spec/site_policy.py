"""Decides what the operator of a site allows jobs (``policy`` of ``supervisor.yaml``). It is pure and imports
the standard library only.

A rule is a location with wildcards. ``*`` and ``?`` match within one segment of a path; a ``*`` that is the
whole last segment matches everything below, at any depth; ``*`` alone matches every location. Schemes are as
``model.location`` has them: ``s3://``, ``s3a://`` and ``s3n://`` are one. So ``s3a://streams/*`` covers all
of that bucket and nothing of ``streams-evil``. A rule without a wildcard is that one location, not what lies
below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from supervisor.errors import InvalidInput
from supervisor.model.location import normalise

if TYPE_CHECKING:
    from supervisor.settings.policy import PolicySettings

ANYWHERE: Final = "*"


@dataclass(frozen=True, slots=True)
class SitePolicy:
    """Holds the rules of a site. ``checkpoints`` say where jobs may keep their checkpoints, ``deletable``
    where ``checkpoint_on_cancel: delete`` may delete. ``run_as`` is the Unix user of jobs that name none, or None
    for the supervisor's own; ``users`` are those that a job may name.
    """

    checkpoints: tuple[str, ...] = (ANYWHERE,)
    deletable: tuple[str, ...] = ()
    run_as: str | None = None
    users: tuple[str, ...] = ()

    def why_no_checkpoint(self, location: str | None) -> str | None:
        """Returns why no job may keep its checkpoint at ``location``, or None if it may, or if there is
        none.
        """
        return None if location is None else _why_not(location, self.checkpoints, "policy.checkpoints")

    def why_not_deletable(self, location: str) -> str | None:
        """Returns why nobody may delete ``location``, or None if it is allowed."""
        return _why_not(location, self.deletable, "policy.deletable")

    def user_of(self, run_as: str | None) -> str | None:
        """Returns as which user a job runs whose spec says ``run_as``; None means the supervisor's own."""
        return self.run_as if run_as is None else run_as

    def why_not_user(self, run_as: str | None) -> str | None:
        """Returns why no job may name the user ``run_as``, or None if it may, or if it names none."""
        if run_as is None or run_as == self.run_as or run_as in self.users:
            return None
        allowed = f"allows only {', '.join(self.users)}" if self.users else "allows no user"
        return f"policy.run_as of supervisor.yaml {allowed}; run_as is {run_as}"


def site_policy(rules: PolicySettings) -> SitePolicy:
    return SitePolicy(rules.checkpoints, rules.deletable, rules.run_as.default, rules.run_as.allowed)


def climbs(location: str) -> bool:
    """Returns whether ``location`` has ``..`` in it: where that leads depends on links, which the text does
    not show.
    """
    return ".." in location.split("/")


def matches(location: str, rule: str) -> bool:
    """Returns whether ``rule`` covers ``location``, which is normalised. Returns False also if ``rule`` is no
    rule.
    """
    if rule == ANYWHERE:
        return True
    try:
        given, wanted = location.split("/"), normalise(rule).split("/")
    except InvalidInput:
        return False
    if wanted[-1] == "*":
        wanted = wanted[:-1]
        if len(given) <= len(wanted):
            return False
        given = given[: len(wanted)]
    return len(given) == len(wanted) and all(map(fnmatchcase, given, wanted))


def matches_path(path: str, rule: str) -> bool:
    """Returns whether ``rule`` covers the absolute ``path`` of a file. A path with ``..`` in it is covered by none."""
    if rule == ANYWHERE:
        return True
    try:
        return not climbs(path) and matches(normalise(path), rule)
    except InvalidInput:
        return False


def _why_not(location: str, rules: Sequence[str], key: str) -> str | None:
    if ANYWHERE in rules:
        return None
    if climbs(location):
        return f"{key} of supervisor.yaml allows no location with '..' in it: {location}"
    try:
        place = normalise(location)
    except InvalidInput as error:
        return str(error)
    if any(matches(place, rule) for rule in rules):
        return None
    allowed = f"allows only {', '.join(rules)}" if rules else "is empty: it allows no location"
    return f"{key} of supervisor.yaml {allowed}; {place} is outside"
