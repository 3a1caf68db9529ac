"""``registry secure`` on a tree in memory: who would be locked out, kills at every step, clients that come late, going back."""

from __future__ import annotations

from itertools import count

import pytest

from supervisor.errors import AccessDenied, Conflict, NotFound
from supervisor.model.transaction import ANY_VERSION, Create, Delete, SetData, Transaction
from supervisor.model.zookeeper_access import OPEN_ACL, acl_of
from supervisor.records.layout import Layout
from supervisor.registry import access_control
from supervisor.registry.access_control import (
    apply_acl,
    blockers,
    prove_admin,
    refuse_lock_out,
    refuse_open_root,
    survey,
)
from tests.fakes.zookeeper_acls import GuardedClient, GuardedZoo

LAYOUT = Layout("/apps/spark")
ADMIN, READER = "sasl:supervisor", "sasl:reader"
WANTED = acl_of((ADMIN,), (READER,))


class Killed(BaseException):
    """This process is no more."""


def open_root() -> GuardedZoo:
    """An open root with two jobs, made by a version that knew no ACLs."""
    zoo = GuardedZoo()
    old = zoo.known_as()
    paths = ["/apps", LAYOUT.root, LAYOUT.version, LAYOUT.epoch, *LAYOUT.persistent_parents()]
    paths += [LAYOUT.assigned_to("s0"), LAYOUT.assignment("s0", "u", 1)]
    paths += [
        path for name in ("a", "b") for path in (LAYOUT.job(name), LAYOUT.own(name), LAYOUT.lease(name))
    ]
    old.commit(Transaction("found", "f", tuple(Create(path, b"") for path in paths)))
    old.close()
    return zoo


def operator(zoo: GuardedZoo, *ids: str) -> GuardedClient:
    return zoo.known_as(*(ids or (ADMIN,)), acl=WANTED)


def live(zoo: GuardedZoo, path: str, *ids: str, acl: object = WANTED) -> GuardedClient:
    client = zoo.known_as(*ids, acl=acl)
    client.commit(Transaction("live", path, (Create(path, b"", ephemeral=True),)))
    return client


def below_root(zoo: GuardedZoo) -> set[str]:
    return {path for path in zoo.tree() if path == LAYOUT.root or path.startswith(f"{LAYOUT.root}/")}


def test_every_znode_of_the_root_gets_the_acl_and_what_is_above_it_does_not() -> None:
    zoo = open_root()
    zoo_client = operator(zoo)
    changed = apply_acl(zoo_client, LAYOUT, WANTED)
    assert {path for path in zoo.tree() if zoo.acl(path) == WANTED} == below_root(zoo)
    assert changed == len(below_root(zoo)) == zoo.sets
    assert zoo.open_znodes() == ["/apps"]
    assert apply_acl(zoo_client, LAYOUT, WANTED) == 0, "given again it changes nothing"


def test_children_come_before_their_parents_and_the_root_last() -> None:
    zoo, order = open_root(), list[str]()
    client = operator(zoo)
    client.before_set_acl = order.append
    apply_acl(client, LAYOUT, WANTED)
    assert order[-1] == LAYOUT.root
    assert all(order.index(path) < order.index(path.rpartition("/")[0]) for path in order[:-1])


@pytest.mark.parametrize("back", [False, True])
def test_killed_at_any_step_it_goes_on_where_it_ended(back: bool) -> None:
    steps = len(below_root(open_root()))
    for killed_at in range(steps):
        zoo = open_root()
        wanted = OPEN_ACL if back else WANTED
        if back:
            apply_acl(operator(zoo), LAYOUT, WANTED)
        step = count()

        def kill(_path: str, step: count[int] = step, killed_at: int = killed_at) -> None:
            if next(step) == killed_at:
                raise Killed

        client = operator(zoo)
        client.before_set_acl = kill
        with pytest.raises(Killed):
            apply_acl(client, LAYOUT, wanted)
        assert access_control.is_open(zoo.acl(LAYOUT.root)) == (killed_at > 0 or not back), killed_at
        assert apply_acl(operator(zoo), LAYOUT, wanted) == steps - killed_at
        assert {zoo.acl(path) for path in below_root(zoo)} == {wanted}


def test_at_every_step_an_admin_can_do_everything_and_a_reader_reads() -> None:
    zoo = open_root()
    supervisor = live(zoo, LAYOUT.supervisor("s0"), ADMIN)
    reader = zoo.known_as(READER)
    client = operator(zoo)

    def work(_path: str) -> None:
        made = LAYOUT.job("c")
        supervisor.commit(
            Transaction("submit", "s", (Create(made, b""), SetData(LAYOUT.own("a"), b"x", ANY_VERSION)))
        )
        assert reader.read(made) is not None and reader.children(LAYOUT.jobs)
        supervisor.commit(Transaction("sweep", "s", (Delete(made, ANY_VERSION),)))

    client.before_set_acl = work
    apply_acl(client, LAYOUT, WANTED)
    with pytest.raises(AccessDenied):
        reader.commit(Transaction("forge", "f", (SetData(LAYOUT.own("a"), b"", ANY_VERSION),)))
    with pytest.raises(AccessDenied):
        zoo.known_as("sasl:stranger").read(LAYOUT.own("a"))


