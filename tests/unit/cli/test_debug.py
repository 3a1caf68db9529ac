"""``debug bundle``: what is in it, for whom it can be read, and that no secret is in it that the product knows of."""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path

import pytest

from supervisor.errors import SupervisorError
from supervisor.model.records import OwnState
from supervisor.operations import debug_bundle
from supervisor.operations.debug_bundle import PART_MAX_BYTES, BundlePart, write_bundle
from supervisor.operations.known_secrets import KnownSecrets
from tests.fakes.running_driver import running_driver_of
from tests.unit.cli.conftest import Terminal

SPEC = """
env: {API_TOKEN: env-literal-hush, FROM_ENV: '${env:PLANTED}', FROM_FILE: '${file:%(home)s/planted}'}
conf: {spark.some.password: conf-literal-hush, spark.hadoop.x: plain-value}
args: [--password, arg-hush-hush, --token=arg-token-hush]
"""
SECRETS = {
    "a literal of env": "env-literal-hush",
    "a literal of conf": "conf-literal-hush",
    "an argument": "arg-hush-hush",
    "an argument with =": "arg-token-hush",
    "a variable of the supervisor": "referenced-env-hush",
    "a file of the host": "referenced-file-hush",
    "the environment": "aws-environment-hush",
    "a token of the API": "api-token-hush-" + "x" * 32,
    "a token of an operator": "operator-token-hush-" + "y" * 32,
    "the key of notifications": "whsec_bm90aWZpY2F0aW9uLWtleS1odXNoLWh1c2gh",
    "a token of a cluster": "cluster-token-hush",
    "the password of ZooKeeper": "zookeeper-password-hush",
    "a property of the configuration": "configured-conf-hush",
    "what only the driver was given": "launch-only-hush",
    "the path of a webhook": "webhook-path-hush",
    "a URL": "url-hush-hush",
    "a private key": "MIIprivate-key-hush",
}


