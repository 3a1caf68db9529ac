"""Tries what credentials of a job's may do to the store, which is nothing. ``doctor`` calls it.

What is tried is a conditional create of an object of its own, in folders in which the cluster keeps what it believes:
nothing can be overwritten by it. No listing of the product takes such a key for a spec, an artifact or an epoch. What was
written after all is removed with the credentials of the supervisor.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from supervisor.clients.store.base import Store
from supervisor.errors import Complaint, NotPermitted, SupervisorError

CONTENT = b"written by spark-supervisor doctor with the credentials of a job: remove it"


@dataclass(frozen=True, slots=True)
class KeysTrial:
    """Holds the result. ``written`` are the folders that could be written to, and ``refused`` those that could not.
    ``error`` is what kept the trial from an answer. ``left`` is what could not be removed."""

    written: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    error: Complaint = Complaint()
    left: str = ""


def try_keys(theirs: Store, ours: Store, folders: Sequence[str]) -> KeysTrial:
    """Tries to create an object in each of ``folders`` (names that end at a slash) of ``theirs``, which is ``ours`` with
    other credentials. It ends at the first error that is no refusal."""
    written, refused = [], []
    left, error = "", Complaint()
    for folder in folders:
        key = f"{folder}doctor-{secrets.token_hex(8)}"
        try:
            theirs.create(key, CONTENT)
        except NotPermitted:
            refused.append(folder)
            continue
        except SupervisorError as failed:
            error = failed.complaint
            with suppress(SupervisorError):  # it may have been written for all that
                ours.delete(key)
            break
        written.append(folder)
        try:
            ours.delete(key)
        except SupervisorError:
            left = left or f"{ours.url}/{key}"
    return KeysTrial(tuple(written), tuple(refused), error, left)
