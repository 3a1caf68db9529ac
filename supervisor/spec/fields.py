"""Defines the single fields of a job spec that need a check of their own. Only ``spec.job`` uses it.

Every check raises ValueError with the rest of a sentence that begins with the key (see
``settings.sections``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from supervisor.errors import InvalidInput
from supervisor.model.location import normalise
from supervisor.model.secret import secret_reference
from supervisor.settings.spark_conf import as_text

STORE_SCHEME: Final = "store:"
"""It marks a file that was uploaded, as ``store:<key>``. Only the stored, canonical spec has it."""

RESERVED_ENV: Final = "SPARK_SUPERVISOR_"

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ENTRY: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_CLASS: Final = re.compile(r"[\w$]+(\.[\w$]+)*")
_PACKAGE: Final = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+", re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_local_path(path: str) -> bool:
    """Returns whether ``path`` is a path on the machine of the user who submits; that file is uploaded.
    Anything with a scheme is used in place.
    """
    return _SCHEME.match(path) is None


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"{value[:80]!r} must be 1 to 63 lower-case letters, digits and dashes, and neither begin nor end with a dash"
        )
    return value


def checked_file(*suffixes: str) -> Callable[[str], str]:
    """Returns the check of a file that Spark gets: a local path, ``s3://``, ``s3a://``, ``local:`` or, once
    uploaded, ``store:``. The suffix of one that may have any name is empty.
    """

    def check(value: str) -> str:
        if not value.endswith(suffixes) or PurePosixPath(value).name in ("", "..", *suffixes):
            kind = " or ".join(suffixes)
            raise ValueError(f"{value[:120]!r} must name a {kind}{' ' if kind else ''}file")
        if any(mark in value for mark in ",#") or not value.isprintable():
            raise ValueError(
                f"{value[:120]!r} holds a comma, '#' or control character, which Spark takes apart; rename it"
            )
        match = _SCHEME.fullmatch(value)
        if match:
            _check_scheme(value, match[1], match[2])
        return value

    return check


def _check_scheme(value: str, scheme: str, rest: str) -> None:
    if scheme in ("s3", "s3a"):
        try:
            normalise(value)
        except InvalidInput as error:
            raise ValueError(str(error)) from None
    elif scheme == "local":
        if not rest.startswith("/"):
            raise ValueError(f"{value[:120]!r} must give an absolute path after local:")
    elif scheme == "file":
        raise ValueError(
            f"{value[:120]!r}: write the bare path to upload the file, or local:/path if every host has it"
        )
    elif f"{scheme}:" != STORE_SCHEME:
        raise ValueError(f"{value[:120]!r} has scheme {scheme}:; give a local path, s3://, s3a:// or local:")


def _entry(value: str) -> str:
    if not _ENTRY.fullmatch(value):
        raise ValueError(f"{value[:80]!r} must be module:function")
    return value


def _class(value: str) -> str:
    if not _CLASS.fullmatch(value):
        raise ValueError(f"{value[:80]!r} must be the name of a class, like com.example.Main")
    return value


def _package(value: str) -> str:
    if not _PACKAGE.fullmatch(value):
        raise ValueError(f"{value[:120]!r} must be Maven coordinates, group:artifact:version")
    return value


def _master(value: str) -> str:
    if not value or not value.isprintable() or " " in value:
        raise ValueError("must be a Spark master, like local[2] or spark://host:7077")
    return value


def _deploy_mode(value: Any) -> Any:
    if value == "cluster":
        raise ValueError(
            "cluster is not supported: the driver would run where nobody can hold it to its lease; use client"
        )
    return value


def _checkpoint(value: str) -> str:
    try:
        normalise(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    return value


def _env(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    for name in value:
        if not _ENV_NAME.fullmatch(str(name)):
            raise ValueError(f"holds {str(name)[:80]!r}, which is no name of an environment variable")
        if str(name).startswith(RESERVED_ENV):
            raise ValueError(
                f"must not set {str(name)[:80]}: names that begin with {RESERVED_ENV} are the supervisor's own"
            )
    return {name: as_text(item) for name, item in value.items()}


def _sha256(value: str) -> str:
    if not _SHA256.fullmatch(value):
        raise ValueError("must be a SHA-256, 64 hexadecimal digits in lower case")
    return value


def _secret(value: str) -> str:
    try:
        secret_reference(value)
    except InvalidInput as error:
        raise ValueError(f"is malformed: {error}") from None
    return value


Name = Annotated[str, AfterValidator(_name)]
Application = Annotated[str, AfterValidator(checked_file(".py", ".jar"))]
PyFiles = Annotated[
    tuple[Annotated[str, AfterValidator(checked_file(".py", ".zip", ".egg"))], ...], Field(strict=False)
]
Jars = Annotated[tuple[Annotated[str, AfterValidator(checked_file(".jar"))], ...], Field(strict=False)]
SpecFiles = Annotated[tuple[Annotated[str, AfterValidator(checked_file(""))], ...], Field(strict=False)]
Packages = Annotated[tuple[Annotated[str, AfterValidator(_package)], ...], Field(strict=False)]
Args = Annotated[tuple[str, ...], Field(strict=False)]
HistoryEntry = Annotated[str, AfterValidator(_entry)]
MainClass = Annotated[str, AfterValidator(_class)]
Master = Annotated[str, AfterValidator(_master)]
DeployMode = BeforeValidator(_deploy_mode)
Checkpoint = Annotated[str, AfterValidator(_checkpoint)]
Env = Annotated[dict[str, Annotated[str, AfterValidator(_secret)]], BeforeValidator(_env)]
Sha256ByFile = dict[str, Annotated[str, AfterValidator(_sha256)]]
