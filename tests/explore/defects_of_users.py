"""The guards around drivers of other Unix users: each defect lets one do, read or be what it must not.

Nothing of it is a write to the registry, so the explorer sees none of it; what fails is a test of the guard, and the
hostile application of ``tests/attacks``.
"""

from __future__ import annotations

from supervisor.clients import access, controllers, privileges
from supervisor.daemon.host import driver_users
from supervisor.daemon.host.driver_users import DriverUsers
from supervisor.shim import starter
from supervisor.shim.reports import ReportSocket
from supervisor.spark import environment
from tests.explore.planting import text

WHOSE = "§9.5: the shim hears the driver's user and the supervisor, each in what is its own"
APART = "§9.5: a driver is its user, and nothing more, before it is executed"
HELD = "§9.5: a driver that would rather not be found is held by its cgroup"
GRANTED = "§9.5: only what is the supervisor's own is granted, and never where a link leads"

DEFECTS = (
    text(
        "strangers-report-is-heard",
        WHOSE,
        (ReportSocket._received, "if sender not in (os.getuid(), self._user.uid):", "if False:"),
    ),
    text(
        "driver-speaks-for-the-supervisor",
        WHOSE,
        (ReportSocket._received, "None if is_supervisors and sender != os.getuid() else report", "report"),
    ),
    text(
        "order-follows-a-link",
        WHOSE,
        (ReportSocket.order, "os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC", "os.O_PATH"),
    ),
    text(
        "order-goes-to-anybody",
        WHOSE,
        (ReportSocket._takes_orders, "(self._user is None or found.st_uid == self._user.uid)", "True"),
    ),
    text(
        "driver-stays-the-supervisors-user",
        APART,
        (starter._be_starter, "privileges.become(launch.user)", "pass"),
    ),
    text(
        "driver-becomes-root",
        APART,
        (privileges.become, "if ROOT in (user.uid, user.gid, *user.groups):", "if False:"),
    ),
    text(
        "driver-gets-the-whole-environment",
        APART,
        (environment.passes_to_others, "return passes(name) and (", "return passes(name) or ("),
    ),
    text(
        "other-user-without-a-cgroup",
        HELD,
        (starter.limited, "if launch.user is not None:", "if False:"),
    ),
    text(
        "host-without-a-cgroup-takes-other-users",
        HELD,
        (driver_users.why_impossible, "if not has_cgroup:", "if False:"),
    ),
    text("user-that-is-not-allowed", APART, (DriverUsers.of, "if not_allowed is not None:", "if False:")),
    text(
        "grant-follows-a-link",
        GRANTED,
        (access.grant, "os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK", "os.O_RDONLY | os.O_NONBLOCK"),
    ),
    text(
        "controllers-in-the-units-own-group",
        "§9.5: systemd can start the next supervisor while a driver lives",
        (controllers.find_attempt_groups, "if base == own and is_of_unit(base):", "if False:"),
    ),
)
