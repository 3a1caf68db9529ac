"""The pages in ``supervisor/docs`` say what the code does, and every number that code and tests cite stands in them."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.model import lease_terms
from supervisor.plan.table import TABLE, Do, Owned, Wanted
from supervisor.records.layout import Layout
from supervisor.spec.job import parse_spec
from tests.explore.defects_of_guards import GUARDED, named

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "supervisor" / "docs"
PROTOCOL = (DOCS / "protocol.md").read_text()

SECTIONS = set(re.findall(r"^#+ §([\d.]+) ", PROTOCOL, re.MULTILINE))
INVARIANTS = set(re.findall(r"^### (I\d+) ", PROTOCOL, re.MULTILINE))


def _rows(page: str, letter: str) -> set[str]:
    return set(re.findall(rf"^\| ({letter}\d+) \|", (DOCS / page).read_text(), re.MULTILINE))


FAULTS = _rows("faults.md", "F")
FACTS = _rows("zookeeper.md", "[MP]") | _rows("spark.md", "S")

ABSENT_PAPERS = re.compile(
    "|".join(
        (
            r"\bDESIGN\b",
            r"\bCONTRACT\b",
            r"\bFAULTS (?:F|§)",
            r"\bFAULTS\.md",
            r"\bKAZOO\b",
            r"\bSPARK\.md",
            r"\bHOUSE\.md",
            r"\bSTYLE\b",
        )
    )
)
"""Pages that were beside the tree while it was built."""


def texts() -> Iterator[tuple[str, str]]:
    """Every text that git keeps, or would: path and content."""
    listed = subprocess.run(
        ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in sorted(set(listed.split("\0"))):
        path = ROOT / name
        if path.is_file() and path != Path(__file__):
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


TEXTS = dict(texts())


def _unresolved(pattern: str, known: set[str]) -> list[str]:
    return [
        f"{name}: {number}"
        for name, text in TEXTS.items()
        for number in re.findall(pattern, text)
        if number not in known
    ]


def test_every_section_that_is_cited_is_a_heading_of_the_protocol() -> None:
    assert {"4", "5", "7.2", "8", "10"} <= SECTIONS
    assert _unresolved(r"§ ?(\d+(?:\.\d+)?)", SECTIONS) == []


def _names_in(path: Path) -> set[str]:
    """Every class, function, method, constant and field that a module defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
    return found


def test_every_name_that_a_page_finds_in_a_module_is_defined_there() -> None:
    """Pages say where a thing is as ``room/module.py: name``."""
    cited = {
        (page, module, name)
        for page, text in TEXTS.items()
        if page.endswith(".md")
        for module, names in re.findall(r"`([\w/]+\.py): ([\w.]+)", text)
        for name in names.split(".")
    }
    assert len(cited) > 30
    places = (ROOT / "supervisor", ROOT / "tests", ROOT)
    unknown = []
    for page, module, name in sorted(cited):
        paths = [place / module for place in places if (place / module).is_file()]
        if not any(name in _names_in(path) for path in paths):
            unknown.append(f"{page}: {module}: {name}")
    assert unknown == []


def test_every_invariant_that_is_cited_is_a_heading_of_the_protocol() -> None:
    assert {f"I{number}" for number in range(1, 12)} == INVARIANTS
    assert _unresolved(r"\b(I\d+)\b", INVARIANTS) == []


JUDGED = ("chaos", "crash_points", "explore", "faults", "fuzz", "simulation")
"""The harnesses whose README says which judge checks which invariant."""


@pytest.mark.parametrize("harness", JUDGED)
def test_a_harness_says_which_judge_checks_which_invariant(harness: str) -> None:
    (listed,) = re.findall(
        r"^\*\*Judges\.\*\* (.+?)\n\n", TEXTS[f"tests/{harness}/README.md"] + "\n", re.MULTILINE | re.DOTALL
    )
    cited = set(re.findall(r"\bI\d+\b", listed))
    assert cited and cited <= INVARIANTS
    judges = re.findall(r"`([^`]+\.py)`", listed)
    homes = (ROOT, ROOT / "tests" / harness)
    assert judges and [one for one in judges if not any((home / one).is_file() for home in homes)] == []


def test_every_harness_with_a_command_says_it() -> None:
    commands = {path.parent.name for path in (ROOT / "tests").glob("*/__main__.py")}
    assert {name for name in commands if f"tests/{name}/README.md" in TEXTS} <= set(JUDGED)


def test_every_fault_that_is_cited_has_a_row() -> None:
    assert _unresolved(r"(?<!noqa: )\b(F[1-9]\d?)\b(?!\d)", FAULTS) == []


def test_every_fact_that_is_cited_has_a_row() -> None:
    assert len(FACTS) > 50
    assert _unresolved(r"(?:zookeeper|spark)\.md ([MPS]\d+)", FACTS) == []
    assert _unresolved(r"\((M\d+)\)", FACTS) == []


def test_nothing_cites_a_paper_that_is_not_in_the_tree() -> None:
    found = [
        f"{name}: {match.group()}" for name, text in TEXTS.items() for match in ABSENT_PAPERS.finditer(text)
    ]
    assert found == []


def _local_links(text: str) -> list[str]:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("page", sorted(name for name in TEXTS if name.endswith(".md")))
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    local = _local_links(TEXTS[page])
    assert [target for target in local if not ((ROOT / page).parent / target).exists()] == []


