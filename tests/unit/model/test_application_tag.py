"""Tags name the registry, the job and the attempt whose driver has an application."""

from __future__ import annotations

import pytest

from supervisor.model.application_tag import YARN_TAGS, naming_properties, tagged_attempt, tags_of
from supervisor.model.master import ClusterKind

UID = "0an3kfz9q2xw-0123abcd"


def test_what_is_written_is_read_again_also_in_lower_case() -> None:
    for uid in (UID, "A", "a-1-2", "x" * 64):
        tags = tags_of("f00", uid, 999_999_999)
        assert tagged_attempt([tag.lower() for tag in tags], "f00") == (uid.lower(), 999_999_999)
        assert all(tag.isascii() and len(tag) <= 100 and "," not in tag for tag in tags)


@pytest.mark.parametrize(
    "tags",
    [
        (),
        ("ours",),
        tags_of("other", UID, 1),
        tags_of("f00", UID, 1)[:2],
        tags_of("f00", UID, 1)[1:],
        (*tags_of("f00", UID, 1), *tags_of("f00", UID, 2)),
        (*tags_of("f00", UID, 1), "spark-supervisor-job-b"),
        tags_of("f00", UID, 0),
        (*tags_of("f00", UID, 1)[:2], f"spark-supervisor-attempt-{UID}-٣"),
        (*tags_of("f00", UID, 1)[:2], f"spark-supervisor-attempt-{UID}-01"),
        (*tags_of("f00", UID, 1)[:2], f"spark-supervisor-attempt-{UID}-{'9' * 5000}"),
    ],
)
def test_tags_that_are_not_those_of_one_attempt_of_this_registry_name_nobody(tags: tuple[str, ...]) -> None:
    assert tagged_attempt(tags, "f00") is None


def test_the_jobs_own_tags_stay_and_it_cannot_have_those_of_another() -> None:
    conf = {YARN_TAGS: "ours, team ,,Spark-Supervisor-job-b"}
    given = naming_properties(ClusterKind.YARN, "f00", UID, 7, conf)
    assert given == {YARN_TAGS: ",".join(("ours", "team", *tags_of("f00", UID, 7)))}
    assert tagged_attempt(given[YARN_TAGS].split(","), "f00") == (UID, 7)


def test_there_are_none_elsewhere_and_none_before_there_is_an_attempt() -> None:
    assert naming_properties(ClusterKind.STANDALONE, "f00", UID, 7, {}) == {}
    assert naming_properties(None, "f00", UID, 7, {}) == {}
    assert naming_properties(ClusterKind.YARN, "f00", UID, 0, {YARN_TAGS: "ours"}) == {}
    assert naming_properties(ClusterKind.YARN, "", UID, 7, {}) == {}
