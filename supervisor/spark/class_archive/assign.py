"""Puts key, choice and shelf together: the archive that a driver starts with. Called by ``prepare`` at each
start, by ``doctor``, and by the thread that makes archives.

It reads directories and one small file (3 ms), and never raises for what it finds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from supervisor.settings.file import Settings
from supervisor.spark.class_archive import shelf
from supervisor.spark.class_archive.choice import ClassArchive, why_not, why_not_this_conf_dir
from supervisor.spark.class_archive.key import ArchiveKey, archive_key
from supervisor.spark.toolchain import Toolchain

DIRECTORY: Final = "class-archives"
OFF: Final = "spark.class_archive is off on this host"


def archives_dir(settings: Settings) -> Path:
    """Returns the directory of this host's archives."""
    return settings.supervisor.runtime_dir / DIRECTORY


def archive_of_driver(
    conf: Mapping[str, str],
    env: Mapping[str, str],
    settings: Settings,
    toolchain: Toolchain,
    *,
    brings_s3a: bool,
    driver_memory: int = 0,
) -> ClassArchive:
    """Returns the archive for a driver. The arguments are those of ``choice.why_not``."""
    if settings.spark.class_archive == "off":
        return ClassArchive(why=OFF)
    why = why_not(conf, env, brings_s3a=brings_s3a, driver_memory=driver_memory)
    if why:
        return ClassArchive(why=why)
    return archive_of_host(settings, toolchain, env)


def archive_of_host(settings: Settings, toolchain: Toolchain, env: Mapping[str, str]) -> ClassArchive:
    """Returns the archive of a driver that has nothing of its own against it."""
    key = archive_key(toolchain, env)
    if not isinstance(key, ArchiveKey):
        return ClassArchive(why=key)
    found = shelf.find(archives_dir(settings), key)
    if isinstance(found, str):
        return ClassArchive(why=found)
    conf_dir = Path(env.get("SPARK_CONF_DIR") or toolchain.home / "conf")
    why = why_not_this_conf_dir(conf_dir, found.names)
    if why:
        return ClassArchive(why=why)
    if any(mark in os.fspath(found.file) for mark in '"\\'):
        return ClassArchive(why="the name of supervisor.runtime_dir has a quotation mark")
    return ClassArchive(found.file, key.kind, key.of_spark)
