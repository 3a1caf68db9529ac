"""The command ``spark-supervisor``: its commands, and how an error ends it (REFERENCE.md: exit codes).

Entry point of the package. Thin: parse, call, print. An error is one sentence on stderr; a traceback only with
``--debug``. Every command module is light, and imports what it works with when it runs.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable

import typer

from supervisor.cli import (
    accept_registry,
    change,
    checkpoint,
    docs,
    explain,
    history,
    listing,
    logs,
    operate,
    run,
    savepoint,
    show,
    status,
    stop_drivers,
    submit,
)
from supervisor.cli.doctor import command as doctor
from supervisor.cli.options import Chosen, Config, Debug, Form, Version, reader_left
from supervisor.cli.output import notice
from supervisor.demo import command as demo
from supervisor.demo import dev
from supervisor.errors import SupervisorError

PROGRAM = "spark-supervisor"
INTERRUPTED = 130
COLLECT_EVERY = (50_000, 50, 100)
"""Of the garbage collector. A view of 10,000 jobs is a million objects that stay: looking at them as often as Python does
by default (700, 10, 10) takes as long as reading them."""

EPILOG = """\b
Exit codes:
  0  done
  1  failed
  2  wrong usage, or an invalid spec or configuration
  3  not found
  4  conflict: it exists, or was changed meanwhile
  5  ZooKeeper or store unreachable: nothing was acknowledged
  6  outcome unknown: the message says how to find out
  7  timed out waiting

\b
First steps:
  spark-supervisor demo      watch it survive, on this machine
  spark-supervisor dev       a fleet on this machine, to try things on
  spark-supervisor explain   what needs a look, and what to do about it
  spark-supervisor docs      the documentation, without a network
"""

app = typer.Typer(
    name=PROGRAM,
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
    _version: Version = False,
) -> None:
    ctx.ensure_object(Chosen).take(config, output, debug)


COMMANDS: tuple[tuple[str, Callable[..., int], str], ...] = (
    ("submit", submit.submit, "Submit jobs; the same spec again changes nothing."),
    ("list", listing.list_jobs, "List the jobs; --watch goes on doing it."),
    ("show", show.show, "Show one job: state, place, history, spec."),
    ("explain", explain.explain, "Say what a job waits for, and what helps."),
    ("history", history.history, "Show what happened to a job."),
    ("logs", logs.logs, "Print what the driver of a job wrote."),
    ("cancel", change.cancel, "Cancel a job for good; its checkpoint stays."),
    ("suspend", change.suspend, "Stop a job but keep it registered."),
    ("resume", change.resume, "Run a suspended, failed or quarantined job again."),
    ("restart", change.restart, "Start a new attempt of a job now."),
    ("status", status.status, "Show the cluster: leader, hosts, health."),
    ("pause", operate.pause, "Stop acting on any job; drivers run on."),
    ("unpause", operate.unpause, "Let the leader act again."),
    ("switchover", operate.switchover, "Hand leadership over to another supervisor."),
    ("accept-registry", accept_registry.accept_registry, "Accept a ZooKeeper that was restored."),
    ("doctor", doctor.doctor, "Check this host and what a job needs."),
    ("run", run.run, "Run the supervisor daemon on this host."),
    ("stop-drivers", stop_drivers.stop_drivers, "Stop all drivers of this host in order."),
    ("demo", demo.demo, "Watch it survive, on this machine."),
    ("dev", dev.dev, "Run a fleet on this machine, to try things on."),
    ("docs", docs.docs, "Print a page of the documentation."),
)
"""In the order of the help: what is typed daily comes first. The third is the line there: short enough to stay whole."""

for _name, _function, _line in COMMANDS:
    app.command(_name, short_help=_line)(_function)
app.add_typer(checkpoint.app, name="checkpoint", short_help="Look at a checkpoint: show, verify.")
app.add_typer(savepoint.app, name="savepoint", short_help="Copies of a checkpoint: create, list, restore.")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(*COLLECT_EVERY)
    code = run_command(arguments)
    if _nothing_is_left():
        os._exit(code)  # to take apart all that was loaded takes an interpreter up to 0.1 s
    sys.exit(code)


def _nothing_is_left() -> bool:
    """Nobody works on, and what was said is out."""
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
    """The exit code of ``arguments`` (default: those of the process)."""
    chosen = Chosen()
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
        return _told(chosen, str(error), error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return reader_left()
    except Exception as error:  # noqa: BLE001 - the edge of the process: said in one sentence, shown with --debug
        usage = getattr(error, "format_message", None)
        if usage is not None:
            return _misused(error, usage())
        return _told(chosen, f"unexpected {type(error).__name__}: {error}; --debug shows where", 1)


def _told(chosen: Chosen, sentence: str, code: int) -> int:
    if chosen.debug:
        traceback.print_exc()
    notice(f"error: {sentence}")
    return code


def _misused(error: Exception, sentence: str) -> int:
    """Wrong usage, as typer found it. Called without any argument it is the help that is shown."""
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
