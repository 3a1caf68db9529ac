"""The policies of ``deploy/s3`` on a server that enforces them: what the product does with each role's keys works, and
nothing else does. README.md has the table.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from botocore.exceptions import ClientError

from supervisor.checkpoint.commit_log import open_commit_log
from supervisor.cli.doctor.examine import examine
from supervisor.cli.doctor.findings import CheckVerdict, DoctorFinding
from supervisor.cli.doctor.job_credentials import JOB_CREDENTIALS
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.store.area import open_area
from supervisor.clients.store.base import Store, delete_each
from supervisor.clients.store.open import open_store
from supervisor.clients.store.probe import probe_store
from supervisor.clients.store.removal import open_removal
from supervisor.clients.store.s3 import S3Store
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.errors import AccessDenied, Corrupt
from supervisor.model.going_back import GOES_ON
from supervisor.operations.checkpoints import Located
from supervisor.registry.blobs import Blobs, ClusterMark
from supervisor.savepoints.operations import create_savepoint, restore_to, shelf_of
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated
from supervisor.spec.job import JobSpec
from supervisor.spec.s3a import S3Access
from tests.testbed.moto import AWS_ENV, REGION, MotoServer, use_only
from tests.unit.checkpoint.golden import unpack

POLICIES: Final = Path(__file__).parents[2] / "deploy" / "s3"
NAMES: Final = {
    "STORE_BUCKET": "the-store",
    "STORE_PREFIX": "prod/etl",
    "CHECKPOINT_BUCKET": "the-checkpoints",
    "CHECKPOINT_PREFIX": "streams",
    "JOB": "orders",
}
STORE, CHECKPOINTS = NAMES["STORE_BUCKET"], NAMES["CHECKPOINT_BUCKET"]
DEADLINE_S: Final = 60.0
"""Of a busy machine."""
ROLES: Final = ("supervisor", "submitter", "job")


def policy_of(role: str) -> dict[str, Any]:
    """The policy as it is pasted: with names in place of the words in capitals."""
    text = (POLICIES / f"{role}.json").read_text()
    for word, name in NAMES.items():
        text = text.replace(word, name)
    pasted: dict[str, Any] = json.loads(text)
    return pasted


WHOLE_SESSION = boto3.session.Session
"""As it is while no test stands in for it: a role may be asked for first in the middle of another's."""