@pytest.mark.parametrize(
    ("path", "acl", "sentence"),
    [
        (
            LAYOUT.supervisor("s1"),
            OPEN_ACL,
            "supervisor s1 has no credentials, or does not set ACLs: restart it with acl",
        ),
        (
            LAYOUT.live("u", 3),
            OPEN_ACL,
            "the shim of attempt u.3 has no credentials, or does not set ACLs: restart its job",
        ),
        (LAYOUT.supervisor("s1"), acl_of(("sasl:old",), ()), "supervisor s1 has other acl_admins"),
        (LAYOUT.leader, OPEN_ACL, "the owner of /apps/spark/leader has no credentials"),
    ],
)
def test_whoever_would_be_locked_out_is_named_and_nothing_is_changed(
    path: str, acl: object, sentence: str
) -> None:
    zoo = open_root()
    live(zoo, path, acl=acl)
    client = operator(zoo, ADMIN, "sasl:old")
    assert sentence in blockers(survey(client, LAYOUT, WANTED), LAYOUT, WANTED)[0]
    with pytest.raises(Conflict, match=sentence):
        apply_acl(client, LAYOUT, WANTED)
    assert zoo.sets == 0


def test_a_process_with_fewer_of_the_same_admins_is_in_nobodys_way() -> None:
    zoo, wanted = open_root(), acl_of((ADMIN, "x509:CN=operator"), ())
    live(zoo, LAYOUT.supervisor("s0"), ADMIN)
    assert apply_acl(operator(zoo), LAYOUT, wanted) == len(below_root(zoo))


def test_one_that_comes_in_the_middle_without_credentials_stops_it() -> None:
    zoo = open_root()
    client, step = operator(zoo), count()

    def come(_path: str) -> None:
        if next(step) == 3:
            live(zoo, LAYOUT.supervisor("late"), acl=OPEN_ACL)

    client.before_set_acl = come
    with pytest.raises(Conflict, match="supervisor late has no credentials"):
        apply_acl(client, LAYOUT, WANTED)


def test_what_is_made_open_meanwhile_is_found_by_another_pass() -> None:
    zoo = open_root()
    late = zoo.known_as(acl=OPEN_ACL)
    client, step = operator(zoo), count()

    def make(_path: str) -> None:
        if next(step) == 0:
            late.commit(Transaction("submit", "s", (Create(LAYOUT.job("late"), b""),)))

    client.before_set_acl = make
    apply_acl(client, LAYOUT, WANTED)
    assert zoo.acl(LAYOUT.job("late")) == WANTED


def test_somebody_who_never_stops_making_open_znodes_is_reported() -> None:
    zoo = open_root()
    mad = zoo.known_as(ADMIN, acl=OPEN_ACL)  # has credentials, sets no ACL, and has no znode that says so
    client, step = operator(zoo), count()
    client.before_set_acl = lambda _path: mad.commit(
        Transaction("submit", "s", (Create(f"{LAYOUT.jobs}/j{next(step)}", b""),))
    )
    with pytest.raises(Conflict, match="goes on to make znodes"):
        apply_acl(client, LAYOUT, WANTED)


def test_a_znode_that_is_deleted_meanwhile_is_no_error() -> None:
    zoo = open_root()
    client = operator(zoo)
    client.before_set_acl = lambda path: zoo.remove(path) if path == LAYOUT.lease("a") else None
    apply_acl(client, LAYOUT, WANTED)
    assert LAYOUT.lease("a") not in zoo.tree() and zoo.acl(LAYOUT.root) == WANTED


def test_an_operator_who_is_no_admin_is_refused_before_anything_changes() -> None:
    zoo = open_root()
    with pytest.raises(Conflict, match="knows this process as sasl:me, and that is none of acl_admins"):
        prove_admin(operator(zoo, "sasl:me"), LAYOUT, WANTED)
    prove_admin(operator(zoo), LAYOUT, WANTED)
    assert zoo.sets == 1, "only that of the trial"
    assert not [path for path in zoo.tree() if "secure" in path]


def test_going_back_opens_everything_while_shims_with_credentials_run() -> None:
    zoo = open_root()
    live(zoo, LAYOUT.live("u", 1), ADMIN)
    apply_acl(operator(zoo), LAYOUT, WANTED)
    supervisor = live(zoo, LAYOUT.supervisor("s0"), ADMIN)
    with pytest.raises(Conflict, match="supervisor s0 still sets ACLs: restart it with acl: open first"):
        apply_acl(operator(zoo), LAYOUT, OPEN_ACL)
    supervisor.close()
    apply_acl(operator(zoo), LAYOUT, OPEN_ACL)
    assert set(zoo.open_znodes()) == set(zoo.tree())


def test_many_are_named_shortly() -> None:
    zoo = open_root()
    for number in range(7):
        live(zoo, LAYOUT.live("u", number), acl=OPEN_ACL)
    with pytest.raises(Conflict, match=r"\(and 2 more\)$"):
        refuse_lock_out(survey(operator(zoo), LAYOUT, WANTED), LAYOUT, WANTED)


def test_enforce_refuses_an_open_root_and_takes_one_that_is_absent_or_secured() -> None:
    zoo = open_root()
    client = operator(zoo)
    with pytest.raises(Conflict, match="open to everyone; give spark-supervisor registry secure"):
        refuse_open_root(client, LAYOUT)
    refuse_open_root(client, Layout("/nowhere"))
    apply_acl(client, LAYOUT, WANTED)
    refuse_open_root(client, LAYOUT)


def test_there_must_be_a_root() -> None:
    with pytest.raises(NotFound, match="does not exist"):
        survey(operator(open_root()), Layout("/nowhere"), WANTED)
