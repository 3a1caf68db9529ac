"""Signs and verifies with Ed25519 (RFC 8032), by ``cryptography``. Only ``clients.signatures`` imports it."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from supervisor.errors import InvalidInput

Signer = Ed25519PublicKey


def sign(key: Path, text: bytes) -> bytes:
    """Returns the signature of ``text`` by the private key in the PEM file ``key``. Raises InvalidInput."""
    try:
        loaded = load_pem_private_key(_read(key), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidInput(
            f"{key} is no private key in PEM without a password",
            "openssl genpkey -algorithm ed25519 makes one",
        ) from None
    if not isinstance(loaded, Ed25519PrivateKey):
        raise InvalidInput(f"{key} is no Ed25519 key", "openssl genpkey -algorithm ed25519 makes one")
    return loaded.sign(text)


def signer(path: Path) -> Signer:
    """Returns the public key in the PEM file ``path``. Raises InvalidInput."""
    try:
        loaded = load_pem_public_key(_read(path))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidInput(f"{path} is no public key in PEM") from None
    if not isinstance(loaded, Ed25519PublicKey):
        raise InvalidInput(f"{path} is no Ed25519 key")
    return loaded


def identity(key: Signer) -> str:
    """Returns what tells a key from another one."""
    return key.public_bytes_raw().hex()


def has_signed(key: Signer, signature: bytes, text: bytes) -> bool:
    try:
        key.verify(signature, text)
    except InvalidSignature:
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} can't be read ({error.strerror})") from None