@dataclass(frozen=True)
class Roles:
    """A server that enforces, with a user for each role. ``owner`` may everything."""

    server: MotoServer
    keys: dict[str, tuple[str, str]]
    clients: dict[str, Any] = field(default_factory=dict)
    sessions: dict[str, boto3.session.Session] = field(default_factory=dict)

    def env(self, role: str) -> dict[str, str]:
        access, secret = self.keys[role]
        return {**AWS_ENV, "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}

    def client(self, role: str) -> Any:
        if role not in self.clients:
            session = self.session(role)
            self.clients[role] = session.client("s3", endpoint_url=self.server.endpoint_url)
        return self.clients[role]

    def session(self, role: str) -> boto3.session.Session:
        """The same for all clients of a role: it takes a while to make one."""
        if role not in self.sessions:
            self.sessions[role] = WHOLE_SESSION(*self.keys[role], region_name=REGION)
        return self.sessions[role]

    @property
    def access(self) -> S3Access:
        return S3Access(self.server.endpoint_url, REGION)

    @contextmanager
    def acting_as(self, role: str) -> Iterator[Store]:
        """This process has the keys of ``role``; gives the store."""
        with pytest.MonkeyPatch.context() as patch:
            use_only(patch, self.env(role))
            of_role = self.session(role)
            patch.setattr(boto3.session, "Session", lambda *keys: WHOLE_SESSION(*keys) if keys else of_role)
            yield self.store

    @property
    def store(self) -> Store:
        url = f"s3://{STORE}/{NAMES['STORE_PREFIX']}"
        return open_store(url, self.server.endpoint_url, REGION, DEADLINE_S)

    def settings(self, tmp_path: Path) -> Settings:
        body = {
            "cluster": "test",
            "zookeeper": {"hosts": "zk:2181"},
            "store": {
                "url": f"s3://{STORE}/{NAMES['STORE_PREFIX']}",
                "endpoint_url": self.server.endpoint_url,
                "region": REGION,
            },
            "supervisor": {"id": "host-a", "log_dir": f"{tmp_path}/log", "runtime_dir": f"{tmp_path}/run"},
        }
        return validated(Settings, body, "supervisor.yaml")


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    server = MotoServer(tmp_path_factory.mktemp("policies"), "moto_policies.py")
    with pytest.MonkeyPatch.context() as patch:
        use_only(patch, AWS_ENV)
        for bucket in (STORE, CHECKPOINTS):
            server.client().create_bucket(Bucket=bucket)
        iam = boto3.client("iam", endpoint_url=server.endpoint_url, region_name=REGION)
        everything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        keys = {}
        for role in (*ROLES, "owner"):
            policy = (
                {"Version": "2012-10-17", "Statement": [everything]} if role == "owner" else policy_of(role)
            )
            iam.create_user(UserName=role)
            iam.put_user_policy(UserName=role, PolicyName="it", PolicyDocument=json.dumps(policy))
            made = iam.create_access_key(UserName=role)["AccessKey"]
            keys[role] = (made["AccessKeyId"], made["SecretAccessKey"])
    url, plain = f"{server.endpoint_url}/moto-api/reset-auth", {"Content-Type": "text/plain"}
    with urllib.request.urlopen(urllib.request.Request(url, b"0", plain), timeout=10):
        pass  # from here on it enforces
    yield Roles(server, keys)
    server.stop()


# -- each right for itself ----------------------------------------------------------------------------------------

PLACES: Final = {
    "mark": (STORE, "prod/etl/cluster.json"),
    "specs": (STORE, "prod/etl/specs/orders/u1/1-00.json"),
    "artifacts": (STORE, "prod/etl/artifacts/orders/u1/00/app.py"),
    "savepoints": (STORE, "prod/etl/savepoints/orders/s1/begun.json"),
    "epochs": (STORE, "prod/etl/epochs/0000000001"),
    "checks": (STORE, "prod/etl/checks/abc"),
    "audit": (STORE, "prod/etl/audit/0000000001"),
    "logs": (STORE, "prod/etl/logs/orders/u1/1-5.log.gz"),
    "pieces of logs": (STORE, "prod/etl/logs/orders/u1/1-5.000001-9-1f.0123456789ab.9.piece.gz"),
    "another cluster's logs": (STORE, "prod/etl2/logs/orders/u1/1-5.log.gz"),
    "another cluster's specs": (STORE, "prod/etl2/specs/orders/u1/1-00.json"),
    "own checkpoint": (CHECKPOINTS, "streams/orders/offsets/0"),
    "savepoint beside it": (CHECKPOINTS, "streams/orders.savepoints/orders/s1/data/metadata"),
    "checkpoint of a longer name": (CHECKPOINTS, "streams/orders2/offsets/0"),
    "another job's checkpoint": (CHECKPOINTS, "streams/billing/offsets/0"),
    "another prefix": (CHECKPOINTS, "streams2/orders/offsets/0"),
}
EVERYTHING: Final = frozenset({"read", "create", "replace", "delete"})
READ: Final = frozenset({"read"})
CREATE: Final = frozenset({"read", "create"})
MAY: Final[dict[str, dict[str, frozenset[str]]]] = {
    "supervisor": {
        **dict.fromkeys(
            ("mark", "specs", "artifacts", "savepoints", "epochs", "checks", "audit"), EVERYTHING
        ),
        **dict.fromkeys(("logs", "pieces of logs"), EVERYTHING),
        **dict.fromkeys(("own checkpoint", "savepoint beside it"), EVERYTHING),
        **dict.fromkeys(("checkpoint of a longer name", "another job's checkpoint"), EVERYTHING),
    },
    "submitter": {
        **dict.fromkeys(("specs", "artifacts", "audit"), CREATE),
        **dict.fromkeys(("savepoints", "logs", "pieces of logs", "mark"), READ),
    },
    "job": {"own checkpoint": EVERYTHING},
}
"""All that a role may. What is not here is refused."""


def tried(client: Any, bucket: str, key: str) -> frozenset[str]:
    """What ``client`` may do with the key. Any answer but a refusal says that it may (NoSuchKey, PreconditionFailed)."""
    name = {"Bucket": bucket, "Key": key}
    actions: dict[str, Callable[[], Any]] = {
        "read": lambda: client.get_object(**name),
        "replace": lambda: client.put_object(**name, Body=b"x"),
        "create": lambda: client.put_object(**name, Body=b"x", IfNoneMatch="*"),
        "delete": lambda: client.delete_object(**name),
    }
    may = {action for action, call in actions.items() if code_of(call) != "AccessDenied"}
    several = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})
    assert bool(several.get("Errors")) is ("delete" not in may), "one by one and by the thousand alike"
    return frozenset(may)


