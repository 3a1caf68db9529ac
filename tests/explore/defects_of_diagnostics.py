"""Each rule of diagnostics undone: they delay no killer, and what they say is of one end and of the driver alone."""

from __future__ import annotations

from supervisor.clients.diagnostics import child
from supervisor.clients.tree_usage import TreeMeter
from supervisor.shim import diagnosing, driver
from supervisor.shim.diagnosis import Diagnosis
from tests.explore.planting import text

DIAGNOSED = "§7.4: diagnostics delay no killer, and a kill for silence by their own time only"

OF_ONE_END = "§7.4: diagnostics are of the end beside which they stand, and of the driver alone"

DEFECTS = (
    text(
        "a-silent-driver-waits-for-its-diagnostics-for-ever",
        DIAGNOSED,
        (diagnosing.is_awaited, " and turn.now_s < until_at_s", ""),
    ),
    text(
        "a-deadline-waits-for-diagnostics",
        DIAGNOSED,
        (
            driver.watch,
            "if is_expiring(turn):",
            "if is_expiring(turn) and state.diagnosing_until_at_s is None:",
        ),
    ),
    text(
        "the-end-of-a-grace-waits-for-diagnostics",
        DIAGNOSED,
        (
            driver.climb,
            "if turn.now_s >= ladder.kill_at_s:",
            "if turn.now_s >= ladder.kill_at_s and (turn.state.diagnosing_until_at_s is None or turn.state.diagnosed):",
        ),
    ),
    text(
        "what-else-is-wrong-waits-for-diagnostics",
        DIAGNOSED,
        (diagnosing.is_awaited, "if cause not in DIAGNOSED_CAUSES:", "if False:"),
    ),
    text(
        "a-stop-waits-for-a-look-at-the-heap",
        DIAGNOSED,
        (diagnosing._begin, "heap=not turn.state.diagnosing_stop", "heap=True"),
    ),
    text(
        "an-exec-that-hangs-holds-up-the-shim",
        DIAGNOSED,
        (
            child._spawn,
            "pid = os.fork()",
            "pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, asked, 0)])",
        ),
    ),
    text(
        "who-stops-the-collector-is-not-diagnosed-again",
        DIAGNOSED,
        (Diagnosis._copied, "self._until_at_s", "self._until_at_s + 600.0"),
    ),
    text(
        "a-silence-that-is-over-explains-another-end",
        OF_ONE_END,
        (diagnosing.forget, ', diagnostics=""', ""),
    ),
    text(
        "a-silence-that-is-over-explains-the-end-of-a-stop",
        OF_ONE_END,
        (diagnosing.before_end_of_grace, "not _is_silent(turn)", "False"),
    ),
    text(
        "the-collector-counts-as-the-driver",
        OF_ONE_END,
        (TreeMeter._of_processes, " if each.pid not in apart", ""),
    ),
)
