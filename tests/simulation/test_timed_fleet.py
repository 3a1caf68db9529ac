"""The simulated fleet of ``python -m tests.simulation.fleet``, in small: nothing is broken, and what its figures must be."""

from __future__ import annotations

import pytest

from tests.simulation.timed.fleet import FleetRun

pytestmark = pytest.mark.usefixtures("collector")


def test_jobs_are_spread_a_takeover_starts_nothing_and_a_lost_host_is_made_good() -> None:
    ran = FleetRun(jobs=15, hosts=3).run()
    assert not ran.broken, ran.broken
    found = dict(ran.rows())
    assert found["jobs that run once all are submitted"] == "15"
    assert found["jobs of the host that has fewest and most"] in ("5 and 5", "4 and 6")
    assert found["at rest: renewals of leases"] == "3 per s"
    assert found["kill -9 of the leader, until another one leads"] != "never"
    assert found["drivers started by that"] == "0"
    lost, moved = found["jobs of the lost host, and drivers started for them elsewhere"].split(" and ")
    assert int(lost) >= 4 and int(moved) >= int(lost)
    assert found["of them, those that the lost host got"] == "0"
