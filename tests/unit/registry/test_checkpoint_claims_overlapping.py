"""Every claim that overlaps counts, whoever listed it last and whatever its name: at submit, and again before anything is deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from supervisor.errors import Conflict
from supervisor.model.location import digest
from supervisor.model.records import CheckpointClaim, PendingDeletion
from supervisor.records.codec import encode
from supervisor.registry.checkpoint_claims import CheckpointClaims, Others
from tests.fakes.registry_bench import Bench, submission


@pytest.mark.parametrize("number", range(20))
def test_a_place_around_another_job_is_refused_also_where_an_own_claim_lies_inside(number: int) -> None:
    """In every order in which the claims can be listed."""
    bench = Bench()
    commands = bench.commands
    commands().submit(submission("other", checkpoint=f"s3://bkt/x/other-{number}"))
    commands().submit(submission("a", checkpoint=f"s3://bkt/x/a-{number}"))
    commands().cancel("a")
    with pytest.raises(Conflict, match="belongs to job other"):
        commands().submit(submission("a", sha256="cd" * 32, checkpoint="s3://bkt/x"))


@pytest.mark.parametrize("again", ["s3://bkt/x/a/in", "s3://bkt/x"])
def test_a_place_inside_or_around_the_own_old_one_waits_for_its_clean_up(again: str) -> None:
    bench = Bench()
    commands = bench.commands
    commands().submit(submission("a", checkpoint="s3://bkt/x/a"))
    bench.run("a")
    commands().cancel("a")
    with pytest.raises(Conflict, match="which a has claimed itself"):
        commands().submit(submission("a", sha256="cd" * 32, checkpoint=again))
    commands().submit(submission("a", sha256="cd" * 32, checkpoint="s3://bkt/x/a"))


OURS = CheckpointClaim(
    location="s3://bkt/x/a", name="a", uid="u1", doom=PendingDeletion(name="a", uid="u1", at="")
)


@pytest.fixture
def previous_and_held() -> Callable[..., tuple[str | None, bool]]:
    """What the remover would find out about OURS, with these claims beside it."""

    def asked(*records: CheckpointClaim, raw: bytes | None = None) -> tuple[str | None, bool]:
        bench = Bench()
        for record in (OURS, *records):
            bench.zoo.put(bench.layout.checkpoint(digest(record.location)), encode(record))
        if raw is not None:
            bench.zoo.put(bench.layout.checkpoint("0" * 64), raw)
        found = Others(bench.layout).find_overlap(
            bench.zoo.client(), bench.layout.checkpoint(digest(OURS.location)), OURS.location
        )
        return None if found.claim is None else found.claim.uid, found.doubtful is not None

    return asked


def test_living_claims_at_inside_and_around_are_in_the_way_and_others_are_not(
    previous_and_held: Callable[..., tuple[str | None, bool]],
) -> None:
    inside, around, beside = (
        CheckpointClaim(location=location, name="b", uid="u2")
        for location in ("s3://bkt/x/a/in", "s3://bkt/x", "s3://bkt/x/ab")
    )
    assert previous_and_held() == previous_and_held(beside) == (None, False)
    assert (
        previous_and_held(inside)
        == previous_and_held(around)
        == previous_and_held(beside, around)
        == ("u2", False)
    )
    assert previous_and_held(replace(inside, name="a")) == ("u2", False), "of the same name too"
    assert previous_and_held(replace(inside, doom=PendingDeletion(name="b", uid="u2", at=""))) == (
        None,
        False,
    ), "two that are deleted do each other no harm"
    assert previous_and_held(replace(inside, doom=PendingDeletion(name="b", uid="u9", at=""))) == (
        "u2",
        False,
    ), "one that somebody has altered counts as living"
    assert previous_and_held(raw=b"{") == (None, True), "nobody can tell which place it is about"


def test_a_claim_that_comes_after_a_look_is_found_by_the_next() -> None:
    bench = Bench()
    bench.zoo.put(bench.layout.checkpoint(digest(OURS.location)), encode(OURS))
    others, client, path = (
        Others(bench.layout),
        bench.zoo.client(),
        bench.layout.checkpoint(digest(OURS.location)),
    )
    assert others.find_overlap(client, path, OURS.location).claim is None
    bench.commands().submit(submission("far", checkpoint="s3://bkt/far"))
    assert others.find_overlap(client, path, OURS.location).claim is None
    bench.zoo.put(
        bench.layout.checkpoint(digest("s3://bkt/x")),
        encode(CheckpointClaim(location="s3://bkt/x", name="b", uid="u2")),
    )
    # moves the version, as every claim does
    bench.commands().submit(submission("further", checkpoint="s3://bkt/further"))
    found = others.find_overlap(client, path, OURS.location).claim
    assert found is not None and found.uid == "u2"


class Busy:
    """A client on which a claim is made right after the children were listed, or right after the version was read."""

    def __init__(self, bench: Bench, after: str) -> None:
        self._bench, self._after = bench, after
        self._client = bench.zoo.client()

    def _made(self, what: str) -> None:
        if what == self._after:
            self._after = ""
            self._bench.commands().submit(submission("late", checkpoint="s3://bkt/x/late"))

    def read(self, path: str) -> object:
        found = self._client.read(path)
        self._made("read")
        return found

    def children(self, path: str) -> object:
        found = self._client.children(path)
        self._made("children")
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)


@pytest.mark.parametrize("after", ["read", "children"])
def test_a_claim_made_while_the_claims_are_read_makes_the_multi_fail_or_is_seen(after: str) -> None:
    """The version is read before them. Read after them, it would let two nested places pass."""
    bench = Bench()
    bench.commands().submit(submission("first", checkpoint="s3://bkt/first"))
    places = CheckpointClaims.load(Busy(bench, after), bench.layout)  # type: ignore[arg-type]
    version = bench.zoo.client().read(bench.layout.checkpoints)
    assert version is not None
    try:
        place = places.reserve("wide", "s3://bkt/x")
    except Conflict:
        return
    assert place.generation != version.stat.version
