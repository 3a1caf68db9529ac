"""Generates ``supervisor/REFERENCE.md`` from the code: ``python -m tests.reference`` writes it, a test says when it is stale.

What a key means stands beside it in ``conf/`` (the commented reference files), names, types, defaults and bounds in the code.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from prometheus_client import Metric
from pydantic import AfterValidator, BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from supervisor import errors
from supervisor.cli.doctor import catalogue
from supervisor.logs.events import EVENTS
from supervisor.metrics import NAMESPACE, Metrics
from supervisor.settings.file import Settings
from supervisor.settings.sections import section_at
from supervisor.settings.units import format_duration, format_size
from supervisor.spec.job import JobSpec

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "supervisor" / "REFERENCE.md"
BAR = " \\| "
"""Within a cell of a table."""

HEAD = """# Reference

Generated from the code by `python -m tests.reference`: do not edit. A checkout of the source has
settings and spec keys with examples: [conf/supervisor.yaml](../conf/supervisor.yaml),
[conf/jobs/reference.yaml](../conf/jobs/reference.yaml).
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, *exit_codes(), *settings(), *spec_keys(), *metrics(), *events(), *checks()]
    return "\n".join(parts).rstrip() + "\n"


def exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    meanings: dict[int, list[str]] = {}
    for _, cls in inspect.getmembers(errors, inspect.isclass):
        if issubclass(cls, errors.SupervisorError) and cls is not errors.SupervisorError:
            first = inspect.getdoc(cls) or ""
            meanings.setdefault(cls.exit_code, []).append(first.partition("\n")[0])
    table = {0: ["Done."], **meanings, 130: ["Interrupted (Ctrl-C)."]}
    table[1] = ["Failed for another reason.", *table.get(1, [])]
    said = {code: " ".join(dict.fromkeys(table[code])).replace("``", "`") for code in table}
    yield from rows(("code", "when"), [(str(code), said[code]) for code in sorted(said)])


def settings() -> Iterator[str]:
    yield "## Settings: `supervisor.yaml`\n"
    yield "Each can be set from the environment: `SPARK_SUPERVISOR__ZOOKEEPER__HOSTS=zk1:2181`.\n"
    yield from keys(Settings, comments(ROOT / "conf" / "supervisor.yaml"))


def spec_keys() -> Iterator[str]:
    yield "## Keys of a job spec\n"
    yield "Defaults of `lease`, `stop_grace`, `restart`, `health`, `resources` come from `defaults` in `supervisor.yaml`.\n"
    shared = comments(ROOT / "conf" / "supervisor.yaml")
    own = comments(ROOT / "conf" / "jobs" / "reference.yaml")
    yield from keys(
        JobSpec,
        {path: own.get(path) or shared.get(f"defaults.{path}", "") for path, _ in leaves(JobSpec)}
        | {"lease": shared["defaults.lease"]},
    )


def metrics() -> Iterator[str]:
    yield "## Metrics\n"
    yield "Of the fleet: from the leader. Of a job: from the supervisor that hosts its driver, and gone when it ends or moves.\n"
    for metric in families():
        assert metric.documentation, metric.name
    table = [
        (
            f"`{metric.name}{'_total' if metric.type == 'counter' else ''}`",
            metric.type,
            labels_of(metric),
            metric.documentation,
        )
        for metric in families()
    ]
    yield from rows(("name", "type", "labels", "meaning"), table)


def families() -> list[Metric]:
    own = [metric for metric in Metrics(lambda: 0.0).registry.collect() if metric.name.startswith(NAMESPACE)]
    return sorted(
        (metric for metric in own if not metric.name.startswith(f"{NAMESPACE}_process_")),
        key=lambda one: one.name,
    )


def labels_of(metric: Metric) -> str:
    made = Metrics(lambda: 0.0)
    found = made.registry._names_to_collectors[metric.name]
    return ", ".join(getattr(found, "_labelnames", ()))


def events() -> Iterator[str]:
    yield "## Events in the logs\n"
    yield (
        "JSON lines on stderr (text on a terminal), each with `timestamp level event logger`. Events about an attempt carry\n"
        "`job uid attempt`: search for the uid in the logs of the supervisors, and below `log_dir/<job>/` in\n"
        "`<uid>.<attempt>.shim.log` and `<uid>.<attempt>.log` (the driver's own output). Those named `shim_` and `twin_` (but\n"
        "`shim_started`, `shim_gone`, `shim_let_deadline_come`, `shim_log_lost`, `shim_logs_not_kept`) are in the shim's log.\n"
    )
    yield from rows(
        ("event", "meaning", "fields"),
        [(f"`{name}`", one.meaning, one.fields) for name, one in EVENTS.items()],
    )


