"""References to secrets: recognised as a whole, refused when malformed, never guessed."""

from __future__ import annotations

import pytest

from supervisor.errors import InvalidInput
from supervisor.model.secret import REDACTED, SecretRef, SecretSource, covered, secret_reference


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
