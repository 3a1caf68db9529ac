"""What a query is called, wherever one is named."""

from __future__ import annotations

import pytest

from supervisor.model.query_name import query_name

ID = "05e43c40-f269-4f74-b198-1c9d6fac39c7"


@pytest.mark.parametrize(
    ("name", "query_id", "called"),
    [
        ("clicks", ID, "clicks"),
        (None, ID, "unnamed (id 05e43c40)"),
        (ID, ID, "unnamed (id 05e43c40)"),
        (ID, None, "unnamed (id 05e43c40)"),
        ("", "", "unnamed"),
    ],
)
def test_a_query_without_a_name_is_no_bare_uuid(name: str | None, query_id: str | None, called: str) -> None:
    assert query_name(name, query_id) == called
