"""Reads Spark properties as written in YAML: a mapping to text, the form in which spark-submit takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator

from supervisor.model.executors import KEYS

_KEY: Final = re.compile(r"spark\.[^\s=:#!\0]+")

NAMESPACE: Final = "spark.kubernetes.namespace"

OWN_KEYS: Final = {"spark.master": "master", "spark.submit.deployMode": "deploy_mode"}
"""These properties have a key of their own in the spec; if both were given, one of the two would be dropped
silently.
"""


def as_text(value: Any) -> Any:
    """Returns ``true``/``false`` and numbers as Spark expects them. Anything else is returned for pydantic to
    refuse.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _properties(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    for key in value:
        if key in OWN_KEYS:
            raise ValueError(f"must not hold {key}; use the key {OWN_KEYS[key]} of the spec")
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ValueError(
                f"holds {str(key)[:80]!r}, but spark-submit takes only properties that begin with 'spark.'"
            )
    return {key: as_text(item) for key, item in value.items()}


def _of_host(value: dict[str, str]) -> dict[str, str]:
    """Refuses what a host must not decide beside the spec, or beside the key that ``supervisor.yaml`` has for it."""
    if NAMESPACE in value:
        raise ValueError(
            f"must not hold {NAMESPACE}: what is left there is looked for in the namespace of the cluster; use namespace of "
            "the entry in clusters"
        )
    named = next((key for key in KEYS if key in value), None)
    if named is not None:
        raise ValueError(
            f"must not hold {named}: how long executors outlive their driver has to follow from the spec alone; set it in "
            "the specs that need it"
        )
    return value


SparkConf = Annotated[dict[str, str], BeforeValidator(_properties)]
HostConf = Annotated[SparkConf, AfterValidator(_of_host)]
"""Properties that ``supervisor.yaml`` gives to drivers of its host only."""
