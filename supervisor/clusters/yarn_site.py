"""Reads from a directory with Hadoop's configuration where the ResourceManagers of a YARN answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from supervisor.clusters.application import ClusterSilent

FILE: Final = "yarn-site.xml"
_SIZE_MAX_BYTES: Final = 8 * 2**20
_MANAGER: Final = "yarn.resourcemanager"
_PORTS: Final = {"http": 8088, "https": 8090}
_ADDRESS: Final = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_VARIABLE: Final = re.compile(r"\$\{([^${}\s]{1,200})\}")
_DEPTH_MAX: Final = 20


def properties_in(conf_dir: Path) -> dict[str, str]:
    """Returns the properties of ``yarn-site.xml`` in ``conf_dir``. Raises ClusterSilent if it can't be read."""
    path = conf_dir / FILE
    try:
        with path.open("rb") as file:
            text = file.read(_SIZE_MAX_BYTES + 1)
        if len(text) > _SIZE_MAX_BYTES:
            raise ClusterSilent(f"{path} is larger than {_SIZE_MAX_BYTES} bytes", "correct it")
        if b"<!DOCTYPE" in text or b"\0" in text:  # UTF-16 hides one
            raise ClusterSilent(f"{path} has a document type, which is not read here", "remove it")
        root = ElementTree.fromstring(text)
    except OSError as error:
        raise ClusterSilent(
            f"{path} can't be read ({error.strerror})", "correct clusters.*.conf_dir"
        ) from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ClusterSilent(f"{path} is no XML ({error})", "correct it") from None
    found = {}
    for one in root.iter("property"):
        name, value = one.findtext("name"), one.findtext("value")
        if name is not None and value is not None:
            found[name.strip()] = value.strip()
    return found


def web_addresses(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the base URLs of all ResourceManagers, in the order of their ids. Raises ClusterSilent if the properties name
    none."""
    scheme = "https" if properties.get("yarn.http.policy", "").upper() == "HTTPS_ONLY" else "http"
    key = f"{_MANAGER}.webapp.{'https.' if scheme == 'https' else ''}address"
    names = [each.strip() for each in _value(properties, f"{_MANAGER}.ha.rm-ids").split(",")]
    is_several = properties.get(f"{_MANAGER}.ha.enabled", "").lower() == "true"
    ids = [f".{name}" for name in names if name] if is_several else [""]
    found = []
    for suffix in ids:
        address = _value(properties, f"{key}{suffix}")
        host = _value(properties, f"{_MANAGER}.hostname{suffix}") or _value(
            properties, f"{_MANAGER}.hostname"
        )
        found.append(f"{scheme}://{_checked(address or f'{host}:{_PORTS[scheme]}', key + suffix)}")
    if not found:
        raise ClusterSilent(f"{FILE} has {_MANAGER}.ha.enabled and no {_MANAGER}.ha.rm-ids", "correct it")
    return tuple(found)


def _checked(address: str, key: str) -> str:
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[2]) <= 65535 or match[1] == "0.0.0.0":
        raise ClusterSilent(
            f"{FILE} does not say where a ResourceManager answers ({key}: {address[:100]!r})",
            f"set {key} or {_MANAGER}.hostname there",
        )
    return address


def _value(properties: Mapping[str, str], key: str) -> str:
    """Returns the value with its ``${…}`` replaced, as Hadoop does; what it does not know stays as it is."""
    value = properties.get(key, "")
    for _ in range(_DEPTH_MAX):
        replaced = _VARIABLE.sub(lambda match: properties.get(match[1], match[0]), value)
        if replaced == value or len(replaced) > _SIZE_MAX_BYTES:
            break
        value = replaced
    return value
