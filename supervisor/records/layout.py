"""Spells the paths of the znodes (protocol §4). It is the only place that does.

It is pure string work, stdlib only: a shim imports it. ``LAYOUT_VERSION`` is in /version; a process that does
not know the version it finds there refuses to write.
"""

from __future__ import annotations

from dataclasses import dataclass

LAYOUT_VERSION = 1
ATTEMPT_DIGITS_MAX = 15


@dataclass(frozen=True, slots=True)
class Layout:
    """Spells all paths of one cluster. ``root`` is absolute, without a trailing slash, e.g.
    ``/spark-supervisor/prod``."""

    root: str

    @property
    def version(self) -> str:
        return f"{self.root}/version"

    @property
    def cluster(self) -> str:
        return f"{self.root}/cluster"

    @property
    def epoch(self) -> str:
        return f"{self.root}/epoch"

    @property
    def recorded(self) -> str:
        return f"{self.root}/recorded"

    @property
    def leader(self) -> str:
        return f"{self.root}/leader"

    @property
    def accepted(self) -> str:
        return f"{self.root}/accepted"

    @property
    def doorbell(self) -> str:
        return f"{self.root}/doorbell"

    @property
    def pause(self) -> str:
        return f"{self.root}/pause"

    @property
    def switchover(self) -> str:
        return f"{self.root}/switchover"

    @property
    def audit(self) -> str:
        return f"{self.root}/audit"

    @property
    def hosts(self) -> str:
        return f"{self.root}/hosts"

    @property
    def supervisors(self) -> str:
        return f"{self.root}/supervisors"

    @property
    def jobs(self) -> str:
        return f"{self.root}/jobs"

    @property
    def owns(self) -> str:
        return f"{self.root}/own"

    @property
    def assigned(self) -> str:
        return f"{self.root}/assigned"

    @property
    def preparations(self) -> str:
        return f"{self.root}/prepare"

    @property
    def leases(self) -> str:
        return f"{self.root}/lease"

    @property
    def lives(self) -> str:
        return f"{self.root}/live"

    @property
    def results(self) -> str:
        return f"{self.root}/results"

    @property
    def revisions(self) -> str:
        return f"{self.root}/revisions"

    @property
    def notifications(self) -> str:
        return f"{self.root}/notifications"

    @property
    def checkpoints(self) -> str:
        return f"{self.root}/checkpoints"

    def supervisor(self, supervisor_id: str) -> str:
        return f"{self.supervisors}/{supervisor_id}"

    def host(self, supervisor_id: str) -> str:
        return f"{self.hosts}/{supervisor_id}"

    def job(self, name: str) -> str:
        return f"{self.jobs}/{name}"

    def own(self, name: str) -> str:
        return f"{self.owns}/{name}"

    def assigned_to(self, supervisor_id: str) -> str:
        return f"{self.assigned}/{supervisor_id}"

    def assignment(self, supervisor_id: str, uid: str, attempt: int) -> str:
        return f"{self.assigned}/{supervisor_id}/{uid}.{attempt}"

    def preparations_of(self, supervisor_id: str) -> str:
        return f"{self.preparations}/{supervisor_id}"

    def preparation(self, supervisor_id: str, uid: str, revision: int) -> str:
        return f"{self.preparations}/{supervisor_id}/{request_name(uid, revision)}"

    def lease(self, name: str) -> str:
        return f"{self.leases}/{name}"

    def live(self, uid: str, attempt: int) -> str:
        return f"{self.lives}/{uid}.{attempt}"

    def result(self, uid: str) -> str:
        return f"{self.results}/{uid}"

    def revisions_of(self, uid: str) -> str:
        return f"{self.revisions}/{uid}"

    def notifications_of(self, uid: str) -> str:
        return f"{self.notifications}/{uid}"

    def checkpoint(self, digest: str) -> str:
        return f"{self.checkpoints}/{digest}"

    def persistent_parents(self) -> tuple[str, ...]:
        """Returns the znodes that are created once, when the cluster is founded, parents first."""
        return (
            self.supervisors,
            self.jobs,
            self.owns,
            self.assigned,
            self.preparations,
            self.leases,
            self.lives,
            self.results,
            self.revisions,
            self.checkpoints,
        )

    def lasting_parents(self) -> tuple[str, ...]:
        """Returns those of ``persistent_parents`` below which is what nobody can write again once it is
        lost."""
        return (self.jobs, self.owns, self.results, self.checkpoints)


def about_key(key: str) -> dict[str, str | int]:
    """Returns ``<uid>.<attempt>`` as fields of a line of the log. Never raises."""
    uid, _, attempt = key.rpartition(".")
    return {"uid": uid, "attempt": int(attempt) if is_attempt(key) else attempt}


def is_attempt(key: str) -> bool:
    """Says whether ``key`` is ``<uid>.<attempt>``, and not something that somebody made by hand."""
    uid, _, attempt = key.rpartition(".")
    return bool(uid) and len(attempt) <= ATTEMPT_DIGITS_MAX and attempt.isascii() and attempt.isdigit()


PREPARED_MARK = "p"


def request_name(uid: str, revision: int) -> str:
    """Returns the name of the request for a prepared driver, below the host that it is made to."""
    return f"{uid}.{revision}"


def is_prepared(key: str) -> bool:
    """Says whether ``key`` is ``<uid>.p<random>``, the name of the run directory of a driver that was prepared."""
    uid, _, rest = key.rpartition(".")
    return (
        bool(uid) and len(rest) > 1 and rest.startswith(PREPARED_MARK) and rest.isascii() and rest.isalnum()
    )


def split_attempt(key: str) -> tuple[str, int]:
    """Returns (uid, attempt) of ``<uid>.<attempt>``. Raises ValueError for anything else."""
    uid, _, attempt = key.rpartition(".")
    if not is_attempt(key):
        raise ValueError(f"{key!r} is not <uid>.<attempt>")
    return uid, int(attempt)
