"""Signs the spec of a job for its submit, and checks it as the hosts will, by the configuration of this one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from supervisor.clients.signatures import Signers, sign
from supervisor.errors import InvalidInput
from supervisor.model.records import BlobRef
from supervisor.operations.submit import Prepared
from supervisor.settings.file import Settings
from supervisor.spec.signed import signed_text


def signature_for(settings: Settings, name: str, spec_sha256: str, key: Path | None) -> str:
    """Returns the signature of a spec by the private key in the file ``key``; it is empty if there is none. Raises
    InvalidInput, also if the policy of this host would refuse the job."""
    signature = "" if key is None else sign(key, signed_text(settings.cluster, name, spec_sha256))
    why = _why_refused(settings, name, spec_sha256, signature)
    if why is not None:
        given = "--sign-with KEY.pem signs it" if key is None else f"{key} is none of their keys"
        raise InvalidInput(f"{name} needs a signature by policy.submit_signers: {why}", given)
    return signature


def require_signature(settings: Settings, name: str, spec: BlobRef) -> None:
    """Raises InvalidInput if the policy of this host would not start the job ``name`` with a stored spec, because of the
    signature that it has: a roll back to it would stop what runs, and start nothing."""
    why = _why_refused(settings, name, spec.sha256, spec.signature)
    if why is not None:
        raise InvalidInput(
            f"{name} needs a signature by policy.submit_signers, and that spec can't be started: {why}",
            "apply its spec with --sign-with KEY.pem",
        )


def signed(settings: Settings, key: Path | None, prepared: Prepared) -> Prepared:
    """Returns ``prepared`` with its signature. Raises InvalidInput as ``signature_for``."""
    return replace(prepared, signature=signature_for(settings, prepared.name, prepared.sha256, key))


def _why_refused(settings: Settings, name: str, spec_sha256: str, signature: str) -> str | None:
    """Returns why the policy of this host would refuse ``signature``, or None."""
    text = signed_text(settings.cluster, name, spec_sha256)
    return Signers(settings.policy.submit_signers).why_not(text, signature)
