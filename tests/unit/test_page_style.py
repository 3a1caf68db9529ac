"""Pages that were read with one rule in mind: short lines, short sentences, and none of the worst phrases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "supervisor" / "docs"

PAGES = (
    "compare.md",
    "concepts-fence.md",
    "concepts-guarantees.md",
    "concepts-leases.md",
    "concepts-savepoints.md",
    "concepts-starts.md",
    "contributing.md",
    "faults.md",
    "glossary.md",
    "how-to-add.md",
    "install-containers.md",
    "install-s3.md",
    "install-systemd.md",
    "install-zookeeper.md",
    "jobs-clusters.md",
    "jobs-kafka.md",
    "jobs-python.md",
    "jobs-spec.md",
    "jobs-upgrade.md",
    "operate-alerts.md",
    "operate-api.md",
    "operate-capacity.md",
    "operate-daily.md",
    "operate-monitoring.md",
    "operate-rolling-upgrade.md",
    "operate-scale.md",
    "runbooks/card.md",
    "runbooks/checkpoint.md",
    "runbooks/cluster.md",
    "runbooks/incident.md",
    "runbooks/oom.md",
    "runbooks/s3.md",
    "runbooks/stalled.md",
    "runbooks/zookeeper-restore.md",
    "security.md",
    "spark.md",
    "trust.md",
    "tutorial.md",
    "zookeeper.md",
)
"""One per line, sorted. A page comes here when it has been read, and does not leave again."""

COLUMNS_MAX = 100
WORDS_MAX = 30
"""25 is the rule for whoever writes; a list of names may need some more."""

WORST_PHRASES = (
    "of one that",
    "of that which",
    "of those that",
    "of which no",
    "of which those",
    "that of those",
    "what is there",
    "what there is",
)

BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`]+`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
SENTENCE_ENDS = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?])[\"')*_]*\s+")


def prose_of(text: str) -> Iterator[str]:
    """The paragraphs and list items of a page, without code, tables and headings; a code span is one word."""
    lines = [
        line if not line.lstrip().startswith(("|", "#")) else "" for line in BLOCK.sub("", text).splitlines()
    ]
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", "\n".join(lines)):
        words = LINK.sub(r"\1", SPAN.sub("CODE", paragraph))
        yield re.sub(r"^\s*(?:[*-]|\d+\.) ", "", " ".join(words.split()))


def long_sentences(text: str) -> list[str]:
    sentences = (sentence for prose in prose_of(text) for sentence in SENTENCE_ENDS.split(prose))
    return [sentence for sentence in sentences if len(sentence.split()) > WORDS_MAX]


def long_lines(text: str) -> list[str]:
    """Lines that could have been wrapped: a table, a heading, and a word that reaches beyond, cannot."""
    lines = BLOCK.sub("", text).splitlines()
    return [
        line
        for line in lines
        if len(line) > COLUMNS_MAX
        and not line.lstrip().startswith(("|", "#"))
        and " " in SPAN.sub("CODE", line.strip().removeprefix("* "))[:COLUMNS_MAX]
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_short_lines(page: str) -> None:
    assert long_lines((DOCS / page).read_text()) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_short_sentences(page: str) -> None:
    assert long_sentences((DOCS / page).read_text()) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_none_of_the_worst_phrases(page: str) -> None:
    text = " ".join((DOCS / page).read_text().split()).lower()
    assert [phrase for phrase in WORST_PHRASES if phrase in text] == []


def test_the_list_is_sorted_and_its_pages_are_there() -> None:
    assert list(PAGES) == sorted(set(PAGES))
    assert [page for page in PAGES if not (DOCS / page).is_file()] == []


def test_what_is_too_long_is_noticed() -> None:
    assert long_sentences(f"A short one. {'word ' * 31}end.") != []
    assert long_sentences(f"* {'word ' * 29}end.\n* {'word ' * 29}end.") == []
    assert long_sentences("`" + "word " * 40 + "` is one word.") == []
    assert long_lines("word " * 21) != []
    assert long_lines("| " + "word " * 21 + "|\n\n```sh\n" + "word " * 21 + "\n```") == []
