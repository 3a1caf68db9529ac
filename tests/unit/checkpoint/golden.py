"""The checkpoints of ``tests/golden/checkpoints``, unpacked, and ways to damage one."""

from __future__ import annotations

import tarfile
from pathlib import Path

from supervisor.checkpoint.inspect import inspect
from supervisor.checkpoint.picture import Checkpoint, Query
from supervisor.clients.store.tree import open_tree
from supervisor.spec.s3a import S3Access

ARCHIVES = Path(__file__).parents[2] / "golden" / "checkpoints"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz"))


def unpack(name: str, directory: Path) -> Path:
    """A copy of the golden checkpoint below ``directory``."""
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        archive.extractall(directory)
    return directory / name


def inspected(location: Path | str, access: S3Access | None = None, checksums: bool = True) -> Checkpoint:
    tree = open_tree(str(location), access or S3Access())
    assert tree is not None
    return inspect(tree, checksums=checksums)


def only(checkpoint: Checkpoint) -> Query:
    (query,) = checkpoint.queries
    return query


def without(checkpoint: Path, *keys: str) -> None:
    """Remove files, with their checksums as Hadoop would."""
    for key in keys:
        (checkpoint / key).unlink()
        (checkpoint / key).with_name(f".{Path(key).name}.crc").unlink(missing_ok=True)


def write(checkpoint: Path, key: str, data: bytes) -> None:
    (checkpoint / key).write_bytes(data)
    (checkpoint / key).with_name(f".{Path(key).name}.crc").unlink(missing_ok=True)
