"""``docs [TOPIC]``: the pages that are shipped with the package, so that a host without a network has them."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated

import typer

from supervisor.cli.options import Chosen, command
from supervisor.cli.output import Columns, say_table
from supervisor.errors import NotFound

HEAD = Columns(("TOPIC", "PAGE"), whole=True)


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
            chosen.say([{"topic": name, "title": title} for name, title in titles.items()])
        else:
            say_table(HEAD, titles.items())
        return 0
    page = pages.get(topic.lower())
    if page is None:
        raise NotFound(f"there is no page {topic!r}{_meant(topic, pages)}: see spark-supervisor docs")
    text = page.read_text(encoding="utf-8")
    if chosen.document:
        chosen.say({"topic": topic.lower(), "title": _title(page), "markdown": text})
    else:
        print(text, end="")
    return 0


def _pages() -> dict[str, Traversable]:
    """Every page by its topic, sorted: the name of its file in lower case, after that of its folder below ``docs``."""
    package = resources.files("supervisor")
    folders = {"": package, " ": package / "docs", "runbooks/": package / "docs" / "runbooks"}
    return dict(
        sorted(
            (f"{folder.strip()}{page.name.removesuffix('.md').lower()}", page)
            for folder, place in folders.items()
            for page in place.iterdir()
            if page.name.endswith(".md")
        )
    )


def _title(page: Traversable) -> str:
    return page.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def _meant(topic: str, pages: dict[str, Traversable]) -> str:
    near = get_close_matches(topic.lower(), pages, n=1)
    return f"; did you mean {near[0]}" if near else ""
