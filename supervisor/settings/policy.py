"""Defines the ``policy`` section of ``supervisor.yaml``: what the operator allows jobs.

It has only keys and their form; ``spec.site_policy`` says what a rule covers. Leader and agent decide, each
by the configuration of its own host.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from supervisor.settings.addresses import EndpointUrl
from supervisor.settings.sections import Section

_RULE: Final = re.compile(r"\*|/[^/].*|file:/.*[^/].*|[A-Za-z][A-Za-z0-9+.-]*://[^/*?]+/+[^/].*")


def _rule(value: str) -> str:
    if not _RULE.fullmatch(value) or not value.isprintable():
        raise ValueError(f"{value[:120]!r} is no location like s3a://bucket/path/* or file:///path/*")
    if "[" in value or "]" in value:
        raise ValueError(f"{value[:120]!r} has brackets, which are no wildcards here")
    if ".." in value.split("/"):
        raise ValueError(f"{value[:120]!r} has '..' in it; write where that leads")
    return value


Rules = Annotated[tuple[Annotated[str, AfterValidator(_rule)], ...], Field(strict=False, max_length=1000)]


_USER: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,30}\$?|[1-9][0-9]{0,9}")


def user_name(value: str) -> str:
    """Checks the name or number of a Unix user other than root. Raises ValueError."""
    if not _USER.fullmatch(value) or value == "root":
        raise ValueError(
            f"{value[:40]!r} must be the name of a Unix user, or its number in quotes, and not root"
        )
    return value


UserName = Annotated[str, AfterValidator(user_name)]


class RunAsSettings(Section):
    """Says as which Unix users jobs run. ``default`` is for jobs that name none; null means the supervisor's own
    user. ``allowed`` are those that a job may name with ``run_as``.
    """

    default: UserName | None = None
    allowed: Annotated[tuple[UserName, ...], Field(strict=False, max_length=1000)] = ()


class PolicySettings(Section):
    """Holds the rules. ``checkpoints`` say where jobs may keep their checkpoint. ``deletable`` says where
    ``checkpoint_on_cancel: delete`` may delete; by default that is nowhere. ``endpoints`` are those of S3,
    besides the store's, that jobs may name. ``run_as`` says as which Unix users jobs run.
    """

    checkpoints: Rules = ("*",)
    deletable: Rules = ()
    endpoints: Annotated[tuple[EndpointUrl, ...], Field(strict=False, max_length=1000)] = ()
    run_as: RunAsSettings = RunAsSettings()
