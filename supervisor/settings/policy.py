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


class PolicySettings(Section):
    """Holds the rules. ``checkpoints`` say where jobs may keep their checkpoint. ``deletable`` says where
    ``checkpoint_on_cancel: delete`` may delete; by default that is nowhere. ``endpoints`` are those of S3,
    besides the store's, that jobs may name.
    """

    checkpoints: Rules = ("*",)
    deletable: Rules = ()
    endpoints: Annotated[tuple[EndpointUrl, ...], Field(strict=False, max_length=1000)] = ()
