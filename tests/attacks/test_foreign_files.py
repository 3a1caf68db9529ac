"""What a job's user puts where the supervisor, or an operator, reads and writes: links, FIFOs, second names, directories that
were there before. With real users: the supervisor's is 20000, the job's 20001.

Each test does it in a process of its own that has become that user, so that it fails by what the code asks, and by what the
kernel refuses to that user, and not by root's rights.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from supervisor.clients.opened_as import open_as
from supervisor.clients.store import file_objects
from supervisor.clients.store.area import open_area
from supervisor.clients.store.file_objects import FileObjectClient
from supervisor.clients.store.objects import Item
from supervisor.errors import AccessDenied, Corrupt, InvalidInput, NotFound
from supervisor.model.driver_user import DriverUser
from supervisor.model.going_back import GOES_ON
from supervisor.operations.checkpoints import Located
from supervisor.savepoints import deep_verify, operations
from supervisor.savepoints.create import Creation, manifest_at
from supervisor.savepoints.deep_verify import open_saved_state
from supervisor.savepoints.restore import restore
from supervisor.savepoints.restore_mark import MARK
from supervisor.settings.file import Settings
from supervisor.spec.s3a import S3Access
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import AT, area, begun
from tests.unit.checkpoint.savepoints import shelf as shelf_at

if TYPE_CHECKING:
    from supervisor.settings.file import Settings

SERVICE, HOSTILE, NEIGHBOUR = 20000, 20001, 20002
SECRET = "what only the supervisor may read"
pytestmark = pytest.mark.users


def as_user(uid: int, what: Callable[[], object]) -> None:
    """Runs it as that user and nothing more, in a process of its own. What it raises fails the test."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.umask(0o022)
            what()
        except BaseException:
            said = traceback.format_exc()
        os.write(writes, said.encode()[-60_000:])
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as output:
        said = output.read()
    os.waitpid(child, 0)
    assert not said, said


class Ground:
    """``service`` is a directory of the supervisor's, ``open`` one in which everybody makes what he likes, ``of_job`` one of the
    job's user with its checkpoint, ``secret`` a file that the supervisor alone may read."""

    def __init__(self, root: Path) -> None:
        root.chmod(0o755)
        self.root, self.service, self.open = root, root / "service", root / "open"
        self.of_job, self.checkpoint = self.open / "job", self.open / "job" / "files"
        for directory in (self.service, self.open, self.of_job):
            directory.mkdir()
        self.open.chmod(0o1777)
        unpack("files", self.of_job)
        self.secret = self.service / "token"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)
        for path, owner in ((self.service, SERVICE), (self.of_job, HOSTILE)):
            for each in (path, *path.rglob("*")):
                os.chown(each, owner, owner)

    def read(self, location: Path, key: str) -> bytes:
        return open_area(str(location), S3Access()).read(key, 1000)

    def create(self, place: Path) -> None:
        """As the leader does it, when ``place`` is where the copies shall lie."""
        Creation(area(self.checkpoint), area(place), begun(self.checkpoint, place), lambda: AT).run()

    def all_that_is_read(self, directory: Path) -> str:
        return "".join(path.read_text("latin-1") for path in directory.rglob("*") if path.is_file())


@pytest.fixture
def ground() -> Iterator[Ground]:
    root = Path(tempfile.mkdtemp(prefix="foreign-"))  # where other users get to, unlike tmp_path
    yield Ground(root)
    shutil.rmtree(root)


# -- reading --------------------------------------------------------------------------------------------------------


def test_a_savepoint_does_not_follow_a_link_of_the_job(ground: Ground) -> None:
    store = ground.service / "store"

    def save() -> None:
        ground.create(store / "savepoints" / "clicks" / "one")

    as_user(SERVICE, save)  # it can be saved
    shutil.rmtree(store)
    as_user(HOSTILE, lambda: (ground.checkpoint / "sources" / "0" / "loot").symlink_to(ground.secret))

    def refused() -> None:
        with pytest.raises(Corrupt, match="sources/0/loot is a link"):
            save()
        with pytest.raises(Corrupt, match="is not a regular file"):
            ground.read(ground.checkpoint, "sources/0/loot")

    as_user(SERVICE, refused)
    assert SECRET not in ground.all_that_is_read(store)


