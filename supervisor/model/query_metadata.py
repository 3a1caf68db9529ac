"""Names the file in a checkpoint that says which query it is of. It is pure: ``checkpoint`` reads that file,
and ``clients.store.removal`` deletes it last.
"""

from __future__ import annotations

from typing import Final

METADATA: Final = "metadata"
"""This is Spark's file with the id that a query keeps for life, beside its ``offsets`` and ``commits``."""

METADATA_MAX_BYTES: Final = 64 * 1024
"""No more than this is read of it."""
