"""Who may read a file, by its modes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.clients.users import may_read
from supervisor.model.driver_user import DriverUser


@pytest.mark.parametrize(
    ("mode", "above", "owner", "group", "may"),
    [
        (0o640, 0o755, 0, 500, True),  # a group that has jobs' users in it
        (0o640, 0o755, 0, 501, False),
        (0o600, 0o755, 0, 500, False),
        (0o604, 0o755, 0, 0, True),
        (0o604, 0o700, 0, 0, False),
        (0o400, 0o755, 1234, 0, True),
        (0o040, 0o755, 1234, 500, False),  # the owner's bits alone count for the owner
    ],
)
def test_whether_a_user_may_read_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, above: int, owner: int, group: int, may: bool
) -> None:
    user = DriverUser(name="etl", uid=1234, gid=1234, groups=(500,))
    secret = tmp_path / "tokens" / "grafana"
    modes = {secret: (mode, owner, group), secret.parent: (above, 0, 0)}

    def stat_of(path: Path, **_: bool) -> os.stat_result:
        found, uid, gid = modes.get(path, (0o755, 0, 0))
        return os.stat_result((found, 0, 0, 1, uid, gid, 0, 0, 0, 0))

    monkeypatch.setattr(Path, "stat", stat_of)
    assert may_read(str(secret), user) is may
