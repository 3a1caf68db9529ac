"""``zookeeper.tls``, ``auth`` and the ACL in supervisor.yaml: what is taken, and what contradicts itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.errors import InvalidInput
from supervisor.model.zookeeper_access import (
    OPEN_ACCESS,
    OPEN_ACL,
    PERM_ALL,
    PERM_READ,
    AclEntry,
    Mechanism,
    TlsFiles,
    ZooKeeperAccess,
    access_from,
)
from supervisor.settings.file import ZooKeeperSettings, load_settings

TLS = {"ca": "/etc/z/ca.pem", "cert": "/etc/z/me.pem", "key": "/etc/z/me.key"}
PASSWORD = {"mechanism": "digest-md5", "username": "supervisor", "password_file": "/etc/z/password"}
KERBEROS = {"mechanism": "gssapi", "principal": "supervisor@REALM", "keytab": "/etc/z/keytab"}


def loaded(tmp_path: Path, environ: dict[str, str] | None = None, **zookeeper: Any) -> ZooKeeperSettings:
    file = tmp_path / "supervisor.yaml"
    body = {"cluster": "c", "zookeeper": {"hosts": "zk1", **zookeeper}, "store": {"url": "file:///s"}}
    file.write_text(yaml.safe_dump(body))
    return load_settings(file, environ or {}).zookeeper


def test_nothing_said_is_a_plain_connection_and_an_open_root(tmp_path: Path) -> None:
    access = loaded(tmp_path).access
    assert access == OPEN_ACCESS and access.acl == OPEN_ACL and not access.uses_sasl


def test_everything_said(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        tls={**TLS, "key_password_file": "/etc/z/key-password", "verify_hostname": False},
        auth=PASSWORD,
        acl="enforce",
        acl_admins=["sasl:supervisor", "x509:CN=operator,O=us"],
        acl_readers=["sasl:reader", "sasl:supervisor"],
    )
    assert settings.access == ZooKeeperAccess(
        tls=TlsFiles(
            ca="/etc/z/ca.pem",
            cert="/etc/z/me.pem",
            key="/etc/z/me.key",
            key_password_file="/etc/z/key-password",
            verify_hostname=False,
        ),
        mechanism=Mechanism.DIGEST_MD5,
        username="supervisor",
        password_file="/etc/z/password",
        admins=("sasl:supervisor", "x509:CN=operator,O=us"),
        readers=("sasl:reader", "sasl:supervisor"),
    )
    assert settings.access.acl == (
        AclEntry("sasl:supervisor", PERM_ALL),
        AclEntry("x509:CN=operator,O=us", PERM_ALL),
        AclEntry("sasl:reader", PERM_READ),
    )
    assert access_from(json.loads(json.dumps(asdict(settings.access)))) == settings.access


def test_the_admins_count_only_when_the_acl_is_on(tmp_path: Path) -> None:
    assert loaded(tmp_path, auth=PASSWORD, acl_admins=["sasl:supervisor"]).access.acl == OPEN_ACL


def test_kerberos(tmp_path: Path) -> None:
    access = loaded(tmp_path, auth=KERBEROS).access
    assert access.uses_sasl and (access.principal, access.keytab) == ("supervisor@REALM", "/etc/z/keytab")


def test_from_the_environment(tmp_path: Path) -> None:
    environ = {
        "SPARK_SUPERVISOR__ZOOKEEPER__TLS__CA": "/ca.pem",
        "SPARK_SUPERVISOR__ZOOKEEPER__TLS__VERIFY_HOSTNAME": "false",
    }
    assert loaded(tmp_path, environ).access.tls == TlsFiles(ca="/ca.pem", verify_hostname=False)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"tls": {"cert": "/c", "key": "/k"}}, "zookeeper.tls needs ca too"),
        ({"tls": {"ca": "/a", "cert": "/c"}}, "zookeeper.tls needs both cert and key"),
        ({"tls": {"ca": "/a", "key_password_file": "/p"}}, "key_password_file but no key"),
        ({"tls": {"ca": "relative"}}, "absolute path"),
        ({"auth": {"mechanism": "digest-md5", "username": "u"}}, "needs password_file"),
        ({"auth": {"mechanism": "gssapi", "keytab": "/k"}}, "needs principal"),
        ({"auth": {"username": "u"}}, "which is for mechanism digest-md5"),
        ({"auth": {**PASSWORD, "keytab": "/k"}}, "which is for mechanism gssapi"),
        ({"auth": {"mechanism": "digest"}}, "did you mean 'digest-md5'"),
        ({"auth": {**PASSWORD, "password": "p"}}, "unknown key 'zookeeper.auth.password'"),
        ({"auth": {"mechanism": "x509"}}, "mechanism x509 needs tls.cert"),
        ({"acl": "create", "auth": PASSWORD}, "needs acl_admins"),
        ({"acl": "create", "acl_admins": ["sasl:s"]}, "needs auth.mechanism"),
        ({"acl": "create", "auth": PASSWORD, "acl_admins": ["x509:CN=s"]}, "locked out"),
        ({"acl_admins": ["auth:"]}, "must be sasl:<name> or x509:<distinguished name>"),
        ({"acl_admins": ["world:anyone"]}, "must be sasl:<name>"),
        ({"acl_readers": ["x509: "]}, "must be sasl:<name>"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, said: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        loaded(tmp_path, **said)
    assert why in str(refused.value), refused.value


def test_a_certificate_beside_sasl_may_be_the_admin(tmp_path: Path) -> None:
    settings = loaded(tmp_path, tls=TLS, auth=PASSWORD, acl="create", acl_admins=["x509:CN=s"])
    assert settings.access.admins == ("x509:CN=s",)
