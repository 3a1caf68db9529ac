"""Implements the ``docs [TOPIC]`` command: prints pages that the package holds, for hosts without a
network."""

from __future__ import annotations

from collections.abc import Mapping
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
    name = _find_topic(topic, pages)
    page = pages[name]
    text = page.read_text(encoding="utf-8")
    if chosen.document:
        chosen.print_document({"topic": name, "title": _title(page), "markdown": text})
    else:
        print(text, end="")
    return 0


def _find_topic(asked: str, pages: Mapping[str, Path]) -> str:
    """Returns the topic that ``asked`` names: in full, by the path that a page shows, or by one word that is in no other
    topic (``oom``). Raises NotFound, with the topics that may be meant.
    """
    plain = asked.lower().removesuffix(".md").removeprefix("supervisor/").removeprefix("docs/")
    if plain in pages:
        return plain
    alike = [name for name in pages if plain in name.replace("/", "-").split("-")]
    if len(alike) == 1:
        return alike[0]
    best = nearest(asked, pages)
    meant = alike or ([best] if best else [])
    hint = f"did you mean {' or '.join(meant)}?" if meant else "see spark-supervisor docs"
    raise NotFound(f"there is no page {asked}: {hint}")


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
