"""The runbooks are pages to follow at night: all of one shape, with what the code really prints, and one for each alert."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor import errors
from supervisor.model.records import PLANNED_CAUSES, Cause
from supervisor.model.state import JobState
from tests.unit.test_deploy_monitoring import ALERTS

PACKAGE = Path(__file__).resolve().parents[2] / "supervisor"
PAGES = sorted((PACKAGE / "docs" / "runbooks").glob("*.md"), key=lambda page: page.stem)
CARD = PACKAGE / "docs" / "runbooks" / "card.md"
"""The page in front of the runbooks: it has no steps of its own."""
CARD_MAX_LINES = 60
RUNBOOKS = [page for page in PAGES if page != CARD]
NEED_NOBODY = {JobState.SUSPENDED, JobState.CANCELLED, JobState.FINISHED}
"""Somebody wanted these states, or the job is done."""
LINE_MAX_CHARS = 100
PIECE_MIN_CHARS = 4
CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LABEL = re.compile(r"^[a-z]+: +")
"""The labels of ``status`` are padded: what stands behind them is looked for."""


def _texts_of(module: Path) -> Iterator[str]:
    """Yields each text of a module but docstrings, those of its f-strings in the pieces between what is filled in."""
    tree = ast.parse(module.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


PRINTED = "\0".join(text for module in sorted(PACKAGE.rglob("*.py")) for text in _texts_of(module))


def _is_printed(words: str) -> bool:
    """Says whether the code has ``words``: as they are, or put together from pieces of its texts."""
    words = words.strip(" ,")
    while words and words not in PRINTED:
        length = next((n for n in range(len(words), 0, -1) if words[:n] in PRINTED), 0)
        if length < PIECE_MIN_CHARS:
            return False
        words = words[length:]
    return True


def _quoted(text: str) -> set[str]:
    """Returns what a runbook quotes as printed: of three words and more, without commands and what is filled in."""
    spans = re.findall(r"`([^`\n]+)`", CODE.sub("", text))
    said = (span for span in spans if len(span.split()) > 2 and not span.startswith("spark-supervisor "))
    return {span for span in said if "{" not in span}


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_a_runbook_has_symptom_steps_and_the_end(page: Path) -> None:
    sections = _sections(page.read_text())
    titles = list(sections)
    assert titles[0] == "Symptom"
    steps = "".join(text for title, text in sections.items() if title.partition(":")[0] == "Steps")
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", steps, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 2
    assert "```sh" in steps
    assert titles.index("Done when") > titles.index(
        next(title for title in titles if title.startswith("Steps"))
    )
    assert "```sh\nspark-supervisor " in sections["Done when"] and "It is over when" in sections["Done when"]


@pytest.mark.parametrize("cause", sorted(set(Cause) - {*PLANNED_CAUSES, Cause.FINISHED}))
def test_what_history_says_of_an_end_has_its_row(cause: Cause) -> None:
    steps = _sections((CARD.parent / "incident.md").read_text())["Steps"]
    assert re.search(rf"^ *\| [^|]*`{cause.value}`", steps, re.MULTILINE)


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_a_step_that_a_runbook_sends_to_is_there(page: Path) -> None:
    text = page.read_text()
    there = set(re.findall(r"^(\d+)\. ", text, re.MULTILINE))
    assert set(re.findall(r"\bstep (\d+)", text)) <= there


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_quotes_what_the_code_prints(page: Path) -> None:
    text = page.read_text()
    unknown = [
        said
        for said in sorted(_quoted(text))
        if not all(_is_printed(part) for part in re.split("…", LABEL.sub("", said)))
    ]
    assert unknown == []


def test_enough_is_quoted_and_an_invented_sentence_is_found() -> None:
    assert sum(len(_quoted(page.read_text())) for page in RUNBOOKS) > 40
    assert not _is_printed("the checkpoint is quite unwell")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_lines_of_a_runbook_fit(page: Path) -> None:
    long = [line for line in CODE.sub("", page.read_text()).splitlines() if len(line) > LINE_MAX_CHARS]
    assert [line for line in long if not line.lstrip().startswith("|")] == []


@pytest.mark.parametrize("alert", [alert["alert"] for alert in ALERTS])
def test_the_runbook_of_an_alert_has_it(alert: str) -> None:
    (named,) = (each["annotations"]["runbook"] for each in ALERTS if each["alert"] == alert)
    page = PACKAGE / "docs" / f"{named.removeprefix('spark-supervisor docs ')}.md"
    text = page.read_text()
    assert re.search(rf"\b{alert}\b", text), f"{page.name} does not name {alert}"
    if page.stem == "incident":
        section = _sections(text)[alert]
        assert re.search(r"^1\. ", section, re.MULTILINE) and "\nDone when " in section


def test_a_section_of_the_runbooks_is_about_an_alert_that_exists() -> None:
    known = {alert["alert"] for alert in ALERTS}
    named = {
        name
        for page in RUNBOOKS
        for name in re.findall(r"\bSpark(?:Job|Supervisor|Fleet)[A-Z]\w+", page.read_text())
    }
    assert named == known


def test_a_link_to_a_section_leads_to_one() -> None:
    anchors = {
        page.name: {
            re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
            for title in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
        }
        for page in PAGES
    }
    lost = [
        f"{page.name}: {target}#{anchor}"
        for page in PAGES
        for target, anchor in re.findall(r"\]\(([\w-]*(?:\.md)?)#([^)]+)\)", page.read_text())
        if anchor not in anchors[target or page.name]
    ]
    assert lost == []


def _rows_of_the_card() -> list[tuple[str, str]]:
    """Returns of each row of the card what is seen, and the rest of the row."""
    rows = [
        line.strip("| ").split(" | ", 1) for line in CARD.read_text().splitlines() if line.startswith("| ")
    ]
    return [(seen, rest) for seen, rest in rows]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_the_card_has_each_alert_and_leads_to_its_runbook(alert: dict[str, Any]) -> None:
    name = alert["alert"]
    (row,) = (rest for seen, rest in _rows_of_the_card() if name in seen.split(", "))
    page = alert["annotations"]["runbook"].removeprefix("spark-supervisor docs runbooks/")
    assert f"]({page}.md#{name.lower() if page == 'incident' else ''}" in row
    assert row.startswith("`spark-supervisor ")


@pytest.mark.parametrize("state", sorted(set(JobState) - NEED_NOBODY))
def test_the_card_has_each_state_that_needs_a_person(state: JobState) -> None:
    (row,) = (rest for seen, rest in _rows_of_the_card() if f"`{state.value}`" in seen)
    assert row.startswith("`spark-supervisor ")


def test_the_card_has_each_exit_code_of_a_failure() -> None:
    codes = {each.exit_code for each in vars(errors).values() if hasattr(each, "exit_code")}
    listed = [seen.split(", ") for seen, _ in _rows_of_the_card() if re.fullmatch(r"\d(, \d)*", seen)]
    on_card = {int(code) for codes_of_row in listed for code in codes_of_row}
    assert len(codes) > 5 and on_card == codes


def test_the_card_fits_on_a_screen_and_each_runbook_links_to_it() -> None:
    assert len(CARD.read_text().splitlines()) <= CARD_MAX_LINES
    assert [page.name for page in RUNBOOKS if "](card.md)" not in page.read_text()] == []
