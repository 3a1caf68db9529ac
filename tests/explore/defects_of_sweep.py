"""The store's blobs and the leader's sweeper (§3, §5), each rule undone, one at a time."""

from __future__ import annotations

from supervisor.daemon.host import agent, cluster_leftovers
from supervisor.daemon.leader import application_sweeper, sweeper
from supervisor.daemon.leader.term_loop import TermPermission
from supervisor.operations import jobs
from supervisor.registry import blob_sweep, blobs, record_sweep
from tests.explore.planting import text

GRACE = "§5: the sweeper needs two scans a grace time apart"
WITHIN = "§5: submit's multi runs within 10 minutes of its put"
KEEPS = "§4: reference ⇒ blob exists"
RESULTS = "§5: what a kept result names is no orphan"
ORPHANS = "§4: orphan blobs are swept after a grace time"
DISTRUST = "I10: nothing is cleaned while the registry is not trusted"

LISTED_FIRST = (
    "§7.8: the cluster is listed before the registry is read, and what is over is said by the registry"
)

OLD_ENOUGH = "began_at_s - observed.first_at_s >= grace_s"
OF_OWN = "uids.update(uid for uid in (row.own.record.uid, row.own.record.newest_uid) if uid)"
OF_REF = "uids.add(row.ref.record.uid)"

BLOBS = (
    text(
        "blob-is-not-stored",
        "§5 submit: blob and artifacts stored first",
        (blobs.Blobs.put_spec, "self._store.create(key, data)", "pass"),
    ),
    text("swept-when-first-seen", GRACE, (blob_sweep.judge, OLD_ENOUGH, "True")),
    text(
        "grace-shorter-than-a-submit",
        GRACE,
        (blob_sweep.judge, OLD_ENOUGH, "began_at_s - observed.first_at_s >= grace_s / 3"),
    ),
    text(
        "submit-without-a-bound",
        WITHIN,
        (
            jobs.JobOperations.submit,
            "if boottime_s() - submission.stored_from_at_s > SUBMIT_MAX_S:",
            "if False:",
        ),
    ),
    text("orphans-are-never-swept", ORPHANS, (blob_sweep.judge, "to_delete.append(entry.key)", "pass")),
    text(
        "each-scan-sees-anew",
        ORPHANS,
        (
            blob_sweep.judge,
            "before if before is not None and before.entry == entry else Unreferenced(entry, ended_at_s)",
            "Unreferenced(entry, ended_at_s)",
        ),
    ),
    text(
        "references-before-the-listing",
        "§5: references are read after the listing",
        (
            blob_sweep.BlobSweeper.scan,
            "    began_at_s = self._clock()\n",
            "    began_at_s = self._clock()\n    references = referenced()\n",
        ),
        (blob_sweep.BlobSweeper.scan, "    references = referenced()\n    needed", "    needed"),
    ),
    text(
        "references-without-a-sync",
        "§5: references are read after a sync",
        (sweeper.Sweeper._references, "self._term.client.sync()", "pass"),
    ),
    text(
        "empty-registry-is-swept",
        "I10: an empty registry: nothing is cleaned",
        (blob_sweep.judge, "if not references.uids:", "if False:"),
    ),
)

KEPT = (
    text(
        "registered-uids-keep-nothing",
        KEEPS,
        (sweeper.references, OF_REF, "pass"),
        (sweeper.references, OF_OWN, "pass"),
    ),
    text("references-keep-nothing", KEEPS, (sweeper.references, OF_REF, "pass")),
    text("ownerships-keep-nothing", KEEPS, (sweeper.references, OF_OWN, "pass")),
    text(
        "newest-uid-keeps-nothing",
        KEEPS,
        (sweeper.references, "(row.own.record.uid, row.own.record.newest_uid)", "(row.own.record.uid,)"),
    ),
    text(
        "unnamed-revisions-are-not-kept",
        "§5: a uid keeps all that is under it",
        (
            blob_sweep.References.keep,
            "parsed.uid in self.uids",
            "(parsed.uid in self.uids and parsed.revision == 1)",
        ),
    ),
    text(
        "results-keep-nothing",
        RESULTS,
        (sweeper.references, 'uids.update(path.rpartition("/")[2] for path in listing.results)', "pass"),
    ),
    text(
        "assignments-keep-nothing",
        KEEPS,
        (
            sweeper.references,
            'uids.update(path.rpartition("/")[2].rpartition(".")[0] for path in listing.assignments)',
            "pass",
        ),
    ),
    text(
        "pending-deletions-keep-nothing",
        "§5: the spec of a checkpoint that is being deleted may say where its S3 is",
        (sweeper.references, " and claim.record.doom", " and False"),
    ),
    text(
        "unreadable-records-keep-nothing",
        "I9, §5: nothing is deleted on doubt",
        (
            sweeper.references,
            "if isinstance(row.ref, Unreadable) and not isinstance(row.own, Found):",
            "if False:",
        ),
    ),
)

