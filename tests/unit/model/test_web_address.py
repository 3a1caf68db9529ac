"""Only a plain address of http or https becomes a link."""

from __future__ import annotations

import pytest

from supervisor.model.web_address import WEB_ADDRESS_MAX_CHARS, web_address


@pytest.mark.parametrize(
    "address",
    [
        "http://host-1:4040",
        "https://host-1.example.net:4040/",
        "http://10.0.0.7:4041",
        "http://[fe80::1]:4040",
        "https://proxy.example.net/proxy/application_1700000000_0001",
    ],
)
def test_an_address_of_sparks_ui_is_taken(address: str) -> None:
    assert web_address(address) == address


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        "data:text/html,<script>",
        "file:///etc/passwd",
        "ftp://host",
        "//host:4040",
        "http://",
        "http:///path",
        "http://user:secret@host:4040",
        "http://host-1:4040@evil.example",
        "http://host:4040/?token=1",
        "http://host:4040/#x",
        "http://host:4040/%2e%2e",
        'http://host:4040/"><script>',
        "http://host:4040/\n",
        "http://host :4040",
        "http://h\u00f6st:4040",
        "http://host\u202e:4040",
        "http://host:4040\x1b[2J",
        " http://host:4040",
        "http://host/" + "a" * WEB_ADDRESS_MAX_CHARS,
        "",
        None,
        4040,
        ["http://host"],
    ],
)
def test_nothing_else_is(text: object) -> None:
    assert web_address(text) == ""