def code_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_what_it_needs_and_nothing_else(roles: Roles, role: str) -> None:
    found = {place: tried(roles.client(role), *where) for place, where in PLACES.items()}
    assert found == {place: MAY[role].get(place, frozenset()) for place in PLACES}


@pytest.mark.parametrize(
    ("role", "listed"),
    [("supervisor", {STORE, CHECKPOINTS}), ("submitter", {STORE}), ("job", {CHECKPOINTS})],
)
def test_a_role_lists_its_buckets_only(roles: Roles, role: str, listed: set[str]) -> None:
    client = roles.client(role)
    answers = {
        bucket: code_of(partial(client.list_objects_v2, Bucket=bucket)) for bucket in (STORE, CHECKPOINTS)
    }
    assert answers == {bucket: "" if bucket in listed else "AccessDenied" for bucket in (STORE, CHECKPOINTS)}


ABOUT_A_BUCKET: Final[dict[str, Callable[[Any], Any]]] = {
    "policy": lambda client: client.put_bucket_policy(Bucket=STORE, Policy="{}"),
    "versioning": lambda client: client.put_bucket_versioning(
        Bucket=STORE, VersioningConfiguration={"Status": "Enabled"}
    ),
    "lifecycle": lambda client: client.put_bucket_lifecycle_configuration(
        Bucket=STORE,
        LifecycleConfiguration={"Rules": [{"Status": "Enabled", "Prefix": "", "Expiration": {"Days": 1}}]},
    ),
    "acl": lambda client: client.put_bucket_acl(Bucket=STORE, ACL="public-read"),
    "removal": lambda client: client.delete_bucket(Bucket=STORE),
    "all buckets": lambda client: client.list_buckets(),
}


@pytest.mark.parametrize(("role", "what"), [*product(ROLES, ABOUT_A_BUCKET)])
def test_no_role_may_change_a_bucket(roles: Roles, role: str, what: str) -> None:
    assert code_of(lambda: ABOUT_A_BUCKET[what](roles.client(role))) == "AccessDenied"


@pytest.mark.parametrize("role", ROLES)
def test_nobody_copies_what_he_may_not_read(roles: Roles, role: str) -> None:
    owner, secret = roles.client("owner"), {"Bucket": CHECKPOINTS, "Key": "streams2/other/secret"}
    owner.put_object(**secret, Body=b"of another team")
    bucket, key = PLACES["own checkpoint" if role == "job" else "specs"]
    copy = partial(roles.client(role).copy_object, Bucket=bucket, Key=key, CopySource=secret)
    assert code_of(copy) == "AccessDenied"


# -- what the product does ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known_spec(roles: Roles) -> str:
    """The supervisor founds the cluster; a spec is there. Returns its key."""
    with roles.acting_as("supervisor") as store:
        blobs = Blobs(store)
        blobs.claim_cluster(ClusterMark(id="c1", name="test", root="/test"))
        return blobs.put_spec("orders", "u0", 1, b"{}").key


