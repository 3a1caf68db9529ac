"""Says whether a spec names the place of a sink, and whether two specs tell a sink apart. Pure.

Where an application writes only its code knows. What can be compared are names: the place of a sink that was seen, and the
arguments, the environment and the properties of a job. Of a sink that was not seen, or that has no place, the spec can say
one thing: a path of ``args`` with ``{job}`` in it is the place of the output, by the name of the job (docs/jobs-upgrade.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from supervisor.errors import InvalidInput
from supervisor.model.location import normalise
from supervisor.model.sinks import NamedSink
from supervisor.spec.job import JOB_PLACEHOLDER, JobSpec

_SLASHES: Final = re.compile(r"/(?:\.?/)+")
_WORD: Final = r"[\w.~%+-]"


def is_named(where: str, spec: JobSpec) -> bool:
    """Returns whether arguments, environment or properties of the job name the place of a sink, as a whole: ``b/out`` is not
    named by ``b/out-2``, nor by ``b/out/2``."""
    path = _path_of(where)
    if not path:
        return False
    named = re.compile(rf"(?<!{_WORD}){re.escape(path)}/*(?!{_WORD}|/)")
    texts = (*spec.args_of_job(), *spec.env.values(), *spec.conf.values())
    return any(named.search(_SLASHES.sub("/", str(text))) for text in texts)


def tells_apart(sink: NamedSink | None, its: JobSpec, other: JobSpec) -> bool:
    """Returns whether the job of ``other`` is known to write elsewhere than to ``sink``, to which the job of ``its`` wrote;
    None is one that was not seen. False: that can't be told.

    ``its`` names the place, and ``other`` does not; or it lies where ``its`` names a path by the name of its job.
    """
    by_job = tuple(_paths_by_job(its, other))
    if sink is None or not sink.where:
        return bool(by_job)
    if is_named(sink.where, other):
        return False
    return is_named(sink.where, its) or any(f"{path}/" in f"{_path_of(sink.where)}/" for path in by_job)


def same_place(one: NamedSink, other: NamedSink) -> bool:
    """Returns whether two names may be those of one sink. One without a place may be any."""
    if not one.where or not other.where:
        return True
    return (one.kind, _spelled(one.where)) == (other.kind, _spelled(other.where))


def new_places(spec: JobSpec, before: JobSpec) -> tuple[str, ...]:
    """Returns the locations that ``spec`` names in arguments, environment or properties, and ``before`` does not."""
    texts = (*spec.args_of_job(), *spec.env.values(), *spec.conf.values())
    found = (each for text in texts for each in re.split(r"[\s,;\"'=]+", str(text)) if "/" in each)
    return tuple(dict.fromkeys(each for each in found if _is_location(each) and not is_named(each, before)))


def _paths_by_job(its: JobSpec, other: JobSpec) -> Iterator[str]:
    """Yields the paths, without schemes, that both specs have in ``args`` by the name of the job, as ``its`` has it."""
    if its.name == other.name:
        return
    for arg in its.args:
        if JOB_PLACEHOLDER in arg and "/" in arg and arg in other.args:
            text = arg.replace(JOB_PLACEHOLDER, its.name)
            yield _path_of(text.rpartition("=")[2])


def _path_of(where: str) -> str:
    return _SLASHES.sub("/", where.partition(":")[2] if ":" in where else where).strip("/")


def _spelled(where: str) -> str:
    try:
        return normalise(where)
    except InvalidInput:
        return where


def _is_location(text: str) -> bool:
    try:
        normalise(text)
    except InvalidInput:
        return False
    return True
