"""Collects the secrets that this host can know, so that they can be covered wherever they stand: those of specs, of the
configuration, of the environment, and of the drivers that run here.

A secret that can't be read by this user is in nothing that this user can read either, but for what a driver has printed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from supervisor.clients import run_dir
from supervisor.errors import Corrupt, SupervisorError
from supervisor.model.launch import Launch
from supervisor.model.secret import SecretRef, SecretSource, secrets_in
from supervisor.model.secret_words import is_secret_file_name, is_secret_name
from supervisor.model.seen import Found
from supervisor.observe.listing import OneJob
from supervisor.operations.context import CommandContext
from supervisor.records.codec import decode

_FILE_MAX_BYTES: Final = 64 * 1024


def known_secrets(context: CommandContext, jobs: Iterable[OneJob]) -> frozenset[str]:
    """Returns the secrets of the configuration, of this process and of ``jobs``. What can't be read is left out."""
    found = set(_of_environment(os.environ))
    found.update(_of_settings(context))
    for job in jobs:
        found.update(_of_job(context, job))
    return frozenset(each for each in found if each)


def _of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    yield from (value for name, value in environment.items() if is_secret_name(name))


def _of_settings(context: CommandContext) -> Iterator[str]:
    """Yields the secrets that stand in the configuration, and what is in the files that it names as those of secrets: by the
    names of the keys, so that no section is forgotten."""
    yield from _named_in(context.settings.model_dump(mode="json"))


def _named_in(document: Any, name: str = "") -> Iterator[str]:
    if isinstance(document, Mapping):
        for key, each in document.items():
            yield from _named_in(each, str(key))
    elif isinstance(document, list):
        for each in document:
            yield from _named_in(each, name)
    elif isinstance(document, str) and is_secret_file_name(name):
        yield from _of_file(document)
    elif isinstance(document, str) and is_secret_name(name):
        yield document


def _of_job(context: CommandContext, job: OneJob) -> Iterator[str]:
    result = job.result.record if isinstance(job.result, Found) else None
    ref = job.ref.spec if job.ref is not None else result.spec if result is not None else None
    spec: Any = None
    with suppress(SupervisorError, ValueError):
        spec = json.loads(context.blobs().read_spec(ref)) if ref is not None else None
    named = frozenset[str]()
    if isinstance(spec, dict):
        secrets = secrets_in(spec)
        yield from secrets.values
        for _, reference in secrets.references:
            yield from _resolved(reference)
        named = frozenset(name for name, _ in secrets.references)
    yield from _of_launch(context, job, named)


def _of_launch(context: CommandContext, job: OneJob, named: frozenset[str]) -> Iterator[str]:
    """Yields the secrets that the running driver was given, if it runs here and this user may know them."""
    if job.own is None or not job.own.attempt:
        return
    attempts = context.settings.supervisor.runtime_dir / "attempts"
    path = str(attempts / f"{job.uid}.{job.own.attempt}" / run_dir.LAUNCH)
    with suppress(OSError, Corrupt):
        data = run_dir.read_file(path, run_dir.LAUNCH_MAX_BYTES)
        launch = None if data is None else decode(Launch, data, path)
        given = {} if launch is None else {**launch.env, **launch.hadoop_conf, **launch.spark_conf}
        yield from (value for name, value in given.items() if is_secret_name(name) or name in named)


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
