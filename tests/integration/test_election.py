"""The election on a real ensemble, with contenders in processes of their own: what is killed, stopped, cut and expired."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.clients.zookeeper import Link, ZooClient, close_session
from supervisor.clock import boottime_s
from supervisor.coord.contender import Contender, Duties, ElectionRegistry, SessionFactory
from supervisor.coord.election import Candidate
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.leadership import State
from supervisor.coord.term import Term
from supervisor.coord.trust import Trust
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import GuardFailed, NotLeader
from supervisor.model.transaction import ANY_VERSION, Check, Delete, Transaction
from tests.testbed.contender_process import ContenderProcess
from tests.testbed.election_world import CLUSTER, ElectionWorld, T
from tests.testbed.ensembles import repair
from tests.testbed.namespaces import Namespace
from tests.testbed.proxy import Action, Proxies, Proxy, zookeeper_request
from tests.testbed.secured_ensemble import running
from tests.waiting import wait_until


@pytest.fixture
def world(embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> Iterator[ElectionWorld]:
    world = ElectionWorld(embedded_ensemble.hosts, zk_root, tmp_path)
    yield world
    world.close()


@pytest.fixture(scope="module")
def harmed_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    """Of this module alone; take ``repaired_ensemble``."""
    with running(tmp_path_factory.mktemp("harmed")) as ensemble:
        yield ensemble


@pytest.fixture
def repaired_ensemble(harmed_ensemble: EmbeddedEnsemble) -> EmbeddedEnsemble:
    """All nodes serve, whatever the test before did to them; to be harmed."""
    repair(harmed_ensemble)
    return harmed_ensemble


@pytest.fixture
def fragile(repaired_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> Iterator[ElectionWorld]:
    """On an ensemble whose nodes may be harmed."""
    world = ElectionWorld(repaired_ensemble.hosts, zk_root, tmp_path)
    yield world
    world.close()


def report_figure(name: str, seconds: float, record: Callable[[str, object], None]) -> None:
    """Figures are recorded, not asserted: machines differ."""
    record(name, round(seconds, 3))
    print(f"{name}: {seconds * 1000:.0f} ms")


def assert_growing(*contenders: ContenderProcess) -> None:
    """Terms in the order of their begin have growing epochs, and no write of a term comes after one of a later term."""
    terms = sorted((each for c in contenders for each in c.all("term")), key=lambda each: each["at"])
    epochs = [each["epoch"] for each in terms]
    assert epochs == sorted(set(epochs))
    for contender in contenders:
        assert_drained(contender)


def assert_drained(contender: ContenderProcess) -> None:
    """FLINK-9494, 9573: within one process, the tasks of a term are over before the next term begins."""
    running: set[int] = set()
    for each in contender.logged:
        if each["event"] == "term":
            assert not running
            running.add(each["epoch"])
        elif each["event"] == "task_over":
            running.discard(each["epoch"])


def test_f1_kill_9_of_the_leader_with_a_session_closer(
    world: ElectionWorld, record_property: Callable[[str, object], None]
) -> None:
    leader, standby = world.leader_and_standby(session_closer=True, timeout_s=30.0)
    killed_at_s = leader.send_signal(signal.SIGKILL)
    term = standby.wait("term", timeout_s=15)  # half the session time: nobody waited for that
    report_figure("takeover_with_sentinel_s", term["at"] - killed_at_s, record_property)
    assert_growing(leader, standby)
    assert standby.wait("wrote")["epoch"] == 2


def test_f1_kill_9_of_leader_and_session_closer_is_the_loss_of_a_host(
    world: ElectionWorld, record_property: Callable[[str, object], None]
) -> None:
    leader, standby = world.leader_and_standby()
    killed_at_s = leader.send_signal(signal.SIGKILL)
    term = standby.wait("term")
    report_figure("takeover_without_sentinel_s", term["at"] - killed_at_s, record_property)
    assert_growing(leader, standby)


def test_planned_hand_over(world: ElectionWorld, record_property: Callable[[str, object], None]) -> None:
    leader, standby = world.leader_and_standby()
    asked_at_s = boottime_s()
    world.ask_switchover(leader.name)
    leader.command("nudge")
    report_figure("switchover_s", standby.wait("term")["at"] - asked_at_s, record_property)
    assert leader.wait("stepped_down")["at"] < standby.all("term")[0]["at"]
    asked_at_s = boottime_s()
    standby.command("stop")
    report_figure("handover_at_stop_s", leader.wait("term", 2)["at"] - asked_at_s, record_property)
    assert standby.wait("stopped")["in_time"]
    assert leader.epochs == [1, 3]
    assert_growing(leader, standby)


def test_f2_sigstop_beyond_the_session_then_cont(world: ElectionWorld) -> None:
    """The stopped leader wakes up deposed; what it still tries fails on the epoch."""
    leader, standby = world.leader_and_standby()
    leader.send_signal(signal.SIGSTOP)
    standby.wait("wrote")
    stopped_at_s = boottime_s()
    wait_until(lambda: boottime_s() > stopped_at_s + T, 2 * T)  # 2 T altogether
    woken_s = leader.send_signal(signal.SIGCONT)
    leader.wait("stepped_down")
    assert [each for each in leader.all("wrote") if each["at"] > woken_s] == []
    leader.command("zombie 0")
    assert leader.wait("zombie")["path"] == world.layout.epoch
    assert leader.epochs == [1]
    assert standby.all("stepping_down") == []
    assert_growing(leader, standby)


def test_f5_a_standby_killed_or_stopped_has_no_effect(world: ElectionWorld) -> None:
    """FLINK-10255."""
    leader, standby = world.leader_and_standby(session_closer=True)
    third = world.start("c")
    third.wait("sessions")
    standby.send_signal(signal.SIGKILL)
    third.send_signal(signal.SIGSTOP)
    writes = len(leader.all("wrote"))
    leader.wait("wrote", writes + 60)  # six seconds, longer than T
    third.send_signal(signal.SIGCONT)
    leader.wait("wrote", writes + 75)
    assert leader.epochs == [1]
    assert leader.all("could_not") == []
    assert third.epochs == []
    assert world.epoch().epoch == 1


def test_f17_session_expired_by_the_server(world: ElectionWorld) -> None:
    leader, _ = world.leader_and_standby()
    session = leader.all("sessions")[-1]
    close_session(world.hosts, session["ids"][0], bytes.fromhex(session["passwords"][0]), 10)
    leader.wait("stepped_down")
    wait_until(lambda: world.epoch().epoch == 2, 30)
    leader.command("zombie 0")
    assert leader.wait("zombie")["path"] == world.layout.epoch
    assert_growing(*world.contenders)


def test_f52_flapping_has_growing_epochs_and_old_tasks_are_over(world: ElectionWorld) -> None:
    """FLINK-9494, 9573: A → B → A …, by expiring whoever leads."""
    first, second = world.leader_and_standby()

    def newest() -> tuple[int, ContenderProcess]:
        return max(
            ((epoch, contender) for contender in (first, second) for epoch in contender.epochs),
            key=lambda each: each[0],
        )

    expired = 0
    while min(len(first.epochs), len(second.epochs)) < 3 and expired < 30:
        epoch, leader = wait_until(lambda after=expired: (got := newest())[0] > after and got)  # type: ignore[misc]
        session = leader.session_of_term(epoch)
        close_session(world.hosts, session["ids"][-1], bytes.fromhex(session["passwords"][-1]), 10)
        expired = epoch
    assert min(len(first.epochs), len(second.epochs)) >= 3
    assert_growing(first, second)
    # the newest term, not the newest of before: the last session that was closed ended a term, recorded or not
    wait_until(lambda: (got := newest())[0] in [each["epoch"] for each in got[1].all("recorded")])


@pytest.mark.parametrize("action", [Action.CUT_AFTER, Action.CUT_BEFORE])
def test_f18_f19_lost_reply_of_the_election_is_resolved(world: ElectionWorld, action: Action) -> None:
    with Proxy(world.hosts.split(",")[0], tls=Proxies.tls) as proxy:
        trap = proxy.on_request(zookeeper_request('"supervisor":"a"'), action)
        contender = world.start("a", hosts=proxy.address)
        trap.wait()
        contender.wait("wrote")
        contender.wait("recorded")
        assert contender.epochs == [world.epoch().epoch]
        assert contender.epochs == [1] or action is Action.CUT_BEFORE
        ids = {id_ for each in contender.all("sessions") for id_ in each["ids"]}
        assert len(ids) == 1, "the candidacy was settled on its own session"


def test_f16_a_leader_cut_from_zookeeper_steps_down_by_its_own_deadline(world: ElectionWorld) -> None:
    """zookeeper.md M7: no LOST comes while ZooKeeper can't be reached."""
    with Proxies(world.hosts) as proxies:
        leader = world.start("a", hosts=proxies.hosts)
        leader.wait("wrote")
        standby = world.start("b")
        standby.wait("sessions")
        for i in range(len(proxies)):
            proxies[i].drop()
        leader.wait("stepped_down")
        standby.wait("wrote")
        assert leader.epochs == [1]
        for i in range(len(proxies)):
            proxies[i].heal()
        leader.wait("sessions", len(leader.all("sessions")) + 1)
        assert standby.all("stepping_down") == []
    assert_growing(leader, standby)


