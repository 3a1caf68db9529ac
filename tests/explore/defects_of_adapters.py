"""The adapters of the pure state machines, which report events to them and carry out their effects: each defect
is an event that is reported wrong, or left out.

The explorer takes the place of the adapters, so it sees none of it; what fails is a test of the adapter as it is.
"""

from __future__ import annotations

from supervisor.clients import companion, processes, run_dir, second_killer
from supervisor.clients.containment import CgroupContainment, ScanContainment
from supervisor.clients.kazoo_connection import Connection
from supervisor.clients.run_dir import DeadlineFile
from supervisor.clients.sessions import KeptSession
from supervisor.clients.threads import BackgroundThread
from supervisor.clients.zookeeper_session import Reply, SessionLink
from supervisor.coord import epoch_recorder
from supervisor.coord.contender import Contender
from supervisor.daemon.host import drain_host, hosted_attempts
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.guardian import Guardian
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.leader.leader import Leader
from supervisor.daemon.leader.remover import Remover
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.shim import link, starter, twin
from supervisor.shim.children import Children
from supervisor.shim.link import RegistryLink
from supervisor.shim.output import RotatedFile
from supervisor.shim.reports import ReportSocket
from supervisor.shim.runner import Runner
from tests.explore.planting import text

KILLERS = "§7.4: three killers, any one suffices"
IN_TIME = "§7.7: whatever it waits for, it looks at the clock again within p, for waits stand still while the host sleeps"
EMPTY = "§7.4: dead means empty, and without proof nothing is said to be"
BEFORE_EXEC = "§7.1: the deadline is checked once more just before exec"
UNKNOWN = "§5: a write whose outcome is unknown is settled by reading back"
SENT = "§7: a deadline counts from the sending of what was answered"
LATEST = "§7.3: /own is watched, and read after a sync"
ONE_SESSION = "§3: a session that is lost is lost for good, and nothing of an older one is heard"
TERM = "§6: a term is over by its own deadline, and its tasks before the next one begins"

_AT = "Now(boottime_s(), wall_s())"

RUNNER = (
    text(
        "runner-waits-as-long-as-it-likes",
        IN_TIME,
        (Runner._wait, "min(SECOND_KILLER_PERIOD_S, wanted_s)", "wanted_s"),
    ),
    text(
        "runner-tells-what-is-not-proven-empty",
        EMPTY,
        (Runner._kill, "is Emptiness.EMPTY", "is not Emptiness.POPULATED"),
    ),
    text(
        "runner-tells-no-exit-after-a-kill",
        EMPTY,
        (Runner._kill, "[*self._exit(), shim.TreeSeen(", "[shim.TreeSeen("),
    ),
    text(
        "starter-that-died-waiting-told-as-executed",
        BEFORE_EXEC,
        (Runner._hear_starter, "if not self._released:", "if False:"),
    ),
    text(
        "refused-exec-told-as-executed",
        BEFORE_EXEC,
        (Runner._hear_starter, "if refusal is None:", "if True:"),
    ),
    text(
        "starter-that-is-gone-is-not-told",
        BEFORE_EXEC,
        (Runner._exec, 'return [shim.ExecFailed(f"the starter is gone: {error}", False)]', "pass"),
    ),
    text(
        "starter-is-let-go-for-ever",
        BEFORE_EXEC,
        (
            Runner._exec,
            "release(self._parts.starter, before_at_s)",
            "release(self._parts.starter, float('inf'))",
        ),
    ),
    text(
        "runner-does-not-hear-the-last-words",
        BEFORE_EXEC,
        (Runner._exit, "while not self._heard:", "while False:"),
    ),
    text(
        "effects-take-no-time",
        IN_TIME,
        (Runner._feed, "events = deque((event,))", f"events, at = deque((event,)), {_AT}"),
        (Runner._feed, f"step(before, events.popleft(), {_AT})", "step(before, events.popleft(), at)"),
    ),
    text(
        "no-tick-beside-other-events",
        IN_TIME,
        (Runner._happened, "events.append(shim.Tick())", "events or events.append(shim.Tick())"),
    ),
    text(
        "reports-are-taken-without-end",
        IN_TIME,
        (ReportSocket.take, "for _ in range(min(TAKEN_AT_ONCE, self._allowed())):", "while True:"),
    ),
    text(
        "word-of-the-gate-is-not-told",
        "I4: what an exit is charged to is what ended it",
        (Runner._refused, "if launch.is_held else None", "if False else None"),
    ),
    text(
        "unheard-order-told-as-heard",
        "§7.3: an orderly stop climbs to the next rung",
        (ReportSocket.order, "return False", "return True"),
    ),
)

