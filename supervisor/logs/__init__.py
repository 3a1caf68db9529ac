"""Sets up the logs of every process but the shim: structured events to stderr, as JSON, or as text on a
terminal.

``configure_logs`` is called once by ``cli`` and ``daemon``, and ``get_logger`` by every module that logs. An
event has a fixed name; what differs stands in fields: ``log.info("assigned", job=..., uid=..., attempt=...,
epoch=...)``. The standard library's logging is routed into the same stream, so kazoo's and botocore's
warnings look like ours. Logging never raises: a closed or full stderr must not end a loop that renews
something. ``plan`` and ``model`` never log. Nothing is written to stdout.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

NOISY: Final = ("kazoo", "botocore", "boto3", "s3transfer", "urllib3", "py4j", "asyncio")
"""These are kept at WARNING even when the supervisor debugs: their debug output holds credentials and the
content of znodes (zookeeper.md P20)."""


def configure_logs(level: str = "INFO", *, as_json: bool | None = None, stream: TextIO | None = None) -> None:
    """Sets up logging for this process; a second call replaces the first.

    ``level`` is the name of a level. If ``as_json`` is None, the form is JSON unless ``stream`` (stderr) is a
    terminal. Uncaught exceptions of threads are logged as ``thread_died`` instead of printed.
    """
    stream = sys.stderr if stream is None else stream
    as_json = not stream.isatty() if as_json is None else as_json
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(as_json, stream.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.raiseExceptions = False
    logging.captureWarnings(True)
    threading.excepthook = _thread_died


def get_logger(name: str, **bound: Any) -> structlog.stdlib.BoundLogger:
    """Returns a logger with fields bound to it, such as ``get_logger(__name__, supervisor=id)``. It works
    before ``configure_logs``."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name, **bound)
    return logger


def _rendering(as_json: bool, colours: bool) -> list[Processor]:
    if not as_json:
        # The default shows the local variables of each frame: credentials and session passwords are among them.
        return [
            structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)
        ]
    return [structlog.processors.format_exc_info, _event_first, structlog.processors.JSONRenderer()]


def _event_first(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Puts the fields into the order in which a person reads a line: when, how bad, what; then the rest."""
    first = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    return {**first, **event}


def _thread_died(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is SystemExit or args.exc_value is None:
        return
    name = args.thread.name if args.thread else "unknown"
    get_logger(__name__).critical(
        "thread_died",
        thread=name,
        exc_info=(args.exc_type, args.exc_value, args.exc_traceback),
    )
