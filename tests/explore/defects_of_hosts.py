"""Rules of protocol §9.3, hosts that are cordoned and drained and jobs that are moved, undone one at a time."""

from __future__ import annotations

from supervisor.model import view
from supervisor.plan import moves, place, prepare, startable, stops
from tests.explore.planting import text

WHERE = "§9.3: nothing new is placed on a host that is cordoned"
STOPPED = "§9.3: nothing is stopped that nobody could start"
PARALLEL = "§9.3: at most max_parallel jobs of a drain are under way"

DEFECTS = (
    text("a-cordoned-host-gets-jobs", WHERE, (place.place, "if m.id not in cordoned]", "if True]")),
    text(
        "a-cordon-that-cannot-be-read-is-none",
        WHERE,
        (
            view.cordoned_by,
            "if isinstance(found, Unreadable) or found.record.cordoned",
            "if isinstance(found, Found) and found.record.cordoned",
        ),
    ),
    text(
        "a-driver-is-prepared-on-a-cordoned-host",
        WHERE,
        (startable.StartPlaces.__init__, "if m.id not in self.cordoned}", "}"),
    ),
    text(
        "a-drain-stops-all-at-once",
        PARALLEL,
        (moves._drain, "if len(under_way) >= max(1, cordon.max_parallel):", "if False:"),
    ),
    text(
        "a-drain-does-not-wait-for-what-left",
        PARALLEL,
        (
            moves.is_under_way,
            "return not (own.state is OwnState.CLAIMED and _is_running(row))",
            "return False",
        ),
    ),
    text(
        "a-drain-forgets-what-left-by-it",
        PARALLEL,
        (place.moved_by, "return found.record.drain", 'return ""'),
    ),
    text(
        "a-drain-stops-what-no-host-can-take",
        STOPPED,
        (moves._leave, "if said.stop:", "if said.stop or said.impossible:"),
    ),
    text(
        "a-restart-stops-what-no-host-can-take",
        STOPPED,
        (
            prepare.Preparations.unless_not_startable,
            "if start_place is None or start_place.host is not None:",
            "if True:",
        ),
        (stops.Stops.only_startable, "if start_place.host is not None:", "if True:"),
    ),
    text(
        "the-stops-of-a-plan-are-not-judged-together",
        STOPPED,
        (stops.Stops.only_startable, "if not held:", "if True:"),
    ),
    text(
        "what-nobody-trusting-can-take-is-stopped",
        STOPPED,
        (startable.StartPlaces.__init__, "if m.distrust is None]", "if True]"),
    ),
    text(
        "room-is-given-to-two-moves",
        STOPPED,
        (moves.Moves.begin, "self.loads[said.host] =", "_ ="),
    ),
    text(
        "a-move-stops-while-nothing-may-start",
        STOPPED,
        (startable._why_nothing_starts, 'return "" if view.recorded else', 'return "" if True else'),
    ),
    text(
        "a-move-is-obeyed-again-and-again",
        "§9.3: the assignment that obeys a move ends it",
        (moves._is_asked, "and own.record.restart_nonce != ref.record.restart_nonce", ""),
    ),
    text(
        "a-move-goes-to-a-host-that-cannot-take-it",
        STOPPED,
        (moves._move, "if closed or request.to == own.record.supervisor:", "if False:"),
    ),
)
