"""How a defect is planted into production code and taken out again: by its text, or around its result.

Both change the function itself, not a name that is bound to it: whoever holds it already (a table, another module) gets
the defect as well. A text that is not there exactly once, because the code has moved on, is an error and no silent no-op;
so is a name in the new text that means nothing there: a defect that only raises NameError would be caught for a wrong reason.
"""

from __future__ import annotations
import __future__

import builtins
import dis
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from tests.explore.defect import Defect
from tests.explore.survivors import SCENARIOS, reason


def planted(name: str, of: str, patch: Callable[[], AbstractContextManager[object]]) -> Defect:
    """With what ``survivors`` says of it."""
    return Defect(name, of, patch, SCENARIOS.get(name, ()), reason(name))


def text(name: str, of: str, *edits: tuple[Any, str, str]) -> Defect:
    """A defect that is an edit of the text of a function: (function, old, new)."""
    return planted(name, of, partial(edited, *(Edit(*edit) for edit in edits)))


class Edit(NamedTuple):
    """``old`` stands exactly once in the text of ``function``; ``new`` comes in its place."""

    function: Any
    old: str
    new: str


@contextmanager
def edited(*edits: Edit) -> Iterator[None]:
    """Within it, each of the functions is what its text says after all the edits of it."""
    with ExitStack() as stack:
        for function in dict.fromkeys(plain(edit.function) for edit in edits):
            ours = [edit for edit in edits if plain(edit.function) is function]
            stack.enter_context(_with_code(function, _compiled(function, ours)))
        yield


@contextmanager
def around(function: Any, change: Callable[..., Any]) -> Iterator[None]:
    """Within it, ``function`` is ``change(real, *arguments)``, where ``real`` is what it was."""
    function = plain(function)
    real = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    real.__kwdefaults__ = function.__kwdefaults__
    hook = f"_planted_{function.__qualname__.replace('.', '_')}"
    if function.__closure__ is not None:
        raise ValueError(f"{function.__qualname__} is a closure")
    function.__globals__[hook] = lambda *args, **kwargs: change(real, *args, **kwargs)
    code = compile(
        f"def planted(*args, **kwargs): return {hook}(*args, **kwargs)", "<defect>", "exec"
    ).co_consts[0]
    try:
        with _with_code(function, code, bare=True):
            yield
    finally:
        del function.__globals__[hook]


def plain(function: Any) -> FunctionType:
    """The function behind a property, a class method or a static method."""
    found = getattr(function, "fget", None) or getattr(function, "__func__", None) or function
    if not isinstance(found, FunctionType):
        raise TypeError(f"{function!r} is no function")
    return found


@contextmanager
def _with_code(function: FunctionType, code: Any, *, bare: bool = False) -> Iterator[None]:
    before, defaults, named = function.__code__, function.__defaults__, function.__kwdefaults__
    function.__code__ = code
    if bare:
        function.__defaults__ = function.__kwdefaults__ = None
    try:
        yield
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = before, defaults, named


def _compiled(function: FunctionType, edits: list[Edit]) -> Any:
    text = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        if text.count(edit.old) != 1:
            raise ValueError(
                f"{function.__qualname__} has {text.count(edit.old)} times, not once: {edit.old}"
            )
        text = text.replace(edit.old, edit.new)
    text = text[text.index("def ") :]  # without its decorators
    module = compile(
        text, f"<defect in {function.__qualname__}>", "exec", __future__.annotations.compiler_flag, True
    )
    made: dict[str, Any] = {}
    exec(module, function.__globals__, made)
    code: CodeType = made[function.__name__].__code__
    unknown = sorted(_unknown_names(function, code) | _unknown_attributes(function, edits))
    if unknown:
        raise ValueError(
            f"the defect in {function.__qualname__} names what is not there: {', '.join(unknown)}"
        )
    return code


def _unknown_names(function: FunctionType, code: CodeType) -> set[str]:
    """Global names that the code loads, and that are neither in its module nor built in."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    loaded = {
        step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    known = function.__globals__.keys() | vars(builtins).keys()
    return (loaded - known).union(*(_unknown_names(function, each) for each in inner))


def _unknown_attributes(function: FunctionType, edits: list[Edit]) -> set[str]:
    """Attributes of ``self`` in the new texts that the module of ``function`` nowhere names."""
    there = inspect.getsource(inspect.getmodule(function) or function)
    named = {name for edit in edits for name in re.findall(r"\bself\.(\w+)", edit.new)}
    return {f"self.{name}" for name in named if not re.search(rf"\b{name}\b", there)}