def test_f13_two_of_three_zookeeper_nodes_out_of_reach(world: ElectionWorld) -> None:
    """zookeeper.md M10. The session survives, or a clean loss: never two that write."""
    with Proxies(world.hosts) as proxies:
        leader = world.start("a", hosts=proxies.hosts, timeout_s=10.0)
        leader.wait("wrote")
        standby = world.start("b", timeout_s=10.0)
        standby.wait("sessions")
        proxies[0].drop()
        proxies[2].drop()
        writes = len(leader.all("wrote"))
        wait_until(lambda: len(leader.all("wrote")) > writes + 100 or len(standby.all("wrote")) > 10, 60)
    assert_growing(leader, standby)


def test_f21_a_slow_network_makes_no_leader_flap(world: ElectionWorld) -> None:
    """A round trip of 0.6 s and more at T = 4 s, for several session times."""
    with Proxies(world.hosts) as proxies:
        leader = world.start("a", hosts=proxies.hosts)
        leader.wait("wrote")
        standby = world.start("b", hosts=proxies.hosts)
        standby.wait("sessions")
        for i in range(len(proxies)):
            proxies[i].delay(0.3)
        writes = len(leader.all("wrote"))
        leader.wait("wrote", writes + 20, timeout_s=90)
    assert leader.epochs == [1]
    assert standby.epochs == []


