"""Decides as which Unix user the driver of a job runs on this host, by the policy of this host (``policy.run_as``).

A driver of another user needs three things of the host: capabilities (``clients.privileges``), a cgroup, by which a
tree that would rather not be found is killed and proven empty, and the user. A host that lacks one refuses such jobs, so
that another host may take them; it runs all others.
"""

from __future__ import annotations

from supervisor.clients import privileges
from supervisor.clients.users import find_driver_user
from supervisor.errors import Complaint, SupervisorError
from supervisor.model.driver_user import DriverUser
from supervisor.model.records import Cause
from supervisor.spark.refusal import Refused
from supervisor.spec.site_policy import SitePolicy

DROP_IN = "deploy/systemd/drop-ins/run-as.conf"


class DriverUsers:
    """Decides by ``site``. ``has_cgroup`` says whether attempts get a cgroup of their own here."""

    def __init__(self, site: SitePolicy, *, has_cgroup: bool) -> None:
        self._site = site
        self._has_cgroup = has_cgroup

    def of(self, run_as: str | None) -> DriverUser | None:
        """Returns the user of a job whose spec says ``run_as``, or None for the supervisor's own. Raises Refused."""
        not_allowed = self._site.why_not_user(run_as)
        if not_allowed is not None:
            raise Refused(Cause.NO_USER, not_allowed, "allow it there, or change run_as")
        name = self._site.user_of(run_as)
        if name is None:
            return None
        trouble = why_impossible(has_cgroup=self._has_cgroup)
        if trouble:
            raise Refused(Cause.NO_USER, f"no driver can run as user {name}: {trouble.what}", trouble.remedy)
        try:
            return find_driver_user(name)
        except SupervisorError as error:
            raise Refused(Cause.NO_USER, error.complaint.what, error.complaint.remedy) from None

    def trouble(self) -> Complaint:
        """Returns why no job can run as another user here, if the policy has any: it is to be said at the start."""
        if self._site.run_as is None and not self._site.users:
            return Complaint()
        return why_impossible(has_cgroup=self._has_cgroup)


def why_impossible(*, has_cgroup: bool, pid: int | None = None) -> Complaint:
    """Returns what this process (or ``pid``) lacks to run drivers as other users, and the remedy; nothing if it lacks
    nothing."""
    lacking = privileges.missing(pid)
    if lacking:
        return Complaint(
            f"the supervisor lacks {', '.join(lacking)}", f"install {DROP_IN} and restart the service"
        )
    if not has_cgroup:
        return Complaint(
            "attempts have no cgroup here, and a driver of another user could get away from a scan",
            "mount cgroup v2 and run the supervisor as the systemd service (Delegate=yes)",
        )
    return Complaint()
