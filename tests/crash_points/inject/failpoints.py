"""Failpoints in a process of the product, put there from outside: before and after every call that does I/O.

Loaded by ``sitecustomize`` (this directory is on PYTHONPATH, in tests only), in supervisors, session closers, shims (whose twin
and starter are forks of them) and commands. Nothing of the product knows of it. What is intercepted is not listed by hand:

* every function of ``os`` that the operating system serves, but for ``PURE`` (they change nothing and tell no state that
  another process can change); ``open``, and writing to what it opened; ``flock``; sockets; starting a process; signals;
* every public method of the ZooKeeper client and of the stores that does I/O (below it is kazoo's wire, which is theirs).

A point is ``role|caller|inner|op``: the nearest frame outside of ``supervisor.clients``, the nearest one at all ("" if it is
the same), each ``module:function:line``, and what was called (a multi by its name). ``before`` and ``after`` are moments.

The directory ``CRASH_POINTS`` holds ``switch`` (mapped: off, recording or armed; and a number that says when to read again),
``arms.json`` and, written by us, ``record`` and ``hit-<arm>``. While it is off a call costs one look at a mapped byte.
"""

import builtins
import errno
import fcntl
import importlib.abc
import io
import json
import mmap
import os
import signal
import sys
import threading
import time

OFF, RECORDING, ARMED = 0, 1, 2
PACKAGE = os.environ.get("CRASH_POINTS_PACKAGE", "")

_PURE = """
    WCOREDUMP WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WSTOPSIG WTERMSIG
    _exit _path_normpath abort confstr cpu_count ctermid device_encoding eventfd eventfd_read eventfd_write fspath
    get_blocking get_inheritable get_terminal_size getcwd getcwdb getegid geteuid getgid getgrouplist getgroups getloadavg
    getlogin getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getsid getuid isatty lseek major
    makedev minor nice pathconf putenv register_at_fork sched_get_priority_max sched_get_priority_min sched_getaffinity
    sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler
    sched_yield set_blocking set_inheritable strerror sysconf times umask uname unsetenv urandom waitstatus_to_exitcode
    dup dup2 pipe pipe2 fsdecode fsencode
"""
PURE = frozenset(_PURE.split())
SOCKET_CALLS = (
    "accept",
    "bind",
    "close",
    "connect",
    "connect_ex",
    "listen",
    "recv",
    "recv_into",
    "recvfrom",
    "recvmsg",
    "send",
    "sendall",
    "sendmsg",
    "sendto",
    "shutdown",
)
NOT_OURS = {
    "supervisor.clients.kazoo_connection": "the wire below ZooClient's requests, which are points themselves",
    "supervisor.clients.zookeeper_session": "as kazoo_connection",
    "supervisor.clients.zookeeper_tls": "as kazoo_connection",
    "supervisor.clients.secret_file": "as kazoo_connection",
    "supervisor.clients.gssapi": "as kazoo_connection",
    "supervisor.daemon.process.http": "answers of the HTTP server: nothing rests on them",
    "supervisor.logs": "lines of the log",
    "supervisor.shim.log": "lines of the log",
    "supervisor.cli.output": "what is printed",
}
"""Modules whose own calls are no points, and why."""

ZOO_READS = ("sync", "read", "watch_exists", "children", "read_many", "read_acl", "who_am_i")
ZOO_OTHERS = ("start", "wait_connected", "close", "commit", "set_acl")
STORE_CALLS = ("create", "create_from", "read", "read_to", "delete", "check")
READS = frozenset(
    {
        *(
            f"os.{name}"
            for name in (  # noqa: SIM905
                "access stat lstat fstat statvfs fstatvfs listdir scandir readlink read readv pread preadv getxattr listxattr pidfd_open "
                "close closerange chdir fchdir wait wait3 wait4 waitid waitpid"
            ).split()
        ),
        "open",
        "file.read",
        "socket.recv",
        "socket.recv_into",
        "socket.recvfrom",
        "socket.recvmsg",
        "socket.accept",
        "socket.close",
        *(f"zookeeper.{name}" for name in (*ZOO_READS, "read_many_async", "wait_connected", "start")),
        "store.read",
        "store.check",
    }
)
"""They change nothing outside of the process: killed before or after one of them is the same."""

