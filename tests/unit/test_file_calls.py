"""Each call that opens, lists, asks or changes something by a path, in the rooms that meet paths of other users, with the reason why it may.

What another Unix user may change is opened by ``clients.foreign_files`` or by ``clients.opened_as``, and by nothing else. A new
call stands in none of the lists here, and the test says so: use one of the two, or give it a reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "supervisor"
ROOMS: Final = (
    *(
        "api",
        "bluegreen",
        "checkpoint",
        "daemon/host",
        "daemon/leader",
        "daemon/process",
        "operations",
        "savepoints",
        "shim",
        "spark",
    ),
    *(
        "clients/access.py",
        "clients/channel.py",
        "clients/diagnostics",
        "clients/emptying.py",
        "clients/environment_archive.py",
    ),
    *(
        "clients/foreign_files.py",
        "clients/opened_as.py",
        "clients/run_dir.py",
        "clients/store",
        "clients/task_child.py",
    ),
    *(
        "clients/unzipped.py",
        "cli/bluegreen.py",
        "cli/checkpoint.py",
        "cli/debug.py",
        "cli/logs.py",
        "cli/savepoint.py",
    ),
    *("cli/stacks.py", "cli/with_savepoint.py"),
)
OF_OS: Final = frozenset(
    [
        "access",
        "chdir",
        "chmod",
        "chown",
        "chroot",
        "fwalk",
        "getxattr",
        "lchmod",
        "lchown",
        "link",
        "listdir",
        "listxattr",
        "lstat",
        "makedirs",
        "mkdir",
        "mkfifo",
        "mknod",
        "open",
        "pathconf",
        "readlink",
        "remove",
        "removedirs",
        "removexattr",
        "rename",
        "renames",
        "replace",
        "rmdir",
        "scandir",
        "setxattr",
        "stat",
        "statvfs",
        "symlink",
        "truncate",
        "unlink",
        "utime",
        "walk",
    ]
)
OF_OS_PATH: Final = frozenset(
    [
        "exists",
        "getatime",
        "getctime",
        "getmtime",
        "getsize",
        "isdir",
        "isfile",
        "islink",
        "ismount",
        "lexists",
        "realpath",
        "samefile",
    ]
)
OF_PATH: Final = frozenset(
    [
        "chmod",
        "exists",
        "expanduser",
        "glob",
        "group",
        "hardlink_to",
        "is_dir",
        "is_fifo",
        "is_file",
        "is_mount",
        "is_socket",
        "is_symlink",
        "iterdir",
        "lchmod",
        "lstat",
        "mkdir",
        "open",
        "owner",
        "read_bytes",
        "read_text",
        "readlink",
        "rename",
        "resolve",
        "rglob",
        "rmdir",
        "samefile",
        "stat",
        "symlink_to",
        "touch",
        "unlink",
        "walk",
        "write_bytes",
        "write_text",
    ]
)
MODULES: Final = frozenset({"fileinput", "glob", "gzip", "io", "shutil", "tarfile", "tempfile", "zipfile"})

RULES: Final = "it is one of the modules that have the rules"
DESCRIPTOR: Final = "relative to the descriptor of a directory that foreign_files has opened, or of one of the supervisor's; no link is followed"
OPEN: Final = "a file that is open already"
MEMORY: Final = "no file at all"
NO_PATH: Final = "a method of that name of something that is no path"
INODE: Final = "it only compares the inode of a name, of a link its own"
AS_USER: Final = "in a process of that user, or a socket that is asked whose it is"
OWN: Final = "directories of the supervisor and its shims, in which no other user can make or change a name"
OWN_FILES: Final = "files of the process itself, or of who submits them"
DRAFT: Final = "a directory that this process has made for itself, and that only its user can enter"
STORE: Final = "the store, where only those write whom its operator admits; links are not followed below it"
OPERATOR: Final = "a file that the operator has named in the settings"
ASKER: Final = "a file that is named by who gives the command, with his own rights"
LOGS: Final = "the directory of a run, which is the supervisor's; what is read of it goes through log_parts"
NAMES: Final = "only names are listed, of a bounded number of entries; what they name goes through log_parts"
COVERING: Final = "what is found is covered in a bundle, and shown nowhere"
PROC: Final = "files of the kernel"
DEVICE: Final = "a device of the system"
HOST: Final = "the host's installation of Spark and Java, or what the supervisor has made of it"
CONF: Final = "only asked what there is, in the configuration that the host gives"
DRIVER: Final = "in the driver, as the job's user, or in a Spark of who gives the command"
PACKAGE_OWN: Final = "files of this package"
STAMP: Final = "only size, time and inode, which are compared and shown to nobody"
SECRETS: Final = "by policy.secrets; the very file that was opened is judged, by path, owner and mode"

ALLOWED: Final[dict[str, dict[str, str]]] = {
    "api/encoded_answer.py": {MEMORY: "EncodedAnswer._compressed"},
    "api/fetched_outputs.py": {DRAFT: "FetchedOutputs.open"},
    "api/log_pieces.py": {NO_PATH: "OutputPieces.of_store"},
    "api/page/files.py": {PACKAGE_OWN: "PageFiles.__init__"},
    "api/token_file.py": {OPERATOR: "is_without_token _open_at_once"},
    "api/write_client.py": {ASKER: "bundle_files"},
    "bluegreen/fork.py": {DRAFT: "fork"},
    "bluegreen/promote.py": {DRAFT: "_target"},
    "cli/debug.py": {ASKER: "bundle"},
    "cli/logs.py": {INODE: "_was_rotated"},
    "clients/access.py": {RULES: "grant granted _entries"},
    "clients/channel.py": {OWN: "make_channel user_of let_pass let_read _let_read_file"},
    "clients/diagnostics/attach.py": {AS_USER: "ask_jvm _connected _started"},
    "clients/diagnostics/child.py": {DEVICE: "_spawn"},
    "clients/diagnostics/connections.py": {PROC: "_socket_inodes"},
    "clients/diagnostics/proc.py": {PROC: "view_of kind_of threads_of read"},
    "clients/diagnostics/python_threads.py": {AS_USER: "ask_interpreter"},
    "clients/emptying.py": {AS_USER: "remove empty _some_of _take_apart _is_directory"},
    "clients/environment_archive.py": {
        DRAFT: "unpack _require_room _open_directories",
        MEMORY: "_Members.judged _filtered_link",
        OPEN: "_opened",
    },
    "clients/foreign_files.py": {
        RULES: "store_trust directory_in _opened _entered _target _step open_file create_file _location_to_write _made _is_as_own directory_to_write require_closed _require_closed"
    },
    "clients/opened_as.py": {RULES: "_opened"},
    "clients/run_dir.py": {
        OWN: "DeadlineFile.create read_file directories create remove_drafts write_atomically take_lock is_deserted _write_once _private hand_over remove_dangling_links _link_target _unlink_if_to write_opening note_kill remove _remove_entry _remove_tree"
    },
    "clients/store/deadline.py": {PROC: "mount_of"},
    "clients/store/file_objects.py": {
        DESCRIPTOR: "FileObjectClient.delete.work FileObjectClient._remove_empty FileObjectClient.now_s.work FileObjectClient._listed.work FileObjectClient._create FileObjectClient._publish FileObjectClient._partial"
    },
    "clients/store/files.py": {
        STORE: "FileStore.delete.work FileStore._meaning FileStore._link FileStore._make FileStore._temporary FileStore._sync_up FileStore._drop_empty FileStore._walk _opened _listed _drop_leftovers"
    },
    "clients/store/local.py": {OWN_FILES: "source_chunks write_whole"},
    "clients/store/probe.py": {NAMES: "probe_directory", DESCRIPTOR: "_probe_in _probe_in.listed"},
    "clients/store/removal.py": {
        DESCRIPTOR: "DirectoryRemoval._emptied DirectoryRemoval._emptied_in _queries_below _Batch.empty _Batch._empty_inner"
    },
    "clients/store/s3_upload.py": {OWN_FILES: "Upload.of"},
    "clients/unzipped.py": {OPEN: "Unzipped.__init__"},
    "daemon/host/admission.py": {NAMES: "_why_no_directory"},
    "daemon/host/archive_ahead.py": {OWN: "ArchiveAhead._make"},
    "daemon/host/attempt_reporter.py": {OWN: "report"},
    "daemon/host/drain_host.py": {OWN: "_ask"},
    "daemon/host/guardian.py": {OWN: "Guardian._last_probe"},
    "daemon/host/handover.py": {OWN: "MadeLaunch.properties"},
    "daemon/host/hosted_attempts.py": {
        OWN: "read_handed HostedAttempts._names HostedAttempts.has HostedAttempts.prepared_key_of HostedAttempts.state_of HostedAttempts.prepared _remove_others"
    },
    "daemon/host/housekeeping.py": {
        OWN: "Housekeeper.keep_logs Housekeeper._keep_log Housekeeper._there prune put_aside"
    },
    "daemon/host/launcher.py": {OWN: "Launcher._unlink_unless"},
    "daemon/host/leftovers.py": {
        OWN: "Leftovers.put_aside Leftovers.remove Leftovers._remove _has_something"
    },
    "daemon/host/log_limits.py": {OWN: "list_logs _of_job remove_surplus"},
    "daemon/host/log_uploads.py": {
        OWN: "_keys_in _make_name LogUploads.ended LogUploads._keep_names LogUploads._upload LogUploads._remove_name"
    },
    "daemon/host/start_barrier.py": {OWN: "StartBarrier._directory _is_known"},
    "daemon/process/assemble.py": {OWN: "_has_other_users Assembly._commits_of"},
    "daemon/process/bounded_http.py": {MEMORY: "BoundedHandler.handle"},
    "daemon/process/supervisor.py": {OWN: "_locked make_private check_log_dir"},
    "operations/accept_registry.py": {OWN: "_of_this_host"},
    "operations/apply.py": {ASKER: "spec_files _inside"},
    "operations/bundle.py": {DRAFT: "SpecBundle.__init__ ApplyRequest.carry_out"},
    "operations/debug_bundle.py": {
        ASKER: "write_bundle",
        MEMORY: "_written _add",
        LOGS: "_shim_log",
        NAMES: "_diagnostics",
    },
    "operations/known_secrets.py": {COVERING: "_of_file"},
    "operations/log_parts.py": {NAMES: "has_parts"},
    "operations/log_stamps.py": {NO_PATH: "_instant _zone"},
    "operations/logs.py": {NAMES: "_attempts_in"},
    "operations/stacks.py": {OWN: "_user_of"},
    "operations/uploaded_output.py": {
        OPEN: "pack _unpack",
        MEMORY: "next_piece _unpack_piece",
        DRAFT: "open_stored fetch_stored",
    },
    "savepoints/deep_verify.py": {DRAFT: "open_saved_state _code_of"},
    "shim/directory_sampler.py": {OWN: "measure", DESCRIPTOR: "_sizes"},
    "shim/diagnosis.py": {OWN: "Diagnosis._copy stopped_of remove_surplus"},
    "shim/memory_witness.py": {PROC: "MemoryWitness.described"},
    "shim/oom.py": {PROC: "find_counters _with_memory read"},
    "shim/output.py": {OWN: "RotatedFile.move_to RotatedFile._open RotatedFile._rotate"},
    "shim/reports.py": {OWN: "ReportSocket.__init__", AS_USER: "ReportSocket.order"},
    "shim/runner.py": {NO_PATH: "Runner._exec"},
    "shim/starter.py": {OWN: "read_launch held_at_barrier _be_starter"},
    "shim/twin.py": {PROC: "_be_twin"},
    "spark/barrier.py": {DRIVER: "Barrier.require Barrier._await_opening", NO_PATH: "Barrier.wait"},
    "spark/bootstrap.py": {DRIVER: "Reports.__init__ await_verdict run_application pretend"},
    "spark/class_archive/build.py": {HOST: "make_archive _trained names_in_jars _scala_version"},
    "spark/class_archive/choice.py": {CONF: "why_not_this_conf_dir"},
    "spark/class_archive/key.py": {HOST: "archive_key jars_of _of_java"},
    "spark/class_archive/shelf.py": {HOST: "find keep tidy _remove _remove_draft _read_note _sha256"},
    "spark/compiled_pyspark.py": {DRIVER: "use_compiled_pyspark _is_compiled"},
    "spark/fence/build.py": {HOST: "JavaSources.beside host_jar _key _make _pack"},
    "spark/orders.py": {DRIVER: "Orders.listen"},
    "spark/driver_launch.py": {OWN: "_let_user_read _write_private"},
    "spark/fetched_files.py": {OWN: "_copied files_of", STAMP: "_stamp"},
    "spark/python_environments.py": {
        OWN: "_environment_of _let_pass _check_links _make sweep _remove _marks"
    },
    "spark/secrets.py": {SECRETS: "Secrets._of_file Secrets._check _opened"},
    "spark/state_reader.py": {DRIVER: "main"},
    "spark/state_reading.py": {DRAFT: "open_state _answer_of _write_private"},
    "spark/toolchain.py": {
        HOST: "python_path_of spark_version java_home_of java_version java_of _home_of python_of s3a_jars_of defaults_of _regular _executable"
    },
    "spark/warm_up.py": {DRIVER: "temporary_directory"},
    "daemon/host/job_directories.py": {OWN: "JobDirectories._there"},
    "spark/application_directories.py": {CONF: "warehouse_of"},
    "spark/query_gate.py": {NO_PATH: "QueryGate.open"},
    "spark/attempt_place.py": {OWN: "_open_to_user make_directory"},
    "spark/placed_files.py": {OWN: "gather", DESCRIPTOR: "_copy _is_same _remove place_files"},
}
"""By module: reason → the functions, as qualified names, ``(module)`` for what stands in none."""


def named(call: ast.Call) -> str:
    """The name of a call by a path, else nothing."""
    match call.func:
        case ast.Name(id="open"):
            return "open"
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return f"os.{name}" if name in OF_OS else ""
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr=name):
            return f"os.path.{name}" if name in OF_OS_PATH else ""
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULES:
            return f"{module}.{name}"
        case ast.Attribute(attr="replace"):  # a text has two arguments
            return ".replace" if len(call.args) == 1 and not call.keywords else ""
        case ast.Attribute(attr=name):
            return f".{name}" if name in OF_PATH else ""
    return ""


def calls(node: ast.AST, within: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(function, call)"""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from calls(child, (*within, child.name))
            continue
        if isinstance(child, ast.Call) and (name := named(child)):
            yield ".".join(within) or "(module)", name
        yield from calls(child, within)


