"""What the tests of savepoints share: areas on directories, a checkpoint that moves on or a process that dies at a given call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from supervisor.clients.store.area import Area, Item, open_area
from supervisor.savepoints.create import Creation
from supervisor.savepoints.manifest import Begun, Manifest
from supervisor.savepoints.shelf import Shelf
from supervisor.spec.s3a import S3Access

AT = "2026-11-22T03:15:00.000Z"


def area(path: Path | str) -> Area:
    return open_area(str(path), S3Access())


class Killed(BaseException):
    """The process is gone."""


class Dying:
    """An area that is carried out to until the ``at``-th change, then no more: before it or, ``after``, just after it.
    Several areas of one process share ``life``."""

    def __init__(self, inner: Any, life: Life) -> None:
        self._inner = inner
        self._life = life
        self.location = inner.location

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in ("copy_from", "create", "write", "remove"):
            return value

        def call(*given: Any) -> Any:
            plain = [each._inner if isinstance(each, Dying) else each for each in given]
            return self._life.change(lambda: value(*plain))

        return call


class Life:
    def __init__(self, at: int, *, after: bool) -> None:
        self.left = at
        self._after = after
        self._lock = threading.Lock()
        self.dead = False

    def change(self, work: Callable[[], Any]) -> Any:
        with self._lock:  # one at a time: a crash comes at one point
            if self.dead:
                raise Killed
            self.left -= 1
            if self.left < 0:
                self.dead = True
                if self._after:
                    work()
                raise Killed
            return work()


class Moving:
    """A checkpoint that somebody writes meanwhile. ``before_copy``: called before each object is copied, with its key."""

    def __init__(self, inner: Area, before_copy: Callable[[str], None]) -> None:
        self._inner: Any = inner
        self._before = before_copy
        self._lock = threading.Lock()
        self.location = inner.location

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def reported(self, item: Item) -> Area:
        with self._lock:
            self._before(item.key)
        inner: Area = self._inner
        return inner


class Target:
    """Of a ``Moving`` source."""

    def __init__(self, inner: Area) -> None:
        self._inner: Any = inner
        self.location = inner.location

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def copy_from(self, source: Moving, item: Item, key: str) -> str:
        tag: str = self._inner.copy_from(source.reported(item), item, key)
        return tag


def begun(source: Path, location: Path, savepoint: str = "one", name: str = "clicks") -> Begun:
    return Begun(
        id=savepoint,
        name=name,
        uid=f"{name}-u1",
        attempt=3,
        source=f"file://{source}",
        location=f"file://{location}",
        access=S3Access(),
        at=AT,
        software="0.1.0",
    )


def shelf(store: Path, wrap: Callable[[Any], Any] = lambda each: each) -> Shelf:
    return Shelf(wrap(area(store / "savepoints")), lambda location, _access: wrap(area(location)))


def place(store: Path, savepoint: str = "one", name: str = "clicks") -> Path:
    return store / "savepoints" / name / savepoint


def create(
    source: Path,
    store: Path,
    savepoint: str = "one",
    wrap: Callable[[Any], Any] = lambda each: each,
) -> Manifest:
    """As the command does it."""
    on = shelf(store, wrap)
    what = begun(source, place(store, savepoint), savepoint)
    on.begin(what)
    return Creation(
        wrap(area(source)), on.area_of(what), what, lambda: AT, still_wanted=lambda: on.require(what)
    ).run()


def files(directory: Path) -> Iterator[str]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(directory))


def contents(directory: Path) -> dict[str, bytes]:
    return {key: (directory / key).read_bytes() for key in files(directory)}