_ERRNO = {
    "os.fork": errno.EAGAIN,
    "os.pidfd_open": errno.EMFILE,
    "subprocess.fork_exec": errno.EAGAIN,
    "os.open": errno.ENOSPC,
    "os.mkdir": errno.ENOSPC,
    "open": errno.EMFILE,
    "os.execve": errno.EAGAIN,
}

_real = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}
_open, _getpid, _write = open, os.getpid, os.write
_send_signal = os.kill


class _State:
    directory = ""
    switch = b"\0" * 16
    seen = b""
    arms: dict = {}
    counts: dict = {}
    mode = OFF
    main = 0
    job = None
    launch = None


_local = threading.local()
_lock = threading.Lock()
_codes = {}


def install(directory):
    _State.directory, _State.main = directory, _getpid()
    with _open(f"{directory}/switch", "rb") as file:
        _State.switch = mmap.mmap(file.fileno(), 16, prot=mmap.PROT_READ)
    for name, function in list(vars(os).items()):
        if (
            type(function).__name__ == "builtin_function_or_method"
            and function.__module__ == "posix"
            and name not in PURE
        ):
            _replace_os(name, function)
    builtins.open = io.open = _opener()
    fcntl.flock = _wrapped("fcntl.flock", fcntl.flock)
    fcntl.lockf = _wrapped("fcntl.lockf", fcntl.lockf)
    signal.pidfd_send_signal = _wrapped("signal.pidfd_send_signal", signal.pidfd_send_signal)
    os.register_at_fork(after_in_child=_after_fork)
    sys.meta_path.insert(0, _Finder())


def _replace_os(name, function):
    wrapped = _wrapped(f"os.{name}", function)
    setattr(os, name, wrapped)
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if function in known:
            known.add(wrapped)


def _after_fork():
    global _lock
    _lock = threading.Lock()


# -- where we are ----------------------------------------------------------------------------------------------------


def _place(code):
    """(module, in clients) of a code object of the product; None of any other."""
    known = _codes.get(code, False)
    if known is False:
        path = code.co_filename
        if path.startswith(PACKAGE):
            module = "supervisor." + path[len(PACKAGE) : -3].replace("/", ".").removesuffix(".__init__")
            known = (module, module.startswith("supervisor.clients."))
        else:
            known = "import" if path.startswith("<frozen importlib") else None
        _codes[code] = known
    return known


def _where(frame):
    """(caller, inner, names of functions on the stack) or None: not the product's doing, or nothing that counts."""
    caller = inner = None
    functions = set()
    while frame is not None:
        code = frame.f_code
        place = _place(code)
        if place == "import" and inner is None:
            return None
        if place is not None and place != "import":
            functions.add(code.co_name)
            if caller is None:
                site = f"{place[0].removeprefix('supervisor.')}:{code.co_qualname.replace('.<locals>', '')}:{frame.f_lineno}"
                if inner is None:
                    if place[0] in NOT_OURS:
                        return None
                    inner = site
                if not place[1]:
                    caller = site
        frame = frame.f_back
    if inner is None:
        return None
    return caller or inner, inner if caller not in (None, inner) else "", functions


def _kind():
    words = sys.orig_argv
    if "supervisor.shim" in words:
        return "shim"
    if "supervisor.daemon.process.session_closer" in words:
        return "session_closer"
    return "supervisor" if "run" in words else "cli"


def _role(functions):
    kind = _kind()
    if kind == "shim":
        forked = "starter" if functions & {"_be_starter", "fork_starter"} else "twin"
        role = "shim" if _getpid() == _State.main else forked
        return f"prepared_{role}" if _launch().get("prepared") else role
    if kind != "supervisor":
        return kind
    thread = threading.current_thread().name
    if thread.startswith(("contender", "controller", "act", "sweeper", "epoch")):
        return "leader"
    if thread.startswith("start"):
        return "agent"
    if thread.startswith("prepare"):
        return "preparer"
    return {"MainThread": "main", "housekeeping": "housekeeper"}.get(thread, thread.partition("-")[0])


def _point(op, depth):
    where = _where(sys._getframe(depth))
    if where is None:
        return None
    caller, inner, functions = where
    return f"{_role(functions)}|{caller}|{inner}|{op}"


