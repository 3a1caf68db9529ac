"""Rules of protocol §8.1, refusals by policy, undone one at a time: who is remembered, for what, and what follows."""

from __future__ import annotations

from supervisor.model import policies
from supervisor.plan import make, placement, prepare, startable
from supervisor.registry import attempt_writes, leader_writes
from tests.explore.planting import text

REMEMBERED = "§8.1: a host whose policy has refused this version of the job is not given it again"
PASSING = "§8.1: what may pass keeps no host from a job"
EVERY = "§8.1: a job is left alone only while every host refuses it"
NEITHER = "§8.1: a host whose policy has refused the job is no place to move it to, or to prepare it on"
VERSION = "§8.1: a new revision, restart or resume is asked of every host again"

DEFECTS = (
    text(
        "refusal-for-now-is-remembered",
        PASSING,
        (attempt_writes.refuse, "ended.cause is Cause.POLICY and policy_sha256", "policy_sha256"),
    ),
    text(
        "refusal-by-policy-is-forgotten-at-once",
        REMEMBERED,
        (attempt_writes.refuse, "ended.cause is Cause.POLICY and policy_sha256", "False"),
    ),
    text(
        "assignment-forgets-who-refused",
        REMEMBERED,
        (leader_writes._with_refusals, "refused = refused_policies(job, old)", "refused = ()"),
    ),
    text(
        "only-the-newest-refusal-is-remembered",
        REMEMBERED,
        (attempt_writes.refuse, "(*others, digits)", "(digits,)"),
    ),
    text(
        "placed-where-it-was-refused",
        REMEMBERED,
        (placement.why_barred, "if refuses(member, job, own):", "if False:"),
    ),
    text(
        "one-refusal-counts-for-every-host",
        EVERY,
        (policies.why_refused_everywhere, "not all(refuses", "not any(refuses"),
    ),
    text(
        "refused-for-good-whoever-comes",
        EVERY,
        (
            policies.why_refused_everywhere,
            "not all(refuses(member, job, own) for member in there)",
            "own.cause is not Cause.POLICY",
        ),
    ),
    text(
        "a-job-that-all-refuse-waits-for-room",
        EVERY,
        (make._why_forbidden, "why or why_refused_everywhere(job, own, fit)", "why"),
    ),
    text(
        "a-move-asks-those-who-have-refused",
        NEITHER,
        (policies.refused_policies, "(moves and own.refused_of == version_of(own))", "False"),
    ),
    text(
        "a-driver-is-prepared-where-it-was-refused",
        NEITHER,
        (prepare.Preparations.choice, " if not refuses(host, job, own)", ""),
    ),
    text(
        "what-is-stopped-for-a-move-was-refused-elsewhere",
        NEITHER,
        (startable.StartPlaces._found, "why = why_not_taken(host, job, own, load, memory)", "why = None"),
    ),
    text(
        "a-prepared-driver-stays-where-it-was-refused",
        NEITHER,
        (prepare._why_not, "why_barred(host, job, own) if host is not None", "None if True"),
    ),
    text(
        "hosts-without-the-labels-have-to-refuse-too",
        EVERY,
        (make._why_forbidden, " if why_unfit(m, job.terms) is None", ""),
    ),
    text(
        "another-revision-counts-as-refused",
        VERSION,
        (
            policies.refused_policies,
            "own.refused_of == version_of(job) or (",
            "own.uid == job.uid or (",
        ),
    ),
)
