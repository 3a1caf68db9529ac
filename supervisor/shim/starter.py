"""Forks the process that becomes the driver: before the shim has threads, inside the containment, and held
back.

It enters the cgroup and a session of its own, then waits on a pipe. The shim lets it go once the claim has
committed, and sends the time until which it may become the driver. It reads the clock itself right before
exec, because the shim or the starter may have been stopped in between (F34). If the pipe ends without a line,
the shim is gone, and the starter ends without exec.

The starter of a prepared driver is let go at once, by a word that no other starter understands: its application waits
at the barrier, and what stands for the deadline there is in the opening.

The driver runs with the umask with which the supervisor was started (systemd's ``UMask=``; 022 by default),
not with the private umask of supervisor and shim. What these write is theirs; what a driver writes, such as
output and checkpoints in directories that other programs read, belongs to its user, and must be as it would
be without a supervisor. The supervisor starts the shim with that umask (``clients.spawn``); the shim
remembers it when it takes its own, and gives it back here (``clients.umask``). Called by ``__main__`` and
``runner``.

A driver of another Unix user becomes that user between the word and exec, and no sooner: while it waits, no process of
that user can signal or trace it. What it cannot do as that user (enter its working directory, execute) fails there.
"""

from __future__ import annotations

import errno
import os
import select
import signal
from dataclasses import replace
from typing import NamedTuple, NoReturn

from supervisor.clients import privileges, umask
from supervisor.clients.containment import CLAIM_MARKER, CgroupContainment, Containment
from supervisor.clients.run_dir import LAUNCH, OPENING
from supervisor.clock import boottime_s
from supervisor.model.launch import PREPARED, Launch
from supervisor.records.codec import decode

READY_TIMEOUT_S = 10.0
TO_BARRIER = b"to the barrier\n"
"""The word that lets the starter of a prepared driver go."""

# Nothing that time heals. Everything else (EAGAIN, ENOMEM, EMFILE, EIO …) is tried again.
_PERMANENT = (
    errno.ENOENT,
    errno.EACCES,
    errno.ENOEXEC,
    errno.E2BIG,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.EINVAL,
)


class Starter(NamedTuple):
    """Names the ends of its pipes: ``go`` lets it go; the end of file of ``answer`` means exec; ``output`` is
    stdout and stderr of the driver."""

    pid: int
    pidfd: int
    go: int
    answer: int
    output: int


class Refusal(NamedTuple):
    """Says why there was no exec."""

    late: bool
    error: str
    permanent: bool


def read_launch(directory: str) -> Launch:
    """Reads what to start from the run directory. Raises OSError, Corrupt."""
    path = f"{directory}/{LAUNCH}"
    with open(path, "rb") as file:
        return decode(Launch, file.read(), path)


def held_at_barrier(launch: Launch, directory: str) -> Launch:
    """Returns the launch of a prepared driver such that its application waits for the opening in ``directory``. Raises
    OSError if it would not: without the bootstrap, or with an opening that is there already."""
    opening = f"{launch.channel_in(directory)}/{OPENING}"
    if not launch.reports:
        raise OSError("this driver has no barrier: it can't be prepared")
    if os.path.lexists(opening):
        raise OSError(f"{opening} is there already: it is of another shim")
    return replace(launch, env={**launch.env, PREPARED: opening})


def limited(launch: Launch, tree: Containment) -> Launch:
    """Sets the limits of the driver tree, which is empty yet. What can't be set is said in the lease; the driver starts
    without it. Raises OSError for a driver of another user that no cgroup would hold: it could get away."""
    if not isinstance(tree, CgroupContainment):
        if launch.user is not None:
            raise OSError(f"a driver of user {launch.user.name} needs a cgroup of its own")
        return launch
    why = tree.limit(launch.limits.files()) if launch.limits is not None else ""
    return replace(launch, not_limited=launch.not_limited or why) if why else launch


def fork_starter(launch: Launch, claim_id: str, tree: Containment) -> Starter:
    """Forks the starter and waits until it is inside the containment. It must be called while this process
    has one thread. Raises OSError."""
    wait_go, go = os.pipe()
    answer, write_answer = os.pipe()
    output, write_output = os.pipe()
    pid = os.fork()
    if pid == 0:
        for descriptor in (go, answer, output):
            os.close(descriptor)
        _be_starter(launch, {**launch.env, CLAIM_MARKER: claim_id}, tree, wait_go, write_answer, write_output)
    for descriptor in (wait_go, write_answer, write_output):
        os.close(descriptor)
    starter = Starter(pid, os.pidfd_open(pid), go, answer, output)
    poll = select.poll()
    poll.register(answer, select.POLLIN)
    first_answer = os.read(answer, 1000) if poll.poll(READY_TIMEOUT_S * 1000) else b"it did not answer"
    if first_answer != b"ready\n":
        signal.pidfd_send_signal(starter.pidfd, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise OSError(
            f"the starter could not be prepared: {first_answer.decode(errors='replace') or 'it died'}"
        )
    return starter


def release(starter: Starter, before_at_s: float) -> None:
    """Lets it become the driver, if it gets to that before ``before_at_s`` (BOOTTIME). Raises OSError if it
    is dead."""
    os.write(starter.go, f"{before_at_s:.6f}\n".encode())


def release_to_barrier(starter: Starter) -> None:
    """Lets the starter of a prepared driver become the driver. Raises OSError if it is dead."""
    os.write(starter.go, TO_BARRIER)


def _may_start(launch: Launch, word: bytes) -> bool:
    """Returns whether the word lets this driver start now. Raises ValueError for a word that is not for it: an ordinary
    driver starts by a deadline only, and a prepared one never does by that."""
    if launch.waits_for_assignment:
        if word != TO_BARRIER:
            raise ValueError("it waits at its barrier for an attempt, and has no deadline")
        return True
    return boottime_s() < float(word)


def outcome(answer: bytes) -> Refusal | None:
    """Returns why exec did not happen, or None if the starter has become the driver. ``answer`` is everything
    that came from the starter after "ready"."""
    if not answer:
        return None
    if answer == b"late\n":
        return Refusal(True, "its time was over", False)
    number, _, text = answer.decode(errors="replace").partition(" ")
    return Refusal(False, text.strip(), number.isdigit() and int(number) in _PERMANENT)


def _be_starter(
    launch: Launch, env: dict[str, str], tree: Containment, wait_go: int, write_answer: int, output: int
) -> NoReturn:
    try:
        _default_signals()
        umask.give_back()
        tree.enter()
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
        os.write(write_answer, b"ready\n")
        word = os.read(wait_go, 100)
        if not word.endswith(b"\n"):
            os._exit(0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if launch.user is not None:
            os.fchmod(output, 0o622)  # it may open /dev/stdout anew; nobody else can get at a pipe of another
            privileges.become(launch.user)
        else:
            privileges.give_up()
        os.chdir(launch.cwd)
        if _may_start(launch, word):
            os.execvpe(launch.argv[0], launch.argv, env)
        os.write(write_answer, b"late\n")
    except OSError as error:
        what = error.filename or launch.argv[0]
        os.write(
            write_answer, f"{error.errno} {what} could not be executed: {error.strerror}".encode()[:1000]
        )
    except BaseException as error:  # noqa: BLE001 - a forked copy of the shim must never return into the shim's code
        os.write(write_answer, f"0 {launch.argv[:1]} could not be executed: {error!r}".encode()[:1000])
    finally:
        os._exit(127)


def _default_signals() -> None:
    """Restores default signal handling, so that the driver finds what a shell would give it: Python ignores
    SIGPIPE, and the shim has handlers."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):  # reserved by the C library
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
