"""Judges whether this registry may be acted upon (I10): not if it is empty, another one, or was restored to
an older state.

``coord.contender`` asks ``Trust`` at every reading of the election and at the start of every term, and has
the term's recorder call ``record_epoch``; the agent asks before each start (``Trust.doubt``,
``judge_epochs``); and ``accept-registry`` asks it, too. An untrusted registry is led, so that somebody says
why, but nothing is started, stopped or cleaned there.

The witnesses are outside ZooKeeper:

* the id of the cluster that this process was started for;
* the epochs in the store, by author, not only by number: every election on a restored registry makes its
  epoch grow, so that it would catch up with a mere number and the alarm would fall silent;
* what each supervisor keeps in ``<runtime_dir>/zxid``: the last zxid, and the version and mzxid of /doorbell.
  The zxid alone is weak: servers that come up with restored data begin a new ZooKeeper epoch, so it may be
  *higher* than it was. But every multi that changes what runs, or is to run, sets the doorbell, too (renewals,
  sweeps and the steps of a deletion of a checkpoint do not). If the doorbell is as it was, no such change was
  lost, and what else was lost is found and done again; if its version and mzxid do not continue those that
  are remembered, the registry is another one.

Distrust stays, over restarts too, until an operator accepts the registry with ``accept-registry``. (Where no
supervisor remembers its distrust, but only the store shows it, a newer state that is restored ends it, too.)

An acceptance is a record with a number n and an id. First the store gets a mark under n, create-only; then
one multi writes /accepted and makes n the epoch of the registry. It follows:

(1) *If a registry knows an acceptance, the store knows it.* The next acceptance takes a number above
    everything in the store, so numbers of acceptances grow along real time, whatever ZooKeeper was restored
    to in between. The store itself is never restored: that is the assumption behind every check of epochs.
(2) *It is believed once.* A supervisor believes an acceptance only if its number is above the last that the
    supervisor has recorded; the new number is on its disk before it trusts. Then what it remembered of the lost
    state counts for nothing, and it remembers this state instead. An acceptance of the same number or a lower
    one changes nothing, ever again.
(3) *A second restore may lead to a state before the acceptance.* A supervisor that has recorded the acceptance
    sees a registry without it (or with an older one), and distrusts. For one that was down and has not recorded
    it, the mark n in the store is above the epoch there, or is not among the terms that the registry
    remembers, or has another author: as leader it distrusts, and publishes that to all.
(4) *A second restore may lead to a state after the acceptance.* Its number is not above the one recorded, so (2)
    does not apply, and the witnesses are the same as before any acceptance: the doorbell and the zxid in the
    memory of every supervisor that was up, and every term in the store that began since the snapshot. The
    acceptance excuses none of these: they were remembered, or recorded, after it.
(5) *A crash of the command* after the mark and before the multi leaves a mark above the registry's epoch: the
    registry is distrusted as before, and is accepted by calling the command again, under a higher number. A
    mark that is put late by a request thought lost can't take a number that was used: it is create-only.

A supervisor that was down all the time, or has lost its disk, or did not read the registry after the snapshot
was made, judges by the store alone, and a restore within one and the same term does not show there. So every
supervisor that *remembers* another past, leading or not, leaves a mark in the store, under the next free
number (``mark_restored``): it stands for a term that no registry knows of, and every later leader and every
host finds it, whichever supervisors are left. An acceptance takes a number above that as above all others. A
number is taken once, and only by a supervisor that has just found that the store knows nothing above the
registry as it was read; so a mark never undoes an acceptance that came in between, also if its request is
late.

One case can't be detected: a restore within one term that nobody had noticed before the next leader recorded
its term. If a supervisor notices it then, the terms after that one obey its mark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supervisor.coord.election import Author
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.errors import Conflict, Corrupt, Unreachable, is_passing
from supervisor.model.records import Acceptance, Cluster
from supervisor.model.transaction import Node
from supervisor.records.codec import decode
from supervisor.records.layout import Layout

REMEDY = "restore the newest state that there is, then accept it with spark-supervisor accept-registry"


# -- the epochs in the store --------------------------------------------------------------------------------------


def record_epoch(
    store: EpochMarks,
    epoch: int,
    recent: Mapping[int, Author],
    announce: Callable[[int | None], None] | None = None,
) -> str | None:
    """Records this term, unless the store knows of terms that this registry does not. Returns the reason of
    distrust, or None.

    ``recent`` holds the latest terms by the registry's own account, ``epoch`` included. ``announce`` is
    called with the newest epoch in the store, and publishes in the registry that this term is about to be
    recorded: the registry must know before the store does (``election.publish_recording``). The call is
    idempotent.
    """
    newest = store.newest_epoch_above(0)
    unknown = _unknown(newest, epoch, recent)
    if unknown is not None:
        return unknown
    if newest is not None and newest < epoch and not _recorded(store, newest, recent[newest]):
        return _other(newest)
    if newest != epoch and announce is not None:
        announce(newest)
    return None if _recorded(store, epoch, recent[epoch]) else _other(epoch)


def judge_epochs(store: EpochMarks, epoch: int, recent: Mapping[int, Author]) -> str | None:
    """Returns why the store's epochs speak against a registry at ``epoch``, or None. Writes nothing.

    The caller reads /epoch *after* whatever the judgement is about, and judges anew if /epoch moves: an
    election meanwhile looks like doubt. Raises Corrupt if the newest mark is unreadable.
    """
    newest = store.newest_epoch_above(0)
    unknown = _unknown(newest, epoch, recent)
    if unknown is not None or newest is None:
        return unknown
    mark = store.read_epoch(newest)
    if mark is not None and newest in recent and Author(mark.supervisor, mark.op) != recent[newest]:
        return _other(newest)
    return None


def mark_restored(store: EpochMarks, epoch: int, recent: Mapping[int, Author], by: Author) -> None:
    """Makes the store speak against this registry, which is at ``epoch`` now, for good: until it is accepted.
    It is idempotent. A newest mark that is unreadable says nothing: this one is made above it, so that no later
    leader reads that one as the newest.

    Raises Conflict when the number was taken meanwhile; the caller then tries again, from a new judgement.
    """
    try:
        doubt = judge_epochs(store, epoch, recent)
    except Corrupt:
        doubt = None
    if doubt is None:
        store.record_epoch(max(epoch, store.newest_epoch_above(0) or 0) + 1, by.supervisor, by.op)


def _unknown(newest: int | None, epoch: int, recent: Mapping[int, Author]) -> str | None:
    if newest is None or newest == epoch:
        return None
    if newest > epoch:
        return (
            f"the store knows epoch {newest} and this registry is at {epoch}: ZooKeeper was restored to an older "
            f"state, or this store belongs to another registry; {REMEDY}"
        )
    if newest not in recent:
        return (
            f"this registry does not remember epoch {newest}, the newest in the store: ZooKeeper was restored to "
            f"an older state and led since; {REMEDY}"
        )
    return None


def _recorded(store: EpochMarks, epoch: int, author: Author) -> bool:
    try:
        store.record_epoch(epoch, author.supervisor, author.op)
    except Conflict:
        return False
    return True


def _other(epoch: int) -> str:
    return (
        f"epoch {epoch} in the store was led by another term than here: "
        f"ZooKeeper was restored to an older state; {REMEDY}"
    )


# -- what a supervisor remembers ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegistryEvidence:
    """Holds one reading of the registry, made after a ``sync``. It has the nodes, and the last zxid that the
    client has seen by then."""

    cluster: Node | None
    accepted: Node | None
    doorbell: Node | None
    zxid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Holds what is kept of ZooKeeper. ``doorbell_version`` and ``doorbell_mzxid`` are the version and the
    mzxid of /doorbell, or -1 if it was never seen.

    ``last_accepted`` is the number of the latest acceptance that was recorded. It is 0 if none was, and None if it is
    not known any more, since the file could not be read. ``last_accepted_id`` is the id of that acceptance.
    ``reason`` says why the registry is not trusted, or is None. ``restored`` is True if that is because it
    has another past, and not for want of something to judge by.
    """

    zxid: int = 0
    doorbell_version: int = -1
    doorbell_mzxid: int = -1
    last_accepted: int | None = 0
    last_accepted_id: str = ""
    reason: str | None = None
    restored: bool = False


