"""Holds what is known of how a driver ended, and says whose word counts. Pure.

There are four sources, in this order: the kernel's counters, what the driver itself reported, its exit status, and the
end of its output. The output is the weakest: anybody's lines may stand in it, such as those of a system whose log the
application reads. It is asked only where the driver reported nothing (``heard``), and what comes from it is marked
(``FROM_OUTPUT``). So a rule of ``exits`` reads ``reported`` and ``heard``, and never the output itself.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Final

from supervisor.model.out_of_memory import Oom
from supervisor.model.records import Cause

SHELL_SIGNAL_BASE: Final = 128
"""A shell, and a JVM whose Python child was killed, exit with 128 + the signal (measured: 137 after SIGKILL).
"""
FROM_OUTPUT: Final = "from the output: "
OUTLIVED: Final = "its main code ended, and its process did not"
"""How a driver ended that was killed because other threads went on after its own code had failed."""

_LEFT: Final = re.compile(r"SystemExit(?:: exit)? ?(?P<words>.*)", re.DOTALL)
_JVM_IS_GONE: Final = re.compile(
    r"^(?:[\w.]+: )*(?:Py4JNetworkError\b|ConnectionRefusedError\b|ConnectionResetError\b|Py4JError: None\.None\b|"
    r"An error occurred while (?:calling None\.None|trying to connect to the Java server)|Answer from Java side is empty)"
)
"""A Python driver reports this when its JVM does not answer any more: that is no cause, it has one."""


@dataclass(frozen=True, slots=True)
class ExitEvidence:
    """Holds the evidence of an end. ``status`` is that of the tree's root, an exit code or −signal; it is
    None if nobody could wait for it.

    ``stop_requested`` means in any way, before the exit. ``killed_for`` is what the supervisor killed it for,
    with the sentence. ``begun`` says that the application was seen to run; it is None if the driver does not
    report. ``error`` is the last ``error`` report, or ``""``. ``tail`` is the end of the driver's output.
    ``oom`` is whom the kernel killed for lack of memory meanwhile (``shim.oom``); None if that is not known.
    ``refused`` is why the application was not let begin; None if it was.

    ``raised`` says that the application's own code ended with ``error``; else that is of a query, and the application went
    on. ``returned`` says that its code came to its end without an error, ``drained`` that its queries were such that end
    when they have read what is there. ``session`` says that it was seen to have a SparkSession. ``left`` is the number of
    processes that outlived the root of its tree.
    """

    status: int | None
    unbounded: bool
    stop_requested: bool = False
    killed_for: tuple[Cause, str] | None = None
    begun: bool | None = None
    error: str = ""
    tail: str = ""
    oom: Oom | None = None
    refused: tuple[Cause, str] | None = None
    raised: bool = False
    returned: bool = False
    drained: bool = False
    session: bool | None = None
    left: int = 0

    @property
    def signal(self) -> int | None:
        """Returns the signal that ended the driver, also when a shell or JVM passed it on as an exit code, or
        None.
        """
        if self.status is None:
            return None
        number = -self.status if self.status < 0 else self.status - SHELL_SIGNAL_BASE
        return number if number in signal.valid_signals() else None

    @property
    def outlived(self) -> bool:
        """Returns whether the driver was killed because it had failed, its own code or a query, and went on."""
        return self.killed_for is not None and self.killed_for[0] is Cause.USER_ERROR

    @property
    def how(self) -> str:
        """Returns how it ended, in a few words."""
        return self.killed_for[1] if self.killed_for is not None and self.outlived else how(self.status)

    @property
    def reported(self) -> str:
        """Returns the error that the driver reported. The text is empty if it reported none, or no more than that it left
        with a code, or that its JVM does not answer."""
        if not is_telling(self.error):
            return ""
        left = _LEFT.match(self.error)
        return self.error if left is None else left["words"]

    @property
    def heard(self) -> str:
        """Returns the end of the output, if nothing but that says what happened, else an empty text. A driver whose code
        has reported that it came to its end has reported what there is."""
        return "" if self.reported or (self.returned and self.status == 0) else self.tail


def is_telling(error: str) -> bool:
    """Returns whether a reported error says what has happened, and not only that the application left with a code, or that
    its JVM does not answer."""
    left = _LEFT.match(error)
    if left is not None:
        return bool(left["words"]) and not left["words"].lstrip("-").isdigit()
    return bool(error) and _JVM_IS_GONE.match(error) is None


def how(status: int | None) -> str:
    """Returns a text such as ``exit code 1`` or ``killed by SIGKILL``."""
    if status is None:
        return "exit code unknown"
    number = -status if status < 0 else status - SHELL_SIGNAL_BASE
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {status}"
    return f"killed by {name}" + ("" if status < 0 else f" (exit code {status})")


_ERROR_LINE: Final = re.compile(
    r"^(?:Exception in thread \"[^\"]*\" |Caused by: |: )?((?:[\w$]+\.)*[\w$]*(?:Error|Exception|Interrupt|Failure)\b.*)$"
)
_SPARK_TALK: Final = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:INFO|DEBUG|TRACE) ")


def error_of(evidence: ExitEvidence) -> str:
    """Returns the error that ended the driver: what it reported, else what its output has of it, marked as that, else what
    little it reported."""
    if evidence.reported:
        return evidence.reported
    line = last_error(evidence.heard)
    if line:
        return f"{FROM_OUTPUT}{line}"
    if _LEFT.match(evidence.error):
        return "the application called sys.exit"
    if evidence.error:
        return evidence.error
    line = _last_words(evidence.heard)
    return f"{FROM_OUTPUT}{line}" if line else ""


def last_error(output: str) -> str:
    """Returns the last line of an output that names an error, or an empty text."""
    lines = (_ERROR_LINE.match(line.strip()) for line in reversed(output.splitlines()))
    return next((match[1] for match in lines if match is not None), "")


def _last_words(output: str) -> str:
    """Returns the last line of an output; what Spark logs at an orderly end says nothing."""
    lines = (line.strip() for line in reversed(output.splitlines()))
    return next((line for line in lines if line and not _SPARK_TALK.match(line)), "")
