"""Checks the receivers of ``notify``: whether each is reached, by a certificate that is valid for it, and whether the key
that signs messages can be read. Nobody is told anything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from supervisor.cli.doctor.findings import CheckGroup, DoctorCheck, DoctorFinding, ok, problem, skipped
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.threads import run_in_thread
from supervisor.clients.webhook import webhook_target, why_unreachable
from supervisor.model.phrases import first_few

ANSWER_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class ReceiversFacts:
    """Holds of each receiver its name, and why nothing can be sent to it; that is empty if something can."""

    receivers: tuple[tuple[str, str], ...] = ()


def collect(subject: Subject) -> ReceiversFacts:
    timeout_s = ANSWER_S * subject.patience
    asked = [
        (
            each.label,
            run_in_thread("doctor-receiver", partial(why_unreachable, webhook_target(each), timeout_s)),
        )
        for each in subject.settings.notify
    ]
    return ReceiversFacts(tuple((label, future.result()) for label, future in asked))


def judge_receivers(facts: ReceiversFacts) -> DoctorFinding:
    bad = [f"{label}: {why}" for label, why in facts.receivers if why]
    if bad:
        return problem(
            first_few(bad),
            "correct notify in supervisor.yaml, or open the way from this host to the receiver: what it is to be told waits",
        )
    if not facts.receivers:
        return skipped("supervisor.yaml names no receiver (notify)")
    return ok(f"reached, and told nothing: {first_few([label for label, _ in facts.receivers])}")


RECEIVERS: Final = CheckGroup(
    "receivers",
    collect,
    (
        DoctorCheck(
            "notify-receivers",
            "the receivers of notify are reached by a valid certificate, and the keys that sign messages are there",
            judge_receivers,
        ),
    ),
    deadline_s=6.0,
)
