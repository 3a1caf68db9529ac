"""Defines the command ``spark-supervisor``: its commands, and how an error ends it (REFERENCE.md: exit
codes).

It is the entry point of the package, and thin: it parses, calls and prints. An error is one sentence on
stderr; a traceback is shown only with ``--debug``. The commands stand in a table: the module of one is
imported when it is called (``cli.lazy``).
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import traceback

import typer

from supervisor.cli.global_options import (
    Config,
    Debug,
    Form,
    GlobalOptions,
    Server,
    TokenFile,
    Version,
    reader_left,
)
from supervisor.cli.lazy import CommandEntry, LazyGroup
from supervisor.cli.output import notice
from supervisor.errors import SupervisorError

PROGRAM = "spark-supervisor"
INTERRUPTED = 130
COLLECT_EVERY = (50_000, 50, 100)
"""These are the thresholds of the garbage collector. A view of 10,000 jobs is a million objects that stay:
examining them as often as Python does by default (700, 10, 10) takes as long as reading them."""

EPILOG = """\b
Exit codes:
  0  done
  1  failed
  2  wrong usage, or an invalid spec or configuration
  3  not found
  4  conflict: it exists, or was changed meanwhile
  5  ZooKeeper, store or API unreachable, or it refused the credentials: nothing was acknowledged
  6  outcome unknown: the message says how to find out
  7  timed out waiting

\b
First steps:
  spark-supervisor demo      watch it survive, on this machine
  spark-supervisor dev       a fleet on this machine, to try things on
  spark-supervisor explain   what needs a look, and what to do about it
  spark-supervisor docs      the documentation, without a network
