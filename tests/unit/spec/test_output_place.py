"""Which sink a spec names, and which it tells apart: what is taken for another sink by mistake loses rows."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.model.sinks import NamedSink
from supervisor.spec.job import JobSpec
from supervisor.spec.output_place import is_named, new_places, same_place, tells_apart

OUT = "s3a://bucket/out"


def spec(*args: str, name: str = "j", **keys: Any) -> JobSpec:
    return JobSpec.model_validate(
        {"name": name, "application": "store:ab/app.py", "checkpoint": "/ck", "args": list(args), **keys}
    )


@pytest.mark.parametrize("key", ["args", "env", "conf"])
def test_arguments_environment_and_properties_name_a_place(key: str) -> None:
    value: Any = ("--to", f"{OUT}/") if key == "args" else {"X": OUT}
    assert is_named(OUT, spec().model_copy(update={key: value}))
    assert not is_named(OUT, spec())
    assert not is_named("file:/", spec().model_copy(update={key: value})), "the root says nothing"


@pytest.mark.parametrize(
    "text",
    [
        OUT,
        f"{OUT}//",
        "s3://bucket//out",
        "s3a://bucket/./out",
        f"--to={OUT}",
        f"{OUT},x",
        f'{{"p":"{OUT}"}}',
    ],
)
def test_a_place_is_named_however_it_is_spelled(text: str) -> None:
    assert is_named(OUT, spec(text))


@pytest.mark.parametrize("text", [f"{OUT}-2", f"{OUT}/2", f"{OUT}.d", "s3a://mybucket/out", "s3a://bucket/o"])
def test_another_place_is_not_named(text: str) -> None:
    assert not is_named(OUT, spec(text))


@pytest.mark.parametrize(
    ("its", "other", "sink", "apart"),
    [
        ((OUT,), (f"{OUT}-2",), OUT, True),
        ((OUT,), (OUT, "--mode", "b"), OUT, False),
        (("out",), ("other",), OUT, False),  # the code has the rest of its name
        ((OUT,), (f"{OUT}-2",), "", False),  # which of the arguments it is nobody knows
        (("/out/{job}",), ("/out/{job}",), "/out/j", True),
        (("/out/{job}",), ("/out/{job}",), "/out/j/part", True),
        (("--to=/out/{job}",), ("--to=/out/{job}",), "/out/j", True),
        (("/log/{job}",), ("/log/{job}",), "/out", False),
        (("/out/{job}",), ("/out/{job}", "/out/j"), "/out/j", False),
        (("/out/{job}",), ("/out/{job}",), "", True),
        (("/out/{job}",), ("/out",), "", False),
        (("{job}",), ("{job}",), "", False),  # the name of an application is no place
    ],
)
def test_what_tells_a_sink_apart(
    its: tuple[str, ...], other: tuple[str, ...], sink: str, apart: bool
) -> None:
    assert tells_apart(NamedSink("file", sink), spec(*its), spec(*other, name="f")) is apart
    assert sink or tells_apart(None, spec(*its), spec(*other, name="f")) is apart


def test_the_name_of_the_job_tells_nothing_of_two_specs_of_one_job() -> None:
    assert not tells_apart(None, spec("/out/{job}"), spec("/out/{job}"))


def test_two_names_of_one_sink() -> None:
    assert same_place(NamedSink("file", OUT), NamedSink("file", "s3://bucket//out/"))
    assert not same_place(NamedSink("file", OUT), NamedSink("delta", OUT))
    assert not same_place(NamedSink("file", OUT), NamedSink("file", f"{OUT}-2"))
    assert same_place(NamedSink("iceberg", "a.b"), NamedSink("iceberg", "a.b"))
    assert not same_place(NamedSink("iceberg", "a.b"), NamedSink("iceberg", "a.c"))
    assert same_place(NamedSink("foreachBatch"), NamedSink("file", OUT)), "nobody knows"


def test_the_places_that_only_the_new_spec_names() -> None:
    before = spec("--in", "s3a://bucket/in", "--to", OUT)
    after = spec(
        "--in", "s3a://bucket/in", "--to=s3a://bucket/b", env={"A": "/x,/y", "B": "a/b", "C": "http://h/x"}
    )
    assert new_places(after, before) == ("s3a://bucket/b", "/x", "/y")
