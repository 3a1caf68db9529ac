"""Real deaths for want of memory, under a real shim: what the tombstone says, and which setting it tells to raise."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Cause, Ownership, OwnState
from supervisor.spark.arguments import BOOTSTRAP
from tests.testbed import requirements
from tests.testbed.attempts import Attempt, Attempts, eventually_closed
from tests.testbed.memory_limits import limited_group, run_in
from tests.testbed.spark_fleet import APPLICATIONS

MIB = 1024**2


@pytest.fixture
def attempts(embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> Iterator[Attempts]:
    with eventually_closed(Attempts(embedded_ensemble.hosts, zk_root, tmp_path, None)) as made:
        yield made


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    requirements.need("jdk")
    directory = tmp_path_factory.mktemp("fill")
    subprocess.run(["javac", "-d", str(directory), str(APPLICATIONS / "Fill.java")], check=True, timeout=120)
    return directory


def ended(attempts: Attempts, attempt: Attempt) -> Ownership:
    own = attempts.wait_state(attempt, OwnState.EXITED, timeout_s=60)
    print(f"{own.cause}: {own.reason}")
    return own


HEAP = "Java heap is full: raise spark.driver.memory, and resources.memory with it"
HEARD = f"from the output: {HEAP}"
JVM_DEATHS = (
    ("heap", ("-Xmx16m",), HEARD, Cause.USER_ERROR),
    ("heap", ("-Xmx16m", "-XX:+ExitOnOutOfMemoryError"), HEAP, Cause.OUT_OF_MEMORY),
    ("heap", ("-Xmx16m", "-XX:+CrashOnOutOfMemoryError"), HEARD, Cause.KILLED),
    (
        "direct",
        ("-XX:MaxDirectMemorySize=8m",),
        "raise -XX:MaxDirectMemorySize in spark.driver.extraJavaOptions",
        Cause.USER_ERROR,
    ),
    (
        "metaspace",
        ("-XX:MaxMetaspaceSize=12m",),
        "raise -XX:MaxMetaspaceSize in spark.driver.extraJavaOptions",
        Cause.USER_ERROR,
    ),
    ("array", ("-Xmx64m",), "beyond its limit", Cause.USER_ERROR),
)


def test_real_jvms_run_out_and_crash(attempts: Attempts, classes: Path) -> None:
    """Side by side, to save the time."""

    def fill(kind: str, *options: str) -> Attempt:
        java = (
            "java",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *options,
            "-cp",
            str(classes),
            "Fill",
            kind,
        )
        return attempts.assign(argv=java, reports=False)

    run_out = [(fill(kind, *options), kind, says, cause) for kind, options, says, cause in JVM_DEATHS]
    crash = fill("crash")
    limited = f"ulimit -v 4000000; exec java -Xms16g -Xmx16g -cp {classes} Fill heap"
    too_large = attempts.assign(argv=("sh", "-c", limited), reports=False)
    for attempt, kind, says, cause in run_out:
        own = ended(attempts, attempt)
        assert own.cause is cause, f"{kind}: a .jar has only its exit code to tell of memory"
        assert says in own.reason and says in own.history[-1].detail, "also where only the history is left"
    own = ended(attempts, crash)
    assert own.cause is Cause.KILLED
    assert "the JVM crashed: SIGSEGV" in own.reason and "SIGABRT" in own.reason
    own = ended(attempts, too_large)
    assert own.cause is Cause.USER_ERROR, "a heap that the host can't give: more of it would make that worse"
    assert "lower it" in own.reason


def test_real_python_runs_out(attempts: Attempts, tmp_path: Path) -> None:
    application = tmp_path / "greedy.py"
    application.write_text(
        textwrap.dedent("""
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
        kept = []
        while True:
            kept.append(bytearray(32 << 20))
    """)
    )
    own = ended(attempts, attempts.assign(argv=(sys.executable, str(BOOTSTRAP), str(application))))
    assert own.cause is Cause.OUT_OF_MEMORY
    assert "Python got no memory (MemoryError): raise resources.memory" in own.reason


START = """
import sys
from supervisor.clients.spawn import spawn_shim
print(spawn_shim(sys.argv[1], None).pid)
"""


@pytest.mark.parametrize("child", [False, True], ids=["root", "its child"])
def test_the_kernel_kills_at_the_limit_of_a_cgroup(attempts: Attempts, child: bool) -> None:
    """Shim and driver in a real cgroup with a limit; the driver wants more. ``child``: a process below it does."""
    requirements.need("memory_limit")
    greedy = "kept = []\nwhile True:\n    kept.append(b'x' * (8 << 20))"
    script = (
        f"import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-c', {greedy!r}]) % 256 and 137)"
    )
    with limited_group(200 * MIB) as group:
        attempt = attempts.assign(
            argv=(sys.executable, "-c", script if child else greedy), reports=False, start=False
        )
        pid = int(run_in(group, sys.executable, "-c", START, attempt.directory))
        attempt.shim = processes.identify(pid)
        own = ended(attempts, attempt)
        assert own.cause is Cause.OUT_OF_MEMORY
        assert (
            f"the kernel killed {'its Python process' if child else 'the driver'} at the limit of the cgroup"
            in own.reason
        )
        assert own.diagnostics is not None and "limits: cgroup 200 MiB (peak " in own.diagnostics.memory
        assert "largest: python" in own.diagnostics.memory and " before" in own.diagnostics.memory
        attempts.wait_shim_gone(attempt)


def test_a_kill_that_was_not_the_kernels_is_no_lack_of_memory(attempts: Attempts) -> None:
    requirements.need("memory_limit")
    own = ended(attempts, attempts.assign(argv=("sh", "-c", "kill -KILL $$"), reports=False))
    assert (own.cause, own.exit_code) == (Cause.KILLED, 137)
    assert "SIGKILL, not by the supervisor" in own.reason
