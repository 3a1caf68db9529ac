"""Writes down who asks for a write, before the write: a line of the audit has the id of the multi, by which the registry
tells whether it came about. A multi that changes several jobs has a line for each.

``operations.jobs``, ``cluster``, ``accept_registry``, ``secure_registry`` and ``cli.savepoint`` call it. Which writes wait
for their line:

* What starts or changes something waits. If the store can't take the line, the write is done all the same and the user is
  told; with ``audit.required`` it is refused.
* What stops something (``STOPS``) is never held up by an audit, whatever ``audit.required`` says: its line comes after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from supervisor.clients import syslog
from supervisor.clock import wall_iso
from supervisor.errors import OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.records import AUDIT_BY_MAX_BYTES, DETAIL_MAX_BYTES, AuditLine, clip
from supervisor.operations.author import user_here
from supervisor.records.codec import encode
from supervisor.records.ids import new_op_id
from supervisor.registry.audit import AuditLog

STOPS: Final = frozenset({"cancel", "cancel_failed", "suspend", "pause", "cordon"})
"""The kinds of writes whose line is written after them. A cordon is also what uncordons."""


@dataclass(frozen=True, slots=True)
class AskedWrite:
    """Describes a write: the kind and the id of its multi, and what it is about. What is no multi has an id all the same."""

    what: str
    op: str = field(default_factory=new_op_id)
    name: str = ""
    uid: str = ""
    revision: int = 0
    detail: str = ""


class Auditor:
    """Audits the writes of one command. Without a ``log`` nothing is written to the store, without ``syslog_at`` nothing to
    syslog. ``warn`` is told of each line that could not be written. It is not thread-safe."""

    def __init__(
        self,
        log: AuditLog | None = None,
        author: Callable[[], str] = lambda: "",
        syslog_at: Path | None = None,
        *,
        required: bool = False,
        warn: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._log = log
        self._author = author
        self._syslog_at = syslog_at
        self._required = required
        self._warn = warn
        self._silent: SupervisorError | None = None
        self._later: list[tuple[AskedWrite, str]] | None = None

    def before(self, write: AskedWrite) -> None:
        """Writes the line of what starts or changes something. Raises Unreachable if that is required and impossible."""
        if write.what not in STOPS:
            self._write(write, late=False)

    def after(self, write: AskedWrite) -> None:
        """Writes the line of what stops something, which has happened. Raises nothing."""
        if write.what not in STOPS:
            return
        if self._later is not None:
            self._later.append((write, wall_iso()))
        else:
            self._write(write, late=True)

    def commit(
        self, write: AskedWrite, commit: Callable[[], bool], beside: Sequence[AskedWrite] = ()
    ) -> bool:
        """Returns what ``commit`` returns, which carries out ``write``, and has its line written before or after it.

        ``beside`` is what the same multi does to other jobs: each has a line of its own. What may have come about has its
        line, too: a multi whose outcome is unknown, or which was interrupted. Raises what ``before`` and ``commit`` raise.
        """
        lines = (write, *beside)
        for each in lines:
            self.before(each)
        is_known = False
        try:
            committed = commit()
            is_known = not committed
        except OutcomeUnknown:
            raise
        except SupervisorError:
            is_known = True  # nothing was done
            raise
        finally:
            if not is_known:
                for each in lines:
                    self.after(each)
        return committed

    @contextmanager
    def together(self) -> Iterator[None]:
        """Has the lines of all that is stopped meanwhile written at the end: no stop waits for the line of another."""
        self._later = []
        try:
            yield
        finally:
            later, self._later = self._later, None
            for write, at in later:
                self._write(write, late=True, at=at)

    def _write(self, write: AskedWrite, *, late: bool, at: str = "") -> None:
        if self._log is None and self._syslog_at is None:
            return
        line = AuditLine(
            number=0,
            at=at or wall_iso(),
            by=clip(self._author(), AUDIT_BY_MAX_BYTES),
            origin=clip(user_here(), AUDIT_BY_MAX_BYTES),
            what=write.what,
            op=write.op,
            before="",
            name=write.name,
            uid=write.uid,
            revision=write.revision,
            detail=clip(write.detail, DETAIL_MAX_BYTES),
            late=late,
        )
        line, sha256 = self._stored(line)
        if self._syslog_at is not None:
            said = {**json.loads(encode(line)), **({"sha256": sha256} if sha256 else {})}
            try:
                syslog.send(self._syslog_at, f"audit {json.dumps(said, sort_keys=True)}")
            except SupervisorError as error:
                self._warn(f"syslog has no line of this: {error}")

    def _stored(self, line: AuditLine) -> tuple[AuditLine, str]:
        """Returns the line as it is stored, and its SHA-256, which is empty if it is not. A store that did not answer once
        is not waited for again by the same command."""
        if self._log is None:
            return line, ""
        try:
            if self._silent is not None:
                raise self._silent
            return self._log.append(line)
        except SupervisorError as error:
            if self._required and not line.late:
                raise Unreachable(
                    f"nothing was done: audit.required is set, and the audit can't be written ({error})",
                    "repair the store; what stops a job goes on without it",
                ) from None
            if self._silent is None:
                self._warn(f"the audit in the store has no line of this: {error}")
            self._silent = error
            return line, ""


NO_AUDIT: Final = Auditor()
"""Is for whoever acts for nobody: it writes nothing."""
