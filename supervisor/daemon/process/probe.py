"""Asks the supervisor of this container whether it is alive: the health check of the image.

``python -m supervisor.daemon.process.probe`` ends with 0 if ``/livez`` is answered with 200, else with 1. It needs no
configuration but the address in ``SPARK_SUPERVISOR__SUPERVISOR__HTTP``, which the image sets. It speaks plain text,
and TLS if that fails; the certificate is not checked, because it names the host and not the loopback address that is asked.
Standard library only: it runs every few seconds.
"""

from __future__ import annotations

import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping

TIMEOUT_S = 2.0
"""This is for each of two tries; a health check of the image may take five seconds."""


def is_alive(port: str) -> bool:
    """Says whether the supervisor that listens on ``port`` of this host answers that it is alive."""
    any_certificate = ssl.create_default_context()
    any_certificate.check_hostname = False
    any_certificate.verify_mode = ssl.CERT_NONE
    for scheme in ("http", "https"):
        url = f"{scheme}://127.0.0.1:{port}/livez"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S, context=any_certificate) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False
        except OSError:
            continue
    return False


def main(environ: Mapping[str, str] = os.environ) -> int:
    port = environ.get("SPARK_SUPERVISOR__SUPERVISOR__HTTP", "").rpartition(":")[2] or "8780"
    return 0 if is_alive(port) else 1


if __name__ == "__main__":
    sys.exit(main())
