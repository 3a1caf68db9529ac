"""Ends helper processes when the process that started them dies, however it dies: a companion holds their
identities.

It is used by the embedded ensemble and by tests. It never ends anything that was not handed to it, and no
process that has got a charge's pid since.
"""

from __future__ import annotations

import contextlib
import json

from supervisor.clients import processes
from supervisor.clients.companion import Companion, last_message
from supervisor.clients.processes import ProcessId
from supervisor.errors import SupervisorError

_STOP_TIMEOUT_S = 5.0


class DeathGuard:
    """Starts one guard process. Use from one thread at a time.

    Charges are killed (SIGKILL) when this process dies or exits without ``dismiss``.
    """

    def __init__(self) -> None:
        """Raises SupervisorError if the guard can't be started."""
        self._companion = Companion("supervisor.demo.death_guard")
        self._charges: list[ProcessId] = []

    @property
    def pid(self) -> int:
        return self._companion.pid

    def watch(self, pid: int) -> None:
        """Hands over a child of this process. It must not have been waited for yet, so that ``pid`` is
        certainly the child's.

        Raises SupervisorError if there is no such process, or if the guard is gone.
        """
        charge = processes.identify(pid)
        if charge is None:
            raise SupervisorError(f"there is no process {pid} to guard")
        self._charges = [*filter(processes.alive, self._charges), charge]
        self._companion.send(json.dumps([(each.pid, each.start_ticks) for each in self._charges]).encode())

    def dismiss(self) -> None:
        """Ends the guard, which then kills nobody: the charges may live on. It is idempotent."""
        self._companion.dismiss(_STOP_TIMEOUT_S)


def main() -> None:
    """Runs the guard."""
    boot_id = processes.boot_id()
    for pid, start_ticks in json.loads(last_message() or b"[]"):
        with contextlib.suppress(OSError):  # one that can't be looked at spares none of the others
            processes.kill(ProcessId(pid, start_ticks, boot_id))


if __name__ == "__main__":
    main()