STARTER = (
    text(
        "starter-does-not-look-itself",
        BEFORE_EXEC,
        (starter._may_start, "return boottime_s() < float(word)", "return True"),
    ),
    text(
        "starter-executes-without-a-word",
        BEFORE_EXEC,
        (
            starter._be_starter,
            'if not word.endswith(b"\\n"):\n            os._exit(0)',
            'word = word or b"inf"',
        ),
    ),
    text("starter-is-born-outside", EMPTY, (starter._be_starter, "tree.enter()", "pass")),
    text(
        "starter-that-is-not-inside-waits",
        EMPTY,
        (starter.fork_starter, 'if first_answer != b"ready\\n":', "if False:"),
    ),
)

TWIN = (
    text(
        "twin-reads-the-deadline-once",
        KILLERS,
        (twin.watch, "killer = SecondKiller()", "killer, once = SecondKiller(), _probe(False, deadline)"),
        (twin.watch, "_probe(dead, deadline)", "once._replace(shim_dead=dead)"),
    ),
    text(
        "twin-takes-the-living-for-dead",
        KILLERS,
        (twin.watch, "dead = processes.wait_dead(", "dead = not processes.wait_dead("),
    ),
    text(
        "twin-sleeps-until-the-deadline",
        IN_TIME,
        (
            twin._pause_s,
            "min(SECOND_KILLER_PERIOD_S, max(0.0, at_s - boottime_s()))",
            "max(0.0, at_s - boottime_s())",
        ),
    ),
    text("twin-strikes-once", EMPTY, (twin.watch, "while killer.act is not Act.OVER:", "for _ in range(2):")),
    text("twin-ends-with-a-hint", KILLERS, (twin._be_twin, "signal.signal(number, signal.SIG_IGN)", "pass")),
    text("twin-dies-with-its-group", KILLERS, (twin.fork_twin, "os.setsid()", "pass")),
    text("shim-begins-without-a-twin", KILLERS, (twin.fork_twin, "if not pid:", "if False:")),
    text(
        "shim-is-dead-when-struck",
        "§7.4: SIGKILL the shim, wait for its death, kill the tree",
        (second_killer.strike, "or processes.wait_dead(shim, timeout_s)", "or True"),
    ),
    text(
        "shim-is-alive-when-seen-dead",
        "§7.4: SIGKILL the shim, wait for its death, kill the tree",
        (
            second_killer.strike,
            "or processes.wait_dead(shim, timeout_s)",
            "or not processes.wait_dead(shim, timeout_s)",
        ),
    ),
    text("shim-is-asked-to-end", KILLERS, (second_killer.strike, "signal.SIGKILL", "signal.SIGTERM")),
    text(
        "tree-that-was-struck-is-empty",
        EMPTY,
        (
            second_killer.strike,
            "TreeStruck(took_s, tree.emptiness())",
            "TreeStruck(took_s, type(tree.emptiness()).EMPTY)",
        ),
    ),
    text(
        "tree-is-looked-at-before-the-blow",
        EMPTY,
        (
            second_killer.strike,
            "took_s = tree.kill(timeout_s)\n    return TreeStruck(took_s, tree.emptiness())",
            "before = tree.emptiness()\n    return TreeStruck(tree.kill(timeout_s), before)",
        ),
    ),
)

