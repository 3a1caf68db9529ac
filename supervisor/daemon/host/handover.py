"""Says whether a prepared driver is what a start would make now, and makes the launch by which an attempt is handed to it.

The launch of a start is made anew for each assignment, from the spec, the host's settings, its environment, its secrets
and its files. A prepared driver was made in the same way, earlier, and takes the attempt only if all of that is still the
same. What names the attempt or its directories may differ: the driver is told of it at the opening.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from supervisor.model.application_tag import NAMING_KEYS
from supervisor.model.launch import CHECKPOINT, GATE, OF_PREPARED, Launch
from supervisor.spark.class_archive.choice import OPTIONS_KEY
from supervisor.spark.driver_start import PROPERTIES
from supervisor.spark.fence.choice import OWNER_KEY
from supervisor.spark.gate.agent import without_agent
from supervisor.spark.properties import parse_properties

ATTEMPT: Final = "SPARK_SUPERVISOR_ATTEMPT"
OF_THE_ATTEMPT: Final = frozenset({ATTEMPT, "SPARK_SUPERVISOR_REPORT", GATE}) | OF_PREPARED
_HADOOP: Final = "spark.hadoop."


@dataclass(frozen=True, slots=True)
class MadeLaunch:
    """Holds a launch with the directories that it names, and the files that it was made with (``prepare.files_of``)."""

    launch: Launch
    run_dir: Path
    work_dir: Path
    files: Mapping[str, str] | None
    tmp_dir: Path

    def properties(self) -> dict[str, str]:
        """Returns the properties of the driver. Raises OSError, ValueError."""
        return parse_properties((self.work_dir / PROPERTIES).read_text("ascii"))

    def without_directories(self, text: str) -> str:
        """Returns ``text`` without the names of the attempt's own directories."""
        for directory, name in ((self.work_dir, "work"), (self.run_dir, "run"), (self.tmp_dir, "tmp")):
            text = text.replace(f"{directory}/", f"<{name}>/")
        return text


def difference(prepared: MadeLaunch, now: MadeLaunch) -> str:
    """Returns what is not the same any more, in half a sentence that has no secret, or an empty text."""
    if (prepared.launch.cluster, prepared.launch.root) != (now.launch.cluster, now.launch.root):
        return "it is of another cluster"
    if prepared.launch.user != now.launch.user:
        return "it runs as another Unix user"
    if (prepared.launch.limits, prepared.launch.not_limited) != (now.launch.limits, now.launch.not_limited):
        return "the limits of its resources are others now"
    if prepared.launch.cwd != now.launch.cwd:
        return "it works in another directory"
    argv = [[each.without_directories(word) for word in each.launch.argv] for each in (prepared, now)]
    if argv[0] != argv[1]:
        return "its command line is another now"
    name = _different(*(_environment(each) for each in (prepared, now)))
    if name:
        return f"the variable {name} of its environment has another value now"
    try:
        name = _different(*(_properties(each) for each in (prepared, now)))
    except (OSError, ValueError) as error:
        return f"its properties can't be read ({error})"
    if name:
        return f"the property {name} has another value now"
    if prepared.files is None or now.files is None:
        return "it is not known with which files it was prepared"
    name = _different(dict(prepared.files), dict(now.files))
    return f"the file {name} has changed" if name else ""


def _environment(made: MadeLaunch) -> dict[str, str]:
    env = made.launch.env
    return {name: made.without_directories(env[name]) for name in env.keys() - OF_THE_ATTEMPT}


def _properties(made: MadeLaunch) -> dict[str, str]:
    """Returns the properties of the driver that both have to have. Only a prepared one has the gate of queries."""
    properties = made.properties()
    options = without_agent(properties.pop(OPTIONS_KEY, ""))
    properties |= {OPTIONS_KEY: options} if options else {}
    return {
        name: made.without_directories(properties[name])
        for name in properties.keys() - {OWNER_KEY, *NAMING_KEYS}
    }


def _different(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Returns the first name that has not the same value in both, or an empty text."""
    names = sorted(one.keys() | other.keys())
    return next((name for name in names if one.get(name) != other.get(name)), "")


def launch_of_opening(prepared: Launch, now: MadeLaunch) -> Launch:
    """Returns the launch by which the attempt of ``now`` is handed to ``prepared``. Its ``env``, ``hadoop_conf`` and
    ``spark_conf`` are only what the driver cannot know before. Raises OSError, ValueError."""
    env = {name: now.launch.env[name] for name in (ATTEMPT, CHECKPOINT) if name in now.launch.env}
    properties = now.properties()
    owner = properties.get(OWNER_KEY)
    return replace(
        now.launch,
        argv=prepared.argv,
        env=env,
        cwd=prepared.cwd,
        cgroup=prepared.cgroup,
        user=prepared.user,
        channel=prepared.channel,
        limits=prepared.limits,
        not_limited=prepared.not_limited,
        prepared=prepared.prepared,
        hadoop_conf={} if owner is None else {OWNER_KEY.removeprefix(_HADOOP): owner},
        spark_conf={key: properties[key] for key in NAMING_KEYS if key in properties},
    )
