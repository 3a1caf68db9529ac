"""Defines the section ``python`` of a job spec: the Python of its driver. It has only keys and their form;
``spec.policy_judge`` says which interpreters a host allows, and ``spark.python_environments`` unpacks an archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, model_validator

from supervisor.settings.sections import Section
from supervisor.spec.fields import checked_file

ARCHIVE_SUFFIXES: Final = (".tar.gz", ".tgz")
PROPERTIES: Final = ("spark.pyspark.python", "spark.pyspark.driver.python")
"""Spark takes the Python of a driver from these before it looks at the environment."""
UNPACKED_AS: Final = "environment"
"""Executors find the archive unpacked under this name in their working directories."""


def _interpreter(value: str) -> str:
    if not value.startswith("/") or value.endswith("/") or ".." in value.split("/"):
        raise ValueError(f"{value[:120]!r} must be the absolute path of a Python, without '..'")
    if not value.isprintable() or ":" in value:
        raise ValueError(f"{value[:120]!r} holds a colon or control character")
    return value


class PythonSettings(Section):
    """Says with which Python the driver runs: ``interpreter`` is a path on the host, ``archive`` a packed environment that
    has ``bin/python``. If both are null, it is that of the host, or PYSPARK_PYTHON of ``env``."""

    interpreter: Annotated[str, AfterValidator(_interpreter)] | None = None
    archive: Annotated[str, AfterValidator(checked_file(*ARCHIVE_SUFFIXES))] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> PythonSettings:
        if self.interpreter is not None and self.archive is not None:
            raise ValueError(
                "interpreter and archive are both given, and a driver has one Python; remove one"
            )
        return self

    @property
    def is_given(self) -> bool:
        return self.interpreter is not None or self.archive is not None

    def over(self, of_host: Mapping[str, str]) -> dict[str, str]:
        """Returns the properties ``of_host`` as they count for this job: if it names its Python, without those that name
        another one."""
        return {name: value for name, value in of_host.items() if not (self.is_given and name in PROPERTIES)}
