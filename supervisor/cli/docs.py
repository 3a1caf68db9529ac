"""Implements the ``docs [TOPIC]`` command: prints pages that the package holds, for hosts without a
network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli.columns import Columns
from supervisor.cli.options import Chosen, command
from supervisor.cli.output import print_table
from supervisor.errors import NotFound
from supervisor.settings.nearest import nearest

HEAD = Columns(("TOPIC", "PAGE"), whole=True)
PACKAGE = Path(__file__).parent.parent


def _topics() -> list[str]:
    return sorted(_pages())


Topic = Annotated[
    str | None, typer.Argument(metavar="[TOPIC]", help="Name of a page.", autocompletion=_topics)
]


@command
def docs(chosen: Chosen, topic: Topic = None) -> int:
    """Print a page of the documentation; without a topic, list the pages.

    \b
    Examples:
      spark-supervisor docs
      spark-supervisor docs protocol | less
      spark-supervisor docs runbooks/checkpoint
    """
    pages = _pages()
    if topic is None:
        titles = {name: _title(page) for name, page in pages.items()}
        if chosen.document:
            chosen.print_document([{"topic": name, "title": title} for name, title in titles.items()])
        else:
            print_table(HEAD, titles.items())
        return 0
    page = pages.get(topic.lower())
    if page is None:
        best = nearest(topic, pages)
        hint = f"did you mean {best}?" if best else "see spark-supervisor docs"
        raise NotFound(f"there is no page {topic}: {hint}")
    text = page.read_text(encoding="utf-8")
    if chosen.document:
        chosen.print_document({"topic": topic.lower(), "title": _title(page), "markdown": text})
    else:
        print(text, end="")
    return 0


def _pages() -> dict[str, Path]:
    """Returns every page by its topic, sorted.

    A topic is the name of the page's file in lower case, after that of its folder below ``docs``.
    """
    docs = PACKAGE / "docs"
    found = [(page.stem, page) for folder in (PACKAGE, docs) for page in folder.glob("*.md")]
    found += [(f"runbooks/{page.stem}", page) for page in (docs / "runbooks").glob("*.md")]
    return {topic.lower(): page for topic, page in sorted(found, key=lambda each: each[0].lower())}


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