def checks() -> Iterator[str]:
    yield "## Checks of `doctor`\n"
    yield "In this order; `-o json` has the ids, and they do not change.\n"
    yield from rows(
        ("area", "check", "what it checks"),
        [(area, f"`{check}`", about) for area, check, about in catalogue.listed()],
    )


# -- keys --------------------------------------------------------------------------------------------------------------


def keys(model: type[BaseModel], meanings: Mapping[str, str]) -> Iterator[str]:
    table = [
        (f"`{path}`", kind_of(field), default_of(field), meanings.get(path, ""))
        for path, field in leaves(model)
    ]
    yield from rows(("key", "kind", "default", "meaning"), table)


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        key = field.alias or name
        section = section_at(model, key)
        if section is not None:
            yield from leaves(section, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", field


def unit_of(field: FieldInfo) -> str | None:
    text = repr(field.annotation) + repr(field.metadata)
    if "parse_duration_s" in text:
        return "duration"
    return "size" if "parse_size_bytes" in text else None


def kind_of(field: FieldInfo) -> str:
    unit = unit_of(field)
    plain = [
        one for one in (typing.get_args(field.annotation) or (field.annotation,)) if one is not type(None)
    ]
    if typing.get_origin(field.annotation) is typing.Literal:
        return BAR.join(str(one) for one in plain)
    kind = unit or _word(field.annotation)
    shown = format_duration if unit == "duration" else format_size if unit == "size" else str
    bounds = []
    for one in field.metadata:
        within = _between(one) if isinstance(one, AfterValidator) else None
        bounds += [within] if within else []
        for cls, sign, name in ((Ge, "≥", "ge"), (Gt, ">", "gt"), (Le, "≤", "le"), (Lt, "<", "lt")):
            if isinstance(one, cls):
                bounds.append(f"{sign} {shown(getattr(one, name))}")
    return ", ".join([kind, *bounds])


def _word(annotation: Any) -> str:
    base = _base(annotation)
    words = {bool: "true/false", int: "number", float: "number", tuple: "list", dict: "mapping"}
    return words.get(base, "text")


def _base(annotation: Any) -> Any:
    """``Annotated[str, …] | None`` → str; ``tuple[str, ...]`` → tuple."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _base(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return _base(next(one for one in arguments if one is not type(None)))
    return origin or annotation


def _between(validator: AfterValidator) -> str | None:
    """The bounds that ``settings.sections.between`` was made with."""
    found = inspect.getclosurevars(validator.func).nonlocals
    if not {"low_s", "high_s"} <= found.keys():
        return None
    return f"{format_duration(found['low_s'])} to {format_duration(found['high_s'])}"


def default_of(field: FieldInfo) -> str:
    if field.default_factory is not None:
        made = field.default_factory
        return "host name" if made.__name__ == "gethostname" else f"`{made()!r}`"  # type: ignore[call-arg]
    default = field.default
    if default is PydanticUndefined:
        return "**required**"
    unit = unit_of(field)
    if default is None:
        return "null"
    if unit == "duration":
        return f"`{format_duration(default)}`"
    if unit == "size":
        return f"`{format_size(default)}`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{'[]' if default == () else default}`"


def comments(path: Path) -> dict[str, str]:
    """Key path → the comment above it (or behind it) in a commented YAML file, also where the key is commented out."""
    found: dict[str, str] = {}
    above: list[str] = []
    parents: list[tuple[int, str]] = []
    for line in path.read_text().splitlines():
        key = re.match(r"( *)([a-z_]\w*):(?:\s+[^#]*?)?(?:\s+# (.*))?$", line)
        comment = re.match(r" *# ?(.*)", line)
        if key:
            indent = len(key[1])
            parents = [(depth, name) for depth, name in parents if depth < indent]
            dotted = ".".join([*(name for _, name in parents), key[2]])
            text = " ".join([*above, *([key[3]] if key[3] else [])])
            if text:
                found[dotted] = text
            parents.append((indent, key[2]))
            above = []
        elif comment:
            above.append(comment[1].strip())
        else:
            above = []
    return found


def rows(head: tuple[str, ...], table: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in table:
        yield f"| {' | '.join(cell.replace(chr(10), ' ').replace(' | ', BAR) for cell in row)} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