def led_on(leader: ContenderProcess, standby: ContenderProcess, timeout_s: float) -> None:
    """For three session times from now on there is work under a fence, and the leader changes once at most."""
    began_at_s = boottime_s()
    wait_until(
        lambda: any(
            each["at"] > began_at_s + 3 * timeout_s
            for contender in (leader, standby)
            for each in contender.all("wrote")
        ),
        6 * timeout_s,
        "work after three session times",
    )
    assert len(leader.epochs) + len(standby.epochs) <= 2
    assert_growing(leader, standby)


@pytest.mark.slow
@pytest.mark.netns
def test_f21_a_network_that_loses_packets_makes_no_leader_flap(world: ElectionWorld) -> None:
    """30 % of all packets, each way, between two hosts and their servers."""
    session_s = 10.0
    with Namespace() as first, Namespace() as second, ExitStack() as stack:
        hosts = [
            stack.enter_context(Proxies(world.hosts, each.host_address)).hosts for each in (first, second)
        ]
        leader = world.start("a", hosts=hosts[0], timeout_s=session_s, wrapper=first.wrap(()))
        leader.wait("wrote")
        standby = world.start("b", hosts=hosts[1], timeout_s=session_s, wrapper=second.wrap(()))
        standby.wait("sessions")
        first.lose(0.3)
        second.lose(0.3)
        led_on(leader, standby, session_s)
        lost = (*first.lost(), *second.lost())
        print(f"packets lost: {lost}, epochs: {leader.epochs}, {standby.epochs}")
        assert min(lost) > 0


@pytest.mark.slow
def test_f21_a_narrow_line_makes_no_leader_flap(world: ElectionWorld) -> None:
    """1 kB/s each way, for each connection; a contender has one."""
    session_s = 8.0
    with Proxies(world.hosts) as first, Proxies(world.hosts) as second:
        leader = world.start("a", hosts=first.hosts, timeout_s=session_s)
        leader.wait("wrote")
        standby = world.start("b", hosts=second.hosts, timeout_s=session_s)
        standby.wait("sessions")
        for line in (first, second):
            line.each(lambda proxy: proxy.throttle(1000))
        led_on(leader, standby, session_s)
    assert leader.epochs == [1]
    assert standby.epochs == []


