"""``docs``: the pages of the package, without ZooKeeper, store or configuration."""

from __future__ import annotations

import pytest

from supervisor.cli.docs import PACKAGE
from tests.unit.cli.conftest import Terminal


def test_it_lists_every_page(terminal: Terminal) -> None:
    ran = terminal.run("docs")
    topics = [line.split()[0] for line in ran.out.splitlines()[1:]]
    assert ran.code == 0 and topics == sorted(topics)
    assert {"protocol", "glossary", "safety", "reference", "runbooks/oom"} <= set(topics)
    assert len(topics) == len(list(PACKAGE.glob("*.md"))) + len(list((PACKAGE / "docs").rglob("*.md")))


def test_it_prints_a_page_as_it_is(terminal: Terminal) -> None:
    assert terminal.run("docs", "runbooks/oom").out == (PACKAGE / "docs/runbooks/oom.md").read_text()
    assert terminal.run("docs", "Safety").out == (PACKAGE / "SAFETY.md").read_text()


def test_as_a_document(terminal: Terminal) -> None:
    assert {"topic": "glossary", "title": "Glossary"} in terminal.run("docs", "-o", "json").json
    page = terminal.run("docs", "glossary", "-o", "json").json
    assert page["markdown"] == (PACKAGE / "docs/glossary.md").read_text()


def test_a_page_that_is_not_there_is_3_and_names_the_one_that_was_meant(terminal: Terminal) -> None:
    ran = terminal.run("docs", "protocl")
    assert (ran.code, ran.out) == (3, "") and "did you mean protocol?" in ran.err
    ran = terminal.run("docs", "../settings")
    assert (ran.code, ran.out) == (3, "")


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("oom", "docs/runbooks/oom.md"),
        ("restore", "docs/runbooks/zookeeper-restore.md"),
        ("fence", "docs/concepts-fence.md"),
        ("supervisor/docs/protocol.md", "docs/protocol.md"),
        ("SAFETY.md", "SAFETY.md"),
    ],
)
def test_one_word_of_a_topic_or_the_path_of_its_page_is_enough(
    terminal: Terminal, asked: str, page: str
) -> None:
    """At 3 a.m. nobody remembers in which folder a runbook is."""
    ran = terminal.run("docs", asked)
    assert (ran.code, ran.out) == (0, (PACKAGE / page).read_text())


def test_a_word_of_several_topics_names_them(terminal: Terminal) -> None:
    ran = terminal.run("docs", "s3")
    assert ran.code == 3 and "install-s3 or runbooks/s3" in ran.err
