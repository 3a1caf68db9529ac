"""The audit as a chain of objects: two writers, and what shows when somebody changes it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients.store.base import Store, StoreEntry
from supervisor.clients.store.open import open_store
from supervisor.errors import Conflict, NotFound, Unreachable
from supervisor.model.records import AuditEnd, AuditLine
from supervisor.records.ids import new_op_id
from supervisor.registry import audit
from supervisor.registry.audit import AuditLog, AuditReading, find_end, line_key, read_audit
from supervisor.registry.blobs import CLUSTER_KEY, Blobs, ClusterMark
from tests.fakes.registry_bench import Bench


class Site:
    """A store in a directory, and a registry in memory."""

    def __init__(self, home: Path) -> None:
        self.home = home / "store"
        self.store = open_store(self.home.as_uri(), None, None)
        self.bench = Bench()
        Blobs(self.store).claim_cluster(ClusterMark(id="c", name="c", root=self.bench.layout.root))
        self.zoo = self.bench.zoo.client()
        self.reads = 0

    def log(self) -> AuditLog:
        return AuditLog(lambda: self.store, lambda: self.zoo, self.bench.layout)

    def append(self, log: AuditLog, name: str = "a", what: str = "submit") -> int:
        op = new_op_id()  # no two lines are alike
        line = AuditLine(number=0, at="t", by="me", origin="me", what=what, op=op, before="", name=name)
        return log.append(line)[0].number

    def filled(self, count: int) -> Site:
        log = self.log()
        for number in range(count):
            self.append(log, "ab"[number % 2])
        return self

    def read(self, count: int = 100, about: str | None = None) -> AuditReading:
        return read_audit(self.store, self.zoo, self.bench.layout, count, about)

    def path(self, number: int) -> Path:
        return self.home / line_key(number)

    def known(self) -> int:
        found = self.bench.record(AuditEnd, self.bench.layout.audit)
        return int(found.record.number)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_lines_are_numbered_without_a_gap_and_read_back_whole(site: Site) -> None:
    found = site.filled(5).read()
    assert [line.number for line in found.lines] == [1, 2, 3, 4, 5]
    assert (found.first, found.last, found.flaws, found.unproven) == (1, 5, (), "")
    assert site.known() == 5


def test_a_store_that_is_not_mounted_takes_no_line(site: Site) -> None:
    site.filled(2)
    mounted = site.home.rename(site.home.with_name("mounted"))
    command = AuditLog(
        lambda: open_store(site.home.as_uri(), None, None), lambda: site.zoo, site.bench.layout
    )
    with pytest.raises(Unreachable, match="has no cluster.json: is it mounted and intact"):
        site.append(command)
    assert list(site.home.rglob("*.json")) == []
    mounted.rename(site.home)
    assert site.append(site.log()) == 3
    assert site.read().flaws == ()


def test_the_store_of_another_cluster_takes_no_line(site: Site) -> None:
    (site.home / CLUSTER_KEY).unlink()
    Blobs(site.store).claim_cluster(ClusterMark(id="d", name="d", root="/other"))
    with pytest.raises(Conflict, match="belongs to the cluster at root /other"):
        site.append(site.log())


def test_two_writers_race_for_a_number_and_both_get_one(site: Site) -> None:
    one, other = site.log(), site.log()
    assert [site.append(one), site.append(other), site.append(one), site.append(other)] == [1, 2, 3, 4]
    assert site.read().flaws == ()


def test_a_command_that_waited_while_others_wrote_much_goes_on_at_the_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "APPEND_TRIES", 3)
    slow = site.log()
    assert site.append(slow) == 1
    site.filled(9)
    assert site.append(slow) == 11
    assert site.read().flaws == ()


def test_another_command_goes_on_at_the_end(site: Site) -> None:
    site.filled(3)
    assert site.append(site.log()) == 4
    assert site.read().flaws == ()


def test_an_end_that_zookeeper_does_not_know_is_found_by_a_request_for_each_folder(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "PER_FOLDER", 5)
    site.filled(12)
    listed: list[str] = []
    entries = site.store.entries

    def counted(prefix: str, after: str = "") -> Iterator[StoreEntry]:
        listed.append(prefix)
        return entries(prefix, after)

    monkeypatch.setattr(site.store, "entries", counted)
    assert find_end(site.store, audit.NOTHING).number == 12
    assert len(listed) == len(set(listed)) == 3


def test_objects_far_ahead_hide_no_line(site: Site) -> None:
    """Who may submit may create objects below audit/. Forty of them were taken for the end, and hid all before them."""
    site.filled(20)
    ahead = [20 + 2**step for step in range(1, 40)]
    for number in ahead:
        site.store.create(line_key(number), b"{}")
    site.store.create(f"{line_key(20)}.other", b"{}")
    assert site.append(site.log(), what="cancel") == 21
    found = site.read()
    assert [line.number for line in found.lines] == [*range(1, 22)]
    assert any("line 23 is missing" in flaw for flaw in found.flaws)
    assert [site.append(site.log()) for _ in range(3)] == [23, 25, 26]  # 22 and 24 are there
    assert [flaw.partition(" can't")[0] for flaw in site.read().flaws if "can't be read" in flaw] == [
        "line 24",
        "line 22",
    ]


def test_only_the_wanted_lines_are_read_back_from_the_end(site: Site) -> None:
    found = site.filled(9).read(2)
    assert [line.number for line in found.lines] == [8, 9]
    assert (found.first, found.last) == (8, 9)


def test_lines_about_one_job_are_found_among_those_of_others(site: Site) -> None:
    found = site.filled(9).read(3, "b")
    assert [line.number for line in found.lines] == [4, 6, 8]
    assert (found.first, found.flaws) == (4, ())


def test_a_line_that_was_changed_shows(site: Site) -> None:
    site.filled(4)
    path = site.path(2)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"me"', b'"us"'))
    assert site.read().flaws == ("line 3 does not follow line 2: one of both was changed",)


def test_the_newest_line_changed_shows_by_what_zookeeper_knows(site: Site) -> None:
    site.filled(4)
    path = site.path(4)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"me"', b'"us"'))
    flaws = ("line 4 is not the one that was written: ZooKeeper knows another SHA-256",)
    assert site.read().flaws == flaws


def test_a_line_that_is_no_line_shows(site: Site) -> None:
    site.filled(3)
    site.path(2).chmod(0o644)
    site.path(2).write_bytes(b"{}")
    assert len(site.read().flaws) == 2


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_line_that_is_gone_shows(site: Site, number: int) -> None:
    site.filled(4)
    site.path(number).unlink()
    assert site.read().flaws == (f"line {number} is missing",)


def test_lines_that_are_cut_off_the_end_show_also_after_the_next_line(site: Site) -> None:
    site.filled(4)
    for number in (3, 4):
        site.path(number).unlink()
    assert site.read().flaws == ("lines 3 to 4 are missing",)
    assert site.append(site.log()) == 5
    assert site.read().flaws == ("lines 3 to 4 are missing",)


def test_of_a_store_that_was_lost_one_flaw_says_so(site: Site) -> None:
    site.filled(70)
    for number in (*range(1, 66), 68):
        site.path(number).unlink()
    assert site.read().flaws == ("line 68 is missing", "lines 1 to 65 are missing")


def test_a_gap_shows_although_zookeeper_has_lost_the_end(site: Site) -> None:
    site.filled(4)
    site.bench.zoo.remove(site.bench.layout.audit)
    site.path(3).unlink()
    assert site.read().flaws == ("line 3 is missing, although there is 000000000004.json after it",)


def test_without_the_record_it_says_what_is_not_proven(site: Site) -> None:
    site.filled(2)
    site.bench.zoo.put(site.bench.layout.audit, b"no record")
    found = site.read()
    assert (found.flaws, [line.number for line in found.lines]) == ((), [1, 2])
    assert "whether newer lines are missing" in found.unproven


def test_the_record_never_goes_back(site: Site) -> None:
    slow = site.log()
    site.append(slow)
    site.filled(3)
    slow._publish(AuditEnd(number=2, sha256="x"))
    assert site.known() == 4


def test_a_store_without_lines_has_an_empty_audit(site: Site) -> None:
    site.store.create("other", b"")
    assert site.read() == AuditReading((), 0, 0, (), "")
    with pytest.raises(NotFound):
        site.store.read(line_key(1), 10)


@pytest.mark.parametrize("more", [1, 3])
def test_lines_that_are_added_while_it_is_read_are_no_flaw(
    site: Site, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    site.filled(4)

    def end_and_then_more(store: Store, known: AuditEnd) -> AuditEnd:
        monkeypatch.undo()
        end = find_end(store, known)
        site.filled(more)
        return end

    monkeypatch.setattr(audit, "find_end", end_and_then_more)
    found = read_audit(site.store, site.zoo, site.bench.layout, 100)
    assert (found.last, found.flaws) == (4, ())


def test_an_object_that_is_no_line_keeps_nobody_from_adding_and_reading_lines(site: Site) -> None:
    log = site.log()
    assert [site.append(log), site.append(log)] == [1, 2]
    site.store.create(line_key(3), b" " * 5000)
    assert [site.append(log), site.append(site.log())] == [4, 5]
    found = site.read()
    assert [line.number for line in found.lines] == [1, 2, 4, 5]
    assert len(found.flaws) == 1 and found.flaws[0].startswith("line 3 can't be read")