def test_a_directory_of_a_checkpoint_that_is_a_link_leads_nowhere(ground: Ground) -> None:
    def plant() -> None:
        (ground.checkpoint / "commits").rename(ground.checkpoint / "was")
        (ground.checkpoint / "commits").symlink_to(ground.service)
        (ground.of_job / "by-link").symlink_to(ground.service)

    as_user(HOSTILE, plant)

    def refused() -> None:
        with pytest.raises(AccessDenied, match="commits is a link within it"):
            ground.read(ground.checkpoint, "commits/token")
        with pytest.raises(AccessDenied, match=rf"by-link is a link of user {HOSTILE}"):
            ground.read(ground.of_job / "by-link", "token")
        with pytest.raises(AccessDenied, match="is not followed"):
            open_area(str(ground.of_job / "by-link"), S3Access()).level("")

    as_user(SERVICE, refused)


def test_a_second_name_of_a_file_of_the_supervisor_is_not_read(ground: Ground) -> None:
    """The kernel refuses such names unless fs.protected_hardlinks is off: so root makes it here."""
    os.link(ground.secret, ground.checkpoint / "sources" / "loot")

    def refused() -> None:
        with pytest.raises(AccessDenied, match="second name of a file"):
            ground.read(ground.checkpoint, "sources/loot")

        with pytest.raises(AccessDenied, match="is a link in a directory that others may change"):
            ground.read(ground.open / "second", "token")

    (ground.service / "own-link").symlink_to(ground.service)
    os.lchown(ground.service / "own-link", SERVICE, SERVICE)
    os.link(ground.service / "own-link", ground.open / "second", follow_symlinks=False)
    os.link(ground.secret, ground.open / "second-token")
    as_user(SERVICE, refused)


def test_a_pipe_in_a_checkpoint_holds_nobody_up(ground: Ground) -> None:
    as_user(HOSTILE, lambda: os.mkfifo(ground.checkpoint / "offsets" / "99"))

    def refused() -> None:
        with pytest.raises(Corrupt, match="is not a regular file"):
            ground.read(ground.checkpoint, "offsets/99")
        assert "99" not in {each.key for each in area(ground.checkpoint).level("offsets").objects}

    as_user(SERVICE, refused)


def test_links_to_their_own_directory_make_no_listing_without_end(ground: Ground) -> None:
    def plant() -> None:
        for name in "ab":
            (ground.checkpoint / "sources" / name).symlink_to(".")

    before = len(list(area(ground.checkpoint).entries("")))
    as_user(HOSTILE, plant)
    assert len(list(area(ground.checkpoint).entries(""))) == before


def refuses_to_open(location: Path, why: str) -> None:
    """Spark opens it by its names, and follows links; so it is not asked to."""
    manifest = manifest_at(area(location))
    assert manifest is not None

    def spark(*_: object, **__: object) -> tuple[()]:
        raise AssertionError("Spark was asked to open it")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deep_verify, "open_state", spark)
        with pytest.raises(AccessDenied, match=why):
            open_saved_state(Settings.model_construct(), area(location), manifest, None)


def test_spark_is_not_sent_over_a_link_in_a_savepoint_of_a_job(ground: Ground) -> None:
    """``savepoint verify --deep`` of what the job's user has put where he may: a link, a pipe, or nothing yet that he can put
    there at any time."""
    place = ground.of_job / "saved"
    as_user(HOSTILE, lambda: ground.create(place))
    as_user(SERVICE, lambda: refuses_to_open(place, "belongs to user|may be changed by others"))
    os.rename(place, ground.service / "saved")
    mine = ground.service / "saved"
    for path in (mine, *mine.rglob("*")):
        os.chown(path, SERVICE, SERVICE)
    ground.root.chmod(0o755)
    (mine / "data" / "state").mkdir()
    (mine / "data" / "state" / "loot").symlink_to(ground.secret)
    os.chown(mine / "data" / "state", SERVICE, SERVICE)
    as_user(SERVICE, lambda: refuses_to_open(mine, "state/loot is a link|is a link, and nothing"))
    (mine / "data" / "state" / "loot").unlink()
    os.mkfifo(mine / "data" / "state" / "loot")
    as_user(SERVICE, lambda: refuses_to_open(mine, "no regular file"))
    (mine / "data" / "state" / "loot").unlink()
    (mine / "data" / "state").chmod(0o777)
    as_user(SERVICE, lambda: refuses_to_open(mine, "may be changed by everybody"))
    (mine / "data" / "state").chmod(0o755)
    as_user(SERVICE, lambda: area(mine).require_closed("data"))
    ground.service.chmod(0o777)
    as_user(SERVICE, lambda: refuses_to_open(mine, "above it may be changed by others"))