LINK = (
    text("reads-without-a-sync", LATEST, (RegistryLink._read, "self._client.sync()", "pass")),
    text(
        "deadline-counts-from-the-answer",
        SENT,
        (RegistryLink._commit, "done.sent_at_s", "__import__('supervisor.clock').clock.boottime_s()"),
    ),
    text(
        "claim-goes-out-on-any-connection",
        "I10: a claim is asked for on the first connection only",
        (RegistryLink._do, "FIRST_CONNECTION if first else None", "None"),
    ),
    text(
        "unknown-outcome-told-as-not-sent",
        UNKNOWN,
        (
            RegistryLink._commit,
            "return shim.WriteOutcomeUnknown(transaction.id)",
            "return shim.WriteNotSent(transaction.id)",
        ),
    ),
    text(
        "defect-in-a-write-told-as-not-sent",
        UNKNOWN,
        (
            link._failure,
            "return shim.WriteOutcomeUnknown(transaction.id)",
            "return shim.WriteNotSent(transaction.id)",
        ),
    ),
    text(
        "request-is-left-without-an-answer",
        UNKNOWN,
        (RegistryLink._work, "self._post_event(_failure(request))", "pass"),
    ),
    text(
        "fence-is-the-version-of-another-record",
        "§7.3: a renewal checks /own at the version of the fence",
        (RegistryLink._commit, "isinstance(op, SetData) and op.path == own_path", "isinstance(op, SetData)"),
    ),
    text(
        "older-client-is-heard",
        ONE_SESSION,
        (RegistryLink._on_link, "if generation != self._generation:", "if False:"),
    ),
    text("older-client-stays-open", ONE_SESSION, (RegistryLink._do, "old.close(0.5)", "pass")),
    text(
        "lost-session-told-as-suspended",
        ONE_SESSION,
        (
            RegistryLink._on_link,
            "if link is Link.SUSPENDED else shim.SessionLost()",
            "if True else shim.SessionLost()",
        ),
    ),
    text(
        "session-told-closed-that-was-not",
        UNKNOWN,
        (
            RegistryLink._close_session,
            "except SupervisorError:\n        return shim.CloseFailed()",
            "except SupervisorError:\n        pass",
        ),
    ),
    text(
        "session-told-closed-that-nobody-can-close",
        UNKNOWN,
        (
            RegistryLink._close_session,
            "if password is None:\n        return shim.CloseFailed()",
            "if password is None:\n        return shim.SessionClosed()",
        ),
    ),
    text(
        "newest-session-can-not-be-closed",
        UNKNOWN,
        (RegistryLink._on_link, "[:-_SESSIONS_KEPT]", "[_SESSIONS_KEPT:]"),
    ),
    text(
        "failed-read-told-as-absent",
        "§7.3: what cannot be read says nothing",
        (RegistryLink._read, "return shim.ReadFailed(token)", "return shim.OwnRead(token, None, None, None)"),
    ),
    text(
        "unreadable-told-as-absent",
        "§7.3: what cannot be read says nothing",
        (link._ownership, "return Unreadable(str(error), node.stat.version, node.stat.mzxid)", "return None"),
    ),
)

