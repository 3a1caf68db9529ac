"""What is covered in whatever is given away, and what is not."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.redaction import SHORTEST, Redactor
from supervisor.model.secret import secrets_in
from supervisor.model.secret_words import REDACTED, is_secret_name


@given(st.text(min_size=SHORTEST).filter(lambda text: len(text.strip()) >= SHORTEST), st.text(), st.text())
def test_a_known_secret_is_in_no_text_however_it_is_spelled(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    for spelling in (
        secret,
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
        base64.b64encode(secret.encode()).decode(),
    ):
        if spelling not in before + after and spelling not in REDACTED:
            assert (
                spelling not in redactor.text(f"{before}\n{spelling}\n{after}")
                or spelling.strip() in REDACTED
            )


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("url jdbc://u:hush-hush@db", "hush-hush"),
        ("password=hush-hush", "hush-hush"),
        ('"api_key": "hush-hush"', "hush-hush"),
        ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
        ("key AKIAABCDEFGHIJKLMNOP used", "AKIAABCDEFGHIJKLMNOP"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIhush\nhush\n-----END RSA PRIVATE KEY-----", "MIIhush"),
        ("-----BEGIN PRIVATE KEY-----\nMIIhush and no end", "MIIhush"),
    ],
)
def test_what_looks_like_a_secret_is_covered(text: str, secret: str) -> None:
    covering = Redactor(()).text(text)
    assert secret not in covering and REDACTED in covering


def test_a_short_word_covers_nothing() -> None:
    assert Redactor(["true", ""]).text("it is true") == "it is true"


def test_a_document_is_covered_by_names_and_by_values() -> None:
    given = {
        "password": "x",
        "password_file": "/etc/p",
        "deep": [{"token": "y", "n": 3, "said": "hush-hush"}],
    }
    given["env"] = {"DB_PASSWORD": "${env:DB_PASSWORD}"}
    assert Redactor(["hush-hush"]).document(given) == {
        "password": REDACTED,
        "password_file": "/etc/p",
        "deep": [{"token": REDACTED, "n": 3, "said": REDACTED}],
        "env": {"DB_PASSWORD": "${env:DB_PASSWORD}"},
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example:8443/services/T0/B0/hush", f"https://hooks.example:8443/{REDACTED}"),
        ("https://alerts.example/?hush=1", f"https://alerts.example/{REDACTED}"),
        ("https://alerts.example/", "https://alerts.example/"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
    ],
)
def test_of_a_web_address_its_host_is_left(url: str, shown: str) -> None:
    assert Redactor(()).document({"notify": [{"url": url}]}) == {"notify": [{"url": shown}]}


def test_the_secrets_of_a_spec_are_those_that_show_covers() -> None:
    spec = {
        "conf": {"spark.a.password": "p1", "spark.b": "plain", "spark.c.secret": "${file:/etc/c}"},
        "env": {"API_TOKEN": "t1", "PLAIN": "${env:FROM_HERE}", "X": "y"},
        "args": ["--password", "p2", "--token=t2", "--plain", "z"],
    }
    found = secrets_in(spec)
    assert set(found.values) == {"p1", "t1", "p2", "t2"}
    assert {(name, ref.where) for name, ref in found.references} == {
        ("spark.c.secret", "/etc/c"),
        ("PLAIN", "FROM_HERE"),
    }
    assert secrets_in({}).values == () and secrets_in({"args": "x", "conf": 3}).values == ()
    assert is_secret_name("AWS_SECRET_ACCESS_KEY") and not is_secret_name("PATH")