TRUSTED = "self.term.distrust is None and "
GOES_ON = " and self.term.distrust is None"

HELD = (
    text("sweep-goes-on-in-distrust", DISTRUST, (TermPermission.may_go_on, GOES_ON, "")),
    text("sweep-begins-in-distrust", DISTRUST, (TermPermission.may_begin, TRUSTED, "")),
    text(
        "sweeps-in-distrust",
        DISTRUST,
        (TermPermission.may_begin, TRUSTED, ""),
        (TermPermission.may_go_on, GOES_ON, ""),
    ),
    text(
        "sweeps-before-the-epoch-is-recorded",
        "§6: until that is recorded, the leader starts and cleans nothing",
        (TermPermission.may_begin, "self.term.recorded and ", ""),
    ),
    text(
        "sweep-outlives-its-term",
        "§6: cancel and await every task of the epoch",
        (TermPermission.may_go_on, "not self.term.over.is_set() and ", ""),
    ),
    text(
        "sweeps-while-paused",
        "§6 pause: the leader acts on nothing",
        (sweeper.Sweeper.sweep_once, "if view.paused:", "if False:"),
    ),
)

RECORDS = (
    text(
        "assignment-that-nobody-speaks-of-stays",
        "§5: nothing is left of uids that are gone",
        (record_sweep._assignments, "yield from _deletion", "yield from () and _deletion"),
    ),
    text(
        "results-are-never-swept",
        "§5: kept results: the newest of a name",
        (record_sweep._results, "kept[:-RESULTS_PER_NAME]]", "kept[:0]]"),
    ),
    text(
        "newest-result-is-swept",
        "§5: kept results: the newest of a name",
        (record_sweep._results, "kept[:-RESULTS_PER_NAME]]", "kept[RESULTS_PER_NAME:]]"),
    ),
    text(
        "dirty-result-is-swept",
        "§2: dirty until its leftovers are cleaned",
        (record_sweep._results, "result.record.state is Cleanliness.CLEAN", "True"),
    ),
    text(
        "claim-of-a-registered-uid-is-swept",
        "§4: /checkpoints: equal or nested locations are refused",
        (record_sweep._claims, "not registered and ", ""),
    ),
)

CLUSTERS = (
    text(
        "applications-are-listed-after-the-registry",
        LISTED_FIRST,
        (
            application_sweeper.ApplicationSweeper.sweep,
            "    listed: dict[str, tuple[Application, ...]] = {}\n",
            "    known = take_known()\n    listed: dict[str, tuple[Application, ...]] = {}\n",
        ),
        (application_sweeper.ApplicationSweeper.sweep, "    known = take_known()\n    if", "    if"),
    ),
    text(
        "applications-are-ended-after-the-term",
        "§6: cancel and await every task of the epoch",
        (application_sweeper.ApplicationSweeper.sweep, "if not may_go_on():", "if False:"),
    ),
    text(
        "applications-are-ended-while-paused",
        "§6 pause: the leader acts on nothing",
        (sweeper.Sweeper._known_jobs, "view.paused or ", ""),
    ),
    text(
        "applications-are-ended-before-an-acceptance-was-waited-out",
        DISTRUST,
        (sweeper.Sweeper._known_jobs, " or not may_start(view)", ""),
    ),
    text(
        "applications-are-ended-by-an-ownership-in-doubt",
        DISTRUST,
        (agent.Agent.ownership, " or self._doubt(client, node.stat.mzxid) is not None", ""),
    ),
    text(
        "applications-are-ended-by-an-ownership-that-nobody-read",
        LISTED_FIRST,
        (
            cluster_leftovers.ClusterLeftovers._carry_out,
            "over = of_job(left, request.uid, own)",
            "over = tuple(left)",
        ),
    ),
)

DEFECTS = (*BLOBS, *KEPT, *HELD, *RECORDS, *CLUSTERS)