class Trust:
    """Keeps what this supervisor remembers of its ZooKeeper over restarts, in one small file.

    ``path`` is ``<runtime_dir>/zxid``. ``cluster_id`` is the id of the cluster that was founded or checked at
    start; what the file says of another cluster counts for nothing. The constructor raises Unreachable when
    the file can't be read just now. ``judge`` and ``remember`` are for one thread, the rest is for any.
    """

    def __init__(self, path: Path, cluster_id: str) -> None:
        self._path = path
        self._cluster_id = cluster_id
        self._memory = _load(path, cluster_id)

    @property
    def zxid(self) -> int:
        """Returns the highest zxid that was ever seen, as far as it is on disk."""
        return self._memory.zxid

    @property
    def reason(self) -> str | None:
        """Returns why the registry is not trusted, or None. Once it is set it stays until a newer acceptance
        is seen."""
        return self._memory.reason

    @property
    def restored(self) -> bool:
        """Says whether the registry is not trusted because it has another past than this supervisor
        remembers."""
        return self._memory.restored and self._memory.reason is not None

    def judge(self, layout: Layout, evidence: RegistryEvidence) -> str | None:
        """Judges one reading, and remembers it. Returns ``reason``.

        Raises OSError when what must be remembered can't be kept: a distrust stands all the same, and an
        acceptance that could not be recorded is not believed.
        """
        judged = self._judged(layout, evidence)
        if self._is_news(judged):
            try:
                self._save(judged)
            except OSError as error:
                self._memory = replace(
                    self._memory, reason=self.reason or f"{self._path} can't be written ({error})"
                )
                raise
        elif judged.reason != self._memory.reason:
            self._memory = judged
            self._save(judged)
        self._memory = judged
        return judged.reason

    @property
    def memory(self) -> Memory:
        """Returns what is remembered now. A caller that passes it to ``doubt`` takes it before its
        reading."""
        return self._memory

    def doubt(self, layout: Layout, evidence: RegistryEvidence, before: Memory | None = None) -> str | None:
        """Returns why nothing may rest on this reading, or None. Remembers nothing.

        ``before`` is the memory from before the reading, or None for the present one. The thread that judges
        may have seen a newer state meanwhile, and next to that state a correct reading looks like an old one.
        """
        judged = self._judged(layout, evidence, before)
        if judged.reason is None and self._is_news(judged):
            return "this registry was accepted a moment ago, and this supervisor has not taken note of it yet"
        return self.reason or judged.reason

    def remember(self, zxid: int) -> None:
        """Keeps the highest zxid, atomically. Raises OSError, which need not disturb a running term."""
        if self.reason is None and zxid > self._memory.zxid:
            self._memory = replace(self._memory, zxid=zxid)
            self._save(self._memory)

    def _is_news(self, judged: Memory) -> bool:
        return (judged.last_accepted, judged.last_accepted_id) != (
            self._memory.last_accepted,
            self._memory.last_accepted_id,
        )

    def _judged(self, layout: Layout, seen: RegistryEvidence, before: Memory | None = None) -> Memory:
        known = self._memory if before is None else before
        strange = _strange_cluster(layout.cluster, seen.cluster, self._cluster_id)
        if strange is not None:
            return replace(known, reason=known.reason or strange)
        try:
            accepted = (
                decode(Acceptance, seen.accepted.data, layout.accepted) if seen.accepted is not None else None
            )
        except Corrupt as error:
            return replace(known, reason=known.reason or f"{error}; {REMEDY}")
        return _weighed(known, seen, accepted, layout)

    def _save(self, memory: Memory) -> None:
        draft = self._path.with_name(self._path.name + ".new")
        body: dict[str, Any] = {
            "v": 1,
            "cluster": self._cluster_id,
            "zxid": memory.zxid,
            "distrust": memory.reason,
            "rings": memory.doorbell_version,
            "rung": memory.doorbell_mzxid,
            "accepted": memory.last_accepted,
            "accepted_id": memory.last_accepted_id,
            "restored": memory.restored,
        }
        with draft.open("w") as file:
            file.write(json.dumps(body) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)