TREES = (
    text("scan-does-not-look-again", EMPTY, (ScanContainment.kill, "while clean < 2:", "while clean < 1:")),
    text(
        "scan-from-outside-proves",
        EMPTY,
        (ScanContainment.emptiness, "return Emptiness.UNPROVABLE", "return Emptiness.EMPTY"),
    ),
    text(
        "scan-proves-while-children-live",
        EMPTY,
        (ScanContainment.emptiness, "if self._childless() else", "if not self._childless() else"),
    ),
    text("scan-overlooks-descendants", EMPTY, (ScanContainment._tree, "while grown:", "while False:")),
    text(
        "scan-overlooks-orphans",
        EMPTY,
        (
            ScanContainment._belongs,
            "if self._childless is not None and found.ppid == os.getpid():",
            "if False:",
        ),
    ),
    text(
        "scan-believes-a-root-of-another-boot",
        "§7.4: no signal ever reaches a stranger",
        (ScanContainment._in_session, "root is None or root.boot_id != self._boot_id", "root is None"),
    ),
    text(
        "scan-believes-a-reused-number",
        "§7.4: no signal ever reaches a stranger",
        (
            ScanContainment._in_session,
            "leader is None or leader.start_ticks != root.start_ticks",
            "leader is None",
        ),
    ),
    text(
        "childless-while-children-live",
        EMPTY,
        (Children.reap, "if pid == 0:\n            return False", "if pid == 0:\n            return True"),
    ),
    text(
        "group-is-killed-once",
        EMPTY,
        (CgroupContainment.kill, "while self.emptiness() is Emptiness.POPULATED:", "for _ in (1,):"),
    ),
    text(
        "group-that-does-not-say-is-empty",
        EMPTY,
        (
            CgroupContainment.emptiness,
            "return Emptiness.EMPTY if gone else Emptiness.UNPROVABLE",
            "return Emptiness.EMPTY",
        ),
    ),
)

GUARDIAN = (
    text(
        "guardian-reads-a-torn-deadline-as-none",
        KILLERS,
        (Guardian._probe, "KillerProbe(dead, None, readable=False)", "KillerProbe(dead, None)"),
    ),
    text(
        "guardian-reads-the-deadline-once",
        KILLERS,
        (
            Guardian._probe,
            "return KillerProbe(dead, run_dir.read_deadline(watched.directory))",
            "watched.known = getattr(watched, 'known', None) or (run_dir.read_deadline(watched.directory),)\n"
            "        return KillerProbe(dead, watched.known[0])",
        ),
    ),
    text(
        "guardian-takes-a-zombie-for-alive",
        KILLERS,
        (
            Guardian._probe,
            "dead = watched.pidfd is None or processes.wait_dead(watched.pidfd, 0.0)",
            "dead = processes.identify(watched.guarded_attempt.shim.process.pid) is None",
        ),
    ),
    text(
        "guardian-sleeps-until-the-deadline",
        IN_TIME,
        (Guardian.tick, "min([SECOND_KILLER_PERIOD_S, ", "min([60.0, "),
    ),
    text(
        "failed-tombstone-told-as-written",
        "§5 exit: a tombstone is there when ZooKeeper says so",
        (Guardian._event, "if isinstance(answer, Committed):", "if not isinstance(answer, Reads):"),
    ),
    text(
        "answer-told-to-another-attempt",
        "§5 exit: only over this very claim",
        (
            Guardian._take_answers,
            "watched = self._watched.get(key)",
            "watched = next(iter(self._watched.values()), None)",
        ),
    ),
    text(
        "guardian-overlooks-the-group",
        EMPTY,
        (Guardian._tree, "if launch is not None and launch.cgroup is not None:", "if False:"),
    ),
    text(
        "guardian-proves-by-a-scan",
        EMPTY,
        (
            Guardian._tree,
            "return ScanContainment(shim.claim, root)",
            "return ScanContainment(shim.claim, root, lambda: True)",
        ),
    ),
    text(
        "guardian-believes-any-launch-file",
        "§5 exit: only over this very claim",
        (hosted_attempts.read_launch, 'if named != key or not key.startswith(f"{given.uid}."):', "if False:"),
    ),
)

