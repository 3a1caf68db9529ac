"""References to secrets: recognised as a whole, refused when malformed, never guessed."""

from __future__ import annotations

import pytest

from supervisor.errors import InvalidInput
from supervisor.model.secret import SecretRef, SecretSource, secret_reference


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
