"""The section ``notify``: what is refused, and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.errors import InvalidInput
from supervisor.settings.file import Settings, load_settings
from supervisor.settings.notify import EVERY_EVENT
from tests.unit.settings.test_file import MINIMAL

KEY = "secret_file: /etc/spark-supervisor/notify.key"


def loaded(directory: Path, *receivers: str) -> Settings:
    path = directory / "supervisor.yaml"
    path.write_text(f"{MINIMAL}notify: [{', '.join('{' + each + '}' for each in receivers)}]\n")
    return load_settings(path, {})


def test_nobody_is_told_unless_somebody_is_named(tmp_path: Path) -> None:
    assert loaded(tmp_path).notify == ()


def test_a_receiver_is_told_everything_under_the_name_of_its_host(tmp_path: Path) -> None:
    (one,) = loaded(tmp_path, f'url: "https://hooks.example.org/a?b=c", {KEY}').notify
    assert (one.url, one.on, one.label) == (
        "https://hooks.example.org/a?b=c",
        EVERY_EVENT,
        "hooks.example.org",
    )
    assert (one.ca, one.plain_http) == (None, False)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/x", "http://localhost/x", "http://[::1]:80/x"])
def test_plain_http_is_allowed_to_this_machine(tmp_path: Path, url: str) -> None:
    assert loaded(tmp_path, f'url: "{url}", {KEY}').notify[0].url == url


def test_plain_http_beyond_this_machine_needs_a_word(tmp_path: Path) -> None:
    assert loaded(tmp_path, f'url: "http://10.0.0.1/x", {KEY}, plain_http: true').notify
    with pytest.raises(
        InvalidInput, match=r"notify\[0\] has a url with http://: .* write https://, or plain_http"
    ):
        loaded(tmp_path, f'url: "http://10.0.0.1/x", {KEY}')


@pytest.mark.parametrize(
    ("receiver", "says"),
    [
        (
            f'url: "https://h/x", {KEY}, on: [faild]',
            "must be 'failed', 'quarantined', 'falling_behind' or 'rolled_back'",
        ),
        (f'url: "https://h/x", {KEY}, on: []', "names no event; write some of failed, quarantined"),
        (f'url: "https://me:secret@h/x", {KEY}', "must be https://host/path, without credentials"),
        (f'url: "ftp://h/x", {KEY}', "must be https://host/path"),
        (f'url: "https://h/a b", {KEY}', "must be https://host/path"),
        ('url: "https://h/x"', "secret_file is missing"),
        ('url: "https://h/x", secret_file: key', "must be an absolute path"),
        (f'url: "https://h/x", {KEY}, name: "a b"', "holds characters that are not allowed there"),
        (f'url: "https://h/x", {KEY}, secret: abc', "unknown key"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, receiver: str, says: str) -> None:
    with pytest.raises(InvalidInput) as failed:
        loaded(tmp_path, receiver)
    assert says in str(failed.value)
    assert "me:secret" not in str(failed.value)


def test_two_receivers_need_two_names(tmp_path: Path) -> None:
    receiver = f'url: "https://h/x", {KEY}'
    with pytest.raises(InvalidInput, match="has two receivers called h; give each a name of its own"):
        loaded(tmp_path, receiver, receiver)
    assert [each.label for each in loaded(tmp_path, receiver, f"{receiver}, name: lag").notify] == [
        "h",
        "lag",
    ]
    with pytest.raises(InvalidInput, match="has more than 8 entries"):
        loaded(tmp_path, *(f"{receiver}, name: n{number}" for number in range(9)))
