"""``operations.bundle``: what it takes to put the specs of a bundle together is bounded, and each file is parsed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.errors import InvalidInput
from supervisor.operations import bundle as bundle_module
from supervisor.operations.bundle import SpecBundle
from supervisor.settings.defaults import Defaults
from supervisor.spec import job as job_module

BASE = "application: app.py\nconf: {spark.a: '1'}\nenv: {A: x}\n"


def files(specs: int) -> dict[str, bytes]:
    found = {
        f"{n}.yaml": f"name: job-{n}\nextends: _base.yaml\nconf: {{spark.c: '{n}'}}\n" for n in range(specs)
    }
    return {name: text.encode() for name, text in {**found, "_base.yaml": BASE, "app.py": ""}.items()}


def checkpoint(n: int) -> tuple[str, ...]:
    return (f"checkpoint=s3://bucket/{n}",)


def test_what_many_specs_extend_is_parsed_once_and_none_changes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    real = job_module.body_of

    def counted(text: str, source: str) -> object:
        parsed.append(Path(source).name)
        return real(text, source)

    monkeypatch.setattr(bundle_module, "body_of", counted)
    bundle = SpecBundle(tmp_path, files(3), checkpoint(1))
    specs = [bundle.read(Path(f"{n}.yaml"), Defaults()) for n in range(3)]
    assert [spec.conf for spec in specs] == [{"spark.a": "1", "spark.c": str(n)} for n in range(3)]
    assert sorted(parsed) == ["0.yaml", "1.yaml", "2.yaml", "_base.yaml"]


def test_what_is_wrong_with_it_is_said_of_each_that_extends_it(tmp_path: Path) -> None:
    bundle = SpecBundle(tmp_path, {**files(2), "_base.yaml": b"a: [\n"})
    for n in range(2):
        with pytest.raises(InvalidInput, match="_base.yaml is not usable YAML"):
            bundle.read(Path(f"{n}.yaml"), Defaults())


@pytest.mark.parametrize("bound", ["PARSED_MAX_CHARACTERS", "COMPOSED_MAX_CHARACTERS"])
def test_what_takes_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    bundle = SpecBundle(tmp_path, files(9), checkpoint(1))
    monkeypatch.setattr(bundle_module, bound, len(BASE) * 3)
    assert bundle.read(Path("0.yaml"), Defaults()).name == "job-0"
    with pytest.raises(InvalidInput, match="together; apply fewer at once"):
        for n in range(1, 9):
            bundle.read(Path(f"{n}.yaml"), Defaults())
