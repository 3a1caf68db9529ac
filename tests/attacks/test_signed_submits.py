"""Who may write to ZooKeeper and to the bucket wants code of his own to run, where ``policy.submit_signers`` asks for signatures."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from supervisor.clients.signatures import Signers, sign
from supervisor.daemon.host.admission import require_signed
from supervisor.model.records import Assignment, BlobRef, Cause, JobRef, KeptRevision, OwnState
from supervisor.registry.revisions import spec_of
from supervisor.spark.refusal import Refused
from supervisor.spec.signed import signed_text
from tests.fakes.registry_bench import Bench
from tests.golden.sample_records import SAMPLES
from tests.unit.cli.conftest import Terminal
from tests.unit.cli.conftest import terminal as terminal

CLUSTER, HOST = "test", "host-a"
SPEC, EVIL = (hashlib.sha256(text).hexdigest() for text in (b"the spec", b"another spec"))
RULE = "policy.submit_signers"


def made_key(home: Path, name: str) -> tuple[Path, Path]:
    """Returns the files of a private key and its public key."""
    key = Ed25519PrivateKey.generate()
    private, public = home / f"{name}.pem", home / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return made_key(tmp_path, "release")


def assignment(signature: str, name: str = "clicks", sha256: str = SPEC) -> Assignment:
    """Returns what a leader, or who forges its record, gives to the host."""
    given = next(each for each in SAMPLES if isinstance(each, Assignment))
    key = f"specs/{name}/{given.uid}/1-{sha256}.json"
    return replace(given, name=name, spec=BlobRef(key=key, sha256=sha256, bytes=8, signature=signature))


def refusal(given: Assignment, *signers: Path, cluster: str = CLUSTER) -> Refused | None:
    try:
        require_signed(given, cluster, Signers(signers), HOST)
    except Refused as refused:
        return refused
    return None


def signature(key: Path, name: str = "clicks", sha256: str = SPEC, cluster: str = CLUSTER) -> str:
    return sign(key, signed_text(cluster, name, sha256))


def test_what_a_signer_has_signed_is_started(keys: tuple[Path, Path]) -> None:
    private, public = keys
    assert refusal(assignment(signature(private)), public) is None


def test_without_signers_nothing_is_asked(keys: tuple[Path, Path]) -> None:
    assert refusal(assignment("")) is None


ATTACKS = {
    "unsigned": lambda _key, _other: assignment(""),
    "the spec is changed in the bucket and in the record": lambda key, _other: assignment(
        signature(key), sha256=EVIL
    ),
    "the signature of another job's spec": lambda key, _other: assignment(
        signature(key, "harmless"), "clicks"
    ),
    "the spec and signature of another job under this name": lambda key, _other: assignment(
        signature(key, "harmless"), "clicks", SPEC
    ),
    "the signature of another cluster": lambda key, _other: assignment(signature(key, cluster="staging")),
    "an unknown signer": lambda _key, other: assignment(signature(other)),
    "a signature that is none": lambda _key, _other: assignment("c2lnbmVk"),
    "a signature that is not base64": lambda _key, _other: assignment("ä" * 88),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_it_is_refused_by_the_host_and_says_key_and_rule(
    attack: str, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    private, public = keys
    other, _ = made_key(tmp_path, "mallory")
    given = ATTACKS[attack](private, other)
    refused = refusal(given, public)
    assert refused is not None
    assert refused.cause is Cause.POLICY
    assert RULE in str(refused) and f"spec of {given.name}" in str(refused)
    assert refusal(given) is None, "without the rule it works"


def test_signers_that_cannot_be_read_let_nothing_pass(keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    gone, garbage = tmp_path / "gone.pub", tmp_path / "garbage.pub"
    garbage.write_text("no key")
    for path in (gone, garbage, private):
        refused = refusal(assignment(signature(private)), public, path)
        assert refused is not None and "its signers are not known" in str(refused)


def test_other_keys_are_another_policy(keys: tuple[Path, Path], tmp_path: Path) -> None:
    _, public = keys
    _, other = made_key(tmp_path, "other")
    copied = tmp_path / "copied.pub"
    copied.write_bytes(public.read_bytes())
    assert Signers((public,)).digest == Signers((copied,)).digest
    assert len({Signers(each).digest for each in ((), (public,), (other,), (public, other))}) == 4


def test_a_revision_keeps_its_own_signature_for_a_roll_back() -> None:
    entry = KeptRevision(revision=1, sha256=SPEC, at="", bytes=8, signature="of revision 1")
    assert spec_of("clicks", "uid-1", entry).signature == "of revision 1"


# -- how a signature gets there ------------------------------------------------------------------------------------


def asked(terminal: Terminal, *signers: Path) -> None:
    """The configuration asks for signatures from here on."""
    text = terminal.config.read_text()
    listed = ", ".join(map(str, signers))
    terminal.config.write_text(f"{text}policy: {{submit_signers: [{listed}]}}\n")


def reference(bench: Bench, name: str) -> JobRef:
    record: JobRef = bench.record(JobRef, bench.layout.job(name)).record
    return record


def test_submit_signs_and_the_host_takes_it(terminal: Terminal, keys: tuple[Path, Path]) -> None:
    private, public = keys
    asked(terminal, public)
    unsigned = terminal.run("submit", terminal.spec("clicks"))
    assert unsigned.code == 2 and RULE in unsigned.err and "--sign-with" in unsigned.err
    other, _ = made_key(terminal.home, "mallory")
    assert terminal.run("submit", terminal.spec("clicks"), "--sign-with", str(other)).code == 2
    ran = terminal.run("submit", terminal.spec("clicks"), "--sign-with", str(private))
    assert ran.code == 0, ran.err
    job = reference(terminal.bench, "clicks")
    given = replace(assignment("", "clicks"), spec=job.spec)
    assert refusal(given, public) is None
    assert refusal(replace(given, name="other"), public) is not None


def test_a_job_that_was_not_signed_is_signed_by_apply_and_rolled_back_with_what_it_had(
    terminal: Terminal, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    terminal.submit("clicks")
    asked(terminal, public)
    ran = terminal.run("apply", terminal.spec("clicks"), "--sign-with", str(private), "-o", "json")
    assert ran.code == 0, ran.err
    assert [each["action"] for each in ran.json] == ["updated"]
    job = reference(terminal.bench, "clicks")
    assert refusal(replace(assignment("", "clicks"), spec=job.spec), public) is None
    assert job.update is not None and job.update.before.spec.signature == ""
    again = terminal.run("apply", terminal.spec("clicks"), "--sign-with", str(private), "-o", "json")
    assert [each["action"] for each in again.json] == ["unchanged"]


def test_submit_does_not_call_an_unsigned_job_the_same(terminal: Terminal, keys: tuple[Path, Path]) -> None:
    terminal.submit("clicks")
    ran = terminal.run("submit", terminal.spec("clicks"), "--sign-with", str(keys[0]))
    assert ran.code == 4 and "without this signature: spark-supervisor apply gives it that" in ran.err
    assert terminal.run("submit", terminal.spec("clicks")).code == 0, "without a signature it is the same"


def test_a_roll_back_to_the_signed_revision_of_the_same_spec_brings_its_signature(
    terminal: Terminal, keys: tuple[Path, Path]
) -> None:
    terminal.submit("clicks")
    terminal.run("apply", terminal.spec("clicks"), "--sign-with", str(keys[0]))
    signed = reference(terminal.bench, "clicks")
    assert terminal.run("rollback", "clicks").code == 0
    assert reference(terminal.bench, "clicks").spec.signature == ""
    ran = terminal.run("rollback", "clicks", "--to", str(signed.revision))
    assert ran.code == 0, ran.err
    assert reference(terminal.bench, "clicks").spec.signature == signed.spec.signature != ""


@pytest.mark.parametrize("more", [(), ("--to", "1")])
def test_a_roll_back_to_what_no_signer_has_signed_is_refused_and_stops_nothing(
    terminal: Terminal, keys: tuple[Path, Path], more: tuple[str, ...]
) -> None:
    private, public = keys
    terminal.submit("clicks")
    terminal.run("apply", terminal.spec("clicks", "args: [x]"), "--sign-with", str(private))
    terminal.bench.set_own("clicks", OwnState.CLAIMED, attempt=2, revision=2)
    before = reference(terminal.bench, "clicks")
    asked(terminal, public)
    ran = terminal.run("rollback", "clicks", *more)
    assert ran.code == 2 and RULE in ran.err and "it is not signed" in ran.err, ran.err
    assert reference(terminal.bench, "clicks") == before


def test_a_key_that_is_none_is_refused(terminal: Terminal) -> None:
    path = terminal.home / "key.pem"
    path.write_text("no key")
    ran = terminal.run("submit", terminal.spec("clicks"), "--sign-with", str(path))
    assert ran.code == 2 and "openssl genpkey -algorithm ed25519" in ran.err