def _strange_cluster(path: str, cluster: Node | None, expected_id: str) -> str | None:
    if cluster is None:
        return f"{path} is missing: ZooKeeper has lost its data; restore it, then run spark-supervisor accept-registry"
    try:
        found = decode(Cluster, cluster.data, path)
    except Corrupt as error:
        return f"{error}; restore it, then run spark-supervisor accept-registry"
    if found.id != expected_id:
        return (
            f"{path} is of cluster {found.id}, this supervisor was started for {expected_id}: restart it if that is meant, "
            "else restore ZooKeeper and run spark-supervisor accept-registry"
        )
    return None


def _weighed(known: Memory, seen: RegistryEvidence, accepted: Acceptance | None, layout: Layout) -> Memory:
    """Applies (2), (3) and (4) of the module's docstring, in this order."""
    newest, its_id = (accepted.epoch, accepted.id) if accepted is not None else (0, "")
    if known.last_accepted is None:
        # whether it was believed before can't be found out any more
        return replace(known, last_accepted=newest, last_accepted_id=its_id)
    if newest > known.last_accepted:
        return _with_doorbell(
            Memory(zxid=seen.zxid, last_accepted=newest, last_accepted_id=its_id), seen.doorbell
        )
    if known.reason is not None:
        return known
    if (newest, its_id) != (known.last_accepted, known.last_accepted_id):
        why = f"this registry does not know that it was accepted as epoch {known.last_accepted}: it was restored once more"
    elif seen.zxid < known.zxid:
        why = f"ZooKeeper is at zxid {seen.zxid:#x}, and was at {known.zxid:#x} before: it was restored to an older state"
    elif _has_other_past(known, seen.doorbell):
        version = seen.doorbell.stat.version if seen.doorbell is not None else "nothing"
        why = (
            f"{layout.doorbell} is at {version}, and was at {known.doorbell_version} before, in another past: "
            "ZooKeeper was restored to an older state"
        )
    else:
        return _with_doorbell(known, seen.doorbell)
    return replace(known, reason=f"{why}; {REMEDY}", restored=True)


