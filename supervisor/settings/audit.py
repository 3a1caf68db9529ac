"""Defines the ``audit`` section of ``supervisor.yaml``: where commands write down who gave them."""

from __future__ import annotations

from supervisor.settings.addresses import AbsolutePath
from supervisor.settings.sections import Section


class AuditSettings(Section):
    """Says where lines go: to the ``store``, and to the socket of syslog. With ``required`` what starts or changes something
    is refused while the store can't take its line; what stops something never is."""

    store: bool = True
    required: bool = False
    syslog: AbsolutePath | None = None
