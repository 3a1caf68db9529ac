"""Of ``registry.blob_sweep.judge``: whatever the order of submits, cancels and scans, nothing that is named is ever deleted."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from supervisor.clients.store.base import StoreEntry
from supervisor.registry.blob_sweep import GRACE_S, SUBMIT_MAX_S, References, Unreferenced, judge

UIDS = [f"0000000000a{n}-00000000" for n in range(5)]
ALWAYS = "zzzzzzzzzzzz-00000000"
keys_ = st.builds(
    lambda uid, digit, artifact: (
        f"artifacts/a/{uid}/{digit * 64}/f" if artifact else f"specs/a/{uid}/1-{digit * 64}.json"
    ),
    st.sampled_from(UIDS),
    st.sampled_from("0123"),
    st.booleans(),
)
entries = st.builds(StoreEntry, keys_, st.integers(0, 3), st.sampled_from([1.0, 2.0]))
references = st.builds(
    References,
    st.frozensets(st.sampled_from(UIDS)).map(lambda uids: uids | {ALWAYS}),
    st.frozensets(keys_, max_size=3),
)
scans = st.lists(
    st.tuples(st.lists(entries, unique_by=lambda e: e.key), references, st.floats(0, 2 * GRACE_S)), max_size=6
)


@given(scans, st.integers(0, 4))
def test_deleted_is_what_every_scan_of_a_grace_time_saw_unnamed_and_unchanged(
    history: list[tuple[list[StoreEntry], References, float]], max_deletes: int
) -> None:
    now_s, unreferenced = 0.0, dict[str, Unreferenced]()
    seen: list[tuple[float, dict[str, StoreEntry], References]] = []
    for listed, named, pause_s in history:
        now_s += pause_s
        verdict = judge(unreferenced, listed, named, now_s, now_s, GRACE_S, max_deletes)
        seen.append((now_s, {entry.key: entry for entry in listed}, named))
        expected = [entry.key for entry in listed if _orphaned_for_s(seen, entry.key, now_s) >= GRACE_S]
        assert list(verdict.to_delete) == expected[:max_deletes]
        unreferenced = dict(verdict.unreferenced)


def _orphaned_for_s(
    seen: list[tuple[float, dict[str, StoreEntry], References]], key: str, now_s: float
) -> float:
    """How long the newest unbroken run of scans is in which the object was there, the same, and unnamed; -1 for none."""
    since_at_s = now_s + 1
    for at_s, listed, named in reversed(seen):
        if named.keep(key) or listed.get(key) != seen[-1][1][key]:
            break
        since_at_s = at_s
    return now_s - since_at_s


@dataclass
class SweepWorld:
    """Submits that put first and register within the time that they have, or give up; a sweeper that scans now and then."""

    now_s: float = 0.0
    put_at_s: dict[str, float] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    unreferenced: dict[str, Unreferenced] = field(default_factory=dict)

    def put(self, uid: str) -> None:
        if uid not in self.put_at_s:  # a uid is new for every submission
            self.put_at_s[uid] = self.now_s

    def register(self, uid: str) -> None:
        if uid in self.put_at_s and uid not in self.named and self.now_s - self.put_at_s[uid] <= SUBMIT_MAX_S:
            assert uid not in self.deleted, "a dangling reference"
            self.named.add(uid)

    def scan(self, between: list[tuple[str, str, float]], grace_s: float) -> None:
        began_at_s = self.now_s
        listed = [
            StoreEntry(_key(uid), 1, at_s) for uid, at_s in self.put_at_s.items() if uid not in self.deleted
        ]
        self.play(between)
        references = References(frozenset(self.named) | {ALWAYS})
        verdict = judge(self.unreferenced, listed, references, began_at_s, self.now_s, grace_s)
        self.unreferenced = dict(verdict.unreferenced)
        uids = {key.split("/")[2] for key in verdict.to_delete}
        assert not uids & self.named
        self.deleted |= uids

    def play(self, steps: list[tuple[str, str, float]]) -> None:
        for verb, uid, pause_s in steps:
            self.now_s += pause_s
            {"put": self.put, "register": self.register}[verb](uid)


def _key(uid: str) -> str:
    return f"specs/a/{uid}/1-{'0' * 64}.json"


step = st.tuples(
    st.sampled_from(["put", "register"]), st.sampled_from(UIDS), st.floats(0, SUBMIT_MAX_S * 0.7)
)
steps = st.lists(step, max_size=4)


@given(st.lists(st.tuples(steps, steps), max_size=8))
def test_no_submit_ever_ends_with_a_dangling_reference(
    rounds: list[tuple[list[tuple[str, str, float]], ...]],
) -> None:
    world = SweepWorld()
    for before, during in rounds:
        world.play(before)
        world.scan(during, grace_s=SUBMIT_MAX_S + 1)  # the shortest that can be right


@given(st.lists(entries, unique_by=lambda e: e.key))
def test_without_any_uid_nothing_goes(listed: list[StoreEntry]) -> None:
    unreferenced = {entry.key: Unreferenced(entry, 0.0) for entry in listed}
    verdict = judge(unreferenced, listed, References(frozenset()), 10 * GRACE_S, 10 * GRACE_S)
    assert verdict.to_delete == ()
    assert not verdict.unreferenced


@given(st.text(max_size=80))
def test_keys_that_are_not_of_the_layout_are_kept(key: str) -> None:
    assert References(frozenset({ALWAYS})).keep("other/" + key)
    assert References(frozenset({ALWAYS})).keep("epochs/" + key)