def test_a_hole_of_a_job_is_a_hole_of_the_copy(ground: Ground) -> None:
    sparse = ground.checkpoint / "sources" / "sparse"
    with sparse.open("wb") as file:
        file.seek(64 << 20)
        file.write(b"end")
    source, copy = area(ground.checkpoint), area(ground.root / "copy")
    (item,) = (each for each in source.items() if each.key == "sources/sparse")
    assert copy.copy_from(source, item, "x") == source.tag(item)
    made = (ground.root / "copy" / "x").stat()
    assert (made.st_size, made.st_blocks) == (sparse.stat().st_size, sparse.stat().st_blocks)


def test_what_no_checkpoint_is_like_has_an_end(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground.checkpoint / "sources" / "large").touch()
    os.truncate(ground.checkpoint / "sources" / "large", file_objects.OBJECT_MAX_BYTES + 1)
    found = area(ground.checkpoint)
    with pytest.raises(Corrupt, match="sources/large is larger than"):
        found.tag(Item("sources/large", 0, ""))
    with monkeypatch.context() as patched, pytest.raises(Corrupt, match="has more than 3 files"):
        patched.setattr(file_objects, "OBJECTS_MAX", 3)
        list(found.entries(""))
    with monkeypatch.context() as patched, pytest.raises(Corrupt, match="has more than 2 entries"):
        patched.setattr(file_objects, "FOLDER_MAX", 2)
        found.level("")
    (ground.checkpoint / "/".join("d" * 70)).mkdir(parents=True)
    with pytest.raises(Corrupt, match="more than 64 deep"):
        list(found.entries(""))


# -- writing --------------------------------------------------------------------------------------------------------


def test_nothing_is_written_below_a_directory_of_the_job(ground: Ground) -> None:
    """Ids of scheduled savepoints can be known before: what the job has put at such a place is not used."""
    place = ground.of_job / "files.savepoints" / "clicks" / "scheduled-20261128-120000"

    def plant() -> None:
        (place / "data").mkdir(parents=True)
        (place / "data" / "sources").symlink_to(ground.service)
        for directory in (ground.of_job, *ground.of_job.rglob("*")):
            if directory.is_dir() and not directory.is_symlink():
                directory.chmod(0o777)

    as_user(HOSTILE, plant)
    before = sorted(ground.service.rglob("*"))

    def refused() -> None:
        with pytest.raises(AccessDenied, match=rf"belongs to user {HOSTILE}"):
            ground.create(place)
        with pytest.raises(AccessDenied, match=rf"belongs to user {HOSTILE}"):
            ground.create(ground.of_job / "new")

        with pytest.raises(AccessDenied, match=rf"belongs to user {HOSTILE}"):
            area(place).require_writable()
        with pytest.raises(AccessDenied, match=rf"belongs to user {HOSTILE}"):
            area(ground.of_job / "new" / "x").require_writable()
        area(ground.open / "new" / "x").require_writable()

    as_user(SERVICE, refused)
    refused()  # nor as root
    assert sorted(ground.service.rglob("*")) == before
    assert not (ground.of_job / "new").exists()


def test_a_directory_that_its_parent_opens_to_others_is_not_written_to(ground: Ground) -> None:
    """By a default ACL, whatever the umask of who makes it."""
    as_user(HOSTILE, lambda: (ground.open / "shared").mkdir())
    (ground.open / "of-root").mkdir()
    entries = [(1, 7, -1), (2, 7, HOSTILE), (4, 0, -1), (16, 7, -1), (32, 0, -1)]
    default = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, may, uid & 0xFFFFFFFF) for tag, may, uid in entries
    )
    os.setxattr(ground.open / "of-root", "system.posix_acl_default", default)
    (ground.open / "of-root").chmod(0o777)

    def refused() -> None:
        with pytest.raises(AccessDenied, match=rf"may be changed by user {HOSTILE}"):
            ground.create(ground.open / "of-root" / "copy")

    as_user(SERVICE, refused)
    assert not list((ground.open / "of-root").rglob("*.json"))


