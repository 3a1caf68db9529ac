"""Decides who owns which checkpoint location: equal or nested ones are refused at submit, under any spelling
of one location.

All claims are read once per command, pipelined; a lookup then costs the depth of a path and the claims that
it finds. The multi of a submit sets /checkpoints at the version read here, so two nested submits can't both
pass. ``operations.jobs`` calls this. ``Others`` is for the leader that deletes (``daemon.leader.remover``):
it says which living claims overlap a location, judged anew at each call.

Every overlapping claim is in the way, also one of an older uid of the same name: the end of an older uid may
delete all that lies at its location, and its driver may be stopping. One thing is allowed: the claim of an
older uid at exactly the same location is taken over, at its version, so that a clean-up which would make it a
pending deletion finds it gone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Final, NamedTuple

from supervisor.errors import Conflict, InvalidInput
from supervisor.model.checkpoint_expectation import PLACE_CHARS, places_of
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.location import digest, normalise, overlaps
from supervisor.model.records import CheckpointClaim, Ownership
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Node
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import children_of, seen, seen_all

MAYBE_PLACE: Final = re.compile(rb'"([0-9a-f]{%d})\b' % PLACE_CHARS)
"""It matches what looks like a place (``model.checkpoint_expectation.place_of``) in an ownership as ``codec``
writes it. Decoding shows whether it is one."""


class Index:
    """Holds locations by the path of their claim, and finds those that overlap a location. All locations are
    normalised."""

    def __init__(self) -> None:
        self._at: dict[str, set[str]] = {}
        self._inside: dict[str, set[str]] = {}
        self._locations: dict[str, str] = {}

    def add(self, path: str, location: str) -> None:
        """Adds the claim at ``path``; one that is known already is at ``location`` from now on."""
        self.discard(path)
        self._locations[path] = location
        self._at.setdefault(location, set()).add(path)
        for ancestor in _ancestors(location):
            self._inside.setdefault(ancestor, set()).add(path)

    def discard(self, path: str) -> None:
        location = self._locations.pop(path, None)
        if location is not None:
            self._at[location].discard(path)
            for ancestor in _ancestors(location):
                self._inside[ancestor].discard(path)

    def overlapping(self, location: str) -> frozenset[str]:
        """Returns the paths of all claims at ``location``, around it and inside of it."""
        found = set(self._inside.get(location, ()))
        for place in (location, *_ancestors(location)):
            found |= self._at.get(place, set())
        return frozenset(found)

    def paths(self) -> frozenset[str]:
        return frozenset(self._locations)


class CheckpointClaims:
    """Holds the claims as of one version of /checkpoints."""

    def __init__(self, layout: Layout, generation: int, claims: dict[str, Seen[CheckpointClaim]]) -> None:
        self._layout = layout
        self._generation = generation
        self._claims = claims
        self._index = Index()
        for path, claim in claims.items():
            if isinstance(claim, Found):
                self._index.add(path, claim.record.location)

    @classmethod
    def load(cls, zoo: ZkSession, layout: Layout) -> CheckpointClaims:
        """Reads every claim. The version is read first: a claim made meanwhile makes the multi fail, never
        pass."""
        parent = zoo.read(layout.checkpoints)
        if parent is None:
            raise Conflict(f"{layout.checkpoints} is missing: this ZooKeeper root is not a whole cluster")
        paths = [f"{layout.checkpoints}/{child}" for child in children_of(zoo, layout.checkpoints)]
        found = seen_all(CheckpointClaim, paths, zoo.read_many(paths).nodes)
        return cls(layout, parent.stat.version, dict(zip(paths, found, strict=True)))

    def reserve(self, name: str, location: str | None, *, may_take_over: bool = True) -> ClaimedLocation:
        """Returns the claim that a submit of ``name`` makes. Raises Conflict naming the job that is in the
        way.

        Without a ``location`` it claims nothing, but moves the version all the same: of two submits at once
        one is built anew, so that what each has counted (the limit of jobs) still holds when it commits.

        A claim of an older uid of the same name at this very location is taken over, unless ``may_take_over`` is
        False. One that is unreadable blocks its own location only.
        """
        if location is None:
            return ClaimedLocation("", "", None, self._generation)
        location = normalise(location)
        path = self._layout.checkpoint(digest(location))
        claim = self._claims.get(path)
        if claim is not None and not isinstance(claim, Found):
            raise Conflict(
                f"the claim of {location} is unreadable ({claim.reason}): delete the znode {path} by hand"
            )
        near = self._overlapping(location)
        others = [
            each
            for each in near
            if not may_take_over or (each.name, each.location) != (name, location) or each.doom is not None
        ]
        if others:
            raise Conflict(
                _in_the_way(location, name, min(others, key=lambda each: (each.name == name, each.location)))
            )
        return ClaimedLocation(path, location, claim, self._generation)

    def _overlapping(self, location: str) -> list[CheckpointClaim]:
        found = (self._claims.get(path) for path in self._index.overlapping(location))
        return [claim.record for claim in found if isinstance(claim, Found)]

    def held(self, location: str | None, uid: str) -> tuple[str, Found[CheckpointClaim]] | None:
        """Returns the path and record of the claim that ``uid`` has on its checkpoint, or None if it has none
        (any more)."""
        path = self._layout.checkpoint(digest(location)) if location is not None else ""
        claim = self._claims.get(path)
        return (path, claim) if isinstance(claim, Found) and claim.record.uid == uid else None

    def taken(self, claimed: ClaimedLocation, name: str, uid: str) -> None:
        """Applies what the multi with ``claimed`` changed, after it committed: that is known without reading
        again."""
        self._generation = claimed.generation + 1
        if claimed.path:
            version = claimed.claim.version + 1 if isinstance(claimed.claim, Found) else 0
            self._claims[claimed.path] = Found(
                CheckpointClaim(location=claimed.location, name=name, uid=uid), version
            )
            self._index.add(claimed.path, claimed.location)


class Overlap(NamedTuple):
    """Holds what a reading of the claims showed. ``generation`` is the version of /checkpoints, read before
    the claims. ``claim`` is a living one that overlaps, or None. ``doubtful`` has the path of one that can't
    be read, so that nobody can tell which location it is about, and the reason; or it is None."""

    generation: int
    claim: CheckpointClaim | None
    doubtful: tuple[str, str] | None


class Others:
    """Finds which living claims overlap a location that is to be deleted. Pending deletions do not count as
    living: nobody can take them.

    It is called before every batch of every deletion, in a registry of 10,000 claims, so two things are
    remembered: the version of /checkpoints, which each multi that makes a claim moves (in every version of
    this software), and the location of each path that was ever read, which can't change, because the path is
    its digest. Whose the overlapping claims are is read anew each time. A claim whose location is not the one
    of its path counts as unreadable. It is thread safe: a batch that hangs may call it from its own thread
    while the remover has gone on.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._generation: int | None = None
        self._index = Index()
        self._doubtful: set[str] = set()
        self._lock = threading.Lock()

    def find_overlap(self, zoo: ZkSession, path: str, location: str) -> Overlap:
        """Returns what overlaps ``location``, which is normalised. ``path`` is the path of the claim that is
        to be deleted. Raises Unreachable, Conflict."""
        with self._lock:
            return self._find_overlap(zoo, path, location)

    def _find_overlap(self, zoo: ZkSession, path: str, location: str) -> Overlap:
        parent = zoo.read(self._layout.checkpoints)
        if parent is None:
            raise Conflict(
                f"{self._layout.checkpoints} is missing: this ZooKeeper root is not a whole cluster"
            )
        generation = parent.stat.version
        if generation != self._generation:
            self._learn(zoo)
            self._generation = generation
        near = sorted((self._index.overlapping(location) | self._doubtful) - {path})
        claim, doubtful = None, None
        for each, node in zip(near, zoo.read_many(near).nodes if near else (), strict=True):
            found: Seen[CheckpointClaim] = seen(CheckpointClaim, node, each)
            self._note(each, found)
            if isinstance(found, Found) and each not in self._doubtful:
                if not found.record.deletion_is_pending and overlaps(found.record.location, location):
                    claim = claim or found.record
            elif found is not None:
                why = (
                    found.reason
                    if isinstance(found, Unreadable)
                    else "its location is not the one of its znode"
                )
                doubtful = doubtful or (each, why)
        return Overlap(generation, claim, doubtful)

    def _learn(self, zoo: ZkSession) -> None:
        """Reads the claims that have come, and forgets those that have gone. It reads them after the version
        of /checkpoints: a claim that comes later moves that once more."""
        paths = {
            f"{self._layout.checkpoints}/{child}" for child in children_of(zoo, self._layout.checkpoints)
        }
        for gone in (self._index.paths() | self._doubtful) - paths:
            self._note(gone, None)
        new = sorted(paths - self._index.paths() - self._doubtful)
        for path, found in zip(new, seen_all(CheckpointClaim, new, zoo.read_many(new).nodes), strict=True):
            self._note(path, found)

    def _note(self, path: str, found: Seen[CheckpointClaim]) -> None:
        self._doubtful.discard(path)
        if found is None:
            self._index.discard(path)
        elif isinstance(found, Found) and is_claim_path(self._layout, path, found.record.location):
            self._index.add(path, found.record.location)
        else:
            self._index.discard(path)
            self._doubtful.add(path)


