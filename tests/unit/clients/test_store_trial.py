"""What credentials of a job may do to the store: tried without harm, and nothing is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.clients.store.trial import try_keys
from supervisor.errors import AccessDenied, NotPermitted, SupervisorError, Unreachable

FOLDERS = ("specs/", "epochs/")


class Theirs:
    """The same store with other credentials. ``answers``: what a create below a folder raises, if anything; ``anyway``: it
    is written for all that, as when only the reply is lost."""

    def __init__(
        self, store: FileStore, answers: dict[str, SupervisorError], *, anyway: bool = False
    ) -> None:
        self._store, self._answers, self._anyway = store, answers, anyway
        self.tried: list[str] = []

    def create(self, key: str, data: bytes) -> None:
        self.tried.append(key)
        error = self._answers.get(f"{key.partition('/')[0]}/")
        if error is None or self._anyway:
            self._store.create(key, data)
        if error is not None:
            raise error


@pytest.fixture
def ours(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


def trial(ours: FileStore, anyway: bool = False, **answers: SupervisorError) -> Any:
    theirs = Theirs(ours, {f"{folder}/": error for folder, error in answers.items()}, anyway=anyway)
    return try_keys(theirs, ours, FOLDERS)  # type: ignore[arg-type]


def test_refused_everywhere(ours: FileStore) -> None:
    found = trial(ours, specs=NotPermitted("no"), epochs=NotPermitted("no"))
    assert (found.written, found.refused, found.error, found.left) == ((), FOLDERS, ("", ""), "")


def test_what_was_written_is_removed(ours: FileStore) -> None:
    found = trial(ours, epochs=NotPermitted("no"))
    assert (found.written, found.refused, found.left) == (("specs/",), ("epochs/",), "")
    assert list(ours.entries("")) == []


def test_what_can_not_be_removed_is_named(ours: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_key: str) -> None:
        raise AccessDenied("no")

    monkeypatch.setattr(ours, "delete", refuse)
    found = trial(ours, epochs=NotPermitted("no"))
    (left,) = ours.entries("")
    assert found.left == f"{ours.url}/{left.key}"


@pytest.mark.parametrize("error", [Unreachable("it is down"), AccessDenied("the key is unknown")])
@pytest.mark.parametrize("anyway", [False, True])
def test_no_answer_is_no_refusal_and_leaves_nothing(
    ours: FileStore, error: SupervisorError, anyway: bool
) -> None:
    found = trial(ours, anyway, specs=error)
    assert (found.written, found.refused, found.error) == ((), (), error.complaint)
    assert list(ours.entries("")) == []
