"""Who owns which checkpoint location: equal or nested ones are refused at submit, under any spelling of one place.

All claims are read once per command, pipelined; look-ups then cost the depth of a path. The multi of a submit sets
/checkpoints at the version read here, so two nested submits can't both pass. Called by ``registry.commands``.
"""

from __future__ import annotations

from supervisor.errors import Conflict
from supervisor.model.location import digest, normalise
from supervisor.model.records import CheckpointClaim, Ownership
from supervisor.model.seen import Found, Seen
from supervisor.registry.layout import Layout
from supervisor.registry.reading import seen, seen_all
from supervisor.registry.settle import Zoo
from supervisor.registry.user_writes import Place


class Places:
    """The claims as of one version of /checkpoints."""

    def __init__(self, layout: Layout, generation: int, claims: dict[str, Seen[CheckpointClaim]]) -> None:
        self._layout = layout
        self._generation = generation
        self._claims = claims
        self._owners: dict[str, str] = {}
        self._enclosing: dict[str, str] = {}
        for claim in claims.values():
            if isinstance(claim, Found):
                self._index(claim.record.location, claim.record.name)

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
                raise Conflict(_in_the_way(location, place, owner))
        inner = self._enclosing.get(location)
        if inner is not None and inner != name:
            raise Conflict(_in_the_way(location, f"a location inside {location}", inner))
        path = self._layout.checkpoint(digest(location))
        claim = self._claims.get(path)
        if claim is not None and not isinstance(claim, Found):
            raise Conflict(f"the claim of {location} is unreadable ({claim.reason}): delete the znode {path} by hand")
        return Place(path, location, claim, self._generation)

    def taken(self, place: Place, name: str) -> None:
        """The multi with ``place`` committed: what it changed is known without reading again."""
        self._generation = place.generation + 1
        if place.path:
            self._index(place.location, name)


def left_by(zoo: Zoo, layout: Layout) -> dict[str, set[str]]:
    """Who has committed batches where: short place (``model.remembered``) → names, of all that were ever registered.

    One reading of all ownerships; those that remember nothing are not even decoded.
    """
    paths = [f"{layout.owns}/{name}" for name in zoo.children(layout.owns) or ()]
    found: dict[str, set[str]] = {}
    for path, node in zip(paths, zoo.read_many(paths).nodes, strict=True):
        if node is None or b'"remembered":{' not in node.data:
            continue
        own = seen(Ownership, node, path)
        if isinstance(own, Found) and own.record.remembered is not None and own.record.remembered.queries:
            found.setdefault(own.record.remembered.place, set()).add(path.rpartition("/")[2])
    return found


def _ancestors(location: str) -> list[str]:
    """Every enclosing location of a normalised one, innermost first."""
    found = []
    scheme, _, rest = location.partition("://")
    while "/" in rest:
        rest = rest.rpartition("/")[0]
        found.append(f"{scheme}://{rest}")
    return found


def _in_the_way(location: str, place: str, owner: str) -> str:
    return (
        f"checkpoint {location} overlaps {place}, which belongs to job {owner}: two jobs must never share one; "
        "choose another location, or cancel that job"
    )
