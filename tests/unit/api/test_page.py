"""The files of the page: what they may not contain, and with which headers they are sent."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from supervisor.api import page
from supervisor.api.page.files import CONTENT_POLICY, KINDS, PageFiles
from supervisor.api.paths import PREFIX
from supervisor.api.shared_reads import FRESH_S

ROOT = Path(__file__).parents[3]
STATIC = Path(page.__file__).parent / "static"
SCRIPTS = sorted(STATIC.glob("*.js"))

FORBIDDEN = re.compile(
    r"\binnerHTML\b|\bouterHTML\b|insertAdjacentHTML|document\s*\.\s*write|\beval\s*\(|new\s+Function\b|setHTML|srcdoc|"
    r"DOMParser|createContextualFragment|javascript:|localStorage|document\s*\.\s*cookie|\bimport\s*\(|set(?:Timeout|Interval)\(\s*[\"'`]",
)
"""What would read text as markup or code, or keep the token beyond the tab."""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_reads_text_as_markup_or_code(path: Path) -> None:
    assert FORBIDDEN.findall(path.read_text()) == []


def test_the_search_for_what_is_forbidden_finds_it() -> None:
    for bad in ("a.innerHTML = b", "insertAdjacentHTML(", "document.write(x)", "eval (x)", 'setTimeout("x")'):
        assert FORBIDDEN.search(bad), bad


def test_only_one_module_makes_elements() -> None:
    makers = {
        path.name
        for path in SCRIPTS
        if re.search(r"\bcreateElement|\bcreateTextNode|cloneNode", path.read_text())
    }
    assert makers == {"dom.js"}


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        found = set(re.findall(r"(?:https?:)?//[\w.-]+\.[\w./-]+", path.read_text()))
        assert found <= {"http://www.w3.org/2000/svg"}, path.name
        assert "@import" not in path.read_text() and "url(" not in path.read_text()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_has_no_script_and_no_style_of_its_own() -> None:
    tags = Tags()
    tags.feed((STATIC / "index.html").read_text())
    assert [
        tag for tag, _ in tags.found if tag in ("style", "iframe", "object", "embed", "base", "form")
    ] == []
    assert [found for tag, found in tags.found if tag == "script" and "src" not in found] == []
    names = {name for _, found in tags.found for name in found}
    assert {name for name in names if name == "style" or name.startswith("on")} == set()


def test_no_script_sets_a_style_as_text() -> None:
    assert [
        path.name
        for path in SCRIPTS
        if re.search(r"""["']?style["']?\s*:|cssText|\.style\b""", path.read_text())
    ] == []


def links() -> Iterator[tuple[str, str]]:
    for path in sorted(STATIC.iterdir()):
        for found in re.findall(r"""from "\./([\w.]+)"|"/page/([\w.]+)\"""", path.read_text()):
            yield path.name, "".join(found)


def test_what_is_named_is_served_and_what_is_served_is_named() -> None:
    named = {f"/page/{name}" for _, name in links()}
    assert PageFiles().paths == named | {"/"}


def test_the_headers_let_nothing_else_run() -> None:
    files = PageFiles()
    wanted = (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    assert CONTENT_POLICY.startswith(wanted) and "unsafe" not in CONTENT_POLICY
    for path in files.paths:
        answer = files.answer(path)
        assert answer is not None and answer.code == 200 and answer.kind in KINDS.values()
        assert answer.headers["Content-Security-Policy"] == CONTENT_POLICY
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Frame-Options"] == "DENY"


def test_no_path_leads_to_another_file() -> None:
    files = PageFiles()
    odd = (
        "/page/",
        "/page",
        "/page/index.html",
        "/page/../files.py",
        "/page/%2e%2e/files.py",
        "/page//main.js",
        "//",
        "",
        "/x",
    )
    assert [path for path in odd if files.answer(path) is not None] == []
    assert files.answer("/?x=1") is not None
    assert f"{PREFIX}/jobs" not in files.paths


def test_a_file_that_is_known_is_not_sent_again() -> None:
    files = PageFiles()
    first = files.answer("/page/main.js")
    assert first is not None
    again = files.answer("/page/main.js", f'"x", W/{first.headers["ETag"]}')
    assert again is not None and (again.code, again.body) == (304, b"")
    other = files.answer("/page/main.js", '"x"')
    assert other is not None and other.code == 200


def test_the_files_are_in_the_wheel() -> None:
    """Package data has every file that stands there."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    (pattern,) = data["supervisor.api.page"]
    package = Path(str(resources.files("supervisor.api.page")))
    assert set(package.glob(pattern)) == {path for path in STATIC.rglob("*") if path.is_file()}


def test_the_pictures_in_the_documents_are_small_and_in_the_wheel() -> None:
    """tests/integration/test_page_pictures.py makes them."""
    found = sorted((ROOT / "supervisor" / "docs" / "pictures").iterdir())
    assert [path.name for path in found] == ["fleet-dark.png", "fleet-light.png", "job.png", "phone.png"]
    for path in found:
        assert path.read_bytes().startswith(b"\x89PNG\r\n") and path.stat().st_size < 150_000, path.name
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "docs/pictures/*.png" in data["supervisor"]
    text = (ROOT / "supervisor" / "docs" / "operate-api.md").read_text()
    assert all(f"(pictures/{path.name})" in text for path in found)


def test_the_page_reads_no_more_often_than_readings_are_shared() -> None:
    (period_ms,) = re.findall(r"\bPERIOD_MS = (\d+);", (STATIC / "reading.js").read_text())
    assert int(period_ms) / 1000 >= 2 * FRESH_S


def test_a_rate_of_rows_has_the_name_that_it_has_everywhere() -> None:
    """Spark has two: the rows that arrive in a second, and those of a batch beside the time that it took."""
    named = {
        path.name: set(re.findall(r"[\"`]((?:rows/s|[^\"`]*per second)[^\"`]*)[\"`]", path.read_text(), re.I))
        for path in SCRIPTS
    }
    assert {name: words for name, words in named.items() if words} == {
        "fleet.js": {"Rows/s in"},
        "job.js": {"Rows/s in", "rows/s in", "rows/s done"},
    }
