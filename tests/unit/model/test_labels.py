"""Labels as records have them, and what a selector chooses."""

from __future__ import annotations

import pytest

from supervisor.model.labels import packed, parsed_selector, unpacked

WEB = packed({"team": "web", "tier": "1"})


def test_labels_are_sorted_and_come_back() -> None:
    assert packed({"b": "2", "a": "1"}) == ("a=1", "b=2")
    assert unpacked(("a=1", "b=2")) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("texts", "selects"),
    [
        (["team=web"], True),
        (["team=ops"], False),
        (["team"], True),
        (["zone"], False),
        (["team!=ops"], True),
        (["team!=web"], False),
        (["zone!=a"], True),
        (["team=web", "tier=1"], True),
        (["team=web,tier=1"], True),
        (["team=web, tier=2"], False),
        (["team=web", "tier!=1"], False),
    ],
)
def test_what_a_selector_chooses(texts: list[str], selects: bool) -> None:
    """As kubectl does: all must hold, and what has not the key at all has not that value either."""
    assert parsed_selector(texts).selects(WEB) is selects


def test_a_selector_without_labels_chooses_by_what_is_missing() -> None:
    assert parsed_selector(["team!=web"]).selects(())
    assert not parsed_selector(["team"]).selects(())


@pytest.mark.parametrize(
    "text", ["", "team=", "=web", "team==web", "!team", "team web", "team=a b", "team!", ",", "a,"]
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="key=value, key!=value and key"):
        parsed_selector([text])


def test_it_reads_as_it_is_written() -> None:
    assert str(parsed_selector(["team=web", "tier!=1,zone"])) == "team=web,tier!=1,zone"
