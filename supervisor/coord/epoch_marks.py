"""Keeps the marks of epochs in the store: one object for each term of leadership that acted, create-only.

``trust`` judges by them whether ZooKeeper was restored (protocol §6): the store then has an epoch above the registry's
own, or one that the registry does not remember.
"""

from __future__ import annotations

import re

from supervisor.clients.store.base import Store, StoreEntry, delete_each
from supervisor.errors import Conflict, Corrupt, InvalidInput, NotFound
from supervisor.model.records import EpochRecord
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode

EPOCHS = "epochs/"
EPOCH_DIGITS = 10
EPOCHS_KEPT = 100

_EPOCH_KEY = re.compile(rf"epochs/([0-9]{{{EPOCH_DIGITS}}})")


def epoch_key(epoch: int) -> str:
    """Returns the key of an epoch's mark. The number is padded with zeros, so that a listing sorts by
    number."""
    return f"{EPOCHS}{epoch:0{EPOCH_DIGITS}d}"


class EpochMarks:
    """Records and reads the epochs in ``store``. It is thread-safe as the store is.

    Every method also raises ``Unreachable`` and ``AccessDenied`` of the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def record_epoch(self, epoch: int, supervisor: str, op: str = "") -> None:
        """Records that ``epoch`` acted. It is idempotent for one supervisor and op; raises ``Conflict`` if
        another term recorded it.

        The same term is recognised by these two, not by the bytes: another version may have recorded it with
        more in it (F59).
        """
        if not 0 <= epoch < 10**EPOCH_DIGITS:
            raise InvalidInput(f"epoch {epoch} does not fit in {EPOCH_DIGITS} digits")
        key = epoch_key(epoch)
        try:
            self._store.create(key, encode(EpochRecord(epoch=epoch, supervisor=supervisor, op=op)))
        except Conflict:
            found = self._readable_epoch(epoch)
            if found is None or (found.epoch, found.supervisor, found.op) != (epoch, supervisor, op):
                raise Conflict(
                    f"epoch {epoch} was recorded in {self._store.url} by another term of leadership"
                ) from None

    def newest_epoch_above(self, epoch: int) -> int | None:
        """Returns the highest recorded epoch that is greater than ``epoch``, or None."""
        after = epoch_key(epoch) if epoch >= 0 else ""
        found = [self._epoch_of(entry) for entry in self._store.entries(EPOCHS, after)]
        return max((number for number in found if number is not None and number > epoch), default=None)

    def read_epoch(self, epoch: int) -> EpochRecord | None:
        """Returns the mark of ``epoch``, or None if there is none. Raises ``Corrupt``."""
        key = epoch_key(epoch)
        try:
            return decode(EpochRecord, self._store.read(key, MAX_RECORD_BYTES), f"{self._store.url}/{key}")
        except NotFound:
            return None

    def _readable_epoch(self, epoch: int) -> EpochRecord | None:
        try:
            return self.read_epoch(epoch)
        except Corrupt:
            return None

    def prune_epochs(self, keep: int = EPOCHS_KEPT) -> int:
        """Deletes all but the ``keep`` highest marks; returns how many were deleted. The highest always
        stays."""
        marks = [entry.key for entry in self._store.entries(EPOCHS) if self._epoch_of(entry) is not None]
        return len(delete_each(self._store, marks[: -max(keep, 1)]))

    @staticmethod
    def _epoch_of(entry: StoreEntry) -> int | None:
        match = _EPOCH_KEY.fullmatch(entry.key)
        return int(match[1]) if match else None
