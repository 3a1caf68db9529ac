"""Collects the secrets that this host can know, so that they can be covered wherever they stand: those of specs, of the
configuration, of the environment, and of the drivers that run here.

A secret that can't be read by this user is in nothing that this user can read either, but for what a driver has printed.
That is why references that nobody here can resolve are told: ``debug_bundle`` leaves out what a driver wrote.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.clients import run_dir
from supervisor.errors import Corrupt, SupervisorError
from supervisor.model.launch import Launch
from supervisor.model.redaction import web_url
from supervisor.model.secret import SecretRef, SecretSource, secrets_in
from supervisor.model.secret_words import is_secret_file_name, is_secret_name
from supervisor.model.seen import Found
from supervisor.observe.listing import OneJob
from supervisor.operations.context import CommandContext
from supervisor.records.codec import decode
from supervisor.settings.secret_files import named_texts, secret_files

_FILE_MAX_BYTES: Final = 64 * 1024


class KnownSecrets(NamedTuple):
    """The secrets that this host can know (``values``), and the references of jobs that it can't resolve (``unknown``), as
    in ``env:NAME``: what a driver was given there stands in nothing that could be covered."""

    values: frozenset[str]
    unknown: tuple[str, ...]


def known_secrets(context: CommandContext, jobs: Iterable[OneJob]) -> KnownSecrets:
    """Returns the secrets of the configuration, of this process and of ``jobs``."""
    found = set(_of_environment(os.environ))
    found.update(_of_settings(context))
    unknown: set[str] = set()
    for job in jobs:
        values, references = _of_job(context, job)
        found |= values
        unknown |= references
    return KnownSecrets(frozenset(each for each in found if each), tuple(sorted(unknown)))


def _of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    yield from (value for name, value in environment.items() if is_secret_name(name))


def _of_settings(context: CommandContext) -> Iterator[str]:
    """Yields the secrets that stand in the configuration, and what is in the files that it names as those of secrets: by the
    names of the keys, so that no section is forgotten."""
    for path in secret_files(context.settings):
        yield from _of_file(path)
    for name, text in named_texts(context.settings.model_dump(mode="json")):
        if is_secret_name(name) and not is_secret_file_name(name):
            yield text
        elif name == "url" and (parts := web_url(text)) is not None:
            yield from (parts.path.strip("/"), parts.query)  # who has them can call a webhook


def _of_job(context: CommandContext, job: OneJob) -> tuple[set[str], set[str]]:
    """Returns the secrets of a job, and the references that neither its launch nor this host resolves."""
    result = job.result.record if isinstance(job.result, Found) else None
    ref = job.ref.spec if job.ref is not None else result.spec if result is not None else None
    spec: Any = None
    with suppress(SupervisorError, ValueError):
        spec = json.loads(context.blobs().read_spec(ref)) if ref is not None else None
    given = _given_at_launch(context, job)
    if not isinstance(spec, dict):
        return {value for name, value in given.items() if is_secret_name(name)}, set()
    secrets, found, unknown = secrets_in(spec), set[str](), set[str]()
    named = {name for name, _ in secrets.references}
    found.update(
        secrets.values, (value for name, value in given.items() if is_secret_name(name) or name in named)
    )
    for name, reference in secrets.references:
        resolved = [each for each in _resolved(reference) if each]
        found.update(resolved)
        if not resolved and name not in given:
            unknown.add(f"{reference.source.value}:{reference.where}")
    return found, unknown


def _given_at_launch(context: CommandContext, job: OneJob) -> dict[str, str]:
    """Returns what the running driver was given by name, if it runs here and this user may know it."""
    if job.own is None or not job.own.attempt:
        return {}
    attempts = context.settings.supervisor.runtime_dir / "attempts"
    path = str(attempts / f"{job.uid}.{job.own.attempt}" / run_dir.LAUNCH)
    with suppress(OSError, Corrupt):
        data = run_dir.read_file(path, run_dir.LAUNCH_MAX_BYTES)
        launch = None if data is None else decode(Launch, data, path)
        return {} if launch is None else {**launch.env, **launch.hadoop_conf, **launch.spark_conf}
    return {}


def _resolved(reference: SecretRef) -> Iterator[str]:
    if reference.source is SecretSource.ENV:
        yield os.environ.get(reference.where, "")
    else:
        yield from _of_file(reference.where)


def _of_file(path: str) -> Iterator[str]:
    """Yields what is in a regular file. A link is followed, as at the start of a driver."""
    with suppress(OSError, ValueError):
        data = run_dir.read_file(str(Path(path).resolve()), _FILE_MAX_BYTES)
        if data is not None:
            text = data.decode("utf-8", "replace")
            yield text
            yield text.strip()
