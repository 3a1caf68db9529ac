"""Of ``registry.uploaded_logs``: whatever hosts upload, and when, no output is swept that its submission keeps; all others are.

A history of one fleet: attempts end, hosts upload what they have in any order and again, results are pruned, and the sweeper of a
term scans now and then, while more happens between its requests and the store refuses some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from supervisor.clients.store.base import StoreEntry
from supervisor.errors import AccessDenied, Unreachable
from supervisor.registry.blob_sweep import DELETES_MAX, GRACE_S, References
from supervisor.registry.uploaded_logs import KeptLogs, LogSweeper, UploadedKey, parse_log_key, to_keep
from tests.explore.planting import Edit, edited

UIDS = [f"0000000000a{n}-00000000" for n in range(3)]
ALWAYS = "zzzzzzzzzzzz-00000000"
FOREIGN = (f"logs/a/{UIDS[0]}/readme", f"logs/a/{UIDS[0]}/0-5.log.gz", f"logs/{UIDS[0]}/1-5.log.gz", "logs/x")

Step = tuple[str, object]

uploads = st.tuples(
    st.just("upload"),
    st.builds(UploadedKey, st.just("a"), st.sampled_from(UIDS), st.integers(1, 9), st.integers(1, 4)),
)
prunes = st.tuples(st.just("prune"), st.sampled_from(UIDS))
waits = st.tuples(st.just("wait"), st.integers(0, int(1.5 * GRACE_S)).map(float))
steps = st.lists(st.one_of(uploads, uploads, prunes, waits), max_size=6)
refusals = st.dictionaries(
    st.integers(0, 6), st.sampled_from([AccessDenied("no"), Unreachable("no")]), max_size=2
)


@dataclass
class LogWorld:
    """It is the store, the registry and the clock of a sweeper. ``between`` happens, a list at a time, after each answer;
    ``refused`` are requests to delete that fail, by their number; ``stops_after`` that many the term is over."""

    between: list[Sequence[Step]] = field(default_factory=list)
    refused: dict[int, Exception] = field(default_factory=dict)
    stops_after: int = 10**9
    now_s: float = 1000.0
    objects: dict[str, StoreEntry] = field(default_factory=dict)
    listed: dict[str, StoreEntry] = field(default_factory=dict)
    uids: set[str] = field(default_factory=lambda: {*UIDS, ALWAYS})
    deletes: list[str] = field(default_factory=list)
    asked: int = 0
    may: bool = False

    def __post_init__(self) -> None:
        self.sweeper = LogSweeper(self, clock=lambda: self.now_s)  # type: ignore[arg-type]
        for key in FOREIGN:
            self.objects[key] = StoreEntry(key, 1, 0.0)

    # -- what happens ---------------------------------------------------------------------------------------------

    def play(self, history: Sequence[Step]) -> None:
        for verb, what in history:
            if isinstance(what, UploadedKey):
                # a host uploads whatever the registry knows: it may come back when the result is gone
                self.objects.setdefault(str(what), StoreEntry(str(what), 1, self.now_s))
            elif verb == "prune":
                self.uids.discard(str(what))
            else:
                assert isinstance(what, float)
                self.now_s += what

    def scan(self) -> None:
        before, self.deletes = set(self.objects), []
        try:
            self.sweeper.scan(self.references, self.go_on)
        except (AccessDenied, Unreachable):
            pass
        assert len(self.deletes) <= DELETES_MAX
        assert before - set(self.objects) == set(self.deletes)

    # -- the store, the registry ----------------------------------------------------------------------------------

    def entries(self, prefix: str) -> Iterator[StoreEntry]:
        self.listed = {key: entry for key, entry in sorted(self.objects.items()) if key.startswith(prefix)}
        found = list(self.listed.values())
        self._more()
        yield from found

    def references(self) -> References:
        found = References(frozenset(self.uids))
        self._more()
        return found

    def go_on(self) -> bool:
        self.asked += 1
        self.may = self.asked <= self.stops_after
        return self.may

    def delete(self, key: str) -> None:
        assert self.may, "it was not asked before this request, or the answer was no"
        self.may = False
        self._judge(key)
        self._more()
        refusal = self.refused.pop(len(self.deletes), None)
        if refusal is not None:
            raise refusal
        del self.objects[key]
        self.deletes.append(key)

    def _more(self) -> None:
        if self.between:
            self.play(self.between.pop(0))

    # -- the judge ------------------------------------------------------------------------------------------------

    def _judge(self, key: str) -> None:
        """By the uids that the registry knows when the request arrives, and by what was listed: what was beyond its submission's
        keep then goes, even if that is raised meanwhile."""
        assert key not in FOREIGN, f"{key} is somebody else's"
        parsed = parse_log_key(key)
        assert parsed is not None
        if parsed.uid in self.uids:
            assert key not in wanted(self.listed, parsed.uid), f"{key} is one of the newest"


def wanted(keys: dict[str, StoreEntry], uid: str) -> list[str]:
    """The outputs that a submission keeps, worked out in another way than by the code."""
    parsed = [each for each in map(parse_log_key, keys) if each is not None and each.uid == uid]
    if not parsed:
        return []
    newest = max(each.attempt for each in parsed)
    keep = max(each.keep for each in parsed if each.attempt == newest)
    above = {each: sum((o.attempt, o.keep) > (each.attempt, each.keep) for o in parsed) for each in parsed}
    return [str(each) for each in parsed if above[each] < keep]


Round = tuple[Sequence[Step], Sequence[Sequence[Step]], dict[int, Exception]]


def play_rounds(rounds: Sequence[Round], stops_after: int) -> None:
    """No output that is kept is swept, whatever happens meanwhile: ``LogWorld`` judges each request."""
    world = LogWorld(stops_after=stops_after)
    for before, between, refused in rounds:
        world.play(before)
        world.between, world.refused = list(between), dict(refused)
        world.scan()


def play_to_the_end(history: Sequence[Step]) -> None:
    """What is not kept goes in two scans a grace time apart, and all else stays."""
    world = LogWorld()
    world.play(history)
    there = dict(world.objects)
    world.scan()
    assert world.objects == there, "nothing goes that was seen once"
    world.now_s += GRACE_S - 1
    world.scan()
    assert world.objects == there
    world.now_s += 1
    world.scan()
    kept = {key for uid in UIDS if uid in world.uids for key in wanted(there, uid)}
    assert set(world.objects) == {*FOREIGN, *kept}


def explored(examples: int) -> None:
    """Plays so many histories of each kind, always the same."""
    always = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    rounds = st.lists(st.tuples(steps, st.lists(steps, max_size=4), refusals), max_size=5)
    seed(7)(always(given(rounds, st.integers(0, 60))(play_rounds)))()
    seed(7)(always(given(steps)(play_to_the_end)))()


def test_what_is_kept_stays_and_all_else_goes() -> None:
    explored(200)


def test_a_registry_that_knows_nobody_sweeps_nothing() -> None:
    world = LogWorld()
    world.play([("upload", UploadedKey("a", UIDS[0], 1, 1))])
    world.uids.clear()
    for _ in range(3):
        world.scan()
        world.now_s += GRACE_S
    assert len(world.objects) == 1 + len(FOREIGN)


def test_a_sweep_is_bounded() -> None:
    world = LogWorld(uids={ALWAYS})
    world.play([("upload", UploadedKey("a", f"gone-{number}", 1, 1)) for number in range(DELETES_MAX + 10)])
    world.scan()
    world.now_s += GRACE_S
    world.scan()
    assert len(world.deletes) == DELETES_MAX
    world.scan()
    assert set(world.objects) == set(FOREIGN)


NEWEST = "sorted(keys, key=lambda key: (key.attempt, key.keep), reverse=True)"
DEFECTS = (
    (to_keep, NEWEST, NEWEST.replace("reverse=True", "reverse=False")),
    (to_keep, "newest_first[newest_first[0].keep :]", "newest_first[newest_first[-1].keep :]"),
    (to_keep, "newest_first[newest_first[0].keep :]", "newest_first[newest_first[0].keep - 1 :]"),
    (to_keep, "of_uid[key.name, key.uid].append(key)", "of_uid[key.name, ''].append(key)"),
    (KeptLogs.keep, "parsed.uid in self.uids and ", ""),
    (KeptLogs.keep, "key not in self.surplus", "True"),
    (KeptLogs.keep, "parsed is None or (", "parsed is not None and ("),
    (LogSweeper._needed, "to_keep(listed, references)", "KeptLogs(frozenset({'nobody'}))"),
)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect[2])
def test_it_fails_while_a_defect_is_planted(defect: tuple[object, str, str]) -> None:
    with edited(Edit(*defect)), pytest.raises(AssertionError):
        explored(200)
