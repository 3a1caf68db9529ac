"""A hostile application: it tries all that a driver could try against its supervisor and its neighbours.

Run in place of Spark (``spark/bin/spark-submit``). ``HOSTILE_TARGETS`` names a file that tells it everything: an attacker
who knows all names and pids must fail by permissions, not for want of knowledge. It writes a line per attack into
``HOSTILE_RESULTS``: whether it was done, and how it went. Then it lives on as a light driver does, and leaves behind what
is hard to remove. It needs the standard library without ``site`` only.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import time

with open(os.environ["HOSTILE_TARGETS"]) as targets:
    T = json.load(targets)
REPORT = os.environ["SPARK_SUPERVISOR_REPORT"]
CHANNEL = os.path.dirname(REPORT)
KEY = f"{os.environ['SPARK_SUPERVISOR_UID']}.{os.environ['SPARK_SUPERVISOR_ATTEMPT']}"
RUN = T["runtime_dir"]
OWN, VICTIM = f"{RUN}/attempts/{KEY}", f"{RUN}/attempts/{T['victim']}"
LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def read(path):
    with open(path, "rb") as file:
        return file.read(100_000)


def overwrite(path):
    os.close(os.open(path, os.O_RDWR))


def open_to_write(path):
    os.close(os.open(path, os.O_WRONLY))


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)


def replace(path):
    os.rename(path, f"{path}.was")
    os.rename(f"{path}.was", path)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def datagram(path, **body):
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        directory = os.open(os.path.dirname(path), os.O_PATH)
        sender.sendto(json.dumps(body).encode(), f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        sender.close()


def trace(pid):
    """Stops it and lets it go again. It is a child that does it: an attacker may stop itself."""
    child = os.fork()
    if child == 0:
        if LIBC.ptrace(PTRACE_ATTACH, pid, None, None) != 0:
            os._exit(1)
        os.waitpid(pid, 0)
        LIBC.ptrace(PTRACE_DETACH, pid, None, None)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise PermissionError("ptrace")


def environment(pid):
    if b"=" not in read(f"/proc/{pid}/environ"):
        raise PermissionError("it is empty")


def memory(pid):
    line = next(line for line in read(f"/proc/{pid}/maps").decode().splitlines() if " rw-p " in line)
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(int(line.split("-")[0], 16))
        file.read(16)


def descriptors(pid):
    os.listdir(f"/proc/{pid}/fd")


def has_capability():
    status = read("/proc/self/status").decode().splitlines()
    lines = dict(line.split(":", 1) for line in status if ":" in line)
    if all(int(lines[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")):
        raise PermissionError("it has none")


def knows_secret():
    """Of the supervisor's environment."""
    if T["secret"] not in os.environ.values():
        raise PermissionError("it is not in the environment")


def attacks():
    """(name, what, arguments)"""
    yield "reads its launch.json", read, (f"{OWN}/launch.json",)
    yield "reads a neighbour's launch.json", read, (f"{VICTIM}/launch.json",)
    yield "lists the attempts", os.listdir, (f"{RUN}/attempts",)
    yield "lists the runtime directory", os.listdir, (RUN,)
    yield "moves its deadline", overwrite, (f"{OWN}/deadline",)
    yield "moves a neighbour's deadline", overwrite, (f"{VICTIM}/deadline",)
    yield "hands itself an attempt", create, (f"{OWN}/handed.json",)
    yield "writes an opening", create, (f"{CHANNEL}/opening",)
    yield "writes a verdict", create, (f"{CHANNEL}/gate",)
    yield "takes its shim's socket away", replace, (REPORT,)
    yield "exchanges its channel", replace, (CHANNEL,)
    yield "reports for a neighbour", datagram, (f"{T['victim_channel']}/report",)
    yield "reads a neighbour's properties", read, (f"{RUN}/work/{T['victim']}/spark.properties",)
    yield "changes its own properties", overwrite, (f"{RUN}/work/{KEY}/spark.properties",)
    for directory in T["victim_directories"]:
        yield f"lists a neighbour's {directory}", os.listdir, (directory,)
    for directory in T["directories_of_all"]:
        yield f"lists {directory}", os.listdir, (directory,)
    yield "lists a neighbour's files", os.listdir, (f"{RUN}/artifacts/{T['victim'].rpartition('.')[0]}",)
    yield "changes its own application", overwrite, (T["own_application"],)
    yield "reads a neighbour's output", read, (T["victim_log"],)
    yield "changes its own output", overwrite, (T["own_log"],)
    for who in ("supervisor", "shim", "twin", "victim_shim", "victim_driver"):
        pid = T[who]
        yield f"signals the {who}", os.kill, (pid, signal.SIGCONT)
        yield f"traces the {who}", trace, (pid,)
        yield f"reads the environment of the {who}", environment, (pid,)
        yield f"reads the memory of the {who}", memory, (pid,)
        yield f"lists the descriptors of the {who}", descriptors, (pid,)
    yield "leaves its cgroup", write, (f"{T['groups']}/cgroup.procs", str(os.getpid()))
    yield "raises its limits", write, (f"{T['cgroup']}/cgroup.max.depth", "max")
    yield "kills its neighbour's cgroup", open_to_write, (f"{T['victim_cgroup']}/cgroup.kill",)
    yield "has a capability", has_capability, ()
    yield "becomes root", os.setresuid, (0, 0, 0)
    yield "joins a group", os.setgroups, ([0],)
    yield "finds the supervisor's secrets", knows_secret, ()


def attack(results):
    for name, what, arguments in attacks():
        try:
            what(*arguments)
            line = {"attack": name, "done": True, "how": ""}
        except Exception as error:
            line = {"attack": name, "done": False, "how": f"{type(error).__name__}: {error}"}
        os.write(results, json.dumps(line).encode() + b"\n")


def leave_behind():
    """What a supervisor could stumble over that cleans up: depth, directories without permissions, links, pipes."""
    os.symlink(T["precious"], "link")
    os.mkfifo("pipe")
    for _ in range(T["depth"]):
        os.mkdir("d")
        os.symlink(T["precious"], "d/link")
        os.chdir("d")
    os.chdir("..")
    os.chmod("d", 0)
    own = os.environ.get("SPARK_SUPERVISOR_ORDERS")
    if own:
        os.symlink(f"{T['victim_channel']}/report", own)


def escape():
    """A process that is nobody's child, in a session of its own, without a mark in its environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(
                sys.executable, [sys.executable, "-S", "-c", "import time\nwhile True: time.sleep(1)"], {}
            )
        os._exit(0)
    os.wait()


def main():
    results = os.open(os.environ["HOSTILE_RESULTS"], os.O_WRONLY | os.O_APPEND)
    for event in ("begun", "session"):
        datagram(REPORT, event=event)
    datagram(REPORT, event="query", query="q", id="i")
    attack(results)
    escape()
    leave_behind()
    os.write(results, json.dumps({"attack": "", "done": True, "how": "over"}).encode() + b"\n")
    number = 0
    while True:
        try:
            for event in ("discard", "wanted"):
                datagram(REPORT, event=event)
            datagram(REPORT, event="progress", query="q", id="i", batch_id=number)
            number += 1
        except OSError:
            pass
        time.sleep(T["pause_s"])


if __name__ == "__main__":
    main()