def _has_other_past(known: Memory, doorbell: Node | None) -> bool:
    """Says whether the doorbell does not continue the past that is known: version and mzxid only grow, and
    grow together."""
    if known.doorbell_version < 0:
        return False
    if doorbell is None:
        return True
    version, mzxid = doorbell.stat.version, doorbell.stat.mzxid
    same = version == known.doorbell_version and mzxid == known.doorbell_mzxid
    return not same and not (version > known.doorbell_version and mzxid > known.doorbell_mzxid)


def _with_doorbell(memory: Memory, doorbell: Node | None) -> Memory:
    return (
        memory
        if doorbell is None
        else replace(memory, doorbell_version=doorbell.stat.version, doorbell_mzxid=doorbell.stat.mzxid)
    )


def _load(path: Path, cluster_id: str) -> Memory:
    """Returns what the file says. A file that is there and can't be read does not count as a missing one.
    Raises Unreachable if it can't be read just now."""
    try:
        known = json.loads(path.read_text())
        if known["cluster"] != cluster_id:
            return Memory()
        reason = known["distrust"]
        if not isinstance(reason, str | None):
            raise TypeError("distrust is no text")
        return Memory(
            zxid=int(known["zxid"]),
            doorbell_version=int(known.get("rings", -1)),
            doorbell_mzxid=int(known.get("rung", -1)),
            last_accepted=int(known.get("accepted") or 0),
            last_accepted_id=str(known.get("accepted_id", "")),
            reason=reason,
            restored=bool(known.get("restored", False)),
        )
    except FileNotFoundError:
        return Memory()
    except (OSError, ValueError, KeyError, TypeError) as error:
        if is_passing(error):
            raise Unreachable(
                f"{path}, which says how far ZooKeeper was, can't be read now: {error}"
            ) from None
        return Memory(
            last_accepted=None,
            reason=(
                f"{path}, which says how far ZooKeeper was, can't be read ({error}); "
                "remove it if nothing was restored, else run spark-supervisor accept-registry"
            ),
        )