def test_a_restore_by_root_writes_nothing_where_the_job_has_prepared_it(ground: Ground) -> None:
    saved = ground.service / "store" / "savepoints" / "clicks" / "one"
    as_user(SERVICE, lambda: ground.create(saved))
    objects = json.loads((saved / "manifest.json").read_text())["objects_sha256"]
    cron, target = ground.root / "cron.d", ground.of_job / "files.from-one-12345678"
    cron.mkdir()

    def plant() -> None:
        target.mkdir()
        (target / "sources").symlink_to(cron)
        (target / MARK).write_text(json.dumps({"v": 1, "savepoint": "one", "objects": objects}))

    as_user(HOSTILE, plant)
    of_store = open_area(str(saved), S3Access(), store=str(ground.service / "store"))
    with pytest.raises(AccessDenied, match=rf"belongs to user {HOSTILE}.*do it as the user"):
        restore(of_store, area(target), AT, GOES_ON)
    with pytest.raises(AccessDenied, match=rf"belongs to user {HOSTILE}"):
        restore(of_store, area(ground.of_job / "files.from-one-87654321"), AT, GOES_ON)
    assert not list(cron.iterdir())


def test_a_place_that_is_exchanged_meanwhile_is_not_written_to_again(ground: Ground) -> None:
    def exchanged() -> None:
        client = FileObjectClient(f"file://{ground.service}/shared/place")
        client.put("one", b"1", only_new=True)
        (ground.service / "shared" / "place").rename(ground.service / "shared" / "was")
        (ground.service / "shared" / "place").mkdir()
        with pytest.raises(Exception, match="was exchanged while it was written to"):
            client.put("two", b"2", only_new=True)

    as_user(SERVICE, exchanged)


