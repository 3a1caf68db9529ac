"""The command ``spark-supervisor``: its commands, and how an error ends it (CONTRACT: exit codes).

Entry point of the package. Thin: parse, call, print. An error is one sentence on stderr; a traceback only with
``--debug``. Every command module is light, and imports what it works with when it runs.
"""

from __future__ import annotations

import logging
import sys
import traceback

import typer

from supervisor.cli import change, demo, dev, listing, logs, run, show, status, submit
from supervisor.cli.options import Chosen, Config, Debug, Form
from supervisor.cli.output import notice
from supervisor.errors import SupervisorError

PROGRAM = "spark-supervisor"
INTERRUPTED = 130

app = typer.Typer(
    name=PROGRAM, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Keeps a declared set of Spark streaming jobs running on a fleet of hosts.",
)


@app.callback()
def _globals(ctx: typer.Context, config: Config = None, output: Form = None, debug: Debug = False) -> None:
    ctx.ensure_object(Chosen).take(config, output, debug)


app.command("run")(run.run)
app.command("demo")(demo.demo)
app.command("dev")(dev.dev)
app.command("submit")(submit.submit)
app.command("list")(listing.list_jobs)
app.command("show")(show.show)
app.command("cancel")(change.cancel)
app.command("suspend")(change.suspend)
app.command("resume")(change.resume)
app.command("restart")(change.restart)
app.command("logs")(logs.logs)
app.command("status")(status.status)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run_command(arguments))


def run_command(arguments: list[str] | None = None) -> int:
    """The exit code of ``arguments`` (default: those of the process)."""
    chosen = Chosen()
    logging.getLogger().addHandler(logging.NullHandler())      # a command says what matters itself; ``run`` sets up logs
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
        return _reader_left()
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
    notice(f"error: {sentence.rstrip('.')}; see {where} --help")
    return int(getattr(error, "exit_code", 2))


def _reader_left() -> int:
    """``… | head``: nobody reads on, and flushing at exit must not complain."""
    sys.stdout = open("/dev/null", "w")  # noqa: PTH123, SIM115 - until the process ends
    return 0


if __name__ == "__main__":
    main()