SESSION = (
    text(
        "pending-request-told-as-not-sent",
        UNKNOWN,
        (SessionLink._drain, "outstanding = [(reply, True) for", "outstanding = [(reply, False) for"),
    ),
    text(
        "overdue-request-told-as-not-sent",
        UNKNOWN,
        (SessionLink.resolve_overdue, "Unanswered(reason, sent=True)", "Unanswered(reason, sent=False)"),
    ),
    text("senseless-reply-told-as-not-sent", UNKNOWN, (Reply.set_exception, "sent=True", "sent=False")),
    text(
        "request-goes-out-on-another-connection",
        ONE_SESSION,
        (SessionLink.submit, "if connection not in (None, self.connections):", "if False:"),
    ),
    text(
        "request-waits-for-a-connection",
        ONE_SESSION,
        (SessionLink.submit, "if self.link is not Link.CONNECTED or self._closing:", "if self._closing:"),
    ),
    text(
        "request-goes-out-after-its-time",
        UNKNOWN,
        (SessionLink.take_waiting, "reply.deadline_at_s > boottime_s()", "True"),
    ),
    text(
        "another-session-is-taken",
        ONE_SESSION,
        (
            SessionLink.granted,
            "if self._session_id and granted.session_id != connect.session_id:",
            "if False:",
        ),
    ),
    text(
        "lost-session-has-a-successor",
        ONE_SESSION,
        (SessionLink._enter, "self._stopped.set()", "pass"),
    ),
    text(
        "read-only-node-is-taken",
        "§3: nothing is read from a node without a quorum",
        (SessionLink._session_callback, "if state == KeeperState.CONNECTED_RO:", "if False:"),
    ),
    text(
        "watches-go-quietly-with-the-connection",
        "§7.3: /own is watched",
        (SessionLink._drain, "run_callback(watch)", "pass"),
    ),
    text("success-counts-from-the-answer", SENT, (SessionLink.answered, "reply.sent_at_s", "boottime_s()")),
    text(
        "success-counts-from-the-grant",
        SENT,
        (
            SessionLink.granted,
            "self.last_success_at_s, self.heard_at_s = asked_at_s, boottime_s()",
            "self.last_success_at_s = self.heard_at_s = boottime_s()",
        ),
    ),
    text(
        "abandoned-session-told-as-closed",
        ONE_SESSION,
        (SessionLink.close, "in_time = self._session_closed or", "in_time = True or"),
    ),
    text(
        "sent-after-sending",
        SENT,
        (
            Connection._send_request,
            "self._write(bytes(message), connect_timeout)",
            "self._write(bytes(message), connect_timeout)\n        for _, each, _ in self._owner._pending:\n            each.sent_at_s = boottime_s()",
        ),
    ),
    text(
        "pending-after-sending",
        UNKNOWN,
        (
            Connection._send_request,
            "self._owner._pending.append((request, reply, self._xid))",
            "later = [(request, reply, self._xid)]",
        ),
        (
            Connection._send_request,
            "self._write(bytes(message), connect_timeout)",
            "self._write(bytes(message), connect_timeout)\n        self._owner._pending.extend(later)",
        ),
    ),
)

