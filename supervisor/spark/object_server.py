"""Serves as much of S3 as a checkpoint needs, from memory, at 127.0.0.1: the warm-up of a prepared driver and the training
run of a class archive use a checkpoint on ``s3a://`` there. No request leaves the host, and no credentials are read.

Both load it by its path, under whatever Python Spark runs (3.9 and later): it uses the standard library only.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

LISTED = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
)
DATE = "2020-01-01T00:00:00.000Z"
OF_THE_FILE_SYSTEM = {
    "endpoint.region": "us-east-1",
    "path.style.access": "true",
    "connection.ssl.enabled": "false",
    "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "access.key": "nobody",
    "secret.key": "nothing",
}
"""Hadoop properties, without their prefix, by which S3A finds its way to a server of this module."""


@contextmanager
def object_server() -> Iterator[dict[str, str]]:
    """Serves until the end of the block. Yields the Hadoop properties of S3A for it, without their prefix."""
    handler = type("OwnObjects", (ObjectHandler,), {"objects": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        yield {"endpoint": f"http://127.0.0.1:{server.server_address[1]}", **OF_THE_FILE_SYSTEM}
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


class ObjectHandler(BaseHTTPRequestHandler):
    """Answers as much of S3 as a checkpoint needs, from memory."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is two writes: with it, each of some 400 requests waits 40 ms
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