"""

COMMANDS = tuple(
    CommandEntry(*row)
    for row in (
        ("submit", "supervisor.cli.submit:submit", "Submit jobs; the same spec again changes nothing."),
        ("list", "supervisor.cli.listing:list_jobs", "List the jobs; --watch goes on doing it."),
        ("show", "supervisor.cli.show:show", "Show one job: state, place, history, spec."),
        ("explain", "supervisor.cli.explain:explain", "Say what a job waits for, and what helps."),
        ("top", "supervisor.cli.top:top", "Show what drivers and hosts take: memory, processors, batches."),
        ("history", "supervisor.cli.history:history", "Show what happened to a job."),
        ("audit", "supervisor.cli.audit:audit", "Show who asked for what, and verify it."),
        ("logs", "supervisor.cli.logs:logs", "Print what the driver of a job wrote."),
        ("stacks", "supervisor.cli.stacks:stacks", "Print thread dumps of the driver of a job."),
        ("apply", "supervisor.cli.apply:apply", "Make jobs what their specs say: submit, update, leave."),
        ("diff", "supervisor.cli.diff:diff", "Say what apply would change, key by key."),
        ("rollback", "supervisor.cli.rollback:rollback", "Make a job what an earlier revision of it was."),
        (
            "revisions",
            "supervisor.cli.revisions:revisions",
            "List the revisions of a job, and how each went.",
        ),
        ("fork", "supervisor.cli.bluegreen:fork", "Run a second job from a copy of a job's checkpoint."),
        ("compare", "supervisor.cli.bluegreen:compare", "Say how far a fork is, beside the job it is of."),
        ("promote", "supervisor.cli.bluegreen:promote", "Let a fork take the place of a job; --undo."),
        (
            "cancel",
            "supervisor.cli.change:cancel",
            "Cancel a job for good; its checkpoint stays, unless its spec says delete.",
        ),
        ("suspend", "supervisor.cli.suspend:suspend", "Stop a job but keep it registered."),
        ("resume", "supervisor.cli.suspend:resume", "Run a suspended, failed or quarantined job again."),
        ("restart", "supervisor.cli.change:restart", "Start a new attempt of a job now."),
        ("move", "supervisor.cli.hosts:move", "Move a job to another host."),
        ("status", "supervisor.cli.status:status", "Show the cluster: leader, hosts, health."),
        ("pause", "supervisor.cli.operate:pause", "Stop acting on any job; drivers run on."),
        ("unpause", "supervisor.cli.operate:unpause", "Let the leader act again."),
        ("switchover", "supervisor.cli.operate:switchover", "Hand leadership over to another supervisor."),
        ("cordon", "supervisor.cli.hosts:cordon", "Place nothing new on a host."),
        ("uncordon", "supervisor.cli.hosts:uncordon", "Let a host take jobs again."),
        ("drain", "supervisor.cli.hosts:drain", "Cordon a host and move its jobs to others."),
        (
            "accept-registry",
            "supervisor.cli.accept_registry:accept_registry",
            "Accept a ZooKeeper that was restored.",
        ),
        ("registry", "supervisor.cli.registry:app", "Who may do what in ZooKeeper: secure."),
        ("debug", "supervisor.cli.debug:app", "Pack what a ticket needs, without secrets: bundle."),
        ("doctor", "supervisor.cli.doctor.command:doctor", "Check this host and what a job needs."),
        ("run", "supervisor.cli.run:run", "Run the supervisor daemon on this host."),
        (
            "stop-drivers",
            "supervisor.cli.stop_drivers:stop_drivers",
            "Stop all drivers of this host in order.",
        ),
        ("demo", "supervisor.demo.command:demo", "Watch it survive, on this machine."),
        ("dev", "supervisor.demo.dev:dev", "Run a fleet on this machine, to try things on."),
        ("schema", "supervisor.cli.schema:schema", "Print the JSON Schema of a job spec."),
        ("docs", "supervisor.cli.docs:docs", "Print a page of the documentation."),
        ("checkpoint", "supervisor.cli.checkpoint:app", "Look at a checkpoint: show, verify."),
        (
            "savepoint",
            "supervisor.cli.savepoint:app",
            "Copies of a checkpoint: create, list, show, verify, delete, restore.",
        ),
    )
)
"""They stand in the order of the help: what is typed daily comes first."""


INSTEAD = {
    "stop": ("suspend", "cancel"),
    "kill": ("cancel",),
    "delete": ("cancel",),
    "rm": ("cancel",),
    "start": ("resume", "submit"),
    "describe": ("show",),
    "get": ("list", "show"),
    "ps": ("list",),
    "ls": ("list",),
    "validate": ("doctor",),
    "check": ("doctor",),
    "help": ("--help",),
}
"""Words of other tools, and which commands do here what they do there."""


class ProgramGroup(LazyGroup):
    """Holds the commands of ``spark-supervisor``."""

    table = COMMANDS
    instead = INSTEAD


app = typer.Typer(
    name=PROGRAM,
    cls=ProgramGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 120},
    help="Keeps a declared set of Spark streaming jobs running on a fleet of hosts.",
    epilog=EPILOG,
)


@app.callback()
def _globals(
    ctx: typer.Context,
    config: Config = None,
    output: Form = None,
    debug: Debug = False,
    server: Server = None,
    token_file: TokenFile = None,
    _version: Version = False,
) -> None:
    chosen = ctx.ensure_object(GlobalOptions)
    chosen.take(config, output, debug)
    chosen.take_server(server, token_file)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    gc.set_threshold(*COLLECT_EVERY)
    code = run_command(arguments)
    if _nothing_is_left():
        os._exit(code)  # to take apart all that was loaded takes an interpreter up to 0.1 s
    sys.exit(code)


def _nothing_is_left() -> bool:
    """Returns whether no thread works on and all output is written."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        return False
    try:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return False
    return True


def run_command(arguments: list[str] | None = None) -> int:
    """Returns the exit code of ``arguments`` (default: those of the process)."""
    chosen = GlobalOptions()
    # a command says what matters itself; ``run`` sets up logs
    logging.getLogger().addHandler(logging.NullHandler())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(arguments, prog_name=PROGRAM, standalone_mode=False, obj=chosen)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SupervisorError as error:
        return _print_error(chosen, str(error), error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return reader_left()
    except Exception as error:  # noqa: BLE001 - the edge of the process: said in one sentence, shown with --debug
        usage = getattr(error, "format_message", None)
        if usage is not None:
            return _misused(error, usage())
        return _print_error(chosen, f"unexpected {type(error).__name__}: {error}; --debug shows where", 1)


def _print_error(chosen: GlobalOptions, sentence: str, code: int) -> int:
    if chosen.debug:
        traceback.print_exc()
    notice(f"error: {sentence}")
    return code


def _misused(error: Exception, sentence: str) -> int:
    """Reports wrong usage, as typer found it. If there was no argument at all, the help is shown."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        notice_help = context.get_help()
        print(notice_help, file=sys.stderr)
        return 2
    where = context.command_path if context is not None else PROGRAM
    sentence = sentence.rstrip(".").replace("Value error, ", "")
    notice(f"error: {sentence}{'' if sentence.endswith('?') else ';'} see {where} --help")
    return int(getattr(error, "exit_code", 2))


if __name__ == "__main__":
    main()