# -- what happens there ----------------------------------------------------------------------------------------------


def _wrapped(op, real, failing=None, named=None):
    def call(*arguments, **named_arguments):
        if not _State.switch[0] or getattr(_local, "inside", False):
            return real(*arguments, **named_arguments)
        point = _point(op if named is None else named(op, arguments), 2)
        if point is None:
            return real(*arguments, **named_arguments)
        return _around(point, op, real, failing, arguments, named_arguments)

    call.__name__ = call.__qualname__ = getattr(real, "__name__", op)
    call.__doc__ = real.__doc__
    call.crash_point = op
    return call


def _around(point, op, real, failing, arguments, named_arguments):
    _pass(point, "before", op, failing)
    hides = op.startswith(("zookeeper.", "store."))  # what these do inside is theirs
    if hides:
        _local.inside = True
    try:
        result = real(*arguments, **named_arguments)
    except Exception:
        _local.inside = False
        _pass(point, "after", op, failing)
        raise
    finally:
        if hides:
            _local.inside = False
    if op == "os.fork" and result == 0:
        return result
    _pass(point, "after", op, failing)
    return result


def _pass(point, moment, op, failing=None):
    sequence = _State.switch[:16]
    if sequence != _State.seen:
        _read_again(sequence)
    if _State.mode == RECORDING and moment == "before":
        _note(point)
    arms = _State.arms.get((point, moment))
    for arm in arms or ():
        with _lock:
            if arm["job"] and arm["job"] != _job():
                continue
            _State.counts[arm["id"]] = count = _State.counts.get(arm["id"], 0) + 1
        if count == arm["nth"] and _claim(arm, point, moment):
            _strike(arm["mode"], moment, op, failing)


def _read_again(sequence):
    with _lock:
        _State.seen, _State.mode = sequence, sequence[0]
        arms = {}
        with _open(f"{_State.directory}/arms.json", encoding="utf-8") as file:
            for arm in json.load(file):
                arms.setdefault((arm["point"], arm["moment"]), []).append(arm)
        known = {arm["id"] for each in arms.values() for arm in each}
        _State.counts = {arm: count for arm, count in _State.counts.items() if arm in known}
        _State.arms = arms if _State.mode == ARMED else {}


def _job():
    """The job of this shim, or of this command; "" in a supervisor."""
    if _State.job is None:
        _State.job = ""
        if _kind() == "shim":
            _State.job = _launch()["assignment"]["name"]
        elif _kind() == "cli":
            _State.job = os.environ.get("CRASH_POINTS_JOB", "")
    return _State.job


def _launch():
    """By what this shim was started: of a prepared driver, by what it was prepared."""
    if _State.launch is None:
        words = sys.orig_argv
        with _open(words[words.index("supervisor.shim") + 1] + "/launch.json", "rb") as file:
            _State.launch = json.load(file)
    return _State.launch


