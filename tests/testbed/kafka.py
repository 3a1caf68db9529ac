"""A real Kafka: one broker in KRaft mode on loopback, from the jars of Maven Central, as a process of its own.

Used through the fixture ``kafka``. Records are texts, and the caller says into which partition each goes, so that a test
knows every offset.
"""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from supervisor.demo.death_guard import DeathGuard
from tests.testbed.maven import fetched_jars
from tests.testbed.radosgw import free_port
from tests.waiting import wait_until

VERSION = "3.9.1"
ARTIFACTS = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
HOST = "127.0.0.1"
START_S, STOP_S = 120.0, 30.0
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}/logs
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class Record(NamedTuple):
    partition: int
    offset: int
    text: str


class KafkaBroker:
    """``servers`` is what its clients are told. It is shared: a test makes topics of its own, and harms nothing else."""

    def __init__(self, directory: Path) -> None:
        self._jars = fetched_jars("kafka", *ARTIFACTS)
        self._directory = directory
        self._log = directory / "kafka.log"
        self._guard = DeathGuard()
        self._process: subprocess.Popen[bytes] | None = None
        self._port, controller = free_port(), free_port()
        self.servers = f"{HOST}:{self._port}"
        self._properties = directory / "server.properties"
        self._properties.write_text(
            PROPERTIES.format(port=self._port, controller=controller, directory=directory)
        )
        self._format()
        try:
            self.come_back()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends it. What it has stored is of no use to anybody."""
        self.go_away()
        self._guard.dismiss()
        shutil.rmtree(self._directory / "logs", ignore_errors=True)

    def go_away(self) -> None:
        """Kills it, as a host that fails. What it has stored is there when it comes back. Only for a broker of one's own."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S)

    def come_back(self) -> None:
        """Starts it at the same addresses; back when it serves."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._guard.watch(self._process.pid)
        wait_until(self._serves, START_S, "Kafka to serve", period_s=0.5)

    # -- topics and records -------------------------------------------------------------------------------------------

    def new_topic(self, partitions: int, **configs: str) -> str:
        """Create a topic of its own for a test; returns its name. ``configs``: of the topic, with _ for dots."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.create_topic(name, partitions, **configs)
        return name

    def create_topic(self, name: str, partitions: int, **configs: str) -> None:
        """Create a topic of that name, which may have been deleted before."""
        with self._admin() as admin:
            admin.create_topics(
                [
                    NewTopic(
                        name,
                        partitions,
                        1,
                        topic_configs={k.replace("_", "."): v for k, v in configs.items()},
                    )
                ]
            )

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records; back when no client finds it any more."""
        with self._admin() as admin:
            admin.delete_topics([name])
            wait_until(lambda: name not in admin.list_topics(), START_S, f"{name} to be gone")

    def produce(self, topic: str, partition: int, texts: Iterable[str]) -> None:
        """Append records to one partition; the broker has them when this returns."""
        with closing(KafkaProducer(bootstrap_servers=self.servers, acks="all")) as producer:
            for text in texts:
                producer.send(topic, value=text.encode(), partition=partition)
            producer.flush(START_S)

    def records(self, topic: str, isolation: str = "read_uncommitted") -> list[Record]:
        """All that a consumer of this isolation level finds in the topic now, by partition and offset."""
        with self._consumer(isolation_level=isolation) as consumer:
            parts = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
            consumer.assign(parts)
            consumer.seek_to_beginning()
            ends, found = consumer.end_offsets(parts), []

            def all_read() -> bool:
                for polled in consumer.poll(timeout_ms=200).values():
                    found.extend(Record(each.partition, each.offset, each.value.decode()) for each in polled)
                return all(consumer.position(part) >= ends[part] for part in parts)

            wait_until(all_read, START_S, f"the records of {topic}")
        return sorted(found)

    def ends(self, topic: str) -> dict[int, int]:
        """Partition → the offset that its next record will have."""
        with self._consumer() as consumer:
            parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
            return {part.partition: end for part, end in consumer.end_offsets(parts).items()}

    def drop_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the records of each partition before an offset, as the topic's retention does it."""
        with self._admin() as admin:
            admin.delete_records(
                {TopicPartition(topic, number): offset for number, offset in offsets.items()}
            )

    # -- the process --------------------------------------------------------------------------------------------------

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatted = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S,
        )
        assert formatted.returncode == 0, formatted.stderr

    def _java(self, main: str, *arguments: str) -> list[str]:
        return ["java", *JVM, "-cp", f"{self._jars}/*", main, *arguments]

    def _serves(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (
            f"Kafka has ended: {self._log.read_text(errors='replace')}"
        )
        with socket.socket() as probe:  # a client that finds nobody waits ever longer
            if probe.connect_ex((HOST, self._port)) != 0:
                return False
        try:
            with self._admin() as admin:
                return bool(admin.describe_cluster()["brokers"])
        except KafkaError:
            return False

    @contextmanager
    def _admin(self) -> Iterator[KafkaAdminClient]:
        with closing(KafkaAdminClient(bootstrap_servers=self.servers)) as admin:
            yield admin

    @contextmanager
    def _consumer(self, **config: str) -> Iterator[KafkaConsumer]:
        with closing(
            KafkaConsumer(bootstrap_servers=self.servers, enable_auto_commit=False, **config)
        ) as consumer:
            yield consumer
