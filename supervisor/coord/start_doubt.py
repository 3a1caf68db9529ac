"""Finds out why an agent must not start what is assigned to it, though no leader holds it back (I10).

``daemon.process.assemble`` makes it for ``daemon.host.agent``, which asks it before each start. An entry of a
restored registry looks like any other, and the agent may see it before a leader has found out anything; so
the agent judges for itself, by what this host remembers and by the epochs in the store. What the leader
publishes of its own distrust is a hint that comes on top. This module never writes anything.
"""

from __future__ import annotations

from supervisor.coord.election import election_view, recent_terms
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.trust import RegistryEvidence, Trust, judge_epochs
from supervisor.model.transaction import Node
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession


class StartDoubt:
    """Judges the entries of one agent; it may be called from any thread. ``own`` says why what this
    supervisor remembers speaks against the registry, or is None."""

    def __init__(self, layout: Layout, trust: Trust, store: EpochMarks) -> None:
        self._layout = layout
        self._trust = trust
        self._store = store
        self._cleared: tuple[int, int] | None = None

    @property
    def own(self) -> str | None:
        return self._trust.reason

    def of(self, zoo: ZkSession, assigned_zxid: int) -> str | None:
        """Returns why the entry that was created at the zxid ``assigned_zxid`` must not be started now, or
        None.

        Raises Unreachable or AccessDenied, also when the store can't be asked: it could not give the spec
        either. Raises Corrupt if the newest mark there is unreadable.
        """
        # taken first: the contender reads and remembers meanwhile
        layout, before = self._layout, self._trust.memory
        zoo.sync()
        nodes = zoo.read_many(
            (layout.leader, layout.epoch, layout.cluster, layout.accepted, layout.doorbell)
        ).nodes
        leader, epoch, cluster, accepted, doorbell = nodes
        doubt = self._trust.doubt(
            layout, RegistryEvidence(cluster, accepted, doorbell, zoo.last_zxid), before
        )
        if doubt is not None:
            return doubt
        if accepted is not None and assigned_zxid < accepted.stat.czxid:
            return "it was assigned before the restored registry was accepted; the leader takes it back"
        seen = election_view(layout, leader, epoch)
        if seen.hint is not None and seen.hint.distrust is not None:
            return f"the leader {seen.hint.supervisor} does not trust the registry: {seen.hint.distrust}"
        if seen.flaw is not None or epoch is None:
            return seen.flaw
        term = (epoch.stat.version, epoch.stat.mzxid)
        if term != self._cleared:  # once per term: the store is not asked at each start
            doubt = judge_epochs(self._store, seen.epoch.epoch, recent_terms(seen.epoch))
            self._cleared = term if doubt is None else None
            if doubt is not None and self._has_moved(zoo, epoch):
                return "somebody was just elected: this is looked at again"
        return doubt

    def _has_moved(self, zoo: ZkSession, epoch: Node) -> bool:
        """Says whether /epoch has changed since ``epoch`` was read. An election while the store was asked
        looks like a restore; it is judged anew in the next round."""
        now = zoo.read_many((self._layout.epoch,)).nodes[0]
        return now is not None and now.stat.mzxid != epoch.stat.mzxid