OFFICES = (
    text("step-down-awaits-no-loop", TERM, (Leader.step_down, "self._await(term, beat)", "pass")),
    text(
        "step-down-awaits-the-first-loop",
        TERM,
        (Leader._await, "for thread in self._threads if", "for thread in self._threads[:1] if"),
    ),
    text(
        "loop-that-failed-is-not-told",
        TERM,
        (BackgroundThread._run, "self._failed(self.name, error)", "pass"),
    ),
    text(
        "end-of-the-pipe-is-taken-for-a-death",
        "§3: a pidfd tells the death of the supervisor, and nothing else",
        (companion.last_message, "if dead:", "if dead or ended:"),
    ),
    text(
        "session-closer-hears-half-a-line",
        "§3: the session closer closes the sessions that are current",
        (
            companion.last_message,
            '*lines, unread = (unread + text).split(b"\\n")',
            '*lines, unread = text.split(b"\\n")',
        ),
    ),
    text(
        "session-closer-hears-the-first-word-only",
        "§3: the session closer closes the sessions that are current",
        (companion.last_message, "lines[-1]", "lines[0]"),
    ),
    text(
        "who-comes-late-is-not-asked-to-stop",
        "§7.3: a host that goes down stops its drivers in order",
        (
            drain_host._ask_new,
            "for name in run_dir.directories(str(attempts_dir)) - known.keys():",
            "for name in () if known else run_dir.directories(str(attempts_dir)):",
        ),
    ),
    text(
        "stop-grace-is-not-waited-for",
        "§7.3: for at most stop_grace",
        (
            drain_host._describe,
            "max(0.001, launch.stop_grace_s)",
            "0.001",
        ),
    ),
    text(
        "full-disk-ends-the-pump",
        "I9: a disk that is full costs output, and no driver",
        (RotatedFile._put, "except OSError:\n        pass", "except ZeroDivisionError:\n        pass"),
    ),
    text(
        "contender-looks-without-a-sync", "§6: sync, then read", (Contender._observe, "client.sync()", "pass")
    ),
    text(
        "connection-is-noted-after-the-look",
        "I10: a look is good for the connection that it was made on",
        (Contender._observe, "connection = client.connections\n    client.sync()", "client.sync()"),
        (
            Contender._observe,
            "self._trust_checked_connection = connection",
            "connection = client.connections; self._trust_checked_connection = connection",
        ),
    ),
    text(
        "watch-is-not-set-anew",
        "§6: whoever waits watches /leader",
        (Contender._receive, "self._watching = False", "pass"),
    ),
    text(
        "watch-that-failed-is-taken-for-set",
        "§6: whoever waits watches /leader",
        (Contender._observe, "self._watching = False\n            raise", "raise"),
    ),
    text(
        "watch-of-the-last-session-is-taken-for-set",
        "§6: whoever waits watches /leader",
        (Contender._connect, "self._watching = False", "pass"),
    ),
    text(
        "first-seen-of-the-last-session-is-kept",
        ONE_SESSION,
        (
            Contender._disconnect,
            "client, self._client, self._seen = self._client, None, None",
            "client, self._client = self._client, None",
        ),
    ),
    text(
        "news-of-the-last-candidacy-are-heard",
        ONE_SESSION,
        (Contender._receive, "if candidacy not in (0, self._candidacy):", "if False:"),
    ),
    text("news-come-before-the-deadline", TERM, (Contender._receive, "self._tick_if_due()", "pass")),
    text(
        "leader-hears-of-success-all-the-time",
        TERM,
        (
            Contender._tick_if_due,
            "self._client.last_success_at_s if self._client is not None else now_s",
            "now_s",
        ),
    ),
    text("leads-beyond-its-deadline", TERM, (Contender.leads, "term.check()", "pass")),
    text(
        "unanswered-election-told-as-not-stood",
        UNKNOWN,
        (
            Contender._stand,
            "return machine.StoodUnknown(str(error))",
            "return machine.NotStood(boottime_s(), str(error))",
        ),
    ),
    text(
        "elections-share-an-op",
        UNKNOWN,
        (
            Contender._stand,
            "self._op_id = secrets.token_hex(8)",
            "self._op_id = self._op_id or secrets.token_hex(8)",
        ),
    ),
    text(
        "unread-settlement-told-as-not-stood",
        UNKNOWN,
        (
            Contender._resolve_outcome,
            "return machine.ResolveFailed(boottime_s())",
            "return machine.NotStood(boottime_s(), 'unread')",
        ),
    ),
    text(
        "unclosed-session-is-forgotten",
        UNKNOWN,
        (
            Contender._disconnect,
            "if not client.close(CLOSE_TIMEOUT_S) and session is not None:",
            "if not client.close(CLOSE_TIMEOUT_S) and False:",
        ),
    ),
    text(
        "unclosed-session-is-not-closed-first",
        UNKNOWN,
        (Contender._observe, "self._close_abandoned()", "pass"),
    ),
    text(
        "distrust-that-is-not-kept-is-none",
        "I10: a registry that is not trusted is not acted upon",
        (Contender._judge, "reason = self._trust.reason", "reason = None"),
    ),
    text("term-is-awaited-before-it-is-over", TERM, (Contender._end_term, "term.end(effect.why)", "pass")),
    text(
        "watch-is-set-after-the-read",
        "§6: whoever waits watches /leader",
        (
            Contender._observe,
            "if not self._watching:",
            "early = client.read_many((self._layout.leader,)).nodes\n    if not self._watching:",
        ),
        (
            Contender._observe,
            "leader, epoch, cluster, switchover, accepted, doorbell, recorded = nodes",
            "leader, epoch, cluster, switchover, accepted, doorbell, recorded = (early[0], *nodes[1:])",
        ),
    ),
    text(
        "look-is-not-noted-for-the-term",
        "I10: a look is good for the connection that it was made on",
        (Contender._observe, "self._term.set_trust_check(connection)", "pass"),
    ),
    text("term-is-not-paused", TERM, (Contender._pause_term, "self._term.pause()", "pass")),
    text(
        "election-of-anybody-taken-as-ours",
        UNKNOWN,
        (
            Contender._resolve_outcome,
            "self._machine_state.session is not None and is_ours(\n"
            "        seen, self._op_id, self._machine_state.session\n    )",
            "seen.owner is not None",
        ),
    ),
    text(
        "failed-probe-told-as-well",
        TERM,
        (Contender._probe, "return None", "return machine.Probed(1, None, False)"),
    ),
    text(
        "defect-of-the-recorder-told-as-recorded",
        "I10: what is not recorded starts and cleans nothing",
        (
            epoch_recorder._record,
            'log.exception("epoch_recorder_failed", epoch=term.epoch)\n            return',
            "term.set_recorded()\n            return",
        ),
    ),
    text(
        "store-that-is-down-told-as-recorded",
        "I10: what is not recorded starts and cleans nothing",
        (
            epoch_recorder._record,
            "term.over.wait(PAUSE.after(failures))\n            continue",
            "distrust = None",
        ),
    ),
    text(
        "recorded-after-its-term",
        TERM,
        (epoch_recorder._record, "if term.over.is_set():\n            return", "pass"),
    ),
    text(
        "restore-is-marked-at-the-first-try-only",
        "I10: every later leader finds that the registry was restored",
        (epoch_recorder._mark, "over.wait(PAUSE.longest_s)", "return"),
    ),
    text(
        "term-that-is-over-says-that-it-records", TERM, (Contender._publish_recording, "term.check()", "pass")
    ),
    text(
        "failed-thread-leaves-its-term",
        TERM,
        (Contender._run, 'self._term.end("the contender failed")', "pass"),
    ),
)