def is_claim_path(layout: Layout, path: str, location: str) -> bool:
    """Says whether a claim of ``location`` stands at ``path``, as every one does that was not altered by
    hand."""
    try:
        return normalise(location) == location and layout.checkpoint(digest(location)) == path
    except InvalidInput:
        return False


class LeftCheckpoint:
    """Says who has committed batches where, of all names that were ever registered. ``nodes`` holds their
    ownerships, by path.

    10,000 of them take 0.4 s to decode, and hardly any is asked for: only those that mention the place are
    decoded.
    """

    def __init__(self, nodes: Iterable[tuple[str, Node | None]]) -> None:
        self._at: dict[str, list[tuple[str, Node]]] = {}
        for path, node in nodes:
            if node is None:
                continue
            for place in set(MAYBE_PLACE.findall(node.data, max(0, node.data.find(b'"remembered":')))):
                self._at.setdefault(place.decode(), []).append((path, node))

    def by(self, place: str) -> frozenset[str]:
        """Returns the names that committed batches at ``place`` (as in ``model.checkpoint_expectation``)."""
        owns = {path: seen(Ownership, node, path) for path, node in self._at.get(place, ())}
        return frozenset(
            path.rpartition("/")[2]
            for path, own in owns.items()
            if isinstance(own, Found) and place in places_of(own.record.remembered)
        )


