"""The examples in conf/: they parse, they are complete, and what they say of defaults is true."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from supervisor.settings.defaults import Defaults
from supervisor.settings.file import Settings, lease_warnings, load_settings
from supervisor.settings.policy import open_rules
from supervisor.settings.sections import known_keys, validated
from supervisor.settings.yaml_text import read_mapping
from supervisor.spec.files import local_files, read_spec_file
from supervisor.spec.job import JobSpec, secret_warnings

CONF = Path(__file__).parents[2] / "conf"
SPECS = sorted((CONF / "jobs").glob("*.yaml"))
REQUIRED = {
    "cluster": "prod",
    "zookeeper": {"hosts": "zk1:2181,zk2:2181,zk3:2181"},
    "store": {"url": "s3://bucket/prefix"},
}


def keys(value: Any, prefix: str = "") -> set[str]:
    if not isinstance(value, dict) or not value:
        return {prefix}
    return {path for key, item in value.items() for path in keys(item, f"{prefix}.{key}")}


def all_keys(model: type[BaseModel], location: tuple[str, ...] = ()) -> set[str]:
    below = known_keys(model, location)
    if not below:
        return {"".join(f".{key}" for key in location)}
    return {path for key in below for path in all_keys(model, (*location, key))}


def test_the_configuration_file_is_the_defaults() -> None:
    assert load_settings(CONF / "supervisor.yaml", {}) == Settings.model_validate(REQUIRED)


def test_the_configuration_file_has_every_key() -> None:
    text = (CONF / "supervisor.yaml").read_text()
    assert keys(read_mapping(text, "supervisor.yaml")) == all_keys(Settings)


def test_the_secure_configuration_is_one_and_leaves_no_rule_open() -> None:
    settings = load_settings(CONF / "supervisor.secure.yaml", {})
    assert open_rules(settings.policy) == ()
    assert settings.policy.deletable == settings.policy.endpoints == ()
    plain = Settings.model_validate(REQUIRED)
    assert settings.model_copy(update={"policy": plain.policy}) == plain
    assert len(open_rules(plain.policy)) == 5  # as before, and warned of


@pytest.mark.parametrize("page", ["security.md", "install-systemd.md"])
def test_a_policy_in_a_page_is_one_and_leaves_no_rule_open(page: str) -> None:
    text = (CONF.parent / "supervisor" / "docs" / page).read_text()
    (block,) = [
        each
        for each in re.findall(r"( *)```yaml\n(.*?)```", text, re.DOTALL)
        if "driver_environment:" in each[1]
    ]
    body = read_mapping(textwrap.dedent(block[1]), page)
    assert open_rules(validated(Settings, {**REQUIRED, "policy": body["policy"]}, page).policy) == ()


def test_the_defaults_of_the_file_need_no_warning() -> None:
    settings = load_settings(CONF / "supervisor.yaml", {})
    assert lease_warnings(settings.defaults.lease_s, settings.zookeeper.session_timeout_s) == ()


def test_the_reference_spec_has_every_key_and_its_default() -> None:
    path = CONF / "jobs" / "reference.yaml"
    assert keys(read_mapping(path.read_text(), "reference.yaml")) - {".args"} == all_keys(JobSpec) - {".args"}
    spec = read_spec_file(path)
    required = {
        "name": spec.name,
        "application": spec.application,
        "args": list(spec.args),
        "checkpoint": spec.checkpoint,
    }
    assert spec == JobSpec.model_validate(required)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_an_example_spec_is_valid_and_its_files_are_there(path: Path) -> None:
    spec = read_spec_file(path, Defaults())
    assert local_files(spec, path.parent)
    assert secret_warnings(spec) == ()


def test_the_examples_have_different_names_and_checkpoints() -> None:
    specs = [read_spec_file(path) for path in SPECS]
    assert len({spec.name for spec in specs}) == len({spec.checkpoint for spec in specs}) == len(SPECS) >= 4


@pytest.mark.parametrize("path", sorted((CONF / "applications").glob("*.py")), ids=lambda path: path.name)
def test_every_example_application_is_used_and_compiles(path: Path) -> None:
    ast.parse(path.read_text())
    assert any(
        path.resolve() in map(Path.resolve, local_files(read_spec_file(spec), spec.parent)) for spec in SPECS
    )
