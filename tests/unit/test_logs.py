"""One stream, one format, and nothing that a log line could break."""

from __future__ import annotations

import io
import json
import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from supervisor.logs import NOISY, configure_logs, get_logger


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, hook, raising = logging.getLogger(), threading.excepthook, logging.raiseExceptions
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], level = before
    root.setLevel(level)
    threading.excepthook, logging.raiseExceptions = hook, raising
    logging.captureWarnings(False)
    structlog.reset_defaults()


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_where_nobody_looks_on() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    get_logger("supervisor.act", supervisor="a").info("assigned", job="clicks", attempt=2)
    (line,) = lines(stream)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "event": "assigned",
        "job": "clicks",
        "attempt": 2,
        "supervisor": "a",
        "logger": "supervisor.act",
    }


def test_text_on_a_terminal() -> None:
    stream = Screen()
    configure_logs(stream=stream)
    get_logger("x").info("assigned", job="clicks")
    assert "assigned" in stream.getvalue()
    with pytest.raises(ValueError):
        json.loads(stream.getvalue())


def test_logging_of_libraries_goes_the_same_way_but_never_their_debug_output() -> None:
    stream = io.StringIO()
    configure_logs("DEBUG", stream=stream)
    for name in NOISY:
        logging.getLogger(f"{name}.client").debug("Auth(scheme='digest', auth='user:password')")
        logging.getLogger(f"{name}.client").info("chatter")
    logging.getLogger("kazoo.client").warning("connection %s", "dropped")
    get_logger("x").debug("shown")
    assert [(line["logger"], line["event"]) for line in lines(stream)] == [
        ("kazoo.client", "connection dropped"),
        ("x", "shown"),
    ]


def test_the_level_counts() -> None:
    stream = io.StringIO()
    configure_logs("warning", stream=stream)
    get_logger("x").info("hidden")
    get_logger("x").warning("shown")
    assert [line["event"] for line in lines(stream)] == ["shown"]


def test_a_logger_made_before_the_configuration_obeys_it() -> None:
    early = get_logger("early", supervisor="a")
    stream = io.StringIO()
    configure_logs(stream=stream)
    early.info("event")
    assert lines(stream)[0]["supervisor"] == "a"


def test_configuring_twice_prints_once() -> None:
    stream = io.StringIO()
    configure_logs(stream=io.StringIO())
    configure_logs(stream=stream)
    get_logger("x").info("event")
    assert len(lines(stream)) == 1


def test_exceptions_are_fields_of_one_line() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        get_logger("x").exception("pass_failed", job="a")
    (line,) = lines(stream)
    assert "RuntimeError: broken" in line["exception"]
    assert line["job"] == "a"


def test_an_error_on_a_terminal_shows_no_variables() -> None:
    """Credentials and session passwords are among them."""
    stream = Screen()
    configure_logs(stream=stream)
    password = "".join(("hun", "ter2"))
    try:
        raise RuntimeError(f"refused after {len(password)} tries")
    except RuntimeError:
        get_logger("x").exception("loop_failed")
    assert "refused after 7 tries" in stream.getvalue() and password not in stream.getvalue()


def test_a_dying_thread_is_logged() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    thread = threading.Thread(target=lambda: 1 / 0, name="agent")
    thread.start()
    thread.join()
    (line,) = lines(stream)
    assert (line["event"], line["thread"], line["level"]) == ("thread_died", "agent", "critical")


def test_a_closed_stream_and_odd_values_do_no_harm() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    get_logger("x").info("odd", value=object(), half="\ud800", raw=b"\xff")
    assert "odd" in stream.getvalue()
    stream.close()
    get_logger("x").info("unheard")


def test_warnings_are_logged() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert "old" in lines(stream)[0]["event"]