@pytest.mark.parametrize("page", sorted(DOCS.parent.rglob("*.md")), ids=lambda page: page.stem)
def test_a_page_of_the_package_says_which_files_only_a_checkout_has(page: Path) -> None:
    """A host has the package alone: where a link leads out of it, its section, or the head of the page, says so."""
    head, *sections = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    silent = [
        target
        for section in (head, *sections)
        for target in _local_links(section)
        if not (page.parent / target).resolve().is_relative_to(DOCS.parent)
        and "checkout" not in head + section
    ]
    assert silent == []
    back = [target for target in _local_links(page.read_text()) if "supervisor/" in target]
    assert back == [], "a link within the package does not leave it"


# -- what a page tells the reader to type ------------------------------------------------------------------------------------

PAGES = sorted(
    name for name in TEXTS if name == "README.md" or name.startswith("supervisor/") and name.endswith(".md")
)


@pytest.mark.parametrize("page", PAGES)
def test_a_module_that_a_page_runs_is_there(page: str) -> None:
    named_there = set(re.findall(r"python -m (tests[a-z0-9._]*)", TEXTS[page]))
    places = {name: ROOT / Path(*name.rstrip(".").split(".")) for name in named_there}
    missing = [
        n for n, p in places.items() if not (p.with_suffix(".py").exists() or (p / "__main__.py").exists())
    ]
    assert missing == []


def test_the_job_in_the_readme_is_a_valid_spec() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXTS["README.md"], re.DOTALL)
    assert parse_spec(text, "README.md").name == "rate-counts"


def test_the_readme_is_short() -> None:
    assert len(TEXTS["README.md"].splitlines()) <= 150


# -- what the code does is what the protocol says -------------------------------------------------------------------------


def _section(number: str) -> str:
    return re.split(r"^## ", PROTOCOL.split(f"\n## §{number} ")[1], flags=re.MULTILINE)[0]


def test_every_znode_has_a_row() -> None:
    paths = Layout("")
    singles = {
        value
        for name in dir(Layout)
        if isinstance(vars(Layout).get(name), property) and (value := getattr(paths, name))
    }
    keyed = {
        paths.supervisor("<id>"),
        paths.job("<name>"),
        paths.own("<name>"),
        paths.lease("<name>"),
        paths.result("<uid>"),
        paths.revisions_of("<uid>"),
        paths.notifications_of("<uid>"),
        paths.checkpoint("<hash>"),
        paths.assignment("<id>", "<uid>", 1).removesuffix("1") + "<attempt>",
        paths.host("<id>"),
        paths.preparation("<id>", "<uid>", 1).removesuffix("1") + "<revision>",
        paths.live("<uid>", 1).removesuffix("1") + "<attempt>",
    }
    rows = set(re.findall(r"^\| `(/[^`]+)` \|", _section("4"), re.MULTILINE))
    parents = {path for path in singles if any(one.startswith(f"{path}/") for one in keyed)}
    assert rows == (singles - parents) | keyed


def test_every_multi_has_its_row_with_its_guards() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", _section("5"), re.MULTILINE)
    listed = {name: tuple(guards.split(", ")) for name, guards in rows}
    assert listed == {named(builder).replace("-", "_"): guards for builder, guards in GUARDED}


NAMED_OTHERWISE = {"exit": "tombstone", "accept_registry": "accept"}
"""What a multi is called in logs, where its row in §5 has another name."""


def _multis() -> set[str]:
    """What every multi of the package is called in logs: the first argument of what makes it."""
    found: set[str] = set()
    for path in sorted((ROOT / "supervisor").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case (
                    ast.Call(func=ast.Name(id="Transaction"), args=[ast.Constant(value=str(what)), *_])
                    | ast.Call(
                        func=ast.Attribute(attr="transaction"), args=[ast.Constant(value=str(what)), *_]
                    )
                ):
                    found.add(what)
    return found


def test_every_multi_that_the_code_makes_is_in_the_protocol() -> None:
    page, found = _section("5"), _multis() - {"doctor"}  # which writes outside of the cluster's records
    assert len(found) > 30
    assert [what for what in sorted(found) if f"`{NAMED_OTHERWISE.get(what, what)}`" not in page] == []


def decisions() -> str:
    """The table of decisions, as the page has it."""
    head = "| own \\ desired | " + " | ".join(wanted.value for wanted in Wanted) + " |"
    lines = [head, "|" + "---|" * (len(Wanted) + 1)]
    for owned in Owned:
        cells = ("–" if (do := TABLE[owned, wanted]) is Do.NOTHING else do.value for wanted in Wanted)
        lines.append(f"| {owned.value} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_decisions_are_those_of_the_plan() -> None:
    assert decisions() in PROTOCOL, f"write this into protocol.md §8:\n{decisions()}"


def test_the_numbers_of_the_lease_are_those_of_the_code() -> None:
    terms = _section("7")
    assert f"({lease_terms.LEASE_MIN_S:g}–{lease_terms.LEASE_MAX_S:g} s)" in terms
    assert f"| K | {lease_terms.KILL_TIME_S:g} s |" in terms
    assert f"| ρ | {lease_terms.CLOCK_RATE_ERROR:g} |" in terms
    assert f"| p | {lease_terms.SECOND_KILLER_PERIOD_S:g} s |" in terms
    assert lease_terms.full_wait_s(30.0) == 30.0 * (1 + 2 * 0.001) + 2.0
    assert lease_terms.renew_period_s(30.0) == 5.0
    assert lease_terms.outage_survived_s(30.0) == 30.0 - 2.0 - 5.0 - 2 * 0.5
