"""``model.host_directories`` lists what a supervisor keeps on its host: whoever makes a directory elsewhere is told here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.model.host_directories import TABLE, StateDirectory, default_state_dir

PACKAGE = Path(__file__).parents[2] / "supervisor"
MAKES = frozenset(
    {
        "mkdir",
        "makedirs",
        "mkdtemp",
        "TemporaryDirectory",
        "make_shared_directories",
        "make_private",
        "make_directory",
        "let_pass",
        "copytree",
    }
)
OF_THE_TABLE = {
    "clients/channel.py": "work/<key>: the channel in it; jobs, tmp and leftovers where users pass",
    "clients/run_dir.py": "attempts/<key>",
    "clients/umask.py": "log_dir",
    "daemon/host/housekeeping.py": "shim-logs, and log_dir/<job>",
    "daemon/host/launcher.py": "log_dir/<job>; artifacts where users pass",
    "daemon/host/leftovers.py": ".leftovers",
    "daemon/host/log_uploads.py": "log_dir/.uploads",
    "daemon/process/supervisor.py": "runtime_dir, state_dir/jobs, state_dir/tmp, log_dir",
    "shim/output.py": "log_dir/<job>",
    "shim/diagnosis.py": "log_dir/<job>",
    "spark/attempt_place.py": "work/<key>, jobs/<uid>, tmp/<key>",
    "spark/class_archive/build.py": "class-archives: a training run",
    "spark/fence/build.py": "fence",
    "spark/driver_launch.py": "work/<key>; fence and class-archives where users pass",
    "spark/fetched_files.py": "work/<key>/files",
    "spark/python_environments.py": "environments",
}
ELSEWHERE = {
    "api/": "what a request has brought, while it is answered",
    "bluegreen/": "what a command holds while it runs",
    "clients/containment.py": "cgroups",
    "clients/controllers.py": "cgroups",
    "clients/foreign_files.py": "stores and checkpoints in a directory, and copies of them",
    "clients/store/": "the store, and checkpoints in a directory",
    "demo/": "the directory of the demo",
    "cli/": "what a command was told to write, or holds while it runs",
    "operations/": "what a command holds while it runs",
    "savepoints/": "what a command holds while it runs",
    "spark/state_reading.py": "what savepoint verify --deep holds while it runs",
    "spark/warm_up.py": "tmp/<key>: of the driver itself, below its temporary directory",
}


def makers() -> Iterator[str]:
    """The modules of the package that make a directory."""
    for path in sorted(PACKAGE.rglob("*.py")):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        names = {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls}
        if names & MAKES:
            yield path.relative_to(PACKAGE).as_posix()


def test_each_directory_that_is_made_is_of_the_table() -> None:
    of_others = {name for name in makers() if any(name.startswith(prefix) for prefix in ELSEWHERE)}
    made = set(makers()) - of_others
    assert made - OF_THE_TABLE.keys() == set(), (
        "a module makes a directory: add its row to model.host_directories.TABLE, with what removes it, and name it here"
    )
    assert OF_THE_TABLE.keys() - made == set(), "these make none any more"


def test_the_table_names_what_removes_each() -> None:
    for row in TABLE:
        modules = [
            word.strip(",;:") for word in row.removed.split() if word.startswith(("daemon.", "spark."))
        ]
        assert modules or "stay" in row.removed, row.path
        for module in modules:
            parts = module.split(".")
            found = (
                PACKAGE.joinpath(*parts[:end]).with_suffix(".py").exists() for end in range(1, len(parts) + 1)
            )
            assert any(found), f"{row.path}: there is no {module}"


@pytest.mark.parametrize(
    ("runtime_dir", "state_dir"),
    [
        ("/run/spark-supervisor", "/var/lib/spark-supervisor"),
        ("/run/spark-supervisor/state", "/var/lib/spark-supervisor/state"),
        ("/run/user/1000/supervisor", "/run/user/1000/supervisor/state"),
        ("/home/me/run", "/home/me/run/state"),
    ],
)
def test_state_is_not_kept_in_memory(runtime_dir: str, state_dir: str) -> None:
    assert default_state_dir(Path(runtime_dir)) == Path(state_dir)


def test_each_user_of_a_job_has_a_directory_of_its_own() -> None:
    state = StateDirectory(Path("/s"))
    assert (state.of_job("u1"), state.of_job("u1", 1001)) == (Path("/s/jobs/u1"), Path("/s/jobs/u1@1001"))
    assert state.tmp_of("u1.3") == Path("/s/tmp/u1.3")
