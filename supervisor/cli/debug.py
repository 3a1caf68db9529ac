"""Implements the ``debug bundle`` command: packs what a ticket needs into one archive, without secrets."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.api.job_document import JobDetailRequest
from supervisor.cli.completion import job_names
from supervisor.cli.doctor.catalogue import AREAS
from supervisor.cli.doctor.command import line_document
from supervisor.cli.doctor.examine import examine
from supervisor.cli.doctor.subject import Subject
from supervisor.cli.options import Chosen, command
from supervisor.cli.output import notice, print_line
from supervisor.errors import Unreachable
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.debug_bundle import BundlePart, parts_of, secrets_for, write_bundle
from supervisor.operations.history import find_job
from supervisor.operations.names import known_name

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Collect what explains a failure.")

OptionalName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Also about this job.", autocompletion=job_names)
]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE.tar.gz", help="Write this file; it must not exist."),
]
WithOutput = Annotated[
    bool,
    typer.Option("--with-output", help="What drivers wrote, too, though secrets in it are not known here."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be in it.")]


@command
def bundle(
    chosen: Chosen,
    name: OptionalName = None,
    file: File = None,
    with_output: WithOutput = False,
    dry_run: DryRun = False,
) -> int:
    """Pack what a ticket needs into one archive: documents, versions, configuration, logs, diagnostics.

    Says first what is in it. Secrets that this host knows are covered everywhere, and so is what looks like one by its name
    (password=…); read it before you give it away, for a driver may print anything. What a driver wrote is left out if it was
    given secrets that this host can't know. The file can be read by you alone.
    Call it on the host of the job, as the user of the supervisor: output, diagnostics and threads are those of this host.

    \b
    Examples:
      spark-supervisor debug bundle clicks
      spark-supervisor debug bundle -f /tmp/cluster.tar.gz
    """
    if name is not None:
        known_name(name)
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = file or Path(f"spark-supervisor-debug-{name or 'cluster'}-{at}.tar.gz")
    with open_commands(chosen.settings()) as context:
        if name is not None:
            with suppress(Unreachable):  # then the parts say so
                find_job(context, name)
        parts = [*parts_of(context, name), *_of_command_line(chosen, context, name)]
        for part in parts:
            notice(f"{part.file:<22} {part.what}")
        if dry_run:
            return 0
        written = write_bundle(path, parts, secrets_for(context, name), with_output)
    size = path.stat().st_size
    if chosen.document:
        files = [{"file": each, "bytes": count} for each, count in written]
        chosen.print_document({"path": str(path.absolute()), "bytes": size, "files": files})
    else:
        print_line(f"{path}: {len(written)} files, {size} bytes; read it before you give it away")
    return 0


def _of_command_line(chosen: Chosen, context: CommandContext, name: str | None) -> list[BundlePart]:
    """Returns the parts that other rooms than ``operations`` have."""

    def checked() -> Any:
        subject = Subject(chosen.settings_of_host(), dict(os.environ))
        return [line_document(line) for line in examine(subject, AREAS)]

    if name is None:
        return [BundlePart("doctor.json", "doctor", checked)]
    return [
        BundlePart("doctor.json", "doctor", checked),
        BundlePart(
            "job/show.json",
            f"show {name}, with its spec",
            lambda: JobDetailRequest(name).carry_out(context),
        ),
    ]


app.command("bundle")(bundle)
