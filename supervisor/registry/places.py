"""Who owns which checkpoint location: equal or nested ones are refused at submit, under any spelling of one place.

All claims are read once per command, pipelined; look-ups then cost the depth of a path. The multi of a submit sets
/checkpoints at the version read here, so two nested submits can't both pass. Called by ``registry.commands``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from supervisor.errors import Conflict
from supervisor.model.location import digest, normalise
from supervisor.model.records import CheckpointClaim, Doom, Ownership
from supervisor.model.remembered import PLACE_CHARS, places_of
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Node
from supervisor.registry.layout import Layout
from supervisor.registry.reading import seen, seen_all
from supervisor.registry.settle import Zoo
from supervisor.registry.user_writes import Place

MAYBE_PLACE: Final = re.compile(rb'"([0-9a-f]{%d})\b' % PLACE_CHARS)
"""What looks like a place, in an ownership as ``codec`` writes it. Decoding tells whether it is one."""


class Places:
    """The claims as of one version of /checkpoints."""

    def __init__(self, layout: Layout, generation: int, claims: dict[str, Seen[CheckpointClaim]]) -> None:
        self._layout = layout
        self._generation = generation
        self._claims = claims
        self._owners: dict[str, str] = {}
        self._enclosing: dict[str, str] = {}
        self._doomed: dict[str, Doom] = {}
        for claim in claims.values():
            if isinstance(claim, Found):
                self._index(claim.record.location, claim.record.name)
                if claim.record.doom is not None:
                    self._doomed[claim.record.name] = claim.record.doom

    @classmethod
    def load(cls, zoo: Zoo, layout: Layout) -> Places:
        """Read every claim. The version is read first: a claim made meanwhile makes the multi fail, never pass."""
        parent = zoo.read(layout.checkpoints)
        if parent is None:
            raise Conflict(f"{layout.checkpoints} is missing: this ZooKeeper root is not a whole cluster")
        paths = [f"{layout.checkpoints}/{child}" for child in zoo.children(layout.checkpoints) or ()]
        found = seen_all(CheckpointClaim, paths, zoo.read_many(paths).nodes)
        return cls(layout, parent.stat.version, dict(zip(paths, found, strict=True)))

    def _index(self, location: str, name: str) -> None:
        self._owners[location] = name
        for ancestor in _ancestors(location):
            self._enclosing[ancestor] = name

    def place_for(self, name: str, location: str | None) -> Place:
        """The claim that a submit of ``name`` makes. Raises Conflict naming the job that is in the way.

        Without a ``location`` it claims nothing, but moves the version all the same: of two submits at once one is
        built anew, so that what each has counted (the limit of jobs) still holds when it commits.

        A claim of an older uid of the same name is taken over. One that is unreadable blocks its own location only.
        """
        if location is None:
            return Place("", "", None, self._generation)
        location = normalise(location)
        for place in (location, *_ancestors(location)):
            owner = self._owners.get(place)
            if owner is not None and owner != name:
                raise Conflict(self._in_the_way(location, place, owner))
        inner = self._enclosing.get(location)
        if inner is not None and inner != name:
            raise Conflict(self._in_the_way(location, f"a location inside {location}", inner))
        path = self._layout.checkpoint(digest(location))
        claim = self._claims.get(path)
        if claim is not None and not isinstance(claim, Found):
            raise Conflict(f"the claim of {location} is unreadable ({claim.reason}): delete the znode {path} by hand")
        return Place(path, location, claim, self._generation)

    def held(self, location: str | None, uid: str) -> tuple[str, Found[CheckpointClaim]] | None:
        """Path and record of the claim that ``uid`` has on its checkpoint; None: it has none (any more)."""
        path = self._layout.checkpoint(digest(location)) if location is not None else ""
        claim = self._claims.get(path)
        return (path, claim) if isinstance(claim, Found) and claim.record.uid == uid else None

    def _in_the_way(self, location: str, place: str, owner: str) -> str:
        doom = self._doomed.get(owner)
        return _in_the_way(location, place, owner) if doom is None else being_deleted(doom.name, place)

    def taken(self, place: Place, name: str) -> None:
        """The multi with ``place`` committed: what it changed is known without reading again."""
        self._generation = place.generation + 1
        if place.path:
            self._index(place.location, name)


class Left:
    """Who has committed batches where, of all names that were ever registered. ``nodes``: their ownerships, by path.

    10,000 of them take 0.4 s to decode, and hardly any is asked for: only those that speak of the place are decoded.
    """

    def __init__(self, nodes: Iterable[tuple[str, Node | None]]) -> None:
        self._at: dict[str, list[tuple[str, Node]]] = {}
        for path, node in nodes:
            if node is None:
                continue
            for place in set(MAYBE_PLACE.findall(node.data, max(0, node.data.find(b'"remembered":')))):
                self._at.setdefault(place.decode(), []).append((path, node))

    def by(self, place: str) -> frozenset[str]:
        """Names. ``place``: of ``model.remembered``."""
        owns = {path: seen(Ownership, node, path) for path, node in self._at.get(place, ())}
        return frozenset(
            path.rpartition("/")[2] for path, own in owns.items()
            if isinstance(own, Found) and place in places_of(own.record.remembered)
        )


def left_by(zoo: Zoo, layout: Layout) -> Left:
    """From one reading of all ownerships."""
    paths = [f"{layout.owns}/{name}" for name in zoo.children(layout.owns) or ()]
    return Left(zip(paths, zoo.read_many(paths).nodes, strict=True))


def _ancestors(location: str) -> list[str]:
    """Every enclosing location of a normalised one, innermost first."""
    found = []
    scheme, _, rest = location.partition("://")
    while "/" in rest:
        rest = rest.rpartition("/")[0]
        found.append(f"{scheme}://{rest}")
    return found


def being_deleted(name: str, place: str) -> str:
    """Why nobody can have ``place`` now."""
    return (
        f"the checkpoint of the ended job {name} at {place} is being deleted, as its spec asks (checkpoint_on_cancel): "
        f"submit when show {name} says that it was deleted, or choose another location"
    )


def _in_the_way(location: str, place: str, owner: str) -> str:
    return (
        f"checkpoint {location} overlaps {place}, which belongs to job {owner}: two jobs must never share one; "
        "choose another location, or cancel that job"
    )
