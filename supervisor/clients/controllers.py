"""Finds where groups of attempts are made, and has the kernel's controllers enabled there, so that the limits of jobs
can be enforced.

**A controller is never asked for in the group of a service's main process.** A group with controllers for its children
may have no process of its own, so systemd could not start the next supervisor while a driver lives (219/CGROUP). It is
asked for in two cases only: in the group above this process's own if that is called ``supervisor`` (systemd 254:
``DelegateSubgroup=supervisor``), and without a service manager, where this process moves itself into such a group if it
is alone. Everywhere else jobs start without their limits, and that is said.

The supervisor calls it once, at its start; ``doctor`` asks what would be.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from typing import Final, NamedTuple

from supervisor.clients.containment import find_cgroup_parent

SUBGROUP: Final = "supervisor"
CONTROLLERS: Final = ("memory", "cpu", "pids")

NO_CGROUP: Final = "this host has no usable cgroup v2"
NO_SUBGROUP: Final = "the unit has no DelegateSubgroup=supervisor (systemd 254 or newer)"
_OF_UNIT: Final = re.compile(r"\.(service|scope)(/|$)")


class AttemptGroups(NamedTuple):
    """Says where groups of attempts are made (``parent``, or None where they can't be), and for each controller that
    limits need why it can't be had there; those that can be had are not in ``lacking``."""

    parent: str | None
    lacking: dict[str, str]

    def why_not(self, controllers: tuple[str, ...]) -> str:
        """Returns why limits that need these controllers are not enforced in full, or an empty text."""
        return "; ".join(f"{name}: {self.lacking[name]}" for name in controllers if name in self.lacking)


def find_attempt_groups(own: str | None) -> AttemptGroups:
    """Returns where groups are made below ``own``, this process's group, or beside it, and enables the controllers
    there."""
    base = base_of(own)
    if base is not None and base == own and not is_of_unit(base):
        _move_into_subgroup(base)
    parent = find_cgroup_parent(base)
    if base is None or parent is None:
        return AttemptGroups(parent, dict.fromkeys(CONTROLLERS, NO_CGROUP))
    if base == own and is_of_unit(base):
        return AttemptGroups(parent, dict.fromkeys(CONTROLLERS, NO_SUBGROUP))
    lacking = {name: why for name in CONTROLLERS if (why := _why_not_enabled(name, (base, parent)))}
    return AttemptGroups(parent, lacking)


def would_lack(own: str | None) -> dict[str, str]:
    """Returns what a supervisor in the group ``own`` could not have, without changing anything."""
    base = base_of(own)
    if base is None:
        return dict.fromkeys(CONTROLLERS, NO_CGROUP)
    if base == own and is_of_unit(base):
        return dict.fromkeys(CONTROLLERS, NO_SUBGROUP)
    offered = _words(f"{base}/cgroup.controllers")
    return {name: _not_offered(base) for name in CONTROLLERS if name not in offered}


def base_of(own: str | None) -> str | None:
    """Returns the group below which attempts get theirs: the one above ``own`` if that is the supervisor's subgroup."""
    if own is None or os.path.basename(own) != SUBGROUP:
        return own
    above = os.path.dirname(own)
    return above if os.access(above, os.W_OK) and os.access(f"{above}/cgroup.procs", os.W_OK) else own


def is_of_unit(group: str) -> bool:
    """Returns whether a service manager made the group."""
    return _OF_UNIT.search(group) is not None


def _why_not_enabled(name: str, groups: tuple[str, ...]) -> str:
    """Enables the controller for the children of these groups, outermost first. Returns why that can't be, or an empty
    text."""
    for group in groups:
        if name in _words(f"{group}/cgroup.subtree_control"):
            continue
        if name not in _words(f"{group}/cgroup.controllers"):
            return _not_offered(group)
        try:
            with open(f"{group}/cgroup.subtree_control", "w", encoding="ascii") as file:
                file.write(f"+{name}")
        except OSError as error:
            if error.errno == errno.EBUSY:
                return f"{group} has processes of its own"
            return f"it cannot be enabled in {group} ({error.strerror})"
    return ""


def _not_offered(group: str) -> str:
    return f"the kernel does not offer it in {group}"


def _move_into_subgroup(own: str) -> None:
    """Moves this process, if it is alone in its group, into the subgroup for it. The root of the hierarchy needs none: it
    alone may have processes and controllers."""
    if not os.path.exists(f"{own}/cgroup.type") or _words(f"{own}/cgroup.procs") != {str(os.getpid())}:
        return
    with suppress(OSError):
        os.makedirs(f"{own}/{SUBGROUP}", exist_ok=True)
        with open(f"{own}/{SUBGROUP}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")


def _words(path: str) -> set[str]:
    try:
        with open(path, encoding="ascii") as file:
            return set(file.read().split())
    except OSError:
        return set()