HOST = (
    text(
        "lock-of-a-removed-directory-is-taken",
        "§7.4: one shim lives in a run directory",
        (run_dir.take_lock, "if os.fstat(descriptor).st_nlink:", "if True:"),
    ),
    text(
        "part-of-a-deadline-is-taken-for-all",
        "§7.4: the twin reads the deadline from a file written after each commit",
        (
            DeadlineFile.write,
            "if os.pwrite(self._descriptor, line, 0) != len(line):",
            "if not os.pwrite(self._descriptor, line, 0):",
        ),
    ),
    text(
        "process-is-compared-before-it-is-opened",
        "§7.4: no signal ever reaches a stranger",
        (
            processes.open_pidfd,
            "try:\n        pidfd = os.pidfd_open(process.pid)",
            "found = stat(process.pid)\n    try:\n        pidfd = os.pidfd_open(process.pid)",
        ),
        (processes.open_pidfd, "found = stat(process.pid)\n    except OSError:", "pass\n    except OSError:"),
    ),
    text("command-settles-without-a-sync", UNKNOWN, (KeptSession.resolve_outcome, "client.sync()", "pass")),
    text(
        "agent-is-registered-as-another",
        "§8: a supervisor id has one session",
        (Agent._register, "if node is None or node.stat.ephemeral_owner != session.id:", "if node is None:"),
    ),
    text(
        "agent-starts-what-was-taken-back",
        "§8: an agent starts what is assigned to it",
        (
            Agent._start,
            "not isinstance(own, Found) or not _is_current(own, given.record)",
            "not isinstance(own, Found)",
        ),
    ),
    text(
        "agent-starts-twice",
        "§8: an agent starts what is assigned to it",
        (Agent._round, "if entry not in self._under_way and is_attempt(entry)", "if is_attempt(entry)"),
    ),
    text(
        "agent-is-not-notified",
        "§8: one watch, on its own /assigned",
        (
            Agent._round,
            "client.children(self._layout.assigned_to(self._me.id), self.wake.set)",
            "client.children(self._layout.assigned_to(self._me.id))",
        ),
    ),
    text(
        "look-counts-from-its-answer",
        "I10: a look whether the registry is to be trusted counts from before it was asked",
        (
            Agent._trusted_at,
            "return checked_at_s if doubt is None else None",
            "return boottime_s() if doubt is None else None",
        ),
    ),
)

