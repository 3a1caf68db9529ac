"""Says what helps when the API of a supervisor is not reached because of TLS: a certificate that is not trusted, one for
another name, one that has expired, and TLS on one side only. It is pure. Called by ``api.client``.
"""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Final

from supervisor.errors import Complaint

CA_VARIABLE: Final = "SPARK_SUPERVISOR_SERVER_CA"
_OF_TIME: Final = (9, 10)
_OF_NAME: Final = (62, 64)
"""OpenSSL's numbers of what is wrong with a certificate: not valid yet, expired; another name, another address."""
_CUT: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The other side ended the connection in the handshake; which of the two it is depends on Python and OpenSSL."""
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")


def connect_complaint(url: str, error: BaseException | None, ca: Path | None) -> Complaint:
    """Returns what is wrong and what helps, by the ``error`` of a connection to ``url``, or nothing if that is not about
    TLS. ``ca`` is the file of authorities that was given."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(url, error, ca)
    if isinstance(error, _CUT) or (isinstance(error, ssl.SSLError) and error.reason in _NO_TLS):
        return Complaint(
            f"{url} does not seem to speak TLS",
            "without api.tls a supervisor is reached on its own host only: write http:// there",
        )
    is_cut = isinstance(error, http.client.BadStatusLine | ConnectionResetError | BrokenPipeError)
    if url.startswith("http:") and is_cut:
        return Complaint(f"{url} does not answer over plain HTTP", "write https:// if api.tls is set there")
    return Complaint()


def _of_certificate(url: str, error: ssl.SSLCertVerificationError, ca: Path | None) -> Complaint:
    why = str(error.verify_message).rstrip(".")
    if error.verify_code in _OF_TIME:
        return Complaint(
            f"the certificate of {url} does not count now ({why})",
            "write a new one into the file of api.tls.cert there, which is read again by itself; or the clock here is wrong",
        )
    if error.verify_code in _OF_NAME:
        return Complaint(
            f"the certificate of {url} is for another name ({why})",
            "give --server a name that it has, or make one that has this name, for api.tls.cert there",
        )
    remedy = f"name the file with the authority of its certificate (PEM) in {CA_VARIABLE}"
    if ca is not None:
        remedy = f"{CA_VARIABLE} is {ca}: it must hold the authority of this server's certificate (PEM)"
    return Complaint(f"the certificate of {url} is not trusted ({why})", remedy)
