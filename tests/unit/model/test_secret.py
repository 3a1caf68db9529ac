"""References to secrets: recognised as a whole, refused when malformed, never guessed."""

from __future__ import annotations

import pytest

from supervisor.errors import InvalidInput
from supervisor.model.secret import SecretRef, SecretSource, redacted, secret_reference
from supervisor.model.secret_words import REDACTED, covered, is_secret_name


def test_references() -> None:
    assert secret_reference("${env:DB_PASSWORD}") == SecretRef(SecretSource.ENV, "DB_PASSWORD")
    assert secret_reference("${file:/run/secrets/a b}") == SecretRef(SecretSource.FILE, "/run/secrets/a b")


@pytest.mark.parametrize(
    "plain", ["", "text", "$HOME", "${HOME}", "${ENV:X}", "$env:X", "{env:X}", "${env}", "${other:X}"]
)
def test_plain_text_is_no_reference(plain: str) -> None:
    assert secret_reference(plain) is None


@pytest.mark.parametrize(
    "malformed",
    [
        "${env:}",
        "${env:A B}",
        "${env:1A}",
        "x${env:A}",
        "${env:A}x",
        "${env:A}${env:B}",
        "${env:A",
        "${file:}",
        "${file:relative}",
        "${file:/a}}",
        "${file:/a\n}",
        "${file:/a}${file:/b}",
    ],
)
def test_a_malformed_reference_is_refused(malformed: str) -> None:
    with pytest.raises(InvalidInput, match="secret reference"):
        secret_reference(malformed)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=a1b2&x=1", f"password={REDACTED}&x=1"),
        ("fs.s3a.secret.key: abc, then", f"fs.s3a.secret.key: {REDACTED}, then"),
        ("{'token': 'abc'}", f"{{'token': '{REDACTED}'}}"),
        ("s3a://key:se%2Fcret@bkt/x", f"s3a://key:{REDACTED}@bkt/x"),
        ("connect to http://host:8080/path failed", "connect to http://host:8080/path failed"),
        ("Syntax error at or near 'x': unexpected token", "Syntax error at or near 'x': unexpected token"),
        ("file:///a/b: no such key", "file:///a/b: no such key"),
    ],
)
def test_what_looks_like_a_secret_in_a_text_is_covered(text: str, shown: str) -> None:
    assert covered(text) == shown


@pytest.mark.parametrize("text", ["password=abc123", "password: abc123, token='xyz'", "http://me:abc@there/"])
def test_what_is_covered_twice_is_covered_once(text: str) -> None:
    assert covered(covered(text)) == covered(text) != text


def test_a_text_that_is_one_long_name_takes_no_longer_than_others() -> None:
    """It took 75 s once, in a shim: 64 KiB on one line. Here as a count of steps, in a text that would take hours else."""
    text = "token" * 200_000
    assert covered(f"{text} password=a1b2") == f"{text} password={REDACTED}"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password: abc,def;ghi", "ghi"),
        ("password='ab cd efgh'", "cd"),
        ('"password" : "abcdef"', "abcdef"),
        ("password => abcdef", "abcdef"),
        ("password=a(bcdef", "bcdef"),
        ("Authorization: Bearer abcdefghijklmnop", "abcdefghijklmnop"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("jdbc:postgresql://u:p/wd@h/db", "p/wd"),
        ("s3a://AKIAABCDEFGHIJKLMNOP:abc/def+ghi@bucket/x", "abc/def"),
        ("AccountKey=abcdefg==", "abcdefg"),
        ("https://x/y?sig=abcdef&se=1", "abcdef"),
        ("X-Amz-Signature=0123abcdef", "0123abcdef"),
        ("pass=abcdef", "abcdef"),
        ("passphrase=abcdef", "abcdef"),
        ("private_key=abcdef", "abcdef"),
        ("AWS_SECRET_ACCESS_KEY abcdef", "abcdef"),
        ("--password abcdef", "abcdef"),
        ("--db-api-key abcdef", "abcdef"),
        ("secretKey\tabcdef", "abcdef"),
        ("-----BEGIN PRIVATE KEY-----\nMIIabcdef", "MIIabcdef"),
    ],
)
def test_ways_in_which_secrets_stand_in_a_text(text: str, secret: str) -> None:
    assert secret not in covered(text) and REDACTED in covered(text)
    assert covered(covered(text)) == covered(text)


@pytest.mark.parametrize(
    "text",
    [
        "the token expired before the request was sent",
        "variable DB_PASSWORD is not set on host1",
        "connect to https://host:8443/a?x=1 of me@example.org failed",
        "java.net.ConnectException: host:9092: 3 of 4 passed",
        "spark.hadoop.fs.s3a.aws.credentials.provider: org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    ],
)
def test_what_is_said_about_secrets_stays(text: str) -> None:
    assert covered(text) == text


@pytest.mark.parametrize("text", ["token=," * 60_000, "-" * 300_000, "a:" * 200_000, "://a:" * 60_000, "PASSWORD_" * 60_000, "token " * 60_000, "password=" + "," * 300_000])  # fmt: skip
def test_a_text_made_to_take_long_takes_no_longer(text: str) -> None:
    covered(text)


@pytest.mark.parametrize(
    "name",
    [
        "DB_PASS",
        "keyStorePass",
        "API_KEY",
        "PRIVATE_KEY",
        "spark.my.credential",
        "PGPASSWORD",
        "api.key",
        "AWS_SESSION_TOKEN",
        "storageKey",
        "spark.hadoop.fs.azure.account.key.acc.blob.core.windows.net",
        "passphrase",
        "sig",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "bypass",
        "compassion",
        "spark.sql.keyGroup",
        "design",
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_a_spec_shows_no_secret_wherever_it_stands() -> None:
    spec = {
        "conf": {"spark.hadoop.fs.azure.account.key.acc": "KEY", "spark.url": "jdbc:x://u:hunter2@h"},
        "env": {"DB_PASS": "x", "DATABASE_URL": "postgres://u:hunter2@h/d", "REF": "${file:/etc/token=x}"},
        "args": ["--api-key", "k-hunter2", "--url=jdbc:x;password=hunter2", "password=hunter2", "plain", 3],
    }
    shown = redacted(spec)
    assert "hunter2" not in str(shown) and "KEY" not in str(shown["conf"].values())
    assert shown["env"]["REF"] == "${file:/etc/token=x}" and shown["args"][-2:] == ["plain", 3]
    assert redacted(shown) == shown
