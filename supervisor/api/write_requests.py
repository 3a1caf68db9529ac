"""Defines the bodies of the requests that write, as pydantic judges them. The description of the API is made of them
(``api.openapi``), and the command line sends them (``api.write_client``)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from supervisor.settings.sections import Section

FILES_MAX: Final = 2000
SET_MAX: Final = 100
PATH_MAX_CHARACTERS: Final = 1000
BUNDLE_MAX_BYTES: Final = 32 * 2**20
"""The body of an apply may have this many bytes, with its files in Base64."""

Uid = Annotated[
    str | None,
    Field(
        pattern="^[0-9a-z-]{1,64}$",
        description="Only this submission: if the name has another one now, it is 409.",
    ),
]
BundlePath = Annotated[str, Field(min_length=1, max_length=PATH_MAX_CHARACTERS)]


class CancelRequest(Section):
    """Cancels a job."""

    uid: Uid = None


class SuspendRequest(Section):
    """Suspends a job."""

    uid: Uid = None


class ResumeRequest(Section):
    """Resumes a job."""

    uid: Uid = None
    accept_fresh_start: Annotated[
        bool, Field(description="Whether to start once with the checkpoint as it is, or with none.")
    ] = False
    sink: Annotated[
        Literal["repeats", "transactional", "remembers"] | None,
        Field(description="What the sink remembers of batches, as savepoints.sink of the spec says it."),
    ] = None
    sink_rolled_back: Annotated[
        bool, Field(description="Whether the sink has nothing after what lies at the checkpoint.")
    ] = False


class RestartRequest(Section):
    """Restarts a job."""

    uid: Uid = None
    cold: Annotated[
        bool,
        Field(description="Whether the present driver is stopped at once, and no prepared one is used."),
    ] = False


class BundleFile(Section):
    """A file that was sent with the specs: a spec, what one extends, or a file that one names."""

    path: Annotated[BundlePath, Field(description="Relative, like jobs/clicks.yaml; specs name it so.")]
    text: Annotated[str | None, Field(description="Its text.")] = None
    base64: Annotated[str | None, Field(description="Its bytes, in place of text.")] = None

    @model_validator(mode="after")
    def _has_one_content(self) -> BundleFile:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("needs either text or base64")
        return self


class ApplyRequest(Section):
    """Makes jobs what specs say."""

    specs: Annotated[
        list[BundlePath],
        Field(min_length=1, max_length=FILES_MAX, description="Which of the files are specs to be applied."),
    ]
    files: Annotated[list[BundleFile], Field(max_length=FILES_MAX)]
    set: Annotated[
        list[str], Field(max_length=SET_MAX, description="KEY=VALUE, over what the specs say.")
    ] = []
    again: Annotated[
        bool, Field(description="Whether also a spec that was given up or rolled back before is applied.")
    ] = False
    dry_run: Annotated[
        bool, Field(description="Whether it only says what would be done, and does nothing.")
    ] = False
    differences: Annotated[
        bool, Field(description="Whether it also says key by key what differs; only with dry_run.")
    ] = False

    @model_validator(mode="after")
    def _compares_in_a_dry_run(self) -> ApplyRequest:
        if self.differences and not self.dry_run:
            raise ValueError("has differences, which need dry_run")
        return self