@pytest.fixture
def planted(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> str:
    """Secrets wherever the product knows of any; the driver has printed them all, and failed with one."""
    home = terminal.home
    (home / "planted").write_text(SECRETS["a file of the host"] + "\n")
    (home / "token").write_text(SECRETS["a token of the API"] + "\n")
    (home / "operator").write_text(SECRETS["a token of an operator"] + "\n")
    (home / "notify").write_text(SECRETS["the key of notifications"] + "\n")
    (home / "cluster").write_text(SECRETS["a token of a cluster"] + "\n")
    (home / "zk").write_text(SECRETS["the password of ZooKeeper"] + "\n")
    for file in ("planted", "token", "operator", "notify", "cluster", "zk"):
        (home / file).chmod(0o600)
    monkeypatch.setenv("PLANTED", SECRETS["a variable of the supervisor"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS["the environment"])
    assert terminal.run("submit", terminal.spec("a", SPEC % {"home": home})).code == 0
    uid = terminal.bench.own("a").newest_uid
    terminal.config.write_text(
        terminal.config.read_text().replace(
            "zookeeper: {",
            f"zookeeper: {{auth: {{mechanism: digest-md5, username: u, password_file: {home}/zk}}, ",
        )
        + f"defaults: {{conf: {{spark.hadoop.fs.s3a.secret.key: {SECRETS['a property of the configuration']}}}}}\n"
        + f"api: {{token_files: [{home}/token], operator_token_files: [{home}/operator], tls: {{cert: {home}/c, key: {home}/k}}}}\n"
        + f"notify: [{{url: https://hooks.example.org/{SECRETS['the path of a webhook']}, secret_file: {home}/notify, 'on': [failed]}}]\n"
        + f"clusters: {{k: {{master: 'k8s://https://127.0.0.1:1', namespace: n, image: i, token_file: {home}/cluster}}}}\n"
    )
    terminal.bench.run("a")
    said = "\n".join(
        [
            *SECRETS.values(),
            *(base64.b64encode(each.encode()).decode() for each in SECRETS.values()),
            f"url https://user:{SECRETS['a URL']}@db/x",
            f"-----BEGIN PRIVATE KEY-----\n{SECRETS['a private key']}\n-----END PRIVATE KEY-----",
        ]
    )
    # a driver that prints what nobody has named a secret is beyond any redaction
    for unknown in ("a URL", "a private key"):
        said = said.replace(f"{SECRETS[unknown]}\n", "\n", 1)
        said = said.replace(base64.b64encode(SECRETS[unknown].encode()).decode(), "")
    said = said.replace(
        "-----BEGIN PRIVATE KEY-----\n\n", f"-----BEGIN PRIVATE KEY-----\n{SECRETS['a private key']}\n"
    )
    logs = home / "log" / "a"
    logs.mkdir(parents=True)
    for file in (f"{uid}.1.log", f"{uid}.1.shim.log", f"{uid}.1.diagnostics.txt"):
        (logs / file).write_text(f"visible words of {file}\n{said}\n")
    reason = f"it said {SECRETS['a literal of env']} and {SECRETS['a variable of the supervisor']}"
    terminal.bench.set_own("a", OwnState.CLAIMED, reason=reason)
    return uid


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        texts = {}
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None and entry.isreg() and entry.mode == 0o600
            assert entry.name.startswith("spark-supervisor-debug/") and ".." not in entry.name
            texts[entry.name.removeprefix("spark-supervisor-debug/")] = file.read().decode()
        return texts


def test_no_secret_that_is_known_is_in_it(terminal: Terminal, planted: str) -> None:
    path = terminal.home / "bundle.tar.gz"
    env = {
        "FROM_ENV": SECRETS["what only the driver was given"],
        "DB_PASSWORD": SECRETS["what only the driver was given"],
    }
    with running_driver_of(terminal.home / "run", "a", planted, env=env):
        ran = terminal.run("debug", "bundle", "a", "-f", str(path))
    assert ran.code == 0, ran.err
    texts = unpacked(path)
    whole = "\n".join(texts.values()) + ran.out + ran.err
    assert [what for what, secret in SECRETS.items() if secret in whole] == []
    known = [secret for what, secret in SECRETS.items() if what not in ("a URL", "a private key")]
    assert [each for each in known if base64.b64encode(each.encode()).decode() in whole] == []
    for words in (
        "visible words of",
        "plain-value",
        "at waits_for_its_sink",
        "${env:PLANTED}",
        f"{terminal.home}/zk",
    ):
        assert words in whole, words
    for file in ("job/output.log", "job/shim.log", "job/diagnostics.txt"):
        assert "visible words of" in texts[file], texts[file]


def test_what_is_in_it_is_said_first_and_only_its_owner_may_read_it(terminal: Terminal, planted: str) -> None:
    path = terminal.home / "bundle.tar.gz"
    dry = terminal.run("debug", "bundle", "a", "-f", str(path), "--dry-run")
    assert (dry.code, path.exists()) == (0, False)
    ran = terminal.run("debug", "bundle", "a", "-f", str(path), "-o", "json")
    document = json.loads(ran.out)
    texts = unpacked(path)
    assert {each["file"] for each in document["files"]} | {"contents.txt"} == set(texts)
    assert {line.split()[0] for line in dry.err.splitlines()} == set(texts) - {"contents.txt"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(texts["job/show.json"])["name"] == "a"
    assert json.loads(texts["znodes.json"])[0]["there"] is True
    assert all(isinstance(json.loads(texts[file]), dict | list) for file in texts if file.endswith(".json"))


def test_what_a_driver_wrote_is_left_out_if_it_was_given_what_nobody_here_knows(
    terminal: Terminal, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that is over has no launch file any more, and an operator's shell none of the supervisor's variables."""
    monkeypatch.delenv("PLANTED")
    path = terminal.home / "bundle.tar.gz"
    assert terminal.run("debug", "bundle", "a", "-f", str(path)).code == 0
    texts = unpacked(path)
    for file in ("job/output.log", "job/diagnostics.txt", "job/stacks.txt"):
        assert texts[file].startswith("left out: a driver was given env:PLANTED"), texts[file]
        assert "--with-output" in texts[file]
    ran = terminal.run("debug", "bundle", "a", "-f", str(terminal.home / "whole.tar.gz"), "--with-output")
    assert ran.code == 0 and "visible words of" in unpacked(terminal.home / "whole.tar.gz")["job/output.log"]


def test_a_file_that_is_there_is_not_written_over(terminal: Terminal, planted: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for path in (precious, tmp_path / "link"):
        ran = terminal.run("debug", "bundle", "-f", str(path))
        assert ran.code == 4 and "exists already" in ran.err and "with --file" in ran.err
    assert precious.read_text() == "mine" and not (tmp_path / "nowhere").exists()
    assert terminal.run("debug", "bundle", "-f", str(tmp_path / "no" / "x")).code == 2


def test_one_of_the_cluster_has_no_job(terminal: Terminal, planted: str, tmp_path: Path) -> None:
    assert terminal.run("debug", "bundle", "-f", str(tmp_path / "b")).code == 0
    texts = unpacked(tmp_path / "b")
    assert "list.json" in texts and not [file for file in texts if file.startswith("job/")]
    assert [what for what, secret in SECRETS.items() if secret in "".join(texts.values())] == []


def test_a_name_that_nobody_has_packs_nothing(terminal: Terminal, planted: str, tmp_path: Path) -> None:
    ran = terminal.run("debug", "bundle", "nosuch", "-f", str(tmp_path / "b.tar.gz"))
    assert ran.code == 3 and "no job is named nosuch" in ran.err and not (tmp_path / "b.tar.gz").exists()


def test_links_and_pipes_of_a_job_are_not_followed(terminal: Terminal, planted: str, tmp_path: Path) -> None:
    logs = terminal.home / "log" / "a"
    for file in logs.iterdir():
        file.unlink()
        file.symlink_to("/etc/passwd")
    assert terminal.run("debug", "bundle", "a", "-f", str(tmp_path / "b")).code == 0
    assert "root:" not in "".join(unpacked(tmp_path / "b").values())


def test_a_part_that_fails_costs_no_other_and_each_is_bounded(tmp_path: Path) -> None:
    def refused() -> str:
        raise SupervisorError("it does not answer, password=hush-hush")

    def broken() -> str:
        raise ZeroDivisionError("hush-known-hush")

    parts = [
        BundlePart("a.txt", "a", refused),
        BundlePart("b.txt", "b", broken),
        BundlePart("c.txt", "c", lambda: "x" * (PART_MAX_BYTES + 10) + "the end"),
    ]
    written = write_bundle(tmp_path / "b", parts, KnownSecrets(frozenset({"hush-known-hush"}), ()))
    texts = unpacked(tmp_path / "b")
    assert [file for file, _ in written] == ["a.txt", "b.txt", "c.txt"]
    assert (
        texts["a.txt"].startswith("not to be had: it does not answer, password=")
        and "hush" not in texts["a.txt"]
    )
    assert "for a defect: ZeroDivisionError" in texts["b.txt"] and "hush" not in texts["b.txt"]
    assert texts["c.txt"].endswith("the end") and len(texts["c.txt"]) < PART_MAX_BYTES + 100


def test_an_archive_that_can_not_be_finished_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(debug_bundle, "_add", full)
    with pytest.raises(OSError, match="No space"):
        write_bundle(tmp_path / "b", [BundlePart("a", "a", lambda: "a")], KnownSecrets(frozenset(), ()))
    assert not (tmp_path / "b").exists()