def _note(point):
    line = f"{_getpid()} {point}\n".encode()
    fd = _real["open"](
        f"{_State.directory}/record", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        _write(fd, line)
    finally:
        _real["close"](fd)


def _claim(arm, point, moment):
    """One process strikes once for an arm, whoever comes first."""
    path = f"{_State.directory}/hit-{arm['id']}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        _real["close"](_real["open"](f"{_State.directory}/claimed-{arm['id']}", flags, 0o600))
    except FileExistsError:
        return False
    body = {
        "pid": _getpid(),
        "point": point,
        "moment": moment,
        "at_s": time.clock_gettime(time.CLOCK_BOOTTIME),
    }
    fd = _real["open"](f"{path}.new", flags, 0o600)
    _write(fd, json.dumps(body).encode())
    _real["close"](fd)
    _real["rename"](f"{path}.new", path)
    return True


def _strike(mode, moment, op, failing):
    if mode == "kill":
        _send_signal(_getpid(), signal.SIGKILL)
    elif mode == "pause":
        _send_signal(_getpid(), signal.SIGSTOP)
    elif failing is not None:
        raise failing(op, moment)
    else:
        number = _ERRNO.get(op, errno.EIO)
        raise OSError(number, os.strerror(number))


# -- files -----------------------------------------------------------------------------------------------------------


class _File:
    """What ``open`` gave for writing: its writes are points too."""

    def __init__(self, file):
        self.__dict__["_file"] = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __setattr__(self, name, value):
        setattr(self._file, name, value)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        return self.close()

    def __iter__(self):
        return iter(self._file)

    def __next__(self):
        return next(self._file)

    def write(self, data):
        return _written(self._file.write, data)

    def close(self):
        return None if self._file.closed else _closed(self._file.close)


def _opener():
    guarded = _wrapped("open", _open)

    def opener(file, mode="r", *arguments, **named):
        if not _State.switch[0] or not _is_ours():
            return _open(file, mode, *arguments, **named)
        opened = (
            _open(file, mode, *arguments, **named)
            if isinstance(file, int)
            else guarded(file, mode, *arguments, **named)
        )
        return _File(opened) if set(mode) & set("wax+") else opened

    opener.__name__ = "open"
    opener.crash_point = "open"
    return opener


def _is_ours():
    return _where(sys._getframe(2)) is not None


_written = _wrapped("file.write", lambda write, data: write(data))
_closed = _wrapped("file.close", lambda close: close())


# -- ZooKeeper, stores, what is imported later -----------------------------------------------------------------------


def _zoo_failing(op, moment):
    from supervisor.errors import NotSent, OutcomeUnknown, Unreachable

    if "commit" in op:
        return (
            NotSent("failpoint: not sent")
            if moment == "before"
            else OutcomeUnknown("failpoint: the answer was lost")
        )
    return Unreachable(f"failpoint: no answer to {op}")


def _store_failing(op, _moment):
    from supervisor.errors import Unreachable

    return Unreachable(f"failpoint: no answer to {op}")


def _with_multi(op, arguments):
    return f"{op} {arguments[1].what}"


def _change_zookeeper(module):
    client = module.ZooClient
    for name in (*ZOO_READS, *ZOO_OTHERS):
        named = _with_multi if name == "commit" else None
        setattr(client, name, _wrapped(f"zookeeper.{name}", getattr(client, name), _zoo_failing, named))
    client.commit_async = _asynchronous("zookeeper.commit_async", client.commit_async, _with_multi)
    client.read_many_async = _asynchronous("zookeeper.read_many_async", client.read_many_async, None)
    module.close_session = _wrapped("zookeeper.close_session", module.close_session, _zoo_failing)


def _asynchronous(op, real, named):
    def call(client, request, done, *more):
        if not _State.switch[0] or getattr(_local, "inside", False):
            return real(client, request, done, *more)
        point = _point(op if named is None else named(op, (client, request)), 2)
        if point is None:
            return real(client, request, done, *more)

        def answered(result):
            try:
                _pass(point, "after", op, _zoo_failing)
            except Exception as error:
                result = error
            done(result)

        try:
            _pass(point, "before", op, _zoo_failing)
        except Exception as error:
            return done(error)
        return real(client, request, answered, *more)

    call.crash_point = op
    return call


def _change_store(name):
    def change(module):
        store = getattr(module, name)
        for method in STORE_CALLS:
            setattr(store, method, _wrapped(f"store.{method}", getattr(store, method), _store_failing))

    return change


def _change_socket(module):
    for name in SOCKET_CALLS:
        setattr(module.socket, name, _wrapped(f"socket.{name}", getattr(module.socket, name)))


def _change_subprocess(module):
    name = "_fork_exec" if hasattr(module, "_fork_exec") else "_posixsubprocess"
    if name == "_fork_exec":
        module._fork_exec = _wrapped("subprocess.fork_exec", module._fork_exec)
    else:
        module._posixsubprocess.fork_exec = _wrapped(
            "subprocess.fork_exec", module._posixsubprocess.fork_exec
        )


CHANGES = {
    "supervisor.clients.zookeeper": _change_zookeeper,
    "supervisor.clients.store.files": _change_store("FileStore"),
    "supervisor.clients.store.s3": _change_store("S3Store"),
    "socket": _change_socket,
    "subprocess": _change_subprocess,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as anybody would, and changes those of ``CHANGES`` when they are loaded."""

    def find_spec(self, name, path=None, target=None):
        if name not in CHANGES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            CHANGES[name](module)

        spec.loader.exec_module = exec_module
        return spec