READ_BEFORE_BATCHES = (
    "§5: no batch goes out but under the epoch and the claim that were read, as ZooKeeper says now"
)

LOOPS = (
    text(
        "batch-goes-out-whatever-became-of-the-term",
        READ_BEFORE_BATCHES,
        (Remover._still, "self._term.check()\n    zoo =", "zoo ="),
    ),
    text(
        "batch-goes-out-however-long-the-look-took",
        READ_BEFORE_BATCHES,
        (Remover._still, 'is not trusted any more")\n    self._term.check()', 'is not trusted any more")'),
    ),
    text("batch-goes-out-without-a-sync", READ_BEFORE_BATCHES, (Remover._still, "zoo.sync()", "pass")),
    text(
        "batch-goes-out-on-any-connection",
        "I10: a look is good for the connection that it was made on",
        (
            Remover._still,
            "self._term.connection is not None and zoo.connections != self._term.connection",
            "False",
        ),
    ),
    text(
        "batch-goes-out-over-another-claim",
        READ_BEFORE_BATCHES,
        (Remover._still, "if others.claim is not None or others.doubtful is not None:", "if False:"),
    ),
    text(
        "unanswered-batch-is-forgotten",
        "§5: a leader gives a claim up only when every request that anybody can have sent is over",
        (Remover._carry_on, "if removal.unanswered:", "if False:"),
    ),
    text(
        "failed-reading-of-claims-is-not-made-up-for",
        "§5: the objects of a pending deletion are deleted",
        (Remover._find_deletions, "self._wanted.set()", "pass"),
    ),
    text(
        "references-are-read-without-a-sync",
        "I7: no blob goes that anybody needs",
        (Sweeper._references, "self._term.client.sync()", "pass"),
    ),
    text(
        "place-of-the-unknown-is-given-away",
        "§8: the agent refuses locally what the host has no room for",
        (HostedAttempts.is_alive, "return True", "return False"),
    ),
    text(
        "agent-without-a-node-goes-on",
        "§8: every supervisor says that it is there",
        (Agent._publish_state, "if node is None:", "if False:"),
        (Agent._publish_state, "elif node.data != data:", "if node is not None and node.data != data:"),
    ),
    text(
        "second-supervisor-of-an-id-begins",
        "§8: a supervisor id has one session",
        (Agent.check_alone, "while client.watch_exists(path, gone.set) is not None:", "while False:"),
    ),
)

DEFECTS = (*RUNNER, *STARTER, *TWIN, *LINK, *TREES, *GUARDIAN, *SESSION, *OFFICES, *HOST, *LOOPS)
