"""Starts a program as a service manager would start the supervisor: ``as_service.py UID GROUP PYTHON OTHER-PYTHON ARG…``.

As the unprivileged user UID with the three ambient capabilities of ``deploy/systemd/…/run-as.conf`` and no others, without
new privileges, in the subgroup ``supervisor`` of the delegated cgroup GROUP. Run as root. It is PYTHON that is started, in
place of OTHER-PYTHON, which may be root's alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

CAPABILITIES = "-all,+kill,+setgid,+setuid"
DELEGATED = ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads")


def delegate(group: Path, uid: int) -> None:
    """What ``Delegate=yes`` and ``DelegateSubgroup=supervisor`` do."""
    for made in (group, group / "supervisor"):
        made.mkdir(exist_ok=True)
        for name in DELEGATED:
            os.chown(made / name, uid, uid)


def main(uid: int, group: Path, argv: list[str]) -> None:
    delegate(group, uid)
    (group / "supervisor" / "cgroup.procs").write_text("0")
    os.execvp(
        "setpriv",
        [
            "setpriv",
            f"--reuid={uid}",
            f"--regid={uid}",
            "--clear-groups",
            f"--inh-caps={CAPABILITIES}",
            f"--ambient-caps={CAPABILITIES}",
            f"--bounding-set={CAPABILITIES}",
            "--no-new-privs",
            *argv,
        ],
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), [sys.argv[3], *sys.argv[5:]])
