"""Which configuration ``registry secure`` asks for, each way."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.errors import Conflict
from supervisor.model.transaction import Create, Transaction
from supervisor.operations import secure_registry as secure_registry_module
from supervisor.operations.auditing import NO_AUDIT
from supervisor.operations.secure_registry import examine_acl, secure_registry
from supervisor.records.layout import Layout
from supervisor.settings.file import ZooKeeperSettings
from tests.fakes.zookeeper_acls import GuardedZoo

LAYOUT = Layout("/spark-supervisor")


def context_of(acl: str) -> Any:
    zoo = GuardedZoo()
    zoo.known_as().commit(Transaction("b", "b", (Create(LAYOUT.root, b""), Create(LAYOUT.jobs, b""))))
    zookeeper = ZooKeeperSettings.model_validate(
        {
            "hosts": "zk1",
            "auth": {"mechanism": "digest-md5", "username": "supervisor", "password_file": "/p"},
            "acl": acl,
            "acl_admins": ["sasl:supervisor"],
        }
    )
    client = zoo.known_as("sasl:supervisor", acl=zookeeper.access.acl)
    return SimpleNamespace(
        settings=SimpleNamespace(zookeeper=zookeeper),
        layout=LAYOUT,
        zoo=lambda: client,
        memory=zoo,
        auditor=NO_AUDIT,
    )


def test_the_way_there_needs_an_acl_to_set() -> None:
    with pytest.raises(
        Conflict, match="zookeeper.acl is open here, so there is no ACL to set; set acl: create"
    ):
        examine_acl(context_of("open"), opens=False)
    for acl in ("create", "enforce"):
        context = context_of(acl)
        finding = examine_acl(context, opens=False)
        assert (finding.znodes, finding.differing, finding.blockers) == (2, 2, ())
        assert secure_registry(context, finding) == 2 and context.memory.open_znodes() == []


def test_the_way_back_needs_an_open_configuration() -> None:
    for acl in ("create", "enforce"):
        with pytest.raises(Conflict, match=f"zookeeper.acl is {acl} here, so znodes would go on to be made"):
            examine_acl(context_of(acl), opens=True)
    assert examine_acl(context_of("open"), opens=True).differing == 0


@pytest.mark.parametrize("blockers", [(), ("a supervisor would be locked out",)])
def test_its_line_is_written_before_the_first_znode_and_not_where_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, blockers: tuple[str, ...]
) -> None:
    context, done = context_of("create"), []
    context.auditor = SimpleNamespace(before=lambda write: done.append((write.what, write.detail)))
    finding = replace(examine_acl(context, opens=False), blockers=blockers)

    def apply(*_: Any) -> int:
        done.append(("apply", ""))
        return 2

    monkeypatch.setattr(secure_registry_module, "apply_acl", apply)
    assert secure_registry(context, finding) == 2
    assert done == [*([] if blockers else [("secure", "sasl:supervisor")]), ("apply", "")]
