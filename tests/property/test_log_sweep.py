"""Of ``registry.uploaded_logs``: whatever hosts upload, and when, no output is swept that its submission keeps; all others are.

A history of one fleet: attempts end, hosts upload what they have in any order and again, results are pruned, and the sweeper of a
term scans now and then, while more happens between its requests and the store refuses some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.clients.store.base import StoreEntry
from supervisor.errors import AccessDenied, Unreachable
from supervisor.registry.blob_sweep import DELETES_MAX, GRACE_S, References
from supervisor.registry.uploaded_logs import (
    OUTPUT_MAX_BYTES,
    PIECE_MAX_BYTES,
    KeptLogs,
    LogSweeper,
    PieceKey,
    UploadedKey,
    parse_log_key,
    parse_piece_key,
    pieces_that_count,
    to_keep,
)
from tests.explore.planting import Edit, edited
from tests.property.histories import always_the_same

UIDS = [f"0000000000a{n}-00000000" for n in range(3)]
ALWAYS = "zzzzzzzzzzzz-00000000"
FOREIGN = (
    f"logs/a/{UIDS[0]}/readme",
    f"logs/a/{UIDS[0]}/0-5.log.gz",
    f"logs/{UIDS[0]}/1-5.log.gz",
    "logs/x",
    f"logs/a/{UIDS[0]}/1-5.1-5-1f.0123456789ab.5.piece.gz",
    f"logs/a/{UIDS[0]}/1-5.000001-0-1f.0123456789ab.0.piece.gz",
)

Step = tuple[str, object]

outputs = st.builds(UploadedKey, st.just("a"), st.sampled_from(UIDS), st.integers(1, 6), st.integers(1, 3))
uploads = st.tuples(st.just("upload"), outputs)
sizes = st.sampled_from((1, 2, PIECE_MAX_BYTES - 1, PIECE_MAX_BYTES))
slow = st.lists(st.tuples(st.integers(0, 2), sizes), min_size=1, max_size=7)
fast = st.integers(15, 18).map(lambda count: [(1, PIECE_MAX_BYTES)] * count)
passes = st.tuples(st.just("pass"), st.tuples(outputs, st.one_of(slow, slow, slow, fast)))
"""Of an attempt that runs: in each, so many numbers on (0: the same piece, with more in it), so many bytes."""
prunes = st.tuples(st.just("prune"), st.sampled_from(UIDS))
waits = st.tuples(st.just("wait"), st.integers(0, int(1.5 * GRACE_S)).map(float))
steps = st.lists(st.one_of(uploads, passes, prunes, waits), max_size=6)
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
    wanted: dict[str, list[str]] = field(default_factory=dict)
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
            elif isinstance(what, tuple):
                self._pass(*what)
            elif verb == "prune":
                self.uids.discard(str(what))
            else:
                assert isinstance(what, float)
                self.now_s += what

    def _pass(self, of: UploadedKey, passes: Sequence[tuple[int, int]]) -> None:
        """As ``daemon.host.running_uploads`` does: it goes on from the newest piece, and not beside a whole output."""
        if str(of) in self.objects:
            return
        there = [
            piece for piece in map(parse_piece_key, self.objects) if piece is not None and piece.of == of
        ]
        number, had = max(((piece.number, piece.bytes) for piece in there), default=(0, PIECE_MAX_BYTES))
        for by, size in passes:
            more = by == 0 and had < PIECE_MAX_BYTES
            number, had = (number, min(had + size, PIECE_MAX_BYTES)) if more else (number + max(by, 1), size)
            key = str(PieceKey(of, number, had, "1f.0123456789ab.5"))
            self.objects.setdefault(key, StoreEntry(key, 1, self.now_s))

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
        self.wanted = {}
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
        of = of_key(key)
        assert of is not None
        if of.uid in self.uids:
            if of.uid not in self.wanted:
                self.wanted[of.uid] = wanted(self.listed, of.uid)
            assert key not in self.wanted[of.uid], f"{key} is one of the newest"


def of_key(key: str) -> UploadedKey | None:
    piece = parse_piece_key(key)
    return piece.of if piece is not None else parse_log_key(key)


def wanted(keys: dict[str, StoreEntry], uid: str) -> list[str]:
    """The outputs that a submission keeps, and what of them, worked out in another way than by the code."""
    parsed = {each for each in map(of_key, keys) if each is not None and each.uid == uid}
    if not parsed:
        return []
    newest = max(each.attempt for each in parsed)
    keep = max(each.keep for each in parsed if each.attempt == newest)
    above = {each: sum((o.attempt, o.keep) > (each.attempt, each.keep) for o in parsed) for each in parsed}
    kept = [each for each in parsed if above[each] < keep]
    return [key for of in kept for key in ([str(of)] if str(of) in keys else what_counts(keys, of))]


def what_counts(keys: dict[str, StoreEntry], of: UploadedKey) -> list[str]:
    """Pieces that are the last words of an attempt: each number once, and nothing that has 16 MiB or 32 pieces after it."""
    there = [piece for piece in map(parse_piece_key, keys) if piece is not None and piece.of == of]
    largest = {piece.number: piece for piece in sorted(there, key=lambda piece: (piece.bytes, piece.end))}
    return [
        str(piece)
        for number, piece in largest.items()
        if sum(each.bytes for each in largest.values() if each.number > number) < OUTPUT_MAX_BYTES
        and sum(each > number for each in largest) < 32
    ]


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
    always = always_the_same(examples)
    rounds = st.lists(st.tuples(steps, st.lists(steps, max_size=4), refusals), max_size=5)
    always(given(rounds, st.integers(0, 60))(play_rounds))()
    always(given(steps)(play_to_the_end))()


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
    (to_keep, "of_uid[key.name, key.uid].add(key)", "of_uid[key.name, ''].add(key)"),
    (to_keep, "key in beyond or key in whole", "key in beyond"),
    (to_keep, "key in beyond or key in whole", "key in whole"),
    (to_keep, "key in beyond or key in whole", "key not in whole"),
    (to_keep, "pieces_that_count(there)", "tuple(there)"),
    (to_keep, "map(str, beyond)", "map(str, whole)"),
    (pieces_that_count, "piece.bytes, piece.end", "-piece.bytes, piece.end"),
    (pieces_that_count, "counting[-1].number == piece.number", "False"),
    (pieces_that_count, "if left <= 0 or", "if left <= PIECE_MAX_BYTES or"),
    (pieces_that_count, "if left <= 0 or", "if left < 0 or"),
    (pieces_that_count, "PIECES_MAX", "4"),
    (pieces_that_count, "left -= piece.bytes", "left -= 4 * piece.bytes"),
    (KeptLogs.keep, "parsed.uid in self.uids and ", ""),
    (KeptLogs.keep, "key not in self.surplus", "True"),
    (KeptLogs.keep, "parsed is None or (", "parsed is not None and ("),
    (LogSweeper._needed, "to_keep(listed, references)", "KeptLogs(frozenset({'nobody'}))"),
)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect[2])
def test_it_fails_while_a_defect_is_planted(defect: tuple[object, str, str]) -> None:
    with edited(Edit(*defect)), pytest.raises(AssertionError):
        explored(200)
