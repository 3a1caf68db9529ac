"""transformWithState names its schema files with their whole path: in a restored copy it names the copy's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.checkpoint.layout import crc32c, hadoop_checksum_fits, parse_sidecar, sidecar_fits
from supervisor.checkpoint.schema_paths import hadoop_checksum, moved
from supervisor.errors import Conflict, Corrupt
from supervisor.model.going_back import GOES_ON
from supervisor.savepoints.restore import restore, verify
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import AT, area, contents, create, place

NAMING = "state/0/_metadata/v2/12"
SCHEMA = "state/0/_stateSchema/default/0_ab"


def naming(*paths: str) -> bytes:
    stores = [
        {
            "storeName": "default",
            "numColsPrefixKey": 0,
            "numPartitions": 2,
            "stateSchemaFilePaths": list(paths),
        }
    ]
    body = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"},
        "stateStoreInfo": stores,
        "operatorPropertiesJson": '{"timeMode":"NoTime"}',
    }
    return b"v2\n" + json.dumps(body, separators=(",", ":")).encode()


def paths_in(data: bytes) -> list[str]:
    return [
        path
        for store in json.loads(data.partition(b"\n")[2])["stateStoreInfo"]
        for path in store["stateSchemaFilePaths"]
    ]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Of a query whose state says where its schema is, with the checksums that Hadoop keeps of that."""
    found = unpack("hdfs-v1", tmp_path)
    (found / NAMING).parent.mkdir(parents=True)
    (found / SCHEMA).parent.mkdir(parents=True)
    (found / SCHEMA).write_bytes(b"v3\nschema")
    data = naming(f"file:{found}/{SCHEMA}")
    (found / NAMING).write_bytes(data)
    (found / "state/0/_metadata/v2/.12.crc").write_bytes(hadoop_checksum(data))
    return found


def test_the_copy_names_its_own_place_and_its_checksum_fits(source: Path, tmp_path: Path) -> None:
    create(source, tmp_path / "store")
    saved = area(place(tmp_path / "store"))
    target = tmp_path / "restored"
    assert restore(saved, area(target), AT, GOES_ON).did
    data = (target / NAMING).read_bytes()
    assert paths_in(data) == [f"file:{target}/{SCHEMA}"]
    assert data == naming(f"file:{target}/{SCHEMA}"), "and nothing else of it has changed"
    assert hadoop_checksum_fits((target / "state/0/_metadata/v2/.12.crc").read_bytes(), data)
    before, after = contents(source), contents(target)
    assert {key for key in after if after[key] != before.get(key)} == {NAMING, "state/0/_metadata/v2/.12.crc"}
    assert restore(saved, area(target), AT, GOES_ON).did is False
    assert verify(saved).problems == ()


def test_a_savepoint_of_a_restored_checkpoint_can_be_restored_too(source: Path, tmp_path: Path) -> None:
    create(source, tmp_path / "store")
    restore(area(place(tmp_path / "store")), area(tmp_path / "second"), AT, GOES_ON)
    create(tmp_path / "second", tmp_path / "store", "two")
    restore(area(place(tmp_path / "store", "two")), area(tmp_path / "third"), AT, GOES_ON)
    assert paths_in((tmp_path / "third" / NAMING).read_bytes()) == [f"file:{tmp_path}/third/{SCHEMA}"]


def test_a_copy_that_names_another_place_is_not_the_same(source: Path, tmp_path: Path) -> None:
    create(source, tmp_path / "store")
    saved, target = area(place(tmp_path / "store")), tmp_path / "restored"
    restore(saved, area(target), AT, GOES_ON)
    (target / NAMING).write_bytes((source / NAMING).read_bytes())
    with pytest.raises(Conflict, match="not empty"):
        restore(saved, area(target), AT, GOES_ON)


@pytest.mark.parametrize("elsewhere", ["file:/somewhere/else/0_ab", "s3a://bucket/x/0_ab", "", "nonsense"])
def test_a_path_that_leads_out_of_it_is_refused_with_nothing_written(
    source: Path, tmp_path: Path, elsewhere: str
) -> None:
    data = naming(elsewhere)
    (source / NAMING).write_bytes(data)
    (source / "state/0/_metadata/v2/.12.crc").write_bytes(hadoop_checksum(data))
    create(source, tmp_path / "store")
    with pytest.raises(Corrupt, match="not among what was saved"):
        restore(area(place(tmp_path / "store")), area(tmp_path / "restored"), AT, GOES_ON)
    assert not (tmp_path / "restored").exists()


def test_one_that_names_its_place_in_another_field_too_is_refused() -> None:
    data = naming(f"s3a://bkt/a/{SCHEMA}").replace(b"NoTime", b"s3a://bkt/a/other")
    with pytest.raises(Corrupt, match="also where"):
        moved({NAMING, SCHEMA}, lambda _key: data, "s3://bkt/a", "s3://bkt/a2")


@pytest.mark.parametrize(
    "data",
    [b'v2\n{"stateStoreInfo": [{}]}', b"", b"v2\n", b"v2\n[]", b'v2\n{"stateStoreInfo": 7}', b"v2\n{}"],
)
def test_what_can_not_be_understood_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt, match="not what Spark writes there"):
        moved({NAMING}, lambda _key: data, "s3://bkt/a", "s3://bkt/c")


def test_on_s3_as_spark_spells_it_and_with_spark_s_own_checksum() -> None:
    sidecar = b'{"algorithm":"CRC32C","value":1,"mainFileSize":2}'
    data = naming(f"s3a://bkt/a/q/{SCHEMA}")
    there = {f"q/{NAMING}": data, f"q/{NAMING}.crc": sidecar, f"q/{SCHEMA}": b""}
    found = moved(there.keys(), there.__getitem__, "s3://bkt/a", "s3://bkt/c")
    new = naming(f"s3a://bkt/c/q/{SCHEMA}")
    assert found.keys() == {f"q/{NAMING}", f"q/{NAMING}.crc"}
    assert found[f"q/{NAMING}"] == new
    assert sidecar_fits(parse_sidecar(found[f"q/{NAMING}.crc"]), new) and crc32c(new)


def test_other_state_is_left_alone() -> None:
    assert (
        moved({"state/0/_metadata/metadata", "offsets/1"}, lambda key: b"", "s3://bkt/a", "s3://bkt/c") == {}
    )
