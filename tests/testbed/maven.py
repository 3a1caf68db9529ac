"""Jars from Maven for tests, each with all that it needs: fetched once, and kept in the checkout's cache."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

from tests.testbed import requirements

CACHE = Path(__file__).parent.parent.parent / ".ci" / "cache"
POM = Path(__file__).with_name("maven") / "pom.xml"
FETCH_MAX_S = 600


def fetched_jars(name: str, *artifacts: str, present: Path | None = None) -> Path:
    """The directory ``name`` of the cache, with the jars of ``artifacts`` (``group:artifact:version``) and of what they need.

    What the directory ``present`` has in any version is left out. Skips the test where there is no Maven, unless .ci/run
    asks for everything.
    """
    target = CACHE / name
    with cached(target) as missing:
        if missing:
            requirements.need("maven")
            for artifact in artifacts:
                _fetch(artifact, target)
            there = {artifact_of(jar) for jar in present.glob("*.jar")} if present is not None else set()
            for jar in target.glob("*.jar"):
                if artifact_of(jar) in there:
                    jar.unlink()
    return target


@contextmanager
def cached(target: Path) -> Iterator[bool]:
    """Whether the directory has yet to be filled: the caller does it, while processes beside this one wait.

    It is empty then. Once it was filled without an error it counts as complete.
    """
    complete = target / ".complete"
    CACHE.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if complete.exists():
            yield False
            return
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        yield True
        complete.touch()


def artifact_of(jar: Path) -> str:
    """The name of a jar without its version."""
    return re.sub(r"-[0-9][0-9.]*([.-][A-Za-z0-9]*)*\.jar$", "", jar.name)


def _fetch(artifact: str, target: Path) -> None:
    group, name, version = artifact.split(":")
    subprocess.run(
        [
            "mvn",
            "-C",
            "--batch-mode",
            "--quiet",
            "-Dstyle.color=never",
            "-f",
            str(POM),
            f"-Dwanted.group={group}",
            f"-Dwanted.artifact={name}",
            f"-Dwanted.version={version}",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={target}",
        ],
        cwd=tempfile.gettempdir(),
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=FETCH_MAX_S,
    )
