"""Measures what it costs to give a list of many jobs to a client of the API: ``python -m tests.benchmark_api [--jobs N]``.

A client that is the first to ask after a reading pays for encoding, and for compressing if it takes that; each other one gets
the same bytes. The reading itself, from ZooKeeper, is not part of it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from supervisor.api.encoded_answer import EncodedAnswer
from supervisor.api.responses import RequestQuery
from supervisor.api.service import _page, tagged
from supervisor.model.job_row import JobRow
from supervisor.model.records import Progress

ROUNDS = 9
ROW = JobRow(
    "job",
    uid="1nghzv88022w-ca978112",
    revision=1,
    desired="running",
    state="running",
    reason="running on host-17.example",
    attempt=3,
    supervisor="host-17",
    host="host-17.example",
    driver_pid=12345,
    shim_pid=12344,
    started_at="2026-11-21T00:46:50.000Z",
    since="2026-11-21T00:46:50.000Z",
    restarts=2,
    failures=0,
    progress=Progress(query="counts", batch_id=41, at="2026-11-21T00:46:50.000Z", input_rows_per_s=10.5),
    labels=("team=web",),
    trouble="",
)


def median_ms(work: Callable[[], object]) -> float:
    took = []
    for _ in range(ROUNDS):
        began_at_s = time.perf_counter()
        work()
        took.append((time.perf_counter() - began_at_s) * 1000)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    jobs = parser.parse_args().jobs
    rows = [
        replace(
            ROW,
            name=f"job-{number}",
            uid=f"1nghzv{number:06x}-{number * 2654435761 % 2**32:08x}",
            checkpoint=f"s3a://streams/job-{number}",
            driver_pid=number,
            host=f"host-{number % 50}.example",
        )
        for number in range(jobs)
    ]

    def encode() -> EncodedAnswer:
        return EncodedAnswer(tagged(_page(rows, None, RequestQuery({}))))

    answer = encode()
    plain, packed = answer.for_client(None, None), answer.for_client("gzip", None)
    encode_ms = median_ms(encode)
    pack_ms = median_ms(lambda: encode().for_client("gzip", None)) - encode_ms
    next_ms = median_ms(lambda: answer.for_client("gzip", None))
    print(f"{jobs} jobs: {len(plain.body) / 1e6:.1f} MB, compressed {len(packed.body) / 1e6:.2f} MB")
    print(f"the first client after a reading: {encode_ms:.0f} ms, {pack_ms:.0f} ms more if it takes gzip")
    print(f"each other client: {next_ms:.3f} ms, 1/{encode_ms / max(next_ms, 1e-4):.0f} of that")
    print(f"bytes on the network: 1/{len(plain.body) / len(packed.body):.0f}")


if __name__ == "__main__":
    main()
