"""Which tests the quick loop chooses."""

from __future__ import annotations

import pytest

from tests.quick import (
    ALWAYS,
    PAGES,
    READERS,
    ROOT,
    SUITES,
    WHOLE,
    choose,
    choose_for,
    files_of,
    module_of,
    unit_tests,
)

SOURCES = {
    "tests/unit/plan/test_decide.py": "from supervisor.plan.decide import decide",
    "tests/unit/plan/test_decide_more.py": "",
    "tests/unit/plan/test_table.py": "from supervisor.plan import table",
    "tests/unit/shim/test_decide.py": "",
    "tests/unit/daemon/host/test_agent.py": "",
    "tests/unit/daemon/test_hosts.py": "import supervisor.plan.decide",
    "tests/golden/test_previous.py": "",
}


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ([], set()),
        (["README.md"], set(PAGES)),
        (["tests/README.md", "supervisor/py.typed", "tests/conf/a.yaml"], set()),
        (["supervisor/REFERENCE.md"], set(PAGES)),
        (["supervisor/docs/runbooks/oom.md"], set(PAGES)),
        (["conf/jobs/reference.yaml"], {"tests/unit/test_conf.py", "tests/unit/test_reference.py"}),
        (["deploy/prometheus/spark-supervisor.rules.yml"], set(READERS["deploy/**"])),
        (["pyproject.toml"], {"tests/unit/test_packaging.py"}),
        (["supervisor/cli/show.py"], {"tests/unit/cli/test_lazy.py"}),
        (["supervisor/cli/doctor/java.py"], set()),
        (["tests/golden/test_previous.py"], {"tests/golden/test_previous.py"}),
        (
            ["supervisor/plan/decide.py"],
            {
                "tests/unit/plan/test_decide.py",
                "tests/unit/plan/test_decide_more.py",
                "tests/unit/daemon/test_hosts.py",
            },
        ),
        (["supervisor/plan/table.py"], {"tests/unit/plan/test_table.py"}),
        (["supervisor/daemon/host/agent.py"], {"tests/unit/daemon/host/test_agent.py"}),
        (["tests/unit/shim/test_decide.py"], {"tests/unit/shim/test_decide.py"}),
        (["tests/fakes/zookeeper.py"], set()),
    ],
)
def test_the_tests_nearest_to_what_changed(changed: list[str], chosen: set[str]) -> None:
    assert set(choose(changed, SOURCES)) == chosen | set(ALWAYS)


def test_a_module_that_all_import_does_not_choose_all() -> None:
    sources = {f"tests/unit/a/test_{n}.py": "from supervisor.model import view" for n in range(50)}
    assert len(choose(["supervisor/model/view.py"], sources, most=10)) == 10 + len(ALWAYS)


def test_those_that_import_least_besides_come_first() -> None:
    broad = "from supervisor.model import view\nfrom supervisor.cli import main"
    sources = {"tests/unit/a/test_a.py": broad, "tests/unit/b/test_b.py": "from supervisor.model import view"}
    assert "tests/unit/a/test_a.py" not in choose(["supervisor/model/view.py"], sources, most=1)


def test_every_test_that_a_table_names_is_one_that_the_loop_knows() -> None:
    known = unit_tests()
    assert {name for row in (*READERS.values(), ALWAYS) for name in row} - known.keys() == set()
    assert all(any(ROOT.glob(pattern)) for pattern in READERS)


def test_the_module_of_a_package_is_its_directory() -> None:
    assert module_of("supervisor/clients/store/__init__.py") == "supervisor.clients.store"


def test_a_room_has_its_tests_those_that_import_it_and_those_of_the_whole() -> None:
    sources = {
        **SOURCES,
        "tests/unit/test_names.py": "",
        "tests/property/test_a.py": "import supervisor.plan.make",
        "tests/property/test_b.py": "from supervisor.planet import a",
    }
    assert set(choose_for(["plan"], sources)) == {
        "tests/unit/plan/test_decide.py",
        "tests/unit/plan/test_decide_more.py",
        "tests/unit/plan/test_table.py",
        "tests/unit/daemon/test_hosts.py",
        "tests/unit/test_names.py",
        "tests/golden/test_previous.py",
        "tests/property/test_a.py",
        "tests/explore/test_defects.py",
    }
    assert "tests/unit/daemon/host/test_agent.py" in choose_for(["daemon/host"], sources)
    with pytest.raises(SystemExit, match="no room supervisor/attic"):
        choose_for(["attic"], sources)


def test_what_reads_the_whole_package_is_there() -> None:
    assert all(any(ROOT.glob(pattern)) for pattern in WHOLE)
    assert {path.split("/")[1] for path in files_of(SUITES)} == set(SUITES)
