"""``python -m tests.faults.measure_kill``: how long it takes to kill a really big driver tree, proven empty (K ≤ 2 s).

Not a test: it asserts nothing. The tree is a JVM whose heap is touched and whose threads all run, in a cgroup of its own
as a driver is. Most of the time goes into giving the memory back.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import uuid
from pathlib import Path

from supervisor.clients.containment import CgroupContainment, find_cgroup_parent, find_own_cgroup
from supervisor.demo.ensemble import find_java
from supervisor.model.emptiness import Emptiness
from tests.waiting import wait_until

BIG = """
public class Big {
    public static void main(String[] words) throws Exception {
        for (int i = 0; i < Integer.parseInt(words[0]); i++) {
            Thread thread = new Thread(() -> { while (true) { Thread.onSpinWait(); try { Thread.sleep(1); } catch (Exception e) { } } });
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("up");
        Thread.sleep(Long.MAX_VALUE);
    }
}
"""


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--heap-mb", type=int, nargs="*", default=[64, 1024, 4096])
    given.add_argument("--threads", type=int, default=200)
    chosen = given.parse_args()
    parent = find_cgroup_parent(find_own_cgroup(), f"measure-{os.getpid()}")
    assert parent is not None, "this needs a writable cgroup v2"
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "Big.java"
        source.write_text(BIG)
        subprocess.run([str(find_java().with_name("javac")), "-d", name, str(source)], check=True)
        for heap_mb in chosen.heap_mb:
            took = sorted(killed_in_s(name, parent, heap_mb, chosen.threads) for _ in range(chosen.rounds))
            print(
                f"kill -> proven empty, JVM with {heap_mb} MiB touched, {chosen.threads} threads: "
                f"median {statistics.median(took):.3f} s, worst {took[-1]:.3f} s   (n={len(took)}, load {os.getloadavg()[0]:.1f})",
                flush=True,
            )
    os.rmdir(parent)


def killed_in_s(class_path: str, parent: str, heap_mb: int, threads: int) -> float:
    tree = CgroupContainment(f"{parent}/{uuid.uuid4().hex[:8]}")
    tree.create()
    heap = (f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", "-XX:+AlwaysPreTouch", "-XX:+UseParallelGC")
    driver = subprocess.Popen(
        [str(find_java()), *heap, "-cp", class_path, "Big", str(threads)],
        stdout=subprocess.PIPE,
        preexec_fn=tree.enter,
    )
    assert driver.stdout is not None
    driver.stdout.readline()
    took_s = tree.kill(30.0)
    assert tree.emptiness() is Emptiness.EMPTY
    driver.wait()
    driver.stdout.close()
    wait_until(lambda: _removed(tree), 5, "the group to go")
    tree.release()
    return took_s


def _removed(tree: CgroupContainment) -> bool:
    tree.remove()
    return not os.path.exists(tree.path)


if __name__ == "__main__":
    main()