def test_a_supervisor_does_its_work(roles: Roles, known_spec: str, tmp_path: Path) -> None:
    whole = unpack("files", tmp_path)
    for file in whole.rglob("[!.]*"):
        if file.is_file():
            key = f"streams/orders/{file.relative_to(whole)}"
            roles.client("owner").put_object(Bucket=CHECKPOINTS, Key=key, Body=file.read_bytes())
    with roles.acting_as("supervisor") as store:
        assert isinstance(store, S3Store)
        assert probe_store(store).exclusive, "doctor's own trial"
        assert store.keeps_versions() == (False, False)
        marks = EpochMarks(store)
        for epoch in range(1, 4):
            marks.record_epoch(epoch, "host-a")
        assert marks.newest_epoch_above(2) == 3
        assert marks.prune_epochs(keep=1) == 2
        assert delete_each(store, [known_spec]) == [known_spec]
        location, settings = f"s3a://{CHECKPOINTS}/streams/orders", roles.settings(tmp_path)
        log = open_commit_log(location, roles.access)
        assert log is not None
        assert log.newest()
        saved = create_savepoint(
            settings, Located(location, {}), "orders", "u1", 1, None, lambda _: None, lambda *_: None
        )
        shelf = shelf_of(settings)
        area = open_area(f"s3://{STORE}/prod/etl/savepoints/orders/{saved.id}", roles.access)
        restore_to(settings, area, f"s3a://{CHECKPOINTS}/streams/restored", {}, GOES_ON, lambda *_: None)
        removal = open_removal(f"s3a://{CHECKPOINTS}/streams/restored", roles.access)
        assert removal.remove_batch(lambda: None).objects
        shelf.delete("orders", saved.id)


def test_a_submitter_creates_what_is_new_and_changes_nothing(
    roles: Roles, known_spec: str, tmp_path: Path
) -> None:
    file = tmp_path / "app.py"
    file.write_text("print('hello')\n")
    with roles.acting_as("submitter") as store:
        blobs = Blobs(store)
        mark = blobs.read_cluster()
        assert mark is not None
        assert blobs.claim_cluster(mark) == mark, "as each submit does"
        ref = blobs.put_spec("orders", "u2", 1, b'{"name": "orders"}')
        assert blobs.put_spec("orders", "u2", 1, b'{"name": "orders"}') == ref, "tried again"
        assert blobs.read_spec(ref) == b'{"name": "orders"}'
        blobs.fetch_artifact(blobs.put_artifact("orders", "u2", file), tmp_path / "fetched")
        for key in (ref.key, "cluster.json", "epochs/0000000009"):
            with pytest.raises(AccessDenied):
                store.delete(key)
        with pytest.raises(AccessDenied):
            EpochMarks(store).record_epoch(9, "not a supervisor")
        with pytest.raises(AccessDenied):
            blobs.prove_exclusive()


def test_a_job_works_on_its_checkpoint_and_reaches_no_spec(roles: Roles, known_spec: str) -> None:
    own = f"s3://{CHECKPOINTS}/streams/orders"
    with roles.acting_as("job") as store:
        checkpoint = open_store(own, roles.server.endpoint_url, REGION, DEADLINE_S)
        assert probe_store(checkpoint).exclusive, "conditional creates, as the storage fence makes them"
        head = partial(roles.client("job").head_object, Bucket=CHECKPOINTS, Key="streams/orders")
        assert code_of(head) == "404", "S3A looks for a file there, and wants to hear that there is none"
        for attack in (
            lambda: store.read(known_spec, 100),
            lambda: store.create("specs/orders/u1/2-00.json", b"{}"),
            lambda: store.create("artifacts/orders/u1/00/app.py", b"evil"),
            lambda: store.create("epochs/9999999999", b"{}"),
            lambda: store.create("audit/0000000002", b"{}"),
            lambda: store.delete("cluster.json"),
            lambda: list(store.entries("specs/")),
        ):
            with pytest.raises(AccessDenied):
                attack()


def test_what_a_submitter_replaces_where_conditions_are_not_enforced_is_not_run(
    roles: Roles, known_spec: str
) -> None:
    """Servers that do not know ``s3:if-none-match`` let a submitter replace: then the digest holds."""
    with roles.acting_as("supervisor") as store:
        blobs = Blobs(store)
        ref = blobs.put_spec("orders", "u3", 1, b'{"application": "good.py"}')
        roles.client("owner").put_object(
            Bucket=STORE, Key=f"prod/etl/{ref.key}", Body=b'{"application": "evil.py"}'
        )
        with pytest.raises(Corrupt, match="sha256"):
            blobs.read_spec(ref)


# -- doctor -------------------------------------------------------------------------------------------------------


