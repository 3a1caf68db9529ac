"""Messages to receivers over real HTTP: signed as the page says, sent once, with nothing read but the status."""

from __future__ import annotations

import base64
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import supervisor
from supervisor.clients import webhook
from supervisor.clients.webhook import WebhookTarget, post_message, signed_headers, why_unreachable
from supervisor.errors import InvalidInput, Unreachable
from tests.testbed.certificates import Authority, Signed

PAGE = (Path(supervisor.__file__).parent / "docs" / "operate-alerts.md").read_text()
KEY = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BODY = '{"job":"é"}'.encode()


def verified() -> Callable[..., bool]:
    """The example of the page."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    made: dict[str, Any] = {}
    exec(code, made)
    found: Callable[..., bool] = made["verified"]
    return found


class ReceiverOfTests:
    """Answers with ``status`` and ``answer``, and keeps what it was asked."""

    def __init__(self, certificate: Signed | None = None) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.status, self.answer, self.headers = 204, b"", dict[str, str]()
        self.waits_s = 0.0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.asked.append((self.command, self.path, headers, self.rfile.read(length)))
                receiver.receives()
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(receiver.answer)

            do_HEAD = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.cert, certificate.key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def receives(self) -> None:
        """Between a request and its answer."""
        time.sleep(self.waits_s)

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[ReceiverOfTests]:
    made = ReceiverOfTests()
    yield made
    made.close()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "notify.key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    return path


def target(receiver: ReceiverOfTests, key_file: Path, path: str = "/hook?a=b") -> WebhookTarget:
    return WebhookTarget(f"http://127.0.0.1:{receiver.port}{path}", str(key_file))


def test_the_example_of_the_page_verifies_what_is_sent(receiver: ReceiverOfTests, key_file: Path) -> None:
    post_message(target(receiver, key_file), "u.failed.1", BODY)
    ((method, path, headers, body),) = receiver.asked
    assert (method, path, body) == ("POST", "/hook?a=b", BODY)
    assert headers["webhook-id"] == "u.failed.1" and headers["content-type"] == "application/json"
    is_verified = verified()
    assert is_verified(KEY, headers, body)
    assert not is_verified(KEY, headers, body + b" ")
    assert not is_verified(KEY, {**headers, "webhook-id": "u.failed.2"}, body)
    assert not is_verified("whsec_" + base64.b64encode(b"x" * 32).decode(), headers, body)


@pytest.mark.parametrize("apart_s", [-400, 400])
def test_the_example_of_the_page_refuses_what_is_old_or_of_the_future(apart_s: int) -> None:
    headers = dict(signed_headers(bytes(range(32)), "i", int(time.time()) + apart_s, BODY))
    assert not verified()(KEY, headers, BODY)
    assert verified()(KEY, headers, BODY, tolerance_s=500)


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of github.com/standard-webhooks/standard-webhooks."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 410, 429, 500, 503])
def test_whatever_is_no_2xx_is_not_accepted_and_no_redirect_is_followed(
    receiver: ReceiverOfTests, key_file: Path, status: int
) -> None:
    receiver.status, receiver.headers = status, {"Location": f"http://127.0.0.1:{receiver.port}/other"}
    with pytest.raises(Unreachable, match=f"^the receiver answers {status}$"):
        post_message(target(receiver, key_file), "i", BODY)
    assert [path for _, path, _, _ in receiver.asked] == ["/hook?a=b"]


def test_an_answer_without_an_end_is_not_read(receiver: ReceiverOfTests, key_file: Path) -> None:
    receiver.status, receiver.headers = 200, {"Content-Length": str(1 << 40)}
    post_message(target(receiver, key_file), "i", BODY)


def test_a_receiver_that_does_not_answer_is_given_up(
    receiver: ReceiverOfTests, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "SEND_S", 0.2)
    receiver.waits_s = 2.0
    with pytest.raises(Unreachable, match="does not answer") as failed:
        post_message(target(receiver, key_file, "/secret-path"), "i", BODY)
    assert "secret-path" not in str(failed.value)


def test_a_certificate_is_verified_by_the_authority_that_is_named(tmp_path: Path, key_file: Path) -> None:
    made, other = Authority(tmp_path, "one"), Authority(tmp_path, "other")
    receiver = ReceiverOfTests(made.sign("receiver"))
    try:
        url = f"https://localhost:{receiver.port}/hook"
        post_message(WebhookTarget(url, str(key_file), str(made.ca)), "i", BODY)
        for ca in (None, str(other.ca)):
            with pytest.raises(Unreachable, match="certificate verify failed"):
                post_message(WebhookTarget(url, str(key_file), ca), "i", BODY)
        with pytest.raises(InvalidInput, match=r"notify\.ca: /nowhere cannot be read"):
            post_message(WebhookTarget(url, str(key_file), "/nowhere"), "i", BODY)
    finally:
        receiver.close()


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("short", 0o600, "holds no key of 24 bytes"),
        ("not base64 at all, and long enough to be a key", 0o600, "holds no key of 24 bytes"),
        (KEY, 0o604, "everybody may read"),
        ("", 0o600, "does not hold a password"),
    ],
)
def test_a_key_that_is_none_sends_nothing(
    receiver: ReceiverOfTests, key_file: Path, text: str, mode: int, says: str
) -> None:
    key_file.write_text(text)
    key_file.chmod(mode)
    with pytest.raises(InvalidInput, match=says) as failed:
        post_message(target(receiver, key_file), "i", BODY)
    assert "openssl rand" in str(failed.value) or mode == 0o604 or not text
    assert text not in str(failed.value) or not text
    assert receiver.asked == []


def test_doctor_tells_nobody_anything(receiver: ReceiverOfTests, key_file: Path) -> None:
    receiver.status = 405
    assert why_unreachable(target(receiver, key_file), 5.0) == ""
    ((method, _, headers, body),) = receiver.asked
    assert (method, body) == ("HEAD", b"") and "webhook-signature" not in headers
    receiver.close()
    assert "does not answer" in why_unreachable(target(receiver, key_file), 5.0)
    key_file.unlink()
    assert "cannot be read" in why_unreachable(target(receiver, key_file), 5.0)
