"""The output of an attempt that runs, in pieces on a real S3 API server: put, listed, read, removed, and then whole."""

from __future__ import annotations

from pathlib import Path

from supervisor.clients.store.open import open_store
from supervisor.daemon.host.running_uploads import RunningUploads
from supervisor.operations.uploaded_output import find_stored, open_stored, pack
from supervisor.registry.blob_sweep import GRACE_S, References
from supervisor.registry.uploaded_logs import PIECE_MAX_BYTES, LogSweeper, UploadedKey, UploadedLogs
from tests.testbed.moto import MotoServer

UID = "0123456789ab-89abcdef"
KEY = UploadedKey("clicks", UID, 1, 5)


def test_pieces_on_s3(s3_bucket: str, moto_server: MotoServer, tmp_path: Path) -> None:
    store = open_store(f"s3://{s3_bucket}/some/prefix", moto_server.endpoint_url)
    path, now_s = tmp_path / "clicks" / f"{UID}.1.log", [0.0]
    path.parent.mkdir()
    text = b"".join(b"%07d\n" % number for number in range(PIECE_MAX_BYTES // 8 + 10))
    path.write_bytes(text)
    uploads = RunningUploads(tmp_path, UploadedLogs(store), clock=lambda: now_s[0])

    def upload() -> None:
        for key in uploads.take({KEY: 60.0}):
            uploads.upload(key)
        now_s[0] += 60.0

    def read() -> bytes:
        found = find_stored(store, "clicks", UID, 1)
        assert found is not None
        with open_stored(store, found) as parts:
            return b"".join(parts.pieces(parts.before_end(2**30)))

    upload()
    with path.open("ab") as file:
        file.write(b"more\n")
    upload()
    assert read() == text + b"more\n" and len(list(store.entries("logs/"))) == 3
    upload()
    assert read() == text + b"more\n" and len(list(store.entries("logs/"))) == 2
    sweeper = LogSweeper(store, clock=lambda: now_s[0])
    packed = tmp_path / "packed"
    with packed.open("wb") as target:
        pack(path, target)
    UploadedLogs(store).put(KEY, packed)
    for _ in range(2):
        assert read() == text + b"more\n"
        sweeper.scan(lambda: References(frozenset({UID})))
        now_s[0] += GRACE_S
    assert read() == text + b"more\n" and [entry.key for entry in store.entries("logs/")] == [str(KEY)]
