"""Says what a signer of ``policy.submit_signers`` signs. It is pure and imports the standard library only.

The text names the cluster, the job and the SHA-256 of its stored spec. The spec has the SHA-256 of each file that is stored
with it, and of files in place those of its key ``sha256``: so they are signed, too. A signature is of no use for another
job, cluster or spec. It holds for every submission and revision of that job with that spec, so a roll back takes the
signature that the revision had.
"""

from __future__ import annotations

from typing import Final

FORM: Final = "spark-supervisor spec 1"


def signed_text(cluster: str, name: str, spec_sha256: str) -> bytes:
    """Returns what is signed of the spec of the job ``name``. ``spec_sha256`` is that of its canonical JSON, in hex."""
    return "\n".join((FORM, cluster, name, spec_sha256, "")).encode()