@pytest.mark.parametrize("how", ["kill", "pause"])
@pytest.mark.parametrize("which", ["own", "leader"])
def test_f7_f8_f11_losing_one_zookeeper_node_changes_no_leader(
    fragile: ElectionWorld, repaired_ensemble: EmbeddedEnsemble, how: str, which: str
) -> None:
    """FLINK-10011: SUSPENDED is not loss."""
    ensemble = repaired_ensemble
    victim = ensemble.leader() if which == "leader" else next(i for i in range(3) if i != ensemble.leader())
    hosts = ensemble.address(victim) + "," + ensemble.address((victim + 1) % 3)
    leader = fragile.start("a", hosts=hosts, timeout_s=10.0)
    leader.wait("wrote")
    standby = fragile.start("b", timeout_s=10.0)
    standby.wait("sessions")
    getattr(ensemble, how)(victim)
    writes = len(leader.all("wrote"))
    leader.wait("wrote", writes + 130, timeout_s=60)  # 13 s of work, longer than the session
    if how == "pause":
        ensemble.resume(victim)
    assert leader.epochs == [1]
    assert leader.all("stepping_down") == []
    assert standby.epochs == []


def test_f9_f10_an_outage_of_zookeeper_shorter_than_the_session(
    fragile: ElectionWorld, repaired_ensemble: EmbeddedEnsemble
) -> None:
    leader = fragile.start("a", timeout_s=20.0)
    leader.wait("wrote")
    for i in range(3):
        repaired_ensemble.pause(i)
    leader.wait("could_not")
    for i in range(3):
        repaired_ensemble.resume(i)
    healed = len(leader.all("wrote"))
    leader.wait("wrote", healed + 10, timeout_s=60)
    assert leader.epochs == [1]


def test_f9_an_outage_of_zookeeper_longer_than_the_session(
    fragile: ElectionWorld,
    repaired_ensemble: EmbeddedEnsemble,
    record_property: Callable[[str, object], None],
) -> None:
    contenders = fragile.leader_and_standby()
    for i in range(3):
        repaired_ensemble.kill(i)
    contenders[0].wait("stepped_down")
    for i in range(3):
        repaired_ensemble.restart(i)
    repaired_ensemble.wait_serving()
    healed_at_s = boottime_s()
    wait_until(lambda: sum(len(c.epochs) for c in contenders) >= 2, 60)
    newest = max((each for c in contenders for each in c.all("term")), key=lambda each: each["at"])
    report_figure("leader_after_heal_s", newest["at"] - healed_at_s, record_property)
    assert_growing(*contenders)


def test_kazoo_m11_leader_deleted_and_created_anew_is_no_fence(world: ElectionWorld, tmp_path: Path) -> None:
    """The ephemeral's version restarts at 0, so a check of it passes again; the check of /epoch does not."""
    terms: list[Term[ZooClient]] = []
    contender = in_process(world, tmp_path, terms)
    contender.start()
    try:
        wait_until(lambda: terms, 30)
        old = terms[0]
        world.zoo.commit(Transaction("vandal", "v", (Delete(world.layout.leader, ANY_VERSION),)))
        wait_until(lambda: len(terms) == 2, 30)
        leader = world.zoo.read(world.layout.leader)
        assert leader is not None and leader.stat.version == 0
        world.zoo.commit(Transaction("unfenced", "u", (Check(world.layout.leader, 0),)))
        with pytest.raises(GuardFailed) as failed:
            world.zoo.commit(Transaction("fenced", "f", (Check(world.layout.epoch, old.fence_version),)))
        assert failed.value.path == world.layout.epoch
        with pytest.raises(NotLeader):
            old.check()
        terms[1].check()
    finally:
        assert contender.stop(20)


def test_graceful_stop_leaves_nothing_behind(world: ElectionWorld, tmp_path: Path) -> None:
    terms: list[Term[ZooClient]] = []
    contender = in_process(world, tmp_path, terms)
    contender.start()
    wait_until(lambda: terms and contender.report().state is State.LEADING, 30)
    assert contender.stop(20)
    world.zoo.sync()
    assert world.zoo.read(world.layout.leader) is None
    assert terms[0].client.link is Link.CLOSED
    assert contender.report().state is State.STOPPED


def in_process(world: ElectionWorld, directory: Path, terms: list[Term[ZooClient]]) -> Contender[ZooClient]:
    paths = world.layout
    return Contender(
        Candidate("here", "nowhere"),
        ElectionRegistry(
            paths, EpochMarks(FileStore(directory / "store")), Trust(directory / "zxid", CLUSTER)
        ),
        SessionFactory(
            lambda on_link: ZooClient(world.hosts, T, on_link=on_link, request_timeout_s=T / 2),
            lambda session: close_session(world.hosts, session.id, session.password, 3.0),
        ),
        Duties(terms.append, lambda _: None),
    )
