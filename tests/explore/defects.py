"""All the switchable defects of the mutation gate, in the order of docs/protocol.md: the guards of §5, the rules of §6, §7 and §8."""

from __future__ import annotations

from tests.explore import (
    defects_of_access,
    defects_of_adapters,
    defects_of_diagnostics,
    defects_of_guards,
    defects_of_hosts,
    defects_of_lease,
    defects_of_logs,
    defects_of_notifications,
    defects_of_operation,
    defects_of_preparation,
    defects_of_promotion,
    defects_of_refusal,
    defects_of_removal,
    defects_of_rule,
    defects_of_savepoints,
    defects_of_sweep,
    defects_of_users,
)
from tests.explore.defect import Defect

DEFECTS: tuple[Defect, ...] = (
    *defects_of_guards.DEFECTS,
    *defects_of_lease.DEFECTS,
    *defects_of_diagnostics.DEFECTS,
    *defects_of_rule.DEFECTS,
    *defects_of_operation.DEFECTS,
    *defects_of_sweep.DEFECTS,
    *defects_of_removal.DEFECTS,
    *defects_of_preparation.DEFECTS,
    *defects_of_savepoints.DEFECTS,
    *defects_of_hosts.DEFECTS,
    *defects_of_notifications.DEFECTS,
    *defects_of_promotion.DEFECTS,
    *defects_of_access.DEFECTS,
    *defects_of_refusal.DEFECTS,
    *defects_of_adapters.DEFECTS,
    *defects_of_users.DEFECTS,
    *defects_of_logs.DEFECTS,
)
