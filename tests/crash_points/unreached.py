"""Functions of the product that do I/O and that no recording passed, by reading the code. For the list in README.md.

A function counts as passed when one of its lines, or of the functions written in it, was on the way to a recorded point. A
call is taken for I/O by what it is called on (``os``, ``open``, a socket module …) or by its name (requests of the ZooKeeper
client and of stores, methods of paths): a little too much rather than too little.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import supervisor
from tests.crash_points.points import Point, failpoints

PACKAGE = Path(supervisor.__file__).parent
MODULES = {"os", "socket", "subprocess", "fcntl", "shutil"}
REQUESTS = {
    "commit",
    "commit_async",
    "read_many",
    "read_many_async",
    "children",
    "sync",
    "watch_exists",
    "wait_connected",
    "create_from",
    "read_to",
    "entries",
}
PATHS = {
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
    "mkdir",
    "unlink",
    "rmdir",
    "iterdir",
    "exists",
    "is_file",
    "is_dir",
    "touch",
    "rename",
}
TOOLS = (
    "cli/doctor",
    "cli/demo",
    "demo/dev.py",
    "demo/stack.py",
    "demo/ensemble.py",
    "clients/host_probe.py",
    "clients/tools.py",
    "clients/four_letter.py",
    "clients/zookeeper_probe.py",
    "demo/stack_guard.py",
    "clients/maven.py",
    "demo/death_guard.py",
    "clients/store/probe.py",
)
"""``doctor``, ``demo``, ``dev`` and what only they use: none of it writes to a cluster."""
LEFT_OUT = (
    *TOOLS,
    "clients/kazoo_",
    "clients/zookeeper_session.py",
    "clients/zookeeper.py",
    "clients/zookeeper_tls.py",
    "clients/gssapi.py",
    "clients/secret_file.py",
    "daemon/process/http.py",
    "spark/bootstrap.py",
    "spark/barrier.py",
    "spark/warm_up.py",
    "spark/object_server.py",
    "spark/orders.py",
    "spark/class_archive/training.py",
    "logs/",
    "settings/",
)


def functions_with_io() -> Iterator[str]:
    """``module:qualified name`` without ``supervisor.``"""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(LEFT_OUT):
            module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            yield from (f"{module}:{function}" for function in _functions(ast.parse(path.read_text()), ""))


def _functions(tree: ast.AST, prefix: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if isinstance(node, ast.FunctionDef) and any(
                _is_io(each) for each in ast.walk(node) if isinstance(each, ast.Call)
            ):
                yield name
            if isinstance(node, ast.ClassDef):
                yield from _functions(node, f"{name}.")
        else:
            yield from _functions(node, prefix)


def _is_io(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open" | "close_session" | "spawn_shim"):
            return True
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULES:
            return module != "os" or name not in failpoints.PURE
        case ast.Attribute(attr=name):
            return name in REQUESTS or name in PATHS
    return False


def unreached(points: Iterable[Point]) -> list[str]:
    passed = {site.rpartition(":")[0] for point in points for site in (point.caller, point.inner) if site}
    return [
        each
        for each in functions_with_io()
        if not any(site == each or site.startswith(f"{each}.") for site in passed)
    ]
