"""DIGEST-MD5: the example of RFC 2831, and what a server may say instead of it."""

from __future__ import annotations

import re

import pytest

from supervisor.clients.digest_md5 import DigestMd5, directives

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


def begun() -> DigestMd5:
    return DigestMd5("chris", "secret", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com")


def test_the_example_of_rfc_2831() -> None:
    digest = begun()
    assert digest.respond(b"") == b""
    answer = directives(digest.respond(CHALLENGE))
    assert answer["response"] == "d388dad90d4bbd760a152321f2143af7"
    assert answer["username"], answer["nc"] == ("chris", "00000001")
    assert not digest.is_complete
    assert digest.respond(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") == b""
    assert digest.is_complete


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    digest = begun()
    digest.respond(CHALLENGE)
    with pytest.raises(ValueError, match="does not know the password"):
        digest.respond(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")
    with pytest.raises(ValueError, match="does not know the password"):
        digest.respond(b"")
    assert not digest.is_complete


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b'realm="r",nonce="n",qop="auth-conf",algorithm=md5-sess', "protection"),
        (b'realm="r",nonce="n",algorithm=md5', "none of DIGEST-MD5"),
        (b'realm="r",algorithm=md5-sess', "none of DIGEST-MD5"),
        (b"\x60\x82\x02", "."),
        (b"gibberish without a value", "no list"),
    ],
)
def test_other_challenges_are_refused(challenge: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        begun().respond(challenge)


def test_quotes_and_backslashes_are_escaped_and_come_back() -> None:
    name = 'a "quoted" \\ name'
    answer = DigestMd5(name, "p", "c").respond(b'nonce="n\\"1",algorithm=md5-sess,qop="auth-int,auth"')
    found = directives(answer)
    assert (found["username"], found["nonce"], found["realm"]) == (name, 'n"1', "zk-sasl-md5")
    assert "charset" not in found and found["digest-uri"] == "zookeeper/zk-sasl-md5"


def test_the_password_is_not_in_the_answer_nor_in_what_is_printed() -> None:
    digest = DigestMd5("user", "S3CRET", "c")
    answer = digest.respond(b'nonce="n",algorithm=md5-sess')
    assert not re.search(b"S3CRET", answer) and "S3CRET" not in repr(digest)
