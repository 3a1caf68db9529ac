"""Where the ResourceManagers answer is read from Hadoop's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.clusters.application import ClusterSilent
from supervisor.clusters.yarn_site import properties_in, web_addresses
from tests.unit.clusters.resource_manager import conf_dir

RM = "yarn.resourcemanager"


@pytest.mark.parametrize(
    ("properties", "addresses"),
    [
        ({f"{RM}.hostname": "m1"}, ("http://m1:8088",)),
        ({f"{RM}.webapp.address": "m1:99"}, ("http://m1:99",)),
        ({f"{RM}.hostname": "m1", f"{RM}.webapp.address": f"${{{RM}.hostname}}:99"}, ("http://m1:99",)),
        ({f"{RM}.hostname": "m1", "yarn.http.policy": "HTTPS_ONLY"}, ("https://m1:8090",)),
        ({f"{RM}.webapp.address": "[::1]:99"}, ("http://[::1]:99",)),
        (
            {
                f"{RM}.ha.enabled": "true",
                f"{RM}.ha.rm-ids": "a, b",
                f"{RM}.hostname.a": "m1",
                f"{RM}.webapp.address.b": "m2:99",
            },
            ("http://m1:8088", "http://m2:99"),
        ),
    ],
)
def test_addresses(properties: dict[str, str], addresses: tuple[str, ...], tmp_path: Path) -> None:
    assert web_addresses(properties_in(conf_dir(tmp_path / "c", properties))) == addresses


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {f"{RM}.webapp.address": "0.0.0.0:8088"},
        {f"{RM}.webapp.address": "m1"},
        {f"{RM}.webapp.address": "m1:0"},
        {f"{RM}.webapp.address": "m1:88@evil:80/x"},
        {f"{RM}.webapp.address": "${a}", "a": "${b}", "b": "${a}"},
        {f"{RM}.webapp.address": "${a}", "a": "${a}${a}"},
        {f"{RM}.ha.enabled": "true", f"{RM}.hostname": "m1"},
    ],
)
def test_a_file_that_names_none_is_said(properties: dict[str, str]) -> None:
    with pytest.raises(ClusterSilent, match="yarn-site.xml"):
        web_addresses(properties)


@pytest.mark.parametrize(
    "text",
    [b"", b"<configuration>", b"\xff\xfe\x00", b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', b"\0" * 100],
)
def test_a_file_that_is_none_is_said(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_bytes(text)
    with pytest.raises(ClusterSilent):
        properties_in(tmp_path)


def test_a_directory_without_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClusterSilent, match="conf_dir"):
        properties_in(tmp_path)
