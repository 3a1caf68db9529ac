"""Which sinks are known, and how they are remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.sinks import (
    SINKS_MAX,
    WHERE_MAX_BYTES,
    NamedSink,
    SeenSink,
    SinkMemory,
    decode_sinks,
    encode_sinks,
    named_sink,
)

SPARK = "org.apache.spark.sql.execution.streaming"


@pytest.mark.parametrize(
    ("class_name", "description", "sink", "memory"),
    [
        # as Spark 4.1, 4.3, Delta 4.4 and Iceberg 1.10 say it
        (
            f"{SPARK}.sinks.FileStreamSink",
            "FileSink[file:/o ut]",
            ("file", "file:/o ut"),
            SinkMemory.REMEMBERS,
        ),
        (f"{SPARK}.FileStreamSink", "FileSink[s3a://b/out]", ("file", "s3a://b/out"), SinkMemory.REMEMBERS),
        (f"{SPARK}.sources.ForeachBatchSink", "ForeachBatchSink", ("foreachBatch", ""), SinkMemory.UNKNOWN),
        (
            f"{SPARK}.sources.ForeachWriterTable",
            "ForeachWriterTable(x@1)",
            ("foreach", ""),
            SinkMemory.UNKNOWN,
        ),
        (f"{SPARK}.ConsoleTable$", f"{SPARK}.ConsoleTable$@356c", ("console", ""), SinkMemory.REPEATS),
        (f"{SPARK}.sources.MemorySink", "MemorySink", ("memory", ""), SinkMemory.REPEATS),
        (
            "org.apache.spark.sql.execution.datasources.noop.NoopTable$",
            "NoopTable",
            ("noop", ""),
            SinkMemory.REPEATS,
        ),
        (
            "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable",
            "KafkaTable@1",
            ("kafka", ""),
            SinkMemory.REPEATS,
        ),
        (
            "org.apache.spark.sql.delta.sources.DeltaSink",
            "DeltaSink[file:/t]",
            ("delta", "file:/t"),
            SinkMemory.TRANSACTIONAL,
        ),
        (
            "org.apache.iceberg.spark.source.SparkTable",
            "l.db.t",
            ("iceberg", "l.db.t"),
            SinkMemory.TRANSACTIONAL,
        ),
        ("org.apache.hudi.HoodieStreamingSink", "HoodieStreamingSink[x]", ("hudi", ""), SinkMemory.REMEMBERS),
        ("org.apache.paimon.spark.SparkTable", "t", ("paimon", ""), SinkMemory.UNKNOWN),
        ("com.example.OwnSink", "OwnSink[x]", ("OwnSink", ""), SinkMemory.UNKNOWN),
        ("com.example.FileStreamSink", "FileSink[x]", ("FileStreamSink", ""), SinkMemory.UNKNOWN),
    ],
)
def test_a_sink_is_known_by_the_class_that_writes(
    class_name: str, description: str, sink: tuple[str, str], memory: SinkMemory
) -> None:
    found = named_sink(class_name, description)
    assert found == NamedSink(*sink) and found.memory is memory


def test_whatever_a_driver_says_stays_within_its_room() -> None:
    assert named_sink("", "x") is None
    far = named_sink(f"{SPARK}.FileStreamSink", f"FileSink[/{'é' * 500}\n]")
    assert far is not None and len(far.where.encode()) <= WHERE_MAX_BYTES and far.where.endswith("…")


SINKS = st.builds(
    SeenSink,
    st.sampled_from(["q1", "q2"]),
    st.integers(0, 99),
    st.builds(NamedSink, st.sampled_from(["file", "kafka"]), st.sampled_from(["", "s3a://b/a b", "x"])),
)


@given(st.lists(SINKS, max_size=20))
def test_what_is_remembered_is_the_newest_batch_of_each_query_and_sink(seen: list[SeenSink]) -> None:
    texts = encode_sinks(seen)
    known = decode_sinks(texts)
    assert encode_sinks(known) == texts and len(known) <= SINKS_MAX
    for each in known:
        assert each.batch == max(
            other.batch for other in seen if (other.query, other.sink) == (each.query, each.sink)
        )
    assert not seen or (known[-1].query, known[-1].sink) == (seen[-1].query, seen[-1].sink), (
        "the latest is the last"
    )


@pytest.mark.parametrize("text", ["", "q", "q x file", "q -1 file", f"q {'9' * 30} file", "q 1", " 1 file"])
def test_texts_of_another_form_are_left_out(text: str) -> None:
    assert decode_sinks((text,)) == ()