def doctor(roles: Roles, tmp_path: Path, **keys: Any) -> DoctorFinding:
    """What ``doctor SPEC.yaml`` says of the job's credentials, as the supervisor."""
    body = {
        "name": "orders",
        "application": "store:00/app.py",
        "checkpoint": "s3a://the-checkpoints/streams/orders",
    }
    spec = validated(JobSpec, body | keys, "orders.yaml")
    with roles.acting_as("supervisor"):
        environ = {**roles.env("supervisor"), "JOB_SECRET": roles.keys["job"][1]}
        subject = Subject(roles.settings(tmp_path), environ, spec, patience=20.0)
        (line,) = examine(subject, [JOB_CREDENTIALS])
        return line.finding


def test_doctor_shows_that_a_job_cannot_write_specs(roles: Roles, tmp_path: Path) -> None:
    access, _ = roles.keys["job"]
    of_env = {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": "${env:JOB_SECRET}"}
    found = doctor(roles, tmp_path, env=of_env)
    assert (found.verdict, found.found) == (
        CheckVerdict.OK,
        "the credentials of env may not write to specs/, artifacts/, epochs/, audit/ of the store",
    )
    of_conf = {
        "spark.hadoop.fs.s3a.access.key": access,
        "spark.hadoop.fs.s3a.secret.key": "${env:JOB_SECRET}",
    }
    found = doctor(roles, tmp_path, conf=of_conf)
    assert (found.verdict, found.found.split(" may ")[0]) == (CheckVerdict.OK, "the credentials of conf")


@pytest.mark.parametrize(
    ("role", "what"),
    [("supervisor", "specs/, artifacts/, epochs/, audit/"), ("submitter", "specs/, artifacts/, audit/")],
)
def test_doctor_warns_of_a_job_that_can_write_specs_and_leaves_nothing(
    roles: Roles, tmp_path: Path, role: str, what: str
) -> None:
    access, secret = roles.keys[role]
    found = doctor(roles, tmp_path, env={"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret})
    assert (found.verdict, found.found) == (
        CheckVerdict.WARNING,
        f"the credentials of env can write to {what} of the store",
    )
    listed = roles.client("owner").list_objects_v2(Bucket=STORE).get("Contents", ())
    assert not [each["Key"] for each in listed if "doctor" in each["Key"]]


def test_doctor_takes_no_other_keys_where_those_of_the_job_are_unknown(roles: Roles, tmp_path: Path) -> None:
    """boto3 would look for others: for those of this process, which may write."""
    found = doctor(roles, tmp_path, env={"AWS_ACCESS_KEY_ID": "AKIANOBODY", "AWS_SECRET_ACCESS_KEY": "x"})
    assert found.verdict is CheckVerdict.WARNING
    assert "could not be tried" in found.found
    assert "InvalidAccessKeyId" in found.found


@pytest.mark.parametrize(
    ("keys", "verdict", "says"),
    [
        ({}, CheckVerdict.WARNING, "the supervisor's own S3 credentials (AWS_ACCESS_KEY_ID is inherited)"),
        ({"run_as": "jobs"}, CheckVerdict.SKIPPED, "brings no S3 credentials"),
        (
            {"env": {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "${env:NOT_HERE}"}},
            CheckVerdict.SKIPPED,
            "(seen from this shell)",
        ),
        (
            {
                "env": {"AWS_ACCESS_KEY_ID": "AKIANOBODY", "AWS_SECRET_ACCESS_KEY": "x"},
                "conf": {"spark.hadoop.fs.s3a.endpoint": "https://s3.other.example"},
            },
            CheckVerdict.SKIPPED,
            "another S3 service",
        ),
    ],
)
def test_doctor_says_why_nothing_was_tried(
    roles: Roles, tmp_path: Path, keys: dict[str, Any], verdict: CheckVerdict, says: str
) -> None:
    found = doctor(roles, tmp_path, **keys)
    assert found.verdict is verdict
    assert says in found.found


# -- the files ----------------------------------------------------------------------------------------------------


def test_the_policies_have_no_words_that_are_not_replaced() -> None:
    for role in ROLES:
        text = json.dumps(policy_of(role))
        assert not [word for word in NAMES if word in text]
    assert {file.stem for file in POLICIES.glob("*.json")} == set(ROLES)
