"""Certificates for tests: an authority of its own, and what it signs. Keys are elliptic, so that they are made at once."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Signed:
    """PEM files of one key pair."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; ``ca`` is the PEM file of its own."""

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._built(self._name, self._key, days=30, is_authority=True)
        self.ca = directory / f"{name.replace(' ', '-')}.pem"
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self, name: str, *, days: float = 30, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
    ) -> Signed:
        """A new key pair for ``name``, valid until ``days`` from now (negative: expired), for these host names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._built(subject, key, days=days, hosts=hosts)
        made = Signed(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        made.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return made

    def _built(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        days: float,
        hosts: tuple[str, ...] = (),
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=60))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if hosts:
            names = [_general_name(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
