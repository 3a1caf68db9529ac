"""Rules of ``policy``: which location is covered, under any spelling; and what is no rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import supervisor
from supervisor.coord.epoch_marks import EPOCHS
from supervisor.errors import InvalidInput
from supervisor.model.deletable import STORE_DIRECTORIES, why_not_deletable
from supervisor.registry.audit import AUDIT
from supervisor.registry.blobs import ARTIFACTS, CHECKS, SPECS
from supervisor.registry.uploaded_logs import LOGS
from supervisor.savepoints.manifest import SHELF
from supervisor.settings.policy import PolicySettings
from supervisor.settings.sections import validated
from supervisor.spec.site_policy import SitePolicy, site_policy

ROOT = Path(supervisor.__file__).parent


@pytest.mark.parametrize(
    ("rule", "location"),
    [
        ("*", "hdfs://name/any"),
        ("s3a://streams/*", "s3a://streams/a"),
        ("s3a://streams/*", "s3n://Streams/a/b/c/"),
        ("s3://streams/team-*/*", "s3a://streams/team-a/x/y"),
        ("file:///data/*", "/data/a"),
        ("file:/data/*/ck", "file:///data/a/ck"),
        ("s3a://streams/a", "s3://streams//./a/"),
    ],
)
def test_covered(rule: str, location: str) -> None:
    assert SitePolicy(deletable=(rule,)).why_not_deletable(location) is None
    assert SitePolicy(checkpoints=(rule,)).why_no_checkpoint(location) is None


@pytest.mark.parametrize(
    ("rule", "location"),
    [
        ("s3a://streams/*", "s3a://streams-evil/a"),
        ("s3a://streams/prod/*", "s3a://streams/prod-evil/a"),
        ("s3a://streams/prod/*", "s3a://streams/prod"),
        ("s3a://streams/a", "s3a://streams/a/b"),
        ("s3a://streams/team-*", "s3a://streams/team-a/b"),
        ("s3a://streams/a/*", "s3a://streams/a/b/../c"),
        ("file:///data/*", "file:///data/../etc/x"),
        ("file:///data/*", "hdfs://data/a"),
        ("s3a://streams/*/ck", "s3a://streams/a/b/ck"),
    ],
)
def test_outside(rule: str, location: str) -> None:
    why = SitePolicy(deletable=(rule,)).why_not_deletable(location)
    assert why is not None and "policy.deletable" in why
    assert "policy.checkpoints" in (SitePolicy(checkpoints=(rule,)).why_no_checkpoint(location) or "")


def test_by_default_jobs_may_be_anywhere_and_nothing_may_be_deleted() -> None:
    site = site_policy(PolicySettings())
    assert site.why_no_checkpoint("file:///any/where") is None
    assert site.why_no_checkpoint(None) is None
    assert "is empty" in (site.why_not_deletable("s3a://streams/a") or "")


@pytest.mark.parametrize("rule", ["streams/*", "s3a://streams", "s3a://streams/../*", "s3a://s/[ab]/*", ""])
def test_what_is_no_rule_is_refused_with_its_key(rule: str) -> None:
    with pytest.raises(InvalidInput, match=r"supervisor.yaml: deletable\[0\]"):
        validated(PolicySettings, {"deletable": [rule]}, "supervisor.yaml")


def test_users_that_a_job_may_name() -> None:
    site = site_policy(
        PolicySettings.model_validate({"run_as": {"default": "etl", "allowed": ["a", "20001"]}})
    )
    assert [site.user_of(run_as) for run_as in (None, "a")] == ["etl", "a"]
    assert [site.why_not_user(run_as) for run_as in (None, "etl", "a", "20001")] == [None] * 4
    why = site.why_not_user("b")
    assert why is not None and "policy.run_as" in why and "a, 20001" in why
    assert site_policy(PolicySettings()).user_of(None) is None


@pytest.mark.parametrize("name", ["root", "0", "-1", "a b", "", "A" * 40, "../x"])
def test_what_is_no_user(name: str) -> None:
    with pytest.raises(InvalidInput, match="Unix user"):
        validated(PolicySettings, {"run_as": {"allowed": [name]}}, "supervisor.yaml")


def test_nothing_that_the_store_has_is_deleted_as_a_checkpoint() -> None:
    """Its audit and the outputs of attempts among it."""
    kept = {each.partition("/")[0] for each in (ARTIFACTS, AUDIT, CHECKS, EPOCHS, LOGS, SHELF, SPECS)}
    assert kept == set(STORE_DIRECTORIES)
    for name in kept:
        for location in (
            f"s3a://bucket/store/{name}",
            f"s3a://bucket/store/{name}/a",
            "s3a://bucket/store",
        ):
            assert "where the store keeps its own" in (why_not_deletable(location, "s3://bucket/store") or "")
    assert why_not_deletable("s3a://bucket/store/checkpoints/a", "s3://bucket/store") is None


def test_where_the_store_keeps_what_is_known() -> None:
    """A constant ``X: Final = "word/"`` is the beginning of keys: each has its directory."""
    found = {
        match
        for path in ROOT.rglob("*.py")
        for match in re.findall(r'^[A-Z_]+(?:: Final)? = "([a-z]+)/"$', path.read_text(), re.MULTILINE)
    }
    assert found and found <= set(STORE_DIRECTORIES)