def test_a_savepoint_that_could_lie_nowhere_is_not_begun(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is on S3, and beside the checkpoint is the job's own directory. Nothing of it is left in the store: a leader
    tries again in each period."""
    shelf = shelf_at(ground.service / "shelf")
    place = ground.of_job / "files.savepoints" / "clicks" / "one"
    monkeypatch.setattr(operations, "shelf_of", lambda _settings: shelf)
    monkeypatch.setattr(operations, "home_of", lambda *_: operations.Home(f"file://{place}", S3Access()))
    monkeypatch.setattr(operations, "access_for", lambda *_: S3Access())
    with pytest.raises(AccessDenied, match=rf"belongs to user {HOSTILE}"):
        operations.create_savepoint(
            cast("Settings", None),
            Located(str(ground.checkpoint), {}),
            "clicks",
            "u",
            1,
            "one",
            lambda _: None,
            lambda *_: None,
        )
    assert shelf.names() == ()


# -- files in place ---------------------------------------------------------------------------------------------------


def user_of(uid: int) -> DriverUser:
    return DriverUser(name=str(uid), uid=uid, gid=uid)


def test_a_file_in_place_is_opened_as_the_user_of_the_job(ground: Ground) -> None:
    link, own, pipe = ground.of_job / "x.py", ground.of_job / "own.py", ground.of_job / "pipe"

    def plant() -> None:
        link.symlink_to(ground.secret)
        own.write_text("print()")
        own.chmod(0o600)
        os.mkfifo(pipe)

    as_user(HOSTILE, plant)
    with open_as(str(own), user_of(HOSTILE)) as file:
        assert file.read() == b"print()"
    for path, why in (
        (link, "Permission denied"),
        (ground.secret, "Permission denied"),
        (pipe, "it is no file"),
        (ground.of_job / "none", "No such file"),
    ):
        with pytest.raises(InvalidInput, match=rf"cannot be read by user {HOSTILE}.*{why}"):
            open_as(str(path), user_of(HOSTILE))
    with pytest.raises(InvalidInput, match="Permission denied"):
        open_as(str(own), user_of(NEIGHBOUR))


# -- what nobody shall notice ------------------------------------------------------------------------------------------


def test_a_link_of_the_supervisors_user_or_of_root_to_a_location_is_followed(ground: Ground) -> None:
    """An administrator has moved the data, or the user has, whose jobs run as the supervisor's."""
    real = ground.service / "real"
    shutil.copytree(ground.checkpoint, real)
    for each in (real, *real.rglob("*")):
        os.chown(each, SERVICE, SERVICE)
    (ground.root / "data").symlink_to(ground.service)

    def used() -> None:
        (ground.service / "link").symlink_to("real")
        for location in (
            ground.root / "data" / "real",
            ground.service / "link",
            ground.root / "data" / "link",
        ):
            assert ground.read(location, "metadata")
            assert list(area(location).entries("")) == list(area(real).entries(""))
        area(ground.root / "data" / "new").create("x", b"1")
        with pytest.raises(NotFound):
            area(ground.root / "data" / "none").tag(Item("x", 1, ""))

    as_user(SERVICE, used)
    assert (ground.service / "new" / "x").read_bytes() == b"1"


def test_a_store_may_be_named_by_a_link_of_whomever(ground: Ground) -> None:
    """The operator has named it in the settings."""
    (ground.service / "store").mkdir()
    os.chown(ground.service / "store", SERVICE, SERVICE)
    link = ground.root / "by-link"
    link.symlink_to(ground.service / "store")
    os.lchown(link, NEIGHBOUR, NEIGHBOUR)

    def used() -> None:
        stored = open_area(f"{link}/savepoints/clicks", S3Access(), store=str(link))
        stored.write("one/begun.json", b"1")
        assert [each.key for each in stored.items()] == ["one/begun.json"]
        stored.remove("one/begun.json")
        assert not (ground.service / "store" / "savepoints" / "clicks").exists()

    as_user(SERVICE, used)


def test_what_root_makes_in_a_store_belongs_to_its_owner(ground: Ground) -> None:
    """Who gives one command as root must not keep the leader from its savepoints for ever."""
    store = ground.service / "store"
    store.mkdir()
    os.chown(store, SERVICE, SERVICE)
    open_area(f"{store}/savepoints", S3Access(), store=str(store)).create("clicks/one/begun.json", b"1")
    assert {(each.stat().st_uid, each.stat().st_gid) for each in store.rglob("*")} == {(SERVICE, SERVICE)}
    as_user(
        SERVICE,
        lambda: open_area(f"{store}/savepoints", S3Access(), store=str(store)).create("clicks/two", b"2"),
    )


def test_a_file_system_that_gives_all_to_one_user_is_written_to(ground: Ground) -> None:
    """As an NFS server with all_squash does, and mounts of a desktop into a container."""

    def as_another() -> None:
        os.geteuid = lambda: NEIGHBOUR  # type: ignore[assignment]
        area(ground.service / "mount" / "place").create("x", b"1")
        assert {each.name for each in (ground.service / "mount").iterdir()} == {"place"}
        area(ground.service / "mount" / "place").require_writable()

    as_user(SERVICE, lambda: (ground.service / "mount").mkdir())
    as_user(SERVICE, as_another)


def test_a_store_is_written_to_by_all_whom_its_directory_admits(ground: Ground) -> None:
    """Here the group of a colleague, who has made a directory in it. Later that group is not admitted any more."""
    store = ground.service / "store"
    store.mkdir()
    os.chown(store, SERVICE, NEIGHBOUR)
    store.chmod(0o2775)

    def write(key: str) -> None:
        open_area(f"{store}/savepoints", S3Access(), store=str(store)).create(key, b"1")

    as_user(NEIGHBOUR, lambda: write("clicks/one"))
    for made in (store / "savepoints", store / "savepoints" / "clicks"):
        made.chmod(
            0o2777
        )  # as with a umask that lets the group write; all could, which the store does not say
    with pytest.raises(AccessDenied, match="may be changed by everybody"):
        write("clicks/two")
    for made in (store / "savepoints", store / "savepoints" / "clicks"):
        made.chmod(0o2775)
    write("clicks/two")
    store.chmod(0o755)
    with pytest.raises(AccessDenied, match=rf"savepoints belongs to user {NEIGHBOUR}"):
        write("clicks/three")
