"""``registry secure`` as a user sees it: what it says, refuses and changes, on a tree in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.cli.main import run_command
from supervisor.clients.sessions import KeptSession
from supervisor.model.transaction import Create, Transaction
from supervisor.model.zookeeper_access import OPEN_ACL, acl_of
from supervisor.operations import context as module
from supervisor.records.layout import Layout
from tests.fakes.zookeeper_acls import GuardedClient, GuardedZoo

LAYOUT = Layout("/spark-supervisor")
WANTED = acl_of(("sasl:supervisor",), ("sasl:reader",))
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def zoo() -> GuardedZoo:
    zoo = GuardedZoo()
    paths = (LAYOUT.root, *LAYOUT.persistent_parents(), LAYOUT.job("a"))
    zoo.known_as().commit(Transaction("found", "f", tuple(Create(path, b"") for path in paths)))
    return zoo


@pytest.fixture
def run(
    zoo: GuardedZoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    def keep(
        _hosts: str, _time_s: float, _connect_s: float, *, access: Any, check: Any
    ) -> KeptSession[GuardedClient]:
        who = f"sasl:{access.username}" if access.username else "ip:10.0.0.1"
        return KeptSession(lambda: zoo.known_as(who, acl=access.acl), lambda _old: None, check=check)

    monkeypatch.setattr(module, "keep_session", keep)

    def ran(*words: str, acl: str = "create", user: str = "supervisor") -> tuple[int, str, str]:
        zookeeper = {
            "hosts": "zk1",
            "auth": {"mechanism": "digest-md5", "username": user, "password_file": "/p"},
            "acl": acl,
            "acl_admins": ["sasl:supervisor"],
            "acl_readers": ["sasl:reader"],
        }
        config = tmp_path / "supervisor.yaml"
        config.write_text(
            yaml.safe_dump({"cluster": "c", "store": {"url": "file:///s"}, "zookeeper": zookeeper})
        )
        code = run_command([*words, "--config", str(config)])
        out, err = capsys.readouterr()
        return code, out, err

    return ran


def supervisor(zoo: GuardedZoo, acl: Any) -> None:
    path = LAYOUT.supervisor("s0")
    zoo.known_as("sasl:supervisor", acl=acl).commit(
        Transaction("r", path, (Create(path, b"", ephemeral=True),))
    )


def test_it_secures_says_so_and_given_again_changes_nothing(zoo: GuardedZoo, run: Run) -> None:
    count = len(zoo.tree())
    code, out, _ = run("registry", "secure")
    assert code == 0 and f"{count} changed; {count} znodes in /spark-supervisor have this ACL" in out
    assert "sasl:supervisor may do everything" in out and "sasl:reader may read" in out
    assert zoo.open_znodes() == []
    code, out, _ = run("registry", "secure")
    assert code == 0 and "nothing to change" in out


def test_a_dry_run_changes_nothing_and_lists_who_would_be_locked_out(zoo: GuardedZoo, run: Run) -> None:
    code, out, _ = run("registry", "secure", "--dry-run")
    assert code == 0 and "a dry run" in out
    supervisor(zoo, OPEN_ACL)
    code, out, _ = run("registry", "secure", "--dry-run")
    assert code == 4 and "supervisor s0 has no credentials" in out
    code, out, err = run("registry", "secure")
    assert code == 4 and "supervisor s0 has no credentials" in err and out == ""
    assert set(zoo.open_znodes()) == set(zoo.tree())


def test_as_a_document(run: Run) -> None:
    code, out, _ = run("registry", "secure", "-o", "json")
    document = json.loads(out)
    assert code == 0 and document["changed"] == document["differing"] == document["znodes"] > 5
    assert document["acl"] == [{"who": "sasl:supervisor", "all": True}, {"who": "sasl:reader", "all": False}]
    assert document["blockers"] == [] and document["dry_run"] is False


def test_a_user_who_is_no_admin_is_refused(zoo: GuardedZoo, run: Run) -> None:
    code, _, err = run("registry", "secure", user="me")
    assert code == 4 and "knows this process as sasl:me, and that is none of acl_admins" in err
    assert set(zoo.open_znodes()) == set(zoo.tree())


def test_with_an_open_configuration_there_is_nothing_to_secure_and_the_way_back_is_named(run: Run) -> None:
    code, _, err = run("registry", "secure", acl="open")
    assert code == 4 and "set acl: create and acl_admins on every host" in err and "--open goes back" in err


def test_going_back(zoo: GuardedZoo, run: Run) -> None:
    assert run("registry", "secure")[0] == 0
    code, _, err = run("registry", "secure", "--open")
    assert code == 4 and "set acl: open on every host" in err
    code, out, _ = run("registry", "secure", "--open", acl="open")
    assert code == 0 and "world:anyone may do everything" in out
    assert set(zoo.open_znodes()) == set(zoo.tree())


def test_enforced_every_command_but_this_one_refuses_an_open_root(zoo: GuardedZoo, run: Run) -> None:
    for words in (["list"], ["pause"], ["cancel", "a"]):
        code, _, err = run(*words, acl="enforce")
        assert code == 4 and "zookeeper.acl is enforce, but /spark-supervisor is open to everyone" in err
    assert run("registry", "secure", acl="enforce")[0] == 0
    assert "open to everyone" not in run("pause", acl="enforce")[2]
