"""moto's server with IAM policies enforced as S3 does, as a script: the arguments are those of ``moto_server.py``.

moto (5.2) knows who asks (signature, keys of IAM's users) and matches actions and resources. What it lacks is done here, so that a
policy that is too wide, or too narrow, shows:

* conditions (it takes a statement with one for a statement without), as far as the project's policies have them: ``Null`` of
  ``s3:if-none-match``. Any other condition, and any effect but ``Allow``, stops the server: it would be ignored;
* a request that deletes several objects needs ``s3:DeleteObject`` on each (it asks for it on the bucket);
* a copy needs ``s3:GetObject`` on its source (it does not ask);
* who lacks a right on a key is refused whether or not there is such a key (it does so, too).

Nothing is enforced before ``POST /moto-api/reset-auth``: until then the test makes users and buckets.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from moto.iam.access_control import IAMRequestBase, S3IAMRequest
from moto.s3.responses import S3Response
from moto.server import main

S3 = "arn:aws:s3:::"


def permits(document: dict[str, Any], action: str, resource: str, headers: dict[str, str]) -> bool:
    """Whether one of the statements allows it."""
    return any(
        _matches(statement["Action"], action)
        and _matches(statement["Resource"], resource)
        and _holds(statement, headers)
        for statement in document["Statement"]
    )


def _matches(patterns: str | list[str], text: str) -> bool:
    listed = [patterns] if isinstance(patterns, str) else patterns
    return any(re.fullmatch(_pattern(each), text, re.DOTALL) for each in listed)


def _pattern(wildcards: str) -> str:
    return re.escape(wildcards).replace(r"\*", ".*").replace(r"\?", ".")


def _holds(statement: dict[str, Any], headers: dict[str, str]) -> bool:
    assert statement["Effect"] == "Allow", statement
    condition = statement.get("Condition")
    if condition is None:
        return True
    assert condition == {"Null": {"s3:if-none-match": "false"}}, condition
    return "if-none-match" in headers


def asked(action: str, resource: str, headers: dict[str, str], body: bytes) -> list[tuple[str, str]]:
    """What a request needs: pairs of action and resource. ``resource`` is moto's."""
    if action == "s3:DeleteObject" and "/" not in resource.removeprefix(S3):
        keys = [each.text for each in ElementTree.fromstring(body).iter() if each.tag.endswith("Key")]
        return [(action, f"{resource}/{key}") for key in keys]
    needs = [(action, resource)]
    if (source := headers.get("x-amz-copy-source")) is not None:
        needs.append(("s3:GetObject", S3 + unquote(source).lstrip("/").partition("?")[0]))
    return needs


def check(request: Any, resource: str) -> None:
    """In place of moto's own: refuses what no policy of the user allows."""
    headers = {name.lower(): value for name, value in request._headers.items()}
    documents = [json.loads(policy["policy_document"]) for policy in request._access_key.collect_policies()]
    for action, of in asked(request._action, resource, headers, request._body):
        if not any(permits(document, action, of, headers) for document in documents):
            request._raise_access_denied()


if __name__ == "__main__":
    assert S3IAMRequest.check_action_permitted is IAMRequestBase.check_action_permitted
    S3IAMRequest.check_action_permitted = check  # type: ignore[method-assign]
    plain = runpy.run_path(str(Path(__file__).with_name("moto_server.py")))
    plain["one_after_another"](S3Response, plain["WRITES"])
    main()
