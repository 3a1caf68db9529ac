"""Makes the receivers of the settings (``notify``) ready for the notifier: each is a name, its events, and how it is sent a
message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from supervisor.clients.webhook import post_message, webhook_target
from supervisor.daemon.leader.deliveries import Receiver
from supervisor.model.records import NotifiedEvent
from supervisor.settings.notify import ReceiverSettings


def receivers_of(settings: Sequence[ReceiverSettings]) -> tuple[Receiver, ...]:
    """Returns the receivers, in the order of the settings."""
    return tuple(
        Receiver(
            each.label, frozenset(map(NotifiedEvent, each.on)), partial(post_message, webhook_target(each))
        )
        for each in settings
    )
