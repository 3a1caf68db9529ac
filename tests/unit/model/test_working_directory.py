"""What is said of a working directory, which one host has and no other."""

from __future__ import annotations

from supervisor.model.usage import AttemptUsage, DirectoryUse
from supervisor.model.working_directory import only_here, stays_behind

THERE = AttemptUsage(
    directory=DirectoryUse(path="/s/jobs/u1/cwd", bytes=1_258_291, files=57, names=("out", "spark-warehouse"))
)
EMPTY = AttemptUsage(directory=DirectoryUse(path="/s/jobs/u1/cwd", bytes=0, files=0))


def test_what_lies_there_is_named_with_its_host() -> None:
    assert (
        only_here(THERE, "host-a")
        == "only host-a has what it wrote to its working directory (57 files, 1.2 MiB: out, spark-warehouse)"
    )
    assert stays_behind(THERE, "host-a") == (
        "what it wrote to its working directory stays on host-a, in /s/jobs/u1/cwd (57 files, 1.2 MiB: out, "
        "spark-warehouse): a driver elsewhere begins without it"
    )


def test_of_nothing_nothing_is_said() -> None:
    for usage in (None, AttemptUsage(), EMPTY):
        assert only_here(usage, "host-a") == stays_behind(usage, "host-a") == ""
