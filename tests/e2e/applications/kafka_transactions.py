"""The example of a transactional sink (``conf/applications/kafka_to_kafka.py``), which can be made to wait.

``HOLD`` in the environment names a file, or nothing: ``during 3`` makes batch 3 wait with all its records sent and the
transaction open, ``after 3`` with the transaction committed and Spark's batch not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kafka_to_kafka import TransactionalSink, main

POLL_S = 0.2


class WaitingSink(TransactionalSink):
    def write(self, batch_id: int, records: Iterable[tuple[Any, Any]]) -> None:
        super().write(batch_id, self._sent_and_waited(batch_id, records))
        wait(f"after {batch_id}")

    def _sent_and_waited(
        self, batch_id: int, records: Iterable[tuple[Any, Any]]
    ) -> Iterator[tuple[Any, Any]]:
        yield from records
        self._producer.flush()
        wait(f"during {batch_id}")


def wait(where: str) -> None:
    hold = Path(os.environ["HOLD"])
    while hold.exists() and hold.read_text() == where:
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(WaitingSink)
