"""Shortens why an attempt failed to the error itself, once, without what wraps it. Pure; used by ``list``.

What is stored of a failure (``exits``) has the advice first, then how the driver ended, then the error's own
text, which repeats it: Spark wraps the error of an application, py4j that of Spark, and a traceback follows.
``show`` has all of it.
"""

from __future__ import annotations

import re
from typing import Final

from supervisor.model.exit_evidence import FROM_OUTPUT, OUTLIVED

HOW: Final = rf"(?:exit code (?:\d+|unknown)|killed by SIG\w+(?: \(exit code \d+\))?|{OUTLIVED}|query [^:;]{{1,99}} failed)"
_SAYS_LITTLE: Final = re.compile(rf"exit code 1|{OUTLIVED}")
_EVIDENCE: Final = re.compile(rf"; {HOW}(?::.*)?$", re.DOTALL)
"""Behind an advice this part says nothing that a person needs in order to follow it."""
_EXIT_CODE: Final = re.compile(r" \(exit code \d+\)$")
_ENDED: Final = re.compile(rf"({HOW}): (?=\S)")
_AGAIN: Final = re.compile(
    r" \| .*|:? ?Traceback \(most recent call last\).*|\s*(?:Driver stacktrace:|JVM stacktrace:).*|"
    r"\s+at [\w$.]+\([^)\s]*\).*| SQLSTATE: \w{5}.*",
    re.DOTALL,
)
_NAME: Final = r"(?:[A-Z][A-Z0-9]*(?:[_.][A-Z0-9]+)+|[\w$]*(?:Error|Exception|Interrupt|Failure))"
_PACKAGE: Final = re.compile(rf"(?<![\w.\[])(?:[\w$]+\.)+(?={_NAME}\b)")
_WRAPPERS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_NAME}: (?=(?:\[[A-Z_.0-9]+\] )?{_NAME}(?:: |$))",
        rf"(?:{_NAME}: )?\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: (?=\S)",
        rf"(?:{_NAME}: )?Job aborted due to stage failure: Task \d+ in stage \S+ failed \d+ times, most recent failure: "
        r"Lost task [^:]*: (?=\S)",
        rf"(?:{_NAME}: )?(?:\[PYTHON_EXCEPTION\] )?An exception was thrown from the Python worker:? (?=\S)",
        rf"{_NAME}: An error occurred while calling \S+ : (?=\S)",
    )
)
_SPENT: Final = r"(?:restarts are off|restart budget(?: \([^)]*\))? is spent(?: \([^)]*\))?)"
_THEN_SPENT: Final = re.compile(rf"(.+); ({_SPENT})", re.DOTALL)
_SPENT_FIRST: Final = re.compile(rf"({_SPENT}): (.+)", re.DOTALL)


def headline(reason: str) -> str:
    """Returns ``reason`` of a failure in its shortest true form."""
    first, then = _SPENT_FIRST.fullmatch(reason), _THEN_SPENT.fullmatch(reason)
    if first is not None:
        return f"{headline(first[2])}; {first[1]}"
    if then is not None:
        return f"{headline(then[1])}; {then[2]}"
    return "; ".join(dict.fromkeys(_core(reason).split("; "))) or reason


def _core(reason: str) -> str:
    text = _EXIT_CODE.sub("", _EVIDENCE.sub("", reason, count=1))
    ended = _ENDED.match(text)
    if ended is None:
        return _unwrapped(text)
    error = _unwrapped(text[ended.end() :])
    return error if _SAYS_LITTLE.fullmatch(ended[1]) else f"{ended[1]}: {error}"


def _unwrapped(text: str) -> str:
    """Returns the error that is wrapped in others of its own kind, without the traceback."""
    if text.startswith(FROM_OUTPUT):
        return f"{FROM_OUTPUT}{_unwrapped(text.removeprefix(FROM_OUTPUT))}"
    text = _PACKAGE.sub("", _AGAIN.sub("", text, count=1)).strip() or text
    for _ in range(8):
        shorter = text
        for wrapper in _WRAPPERS:
            match = wrapper.match(shorter)
            shorter = shorter[match.end() :] if match is not None else shorter
        if shorter == text:
            break
        text = shorter
    return text.rstrip(": ")
