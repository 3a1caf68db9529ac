"""The internals of kazoo and botocore that are relied on: a version that lacks one fails here, by its name, and not at 3 a.m.

Both are private to their libraries. kazoo is held below its next minor version; boto3 is not, since its data of AWS would
grow old: this test is what a new version has to pass.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.retries import adaptive, bucket, standard, throttling
from kazoo.protocol.connection import ConnectionHandler

from supervisor.clients.kazoo_connection import Connection
from supervisor.clients.zookeeper_session import SessionLink

OVERRIDDEN = {
    "__init__": "(self, client, retry_sleeper, logger=None, sasl_options=None)",
    "zk_loop": "(self)",
    "_expand_client_hosts": "(self)",
    "_connect_loop": "(self, retry)",
    "_connect_attempt": "(self, host, hostip, port, retry)",
    "_connect": "(self, host, hostip, port)",
    "_invoke": "(self, timeout, request, xid=None)",
    "_read_header": "(self, timeout)",
    "_read_response": "(self, header, buffer, offset)",
    "_send_request": "(self, read_timeout, connect_timeout)",
}
"""Methods of kazoo's ``ConnectionHandler`` that ``kazoo_connection.Connection`` replaces, as kazoo calls them."""

SOCKETS = ("_socket", "_read_sock", "_write_sock")
"""Attributes of a ``ConnectionHandler`` that ``zookeeper_session`` uses: the connection, and the pipe that wakes the thread."""

NOT_NEEDED = {
    "SASLClient": "with SASL only",
    "sasl_cli": "with SASL only",
    "_queue": "read in _send_request, which is replaced",
    "_protocol_version": "written, and read by nobody",
}
"""What a ``ConnectionHandler`` names of its client, and ours does not have."""

BOTOCORE = {
    adaptive.ClientRateLimiter: "(rate_adjustor, rate_clocker, token_bucket, throttling_detector, clock)",
    adaptive.RateClocker: "(clock, smoothing=0.8, time_bucket_range=0.5)",
    bucket.Clock: "()",
    bucket.TokenBucket: "(max_rate, clock, min_rate=0.5)",
    standard.RetryEventAdapter: "()",
    standard.ThrottlingErrorDetector: "(retry_event_adapter)",
    throttling.CubicCalculator: "(starting_max_rate, start_time, scale_constant=0.4, beta=0.7)",
}
"""Parts of botocore's adaptive retries of which ``s3_pacing`` is made."""


@pytest.mark.parametrize(("name", "signature"), OVERRIDDEN.items())
def test_what_is_replaced_in_kazoo_is_called_as_before(name: str, signature: str) -> None:
    assert str(inspect.signature(vars(ConnectionHandler)[name])) == signature


def test_what_is_replaced_in_kazoo_is_listed() -> None:
    shared = vars(Connection).keys() & vars(ConnectionHandler).keys()
    assert {name for name in shared if inspect.isfunction(vars(ConnectionHandler)[name])} == OVERRIDDEN.keys()


def test_the_sockets_of_a_connection_have_the_names_that_are_used() -> None:
    made = set(re.findall(r"self\.(\w+)\b", inspect.getsource(ConnectionHandler)))
    assert made.issuperset(SOCKETS)


def test_kazoo_asks_nothing_of_its_client_that_ours_has_not() -> None:
    asked = set(re.findall(r"\bclient\.(\w+)", inspect.getsource(ConnectionHandler)))
    assert len(asked) > 15
    link = SessionLink([("127.0.0.1", 1)], 10.0, 5.0, lambda _: None, None)
    assert {name for name in asked if not hasattr(link, name)} == NOT_NEEDED.keys()


@pytest.mark.parametrize(("made", "signature"), BOTOCORE.items())
def test_what_is_used_of_botocores_retries_is_made_as_before(
    made: Callable[..., Any], signature: str
) -> None:
    assert str(inspect.signature(made)) == signature


def test_kazoo_is_held_below_its_next_minor_version() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert "kazoo>=2.11,<2.12" in project["dependencies"]
