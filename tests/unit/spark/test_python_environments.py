"""Environments that jobs bring: unpacked once, marked while they are used, swept when nobody uses them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.access import granted
from supervisor.clients.environment_archive import unpack
from supervisor.clock import boottime_s
from supervisor.errors import Unreachable
from supervisor.model.driver_user import DriverUser
from supervisor.model.records import Cause
from supervisor.settings.file import Settings
from supervisor.spark import python_environments
from supervisor.spark.python_environments import (
    KEPT_S,
    MARK,
    environment_of,
    environments_dir,
    sweep,
)
from supervisor.spark.refusal import Refused
from tests.unit.clients.test_environment_archive import PYTHON, UNPACKS, packed

pytestmark = UNPACKS


@pytest.fixture
def here(settings: Settings, tmp_path: Path) -> Settings:
    spark = settings.spark.model_copy(update={"environments_dir": tmp_path / "environments"})
    return settings.model_copy(update={"spark": spark})


def work(tmp_path: Path, key: str) -> Path:
    directory = tmp_path / "work" / key
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def test_it_is_unpacked_once_for_all_attempts(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = packed(tmp_path / "env.tar.gz", PYTHON)
    first = environment_of(archive, here, work(tmp_path, "u1.1"), None)
    assert first.parent == environments_dir(here) and (first / "bin" / "python").is_file()
    monkeypatch.setattr(python_environments, "unpack", None)
    assert environment_of(archive, here, work(tmp_path, "u2.1"), None) == first
    assert (work(tmp_path, "u2.1") / MARK).read_text() == first.name


def test_one_that_an_attempt_uses_stays_and_another_goes_after_its_time(
    here: Settings, tmp_path: Path
) -> None:
    used = environment_of(packed(tmp_path / "a.tar.gz", PYTHON), here, work(tmp_path, "u1.1"), None)
    other = packed(tmp_path / "b.tar.gz", PYTHON, ("x", b"x", 0o644))
    unused = environment_of(other, here, work(tmp_path, "u2.1"), None)
    (work(tmp_path, "u2.1") / MARK).unlink()
    (environments_dir(here) / ".making-left").mkdir()
    strange = environments_dir(here) / "what_somebody_has_put_here_32_ch"
    strange.mkdir()
    now_s = boottime_s()
    sweep(environments_dir(here), tmp_path / "work", now_s + KEPT_S / 2)
    assert used.is_dir() and unused.is_dir() and not (environments_dir(here) / ".making-left").exists()
    sweep(environments_dir(here), tmp_path / "work", now_s + KEPT_S)
    assert sorted(environments_dir(here).iterdir()) == sorted([used, strange])
    again = environment_of(other, here, work(tmp_path, "u2.2"), None)
    assert again == unused and (again / "x").is_file()


def test_each_supervisor_has_a_directory_of_its_own(here: Settings, tmp_path: Path) -> None:
    archive = packed(tmp_path / "env.tar.gz", PYTHON)
    used = environment_of(archive, here, work(tmp_path, "u1.1"), None)
    for cluster, name in (("other", here.supervisor.id), (here.cluster, "other")):
        renamed = here.supervisor.model_copy(update={"id": name})
        other = here.model_copy(update={"cluster": cluster, "supervisor": renamed})
        directory = environments_dir(other)
        assert directory.parent == here.spark.environments_dir != directory
        now_s = boottime_s()
        for at_s in (now_s, now_s + KEPT_S):
            sweep(directory, tmp_path / "work of another", at_s)
        assert used.is_dir() and environment_of(archive, other, work(tmp_path, "u2.1"), None) != used
    own = here.model_copy(update={"spark": here.spark.model_copy(update={"environments_dir": None})})
    assert environments_dir(own) == here.supervisor.runtime_dir / "environments"


def test_a_directory_that_several_share_is_only_made_passable_if_it_is_not(
    here: Settings, tmp_path: Path
) -> None:
    archive, shared = packed(tmp_path / "a.tar.gz", PYTHON), environments_dir(here).parent
    user = DriverUser(name="etl", uid=20001, gid=20001)
    shared.mkdir()
    for mode, then in ((0o700, 0o711), (0o1777, 0o1777)):
        shared.chmod(mode)
        environment_of(archive, here, work(tmp_path, "u1.1"), user)
        assert shared.stat().st_mode & 0o7777 == then


def test_without_any_environment_nothing_is_swept(tmp_path: Path) -> None:
    sweep(tmp_path / "none", tmp_path / "work")


def test_what_is_wrong_with_it_is_a_refusal_with_its_key(here: Settings, tmp_path: Path) -> None:
    (tmp_path / "bad.tar.gz").write_text("no archive")
    with pytest.raises(Refused, match=r"python\.archive: bad\.tar\.gz is no usable tar\.gz") as caught:
        environment_of(tmp_path / "bad.tar.gz", here, work(tmp_path, "u1.1"), None)
    assert caught.value.cause is Cause.BAD_ARTIFACT
    assert list(environments_dir(here).iterdir()) == []


def test_an_interpreter_of_the_host_in_it_is_judged_by_policy_at_each_start(
    here: Settings, tmp_path: Path
) -> None:
    archive = packed(tmp_path / "venv.tar.gz", ("bin/python", "/bin/sh", 0o777))
    allowing = here.model_copy(update={"spark": here.spark.model_copy(update={"pythons": ("/bin/*",)})})
    for _ in range(2):
        with pytest.raises(Refused, match=r"/bin/sh, which is none that spark\.pythons") as caught:
            environment_of(archive, here, work(tmp_path, "u1.1"), None)
        assert caught.value.cause is Cause.POLICY
        environment_of(archive, allowing, work(tmp_path, "u1.1"), None)


def test_what_was_changed_since_it_was_named_is_not_taken_for_it(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = packed(tmp_path / "env.tar.gz", PYTHON)

    def changed_first(path: Path, *rest: Any) -> str:
        path.write_bytes(packed(tmp_path / "new.tar.gz", PYTHON, ("new", b"", 0o644)).read_bytes())
        return unpack(path, *rest)

    with monkeypatch.context() as patched, pytest.raises(Unreachable, match="was changed while"):
        patched.setattr(python_environments, "unpack", changed_first)
        environment_of(archive, here, work(tmp_path, "u1.1"), None)
    assert list(environments_dir(here).iterdir()) == []
    assert (environment_of(archive, here, work(tmp_path, "u1.1"), None) / "new").is_file()


def test_the_driver_of_another_user_may_read_it(here: Settings, tmp_path: Path) -> None:
    user = DriverUser(name="etl", uid=20001, gid=20001)
    found = environment_of(packed(tmp_path / "a.tar.gz", PYTHON), here, work(tmp_path, "u1.1"), user)
    assert granted(str(found)) == {20001: 5} and found.stat().st_mode & 0o707 == 0o700
    assert (found / "bin").stat().st_mode & 0o777 == 0o755
    assert environments_dir(here).stat().st_mode & 0o777 == 0o711


@pytest.mark.users
def test_an_archive_in_place_is_read_as_the_jobs_user(here: Settings, tmp_path: Path) -> None:
    """By the supervisor's own rights, a link would have it unpack for the job what the job may not read."""
    user = DriverUser(name="etl", uid=20001, gid=20001)
    archive = packed(tmp_path / "a.tar.gz", PYTHON)
    (tmp_path / "by-link").symlink_to(archive)
    for path in (archive, tmp_path / "by-link"):
        with pytest.raises(
            Refused, match=r"cannot be read by user etl, as whom the job runs \(Permission denied\)"
        ) as caught:
            environment_of(path, here, work(tmp_path, "u1.1"), user, user)
        assert caught.value.cause is Cause.BAD_ARTIFACT
    assert not environments_dir(here).exists()


def test_a_directory_that_executes_nothing_is_told_with_the_key(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(tmp_path)
    noexec = os.statvfs_result((*real[:8], os.ST_NOEXEC, *real[9:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: noexec)
    with pytest.raises(Unreachable, match=r"noexec; set spark\.environments_dir"):
        environment_of(packed(tmp_path / "a.tar.gz", PYTHON), here, work(tmp_path, "u1.1"), None)
