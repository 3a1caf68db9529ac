"""Which tests the quick loop chooses."""

from __future__ import annotations

import pytest

from tests.quick import ALWAYS, choose, module_of

SOURCES = {
    "tests/unit/plan/test_decide.py": "from supervisor.plan.decide import decide",
    "tests/unit/plan/test_decide_more.py": "",
    "tests/unit/plan/test_table.py": "from supervisor.plan import table",
    "tests/unit/shim/test_decide.py": "",
    "tests/unit/daemon/host/test_agent.py": "",
    "tests/unit/daemon/test_hosts.py": "import supervisor.plan.decide",
}


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ([], set()),
        (["README.md"], set()),
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


def test_the_module_of_a_package_is_its_directory() -> None:
    assert module_of("supervisor/clients/store/__init__.py") == "supervisor.clients.store"
