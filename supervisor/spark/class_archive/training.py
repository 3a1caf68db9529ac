"""Is the training run: a throwaway application that makes the driver's JVM load what a streaming query needs.

``build`` runs it by the host's own spark-submit, as ``training.py DIRECTORY [--s3a]``; nothing of a job is
executed. It runs a stateful query with ``foreachBatch`` in Python, whose checkpoint, input and output are files
below ``DIRECTORY``, and with ``--s3a`` the same with the checkpoint on ``s3a://``, on a server of its own at
127.0.0.1 that holds objects in memory: no request leaves the host, and no credentials are read. A part that
fails is said and left out: the classes that it would have loaded are then not in the archive.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import StreamingQueryListener

BATCHES = 2
QUERY_MAX_S = 240.0
LISTED = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
)
DATE = "2020-01-01T00:00:00.000Z"


class ObjectHandler(BaseHTTPRequestHandler):
    """Answers as much of S3 as a checkpoint needs, from memory."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes] = {}

    def do_PUT(self) -> None:
        body = self._body()
        source = self.headers.get("x-amz-copy-source")
        if source is not None:
            body = self.objects.get(unquote("/" + source.lstrip("/")), b"")
        self.objects[self._key] = body
        copied = f"<CopyObjectResult><LastModified>{DATE}</LastModified><ETag>e</ETag></CopyObjectResult>"
        self._answer(200, copied.encode() if source is not None else b"")

    def do_GET(self) -> None:
        if "list-type" in urlsplit(self.path).query:
            self._answer(200, self._listing())
        elif self._key in self.objects:
            self._answer(200, self._part(self.objects[self._key]))
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self) -> None:
        body = self.objects.get(self._key)
        self._answer(404 if body is None else 200, body or b"", only_head=True)

    def do_DELETE(self) -> None:
        self.objects.pop(self._key, None)
        self._answer(204, b"")

    def do_POST(self) -> None:
        for key in re.findall(r"<Key>([^<]*)</Key>", self._body().decode()):
            self.objects.pop(f"{urlsplit(self.path).path.rstrip('/')}/{key}", None)
        self._answer(200, b"<DeleteResult></DeleteResult>")

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path)

    def _part(self, body: bytes) -> bytes:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        return body if asked is None else body[int(asked[1]) : int(asked[2]) + 1 if asked[2] else None]

    def _body(self) -> bytes:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" not in (self.headers.get("Content-Encoding") or ""):
            return data
        body = b""
        while data:
            head, _, data = data.partition(b"\r\n")
            size = int(head.partition(b";")[0] or b"0", 16)
            if size == 0:
                break
            body, data = body + data[:size], data[size + 2 :]
        return body

    def _listing(self) -> bytes:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        start = f"{self._key.rstrip('/')}/"
        prefix, end = start + asked.get("prefix", ""), asked.get("delimiter", "")
        found, common = "", set()
        for key in sorted(self.objects):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            if end and end in rest:
                common.add(prefix[len(start) :] + rest.partition(end)[0] + end)
            else:
                size = len(self.objects[key])
                found += f"<Contents><Key>{quote(key[len(start) :])}</Key><LastModified>{DATE}</LastModified>"
                found += f"<ETag>e</ETag><Size>{size}</Size></Contents>"
        below = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in common
        )
        return f"{LISTED}<IsTruncated>false</IsTruncated>{found}{below}</ListBucketResult>".encode()

    def _answer(self, status: int, body: bytes, *, only_head: bool = False) -> None:
        self.send_response(status)
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not only_head:
            self.wfile.write(body)


class Silent(StreamingQueryListener):
    """Hears what every driver of the supervisor hears, and does nothing."""

    def onQueryStarted(self, event: object) -> None:
        pass

    def onQueryProgress(self, event: object) -> None:
        pass

    def onQueryIdle(self, event: object) -> None:
        pass

    def onQueryTerminated(self, event: object) -> None:
        pass


def run_query(spark: SparkSession, directory: Path, checkpoint: str) -> None:
    """Runs a stateful query for some batches."""
    seen: list[int] = []
    output = str(directory / "output")

    def keep(rows: DataFrame, batch_id: int) -> None:
        rows.collect()
        rows.write.mode("append").parquet(output)
        seen.append(batch_id)

    events = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    per_key = (
        events.withWatermark("timestamp", "10 seconds")
        .groupBy(sql.window("timestamp", "5 seconds"), (sql.col("value") % 3).alias("key"))
        .agg(sql.count("*").alias("rows"), sql.sum("value").alias("total"))
    )
    query = (
        per_key.writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="0 seconds")
        .start()
    )
    until_at_s = time.monotonic() + QUERY_MAX_S
    while len(seen) < BATCHES and query.isActive and time.monotonic() < until_at_s:
        time.sleep(0.05)
    query.stop()


def run_files(spark: SparkSession, directory: Path) -> None:
    """Reads files as a stream, and writes files."""
    spark.range(20).selectExpr("id", "cast(id as string) as text").write.json(str(directory / "input"))
    rows = spark.readStream.schema("id long, text string").json(str(directory / "input"))
    query = (
        rows.dropDuplicates(["id"])
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "files"))
        .trigger(availableNow=True)
        .start(str(directory / "written"))
    )
    query.awaitTermination(int(QUERY_MAX_S))


def part(name: str, work: Callable[[], object]) -> None:
    """Does one part, and says what became of it."""
    try:
        work()
    except Exception:  # noqa: BLE001 - the rest is worth having without it
        traceback.print_exc()
        sys.stderr.write(f"class archive: {name} failed\n")


def main() -> None:
    directory, with_s3a = Path(sys.argv[1]), "--s3a" in sys.argv[2:]
    server = ThreadingHTTPServer(("127.0.0.1", 0), ObjectHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    builder = SparkSession.builder.appName("class-archive")
    for key, value in {
        "endpoint": f"http://127.0.0.1:{server.server_address[1]}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "access.key": "training",
        "secret.key": "training",
    }.items():
        builder = builder.config(f"spark.hadoop.fs.s3a.{key}", value)
    spark = builder.getOrCreate()
    spark.streams.addListener(Silent())
    part("a query on files", lambda: run_query(spark, directory, str(directory / "checkpoint")))
    part("a stream of files", lambda: run_files(spark, directory))
    if with_s3a:
        part("a query on S3", lambda: run_query(spark, directory, "s3a://training/checkpoint"))
    spark.stop()


if __name__ == "__main__":
    main()
