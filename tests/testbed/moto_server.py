"""moto's S3 server with writes one after another, as a script: ``moto_server.py -H HOST -p PORT``.

S3 decides a conditional write (``If-None-Match``) atomically. moto looks and writes in two steps, and its server has a thread
per connection: on a busy machine two writers of one key both win.
"""

from __future__ import annotations

import threading
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

WRITES = ("_key_response_put", "_key_response_post")


def one_after_another(response: type[Any], names: tuple[str, ...]) -> None:
    lock = threading.Lock()

    def locked(method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                return method(*args, **kwargs)

        return call

    for name in names:
        setattr(response, name, locked(getattr(response, name)))


if __name__ == "__main__":
    one_after_another(S3Response, WRITES)
    main()
