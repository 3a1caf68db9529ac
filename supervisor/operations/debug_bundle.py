"""Packs what a ticket needs into one archive: documents, versions, configuration, logs, diagnostics; without secrets.

Each part is read by itself: one that can't be had is a text that says why. Every text passes ``model.redaction`` before it
is written, with the secrets that this host knows (``known_secrets``). What comes from a job is hostile: the names of the
parts are ours, each is bounded, and files are read under the rules of ``log_parts``.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from supervisor import __version__
from supervisor.clients.tools import run_tool
from supervisor.clock import wall_iso, wall_s
from supervisor.errors import Conflict, InvalidInput, NotFound, SupervisorError, Unreachable
from supervisor.model.diagnostics import FILES_KEPT, KINDS, SUFFIX
from supervisor.model.redaction import Redactor
from supervisor.observe.listing import OneJob, read_job
from supervisor.operations.cluster_status import status_of
from supervisor.operations.context import CommandContext
from supervisor.operations.explain_document import ExplainAllRequest, ExplainJobRequest
from supervisor.operations.history import HistoryRequest, find_job
from supervisor.operations.known_secrets import KnownSecrets, known_secrets
from supervisor.operations.listing import JobLister
from supervisor.operations.log_parts import open_parts, read_regular
from supervisor.operations.logs import find_output
from supervisor.operations.revisions import revisions_of
from supervisor.operations.stacks import running_driver, thread_dumps
from supervisor.registry.fixed_znodes import fixed_paths

PART_MAX_BYTES: Final = 4 * 2**20
LOG_MAX_BYTES: Final = 2**20
JOURNAL_LINES: Final = 2000
JOBS_MAX: Final = 200
"""The secrets of so many specs are looked for, where the bundle is not about one job."""
UNIT: Final = "spark-supervisor.service"
_JOURNAL_S: Final = 10.0
_CONTENTS: Final = "contents.txt"

Read = Callable[[], Any]


@dataclass(frozen=True)
class BundlePart:
    """Is one file of the archive. ``read`` returns a text, or a document that is written as JSON. It may raise
    SupervisorError and OSError. ``by_driver`` says that it has what a driver wrote, or what is in its memory."""

    file: str
    what: str
    read: Read
    by_driver: bool = False


def parts_of(context: CommandContext, name: str | None) -> list[BundlePart]:
    """Returns the parts of a bundle about a job, or about the cluster. Nothing is read yet, but whether ZooKeeper answers:
    if it does not, its parts say so, without a wait for each."""
    parts = [
        BundlePart("versions.json", "versions of this host's software", _versions),
        BundlePart("settings.json", "supervisor.yaml with its defaults", lambda: _settings(context)),
        BundlePart("supervisor.log", f"the latest lines of {UNIT} in the journal", _journal),
    ]
    registry = [*_of_cluster(context), *(() if name is None else _of_job(context, name))]
    try:
        context.check()
    except Unreachable as error:
        registry = [BundlePart(each.file, each.what, _raises(error)) for each in registry]
    return [*parts, *registry]


def _of_cluster(context: CommandContext) -> list[BundlePart]:
    def listed() -> Any:
        return [row.document() for row in JobLister(context, every_uid=True).take().rows]

    return [
        BundlePart("status.json", "status", lambda: status_of(context)[0]),
        BundlePart("list.json", "list --all", listed),
        BundlePart("explain.json", "explain", lambda: ExplainAllRequest().carry_out(context)),
        BundlePart("znodes.json", "versions and times of the fixed znodes", lambda: _znodes(context)),
    ]


def _of_job(context: CommandContext, name: str) -> list[BundlePart]:
    def stacks() -> str:
        return _decoded(b"".join(thread_dumps(running_driver(context, name), 1, 0.0, KINDS)))

    return [
        BundlePart("job/explain.json", f"explain {name}", lambda: ExplainJobRequest(name).carry_out(context)),
        BundlePart(
            "job/history.json",
            f"history {name} --all",
            lambda: HistoryRequest(name, every_uid=True).carry_out(context),
        ),
        BundlePart(
            "job/revisions.json",
            f"revisions {name}",
            lambda: [row.document() for row in revisions_of(context, name)],
        ),
        BundlePart("job/stacks.txt", f"stacks {name}", stacks, by_driver=True),
        BundlePart(
            "job/output.log",
            "how the output of its latest driver here ends",
            lambda: _output(context, name),
            by_driver=True,
        ),
        BundlePart("job/shim.log", "how the log of its shim ends", lambda: _shim_log(context, name)),
        BundlePart(
            "job/diagnostics.txt",
            "the newest diagnostics of it here",
            lambda: _diagnostics(context, name),
            by_driver=True,
        ),
    ]


def secrets_for(context: CommandContext, name: str | None) -> KnownSecrets:
    """Returns the secrets that this host knows. While ZooKeeper does not answer these are none of specs, whose documents
    are not in the bundle then either."""
    jobs: list[OneJob] = []
    with suppress(SupervisorError):
        jobs = [find_job(context, name)] if name is not None else list(_every_job(context))
    return known_secrets(context, jobs)


def _every_job(context: CommandContext) -> Iterator[OneJob]:
    rows = JobLister(context, every_uid=False).take().rows
    for name in [row.name for row in rows if row.name][:JOBS_MAX]:
        job = read_job(context.zoo(), context.layout, name)
        if job is not None:
            yield job


# -- the archive --------------------------------------------------------------------------------------------------


def write_bundle(
    path: Path, parts: Iterable[BundlePart], known: KnownSecrets, with_output: bool = False
) -> list[tuple[str, int]]:
    """Writes the archive, which only this user may read, and returns the names and sizes of its files. It must not exist.
    What drivers wrote is left out if they were given secrets that are not known here, unless ``with_output``. Raises
    Conflict, InvalidInput."""
    redactor = Redactor(known.values)
    left_out = "" if with_output else _left_out(known.unknown)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Conflict(f"{path} exists already", "choose another name with --file") from None
    except OSError as error:
        raise InvalidInput(
            f"{path} can't be written ({error.strerror})", "choose another place with --file"
        ) from None
    try:
        os.fchmod(descriptor, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            return _written(file, parts, redactor, left_out)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _left_out(unknown: tuple[str, ...]) -> str:
    if not unknown:
        return ""
    named = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
    return (
        f"left out: a driver was given {named}, and what that is, is not known here, so it can't be covered.\n"
        "Set it in the environment of this command, call it where the driver runs, or use --with-output.\n"
    )


def _written(
    file: IO[bytes], parts: Iterable[BundlePart], redactor: Redactor, left_out: str
) -> list[tuple[str, int]]:
    written, contents = [], [f"made at {wall_iso()} by spark-supervisor {__version__}", ""]
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for part in parts:
            withheld = left_out if part.by_driver else ""
            text = bounded(withheld or _text_of(part, redactor))
            _add(archive, part.file, text)
            written.append((part.file, len(text)))
            contents.append(f"{part.file:<24} {len(text):>9} bytes  {redactor.text(part.what)}")
        _add(archive, _CONTENTS, "\n".join([*contents, ""]).encode())
    return written


def _text_of(part: BundlePart, redactor: Redactor) -> str:
    """Returns the text of a part, or why there is none. A defect in one part costs no other."""
    try:
        found = part.read()
    except (SupervisorError, OSError) as error:
        return redactor.text(f"not to be had: {error}\n")
    except Exception as error:  # noqa: BLE001 - the edge of one part: a ticket about a defect needs the others
        return redactor.text(f"not to be had, for a defect: {error!r}\n")
    if isinstance(found, str):
        return redactor.text(found)
    return json.dumps(redactor.document(found), indent=2, default=str) + "\n"


def bounded(text: str) -> bytes:
    """Returns the end of a text, if it is longer than a part may be."""
    data = text.encode("utf-8", "replace")
    return data if len(data) <= PART_MAX_BYTES else b"[the begin was left out]\n" + data[-PART_MAX_BYTES:]


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(f"spark-supervisor-debug/{name}")
    entry.size, entry.mode, entry.mtime = len(data), 0o600, int(wall_s())
    archive.addfile(entry, io.BytesIO(data))


def _raises(error: SupervisorError) -> Read:
    def read() -> Any:
        raise error

    return read


# -- what is read -------------------------------------------------------------------------------------------------


def _versions() -> dict[str, str]:
    return {
        "spark-supervisor": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
    }


def _settings(context: CommandContext) -> Any:
    return context.settings.model_dump(mode="json")


def _journal() -> str:
    argv = ["journalctl", "--no-pager", "-q", "-o", "cat", "-n", str(JOURNAL_LINES), "-u", UNIT]
    ran = run_tool(argv, {"PATH": os.environ.get("PATH", os.defpath)}, _JOURNAL_S)
    if ran.code != 0 or not ran.out:
        raise NotFound(f"the journal shows nothing of {UNIT} to this user: {ran.error or ran.last_line}")
    return ran.out


def _znodes(context: CommandContext) -> list[dict[str, Any]]:
    found = []
    for path in fixed_paths(context.layout):
        node = context.zoo().read(path)
        stat = None if node is None else node.stat
        found.append(
            {
                "path": path,
                "there": stat is not None,
                **({} if stat is None else stat._asdict()),
            }
        )
    return found


def _output(context: CommandContext, name: str) -> str:
    output = find_output(context, find_job(context, name))
    with open_parts(output.path) as parts:
        return _decoded(parts.end(LOG_MAX_BYTES))


def _shim_log(context: CommandContext, name: str) -> str:
    """Returns the log of the shim: of one that runs it is in the run directory, of others beside the output."""
    job, settings = find_job(context, name), context.settings.supervisor
    attempt = job.own.attempt if job.own is not None else 0
    key = f"{job.uid}.{attempt}"
    running = settings.runtime_dir / "attempts" / key / "shim.log"
    with suppress(OSError):
        return _decoded(read_regular(running.parent.resolve() / running.name, LOG_MAX_BYTES))
    return _decoded(read_regular(settings.log_dir / name / f"{key}.shim.log", LOG_MAX_BYTES))


def _diagnostics(context: CommandContext, name: str) -> str:
    directory = context.settings.supervisor.log_dir / name
    with os.scandir(directory) as entries:
        names = [
            entry.name for entry in entries if re.fullmatch(rf"[0-9A-Za-z.-]+{re.escape(SUFFIX)}", entry.name)
        ]
    by_age = sorted(names, key=lambda each: (directory / each).lstat().st_mtime, reverse=True)[:FILES_KEPT]
    texts = [f"##### {each}\n{_decoded(read_regular(directory / each, PART_MAX_BYTES))}" for each in by_age]
    if not texts:
        raise NotFound(f"no diagnostics of {name} are kept here")
    return "\n".join(reversed(texts))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
