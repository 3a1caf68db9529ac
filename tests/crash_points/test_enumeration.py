"""The points are complete: whatever does I/O in the product is intercepted, by its name in the code and not by a list of ours."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import supervisor
from supervisor.clients.store.base import Store
from supervisor.clients.zookeeper import ZooClient
from tests.crash_points.points import Control, failpoints
from tests.crash_points.unreached import TOOLS, functions_with_io

PACKAGE = Path(supervisor.__file__).parent
NOT_A_PROCESS_OF_OURS = (
    "spark/bootstrap.py",
    "spark/barrier.py",
    "spark/warm_up.py",
    "spark/object_server.py",
    "spark/orders.py",
    "spark/class_archive/training.py",
)
"""They run in the driver, or in the training run of a class-data archive, which are Spark's processes: the light drivers of these
runs have none of it."""

IO_MODULES = {
    "os",
    "socket",
    "subprocess",
    "fcntl",
    "signal",
    "shutil",
    "select",
    "mmap",
    "ctypes",
    "io",
    "tempfile",
}

NOT_IO = {
    "signal": {
        "signal",
        "alarm",
        "pthread_sigmask",
        "valid_signals",
        "Signals",
        "SIGKILL",
        "SIGTERM",
        "SIGCONT",
        "SIGSTOP",
    },
    "select": {"poll", "PIPE_BUF", "POLLIN", "POLLOUT", "POLLPRI"},
    "socket": {
        "socket",
        "gethostname",
        "AF_UNIX",
        "AF_INET",
        "AF_INET6",
        "socketpair",
        "getaddrinfo",
        "CMSG_SPACE",
        "inet_ntop",
    },
    # FileIO: the file that is uploaded, read only; BufferedReader: of a socket
    "io": {"StringIO", "BytesIO", "FileIO", "BufferedReader"},
    "shutil": {"get_terminal_size"},
    # of Kerberos' library, which is a part of connecting
    "ctypes": {
        "POINTER",
        "byref",
        "c_char_p",
        "c_size_t",
        "c_uint32",
        "c_void_p",
        "cast",
        "pointer",
        "string_at",
    },
}
"""Calls that only this process can tell from others; a socket's own methods are points."""

BY_PARTS = {
    "subprocess": {"Popen", "run", "check_output", "TimeoutExpired"},
    "shutil": {"rmtree", "move", "which", "copyfile", "copyfileobj", "disk_usage", "copytree"},
    "socket": {"create_connection", "send_fds", "recv_fds", "create_server"},
    "os": {"fdopen", "makedirs", "walk", "fwalk", "removedirs", "get_exec_path", "execvpe"},
    "tempfile": {"mkdtemp", "TemporaryDirectory", "TemporaryFile"},
    "ctypes": {"CDLL", "get_errno", "c_ulong", "c_int"},
}
"""Python on top of what is intercepted: each of its steps is a point. (ctypes: prctl of the scan containment changes only
the process itself.)"""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in NOT_A_PROCESS_OF_OURS and not name.startswith(TOOLS):
            yield name, ast.parse(path.read_text())


def test_no_module_takes_io_by_name() -> None:
    """``from os import rename`` would be bound before a failpoint is put there, or pass it by."""
    wrong = [
        f"{name}: from {node.module} import {alias.name}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in IO_MODULES
        for alias in node.names
    ]
    assert not wrong, wrong


def used() -> Iterator[tuple[str, str, str]]:
    """(file, module, name) of each attribute of an I/O module that the product calls."""
    for name, tree in modules():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=called)) if (
                    module in IO_MODULES
                ):
                    yield name, module, called


@pytest.fixture(scope="module")
def intercepted(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What a process with failpoints has wrapped, as it says itself."""
    control = Control(tmp_path_factory.mktemp("control"))
    program = """
import fcntl, io, os, signal, socket, subprocess
from supervisor.clients import zookeeper
from supervisor.clients.store import files, s3
for module in (os, fcntl, io, signal, socket.socket, subprocess, zookeeper, zookeeper.ZooClient, files.FileStore, s3.S3Store):
    for name in dir(module):
        if hasattr(getattr(module, name), "crash_point"):
            print(f"{module.__name__}.{name}")
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, **control.env},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_every_call_to_the_operating_system_is_intercepted(intercepted: set[str]) -> None:
    missing = {
        f"{file}: {module}.{name}"
        for file, module, name in used()
        if f"{module}.{name}" not in intercepted
        and not (module == "os" and (name in failpoints.PURE or name in BY_PARTS["os"]))
        and name not in NOT_IO.get(module, ())
        and name not in BY_PARTS.get(module, ())
    }
    assert not missing, missing


def test_every_function_of_the_operating_system_is_intercepted_or_known_to_be_pure(
    intercepted: set[str],
) -> None:
    served = {
        name
        for name, value in vars(os).items()
        if type(value).__name__ == "builtin_function_or_method" and value.__module__ == "posix"
    }
    assert served - failpoints.PURE == {
        name.removeprefix("os.") for name in intercepted if name.startswith("os.")
    }


def test_every_request_of_the_zookeeper_client_is_intercepted(intercepted: set[str]) -> None:
    public = {
        name for name, value in inspect.getmembers(ZooClient, inspect.isfunction) if not name.startswith("_")
    }
    assert {f"ZooClient.{name}" for name in public} <= intercepted
    assert "supervisor.clients.zookeeper.close_session" in intercepted


def test_every_request_to_a_store_is_intercepted(intercepted: set[str]) -> None:
    """A listing is lazy: its steps are points in the store's own thread (files), or the S3 client's."""
    public = {
        name for name, value in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")
    } - {"entries"}
    for store in ("FileStore", "S3Store"):
        assert {f"{store}.{name}" for name in public} <= intercepted


def test_a_process_that_is_not_told_of_points_has_none() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("CRASH_POINTS")}
    env["PYTHONPATH"] = str(Path(failpoints.__file__).parent)
    program = "import os; print(hasattr(os.rename, 'crash_point'))"
    assert (
        subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


def test_functions_that_the_readme_excuses_are_there() -> None:
    """Recording takes minutes, so the excuses are compared with the code: none outlives its function."""
    text = (Path(__file__).parent / "README.md").read_text().partition("## What no scenario passes")[2]
    documented = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    there = {
        name
        for each in functions_with_io()
        for name in (each, each.partition(":")[0], each.partition(":")[0].rpartition(".")[0])
    }
    assert documented and documented <= there, f"gone from the code: {documented - there}"