def files() -> Iterator[Path]:
    for room in ROOMS:
        path = PACKAGE / room
        yield from sorted(path.rglob("*.py")) if path.is_dir() else (path,)


def test_each_call_by_a_path_has_its_reason() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), function, call)
        for path in files()
        for function, call in calls(ast.parse(path.read_text()))
    }
    allowed = {
        (module, function)
        for module, reasons in ALLOWED.items()
        for functions in reasons.values()
        for function in functions.split()
    }
    new = sorted(each for each in found if each[:2] not in allowed)
    assert new == [], (
        "use clients.foreign_files or clients.opened_as, or say here why this path is no other user's"
    )
    assert allowed - {each[:2] for each in found} == set(), "they are gone: take them out"


def test_such_calls_are_found() -> None:
    source = """
class Reader:
    def read(self, path):
        with open(path) as a, path.open() as b, os.open(path, 0) as c:
            return shutil.copyfile(a, b), path.replace(c), "text".replace("a", "b"), os.path.isfile(path), path.read_text()
"""
    assert [call for _, call in calls(ast.parse(source))] == [
        *("open", ".open", "os.open", "shutil.copyfile", ".replace", "os.path.isfile", ".read_text")
    ]
    assert {function for function, _ in calls(ast.parse(source))} == {"Reader.read"}
