"""Imports stand at the top of their file. The few that stand in a function are listed here, each with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "supervisor").rglob("*.py")
}

BOTO3 = "boto3 takes 180 ms and 25 MB: a file store, and a command that needs no store, go without it"
CRYPTOGRAPHY = "cryptography takes time and memory: only who signs or verifies loads it"
API = "the client of the API takes 70 ms: what asks no server starts without it"
RICH = "rich takes 40 ms: a command in a pipe starts without it"
SHIM = "a shim costs memory once per job: it goes without what only others need"
DRIVER = "the bootstrap watches the application import pyspark, and must not be the first to do so"
IN_FUNCTIONS = {
    ("supervisor.cli.doctor.stores", "supervisor.clients.store.s3"): BOTO3,
    ("supervisor.cli.listing", "supervisor.cli.watch"): RICH,
    ("supervisor.cli.completion", "supervisor.cli.api_client"): API,
    ("supervisor.cli.output", "supervisor.cli.drawing"): RICH,
    ("supervisor.cli.remote", "supervisor.cli.api_gateway"): API,
    ("supervisor.clients.containment", "ctypes"): SHIM,
    ("supervisor.clients.containment", "supervisor.clients.spawn"): SHIM,
    ("supervisor.clients.kazoo_connection", "supervisor.clients.zookeeper_sasl"): SHIM,
    ("supervisor.clients.kazoo_connection", "supervisor.clients.zookeeper_tls"): SHIM,
    ("supervisor.clients.privileges", "ctypes"): SHIM,
    ("supervisor.clients.run_dir", "shutil"): SHIM,
    ("supervisor.clients.signatures", "supervisor.clients.ed25519"): CRYPTOGRAPHY,
    ("supervisor.clients.store.open", "supervisor.clients.store.s3"): BOTO3,
    ("supervisor.clients.store.removal", "supervisor.clients.store.s3_objects"): BOTO3,
    ("supervisor.clients.store.tree", "supervisor.clients.store.s3_objects"): BOTO3,
    ("supervisor.clients.zookeeper_sasl", "supervisor.clients.gssapi"): SHIM,
    ("supervisor.model.location", "hashlib"): SHIM,
    ("supervisor.records.reading", "supervisor.records.bulk"): SHIM,
    ("supervisor.shim.__main__", "supervisor.shim.runner"): SHIM,
    ("supervisor.shim.__main__", "supervisor.shim.starter"): SHIM,
    ("supervisor.spark.bootstrap", "pyspark.sql"): DRIVER,
    ("supervisor.spark.bootstrap", "pyspark.sql.streaming.listener"): DRIVER,
    ("supervisor.spark.orders", "pyspark"): DRIVER,
}


def imports(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import that is carried out, and whether a function carries it out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, inside
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            assert not inside, f"line {node.lineno}: imports for types stand at the top"
        else:
            yield from imports(
                node, inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            )


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that ``node`` names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        assert node.module is not None and node.level == 0, "imports are absolute"
        whole = {f"{node.module}.{alias.name}" for alias in node.names} & FILES.keys()
        yield from whole
        if len(whole) < len(node.names):
            yield node.module


def test_only_the_listed_imports_stand_in_a_function_each_with_a_comment_that_says_why() -> None:
    found, silent = set(), []
    for module, path in FILES.items():
        lines = path.read_text().splitlines()
        for node, inside in imports(ast.parse(path.read_text())):
            if inside:
                found |= {(module, name) for name in imported(node)}
                explained = "#" in lines[node.lineno - 1] or lines[node.lineno - 2].lstrip().startswith("#")
                silent += [] if explained else [f"{path}:{node.lineno}"]
    assert found == set(IN_FUNCTIONS)
    assert silent == []
    assert len(IN_FUNCTIONS) < 24


def test_the_imports_at_the_top_make_no_circle() -> None:
    graph = {
        module: {
            name
            for node, inside in imports(ast.parse(path.read_text()))
            if not inside
            for name in imported(node)
            if name in FILES and name != module
        }
        for module, path in FILES.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