def previous_users(zoo: ZkSession, layout: Layout) -> LeftCheckpoint:
    """Returns who left what, from one reading of all ownerships."""
    paths = [f"{layout.owns}/{name}" for name in children_of(zoo, layout.owns)]
    return LeftCheckpoint(zip(paths, zoo.read_many(paths).nodes, strict=True))


def _ancestors(location: str) -> list[str]:
    """Returns every enclosing location of a normalised one, innermost first."""
    found = []
    scheme, _, rest = location.partition("://")
    while "/" in rest:
        rest = rest.rpartition("/")[0]
        found.append(f"{scheme}://{rest}")
    return found


def being_deleted(name: str, location: str) -> str:
    """Returns why nobody can have the location ``location`` now."""
    return (
        f"the checkpoint of the ended job {name} at {location} is being deleted, as its spec asks (checkpoint_on_cancel): "
        f"submit when show {name} says that it was deleted, or choose another location"
    )


def _in_the_way(location: str, name: str, other: CheckpointClaim) -> str:
    """Returns why the claim ``other`` keeps the job ``name`` from having ``location``."""
    if other.doom is not None:
        return being_deleted(other.doom.name, other.location)
    if other.name == name:
        return (
            f"checkpoint {location} overlaps {other.location}, which {name} has claimed itself ({other.uid}): that ends "
            "once this submission was cancelled, its driver has stopped and a leader has cleaned up; try again then, or "
            "choose another location"
        )
    return (
        f"checkpoint {location} overlaps {other.location}, which belongs to job {other.name}: two jobs must never share "
        "one; choose another location, or cancel that job"
    )
