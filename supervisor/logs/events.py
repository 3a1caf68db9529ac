"""Lists every event that is logged: its name, what it means, and its fields. This is the only list; a test
compares it with the calls.

It is for people who search logs, and for ``supervisor/REFERENCE.md``, which is generated from it. Names are
fixed, because alerts and searches rely on them. ``why`` is always one sentence for humans; ``next`` says what
happens now without anybody doing anything; an event of the level ``exception`` has the traceback in
``exception``. To follow one job, search for its uid: in the logs of the supervisors, in
``<uid>.<attempt>.shim.log`` and in ``<uid>.<attempt>.log`` (the driver's own output) under ``log_dir``.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Event(NamedTuple):
    """Describes one event. ``fields`` holds names, separated by spaces; not every line has all of them."""

    meaning: str
    fields: str = ""


_ATTEMPT: Final = "job uid attempt"

EVENTS: Final[dict[str, Event]] = {
    # The process
    "supervisor_started": Event("The supervisor runs: its loops are up.", "supervisor pid runtime_dir"),
    "runtime_dir_tightened": Event(
        "The runtime directory was open to other users; now it is not.", "runtime_dir was now"
    ),
    "supervisor_stopped": Event("It ended in order.", "supervisor handed_over s next"),
    "supervisor_failed": Event(
        "A loop ended by a defect; the process ends, to be started anew.", "loop why next"
    ),
    "loop_failed": Event("The defect that ended a loop.", "loop"),
    "item_failed": Event(
        "A defect, or something odd, met one item of a loop (a job, a file, a claim): it is skipped; said once in 10 min.",
        "loop item why next",
    ),
    "thread_died": Event("A thread ended by a defect.", "thread"),
    "waiting": Event("Something that is needed at start is not there yet.", "what why next"),
    "session_time_differs": Event(
        "ZooKeeper grants another session time than was asked for.", "asked_s granted_s why next"
    ),
    "policy_is_open": Event(
        "At start: the policy of this host lets jobs have nearly everything.", "keys why next"
    ),
    "store_not_checked": Event(
        "The store could not be checked at start; the cluster is known all the same.", "why next"
    ),
    "store_unusable": Event("The store, asked every 30 s, cannot be used.", "why next"),
    "store_usable_again": Event("It can.", "was"),
    "http_request_failed": Event("A client went away, or could not agree on TLS.", "client why exc_info"),
    "api_events_failed": Event(
        "A defect in what tells the listeners of the API what has changed: they read everything anew.", "next"
    ),
    "http_access_read": Event(
        "Certificate, users or tokens of HTTP have changed and were read again.", "files"
    ),
    "http_access_kept": Event(
        "Certificate, users or tokens of HTTP have changed and can't be used; those from before count.",
        "why next",
    ),
    "api_request": Event(
        "Somebody has asked the API; token is the name of the file whose token was shown. Writes are always logged.",
        "token address method path status duration_s whole",
    ),
    "api_requests_not_logged": Event(
        "So many requests came at once that some reads and refusals have no line of their own.", "count next"
    ),
    "http_answer_failed": Event("A defect while answering a request.", "path"),
    "zookeeper_callback_failed": Event("A defect in the handling of a change of the ZooKeeper session."),
    "sentinel_not_told": Event(
        "The session closer does not run: a crash now would be noticed only after the session time."
    ),
    # Leadership
    "leadership": Event("This supervisor's standing changed, or the reason of it.", "state was epoch why"),
    "term_over": Event("The leader found out that its term is over.", "epoch why next"),
    "step_down_waits": Event(
        "A task of a term that is over is in a request that takes long.", "epoch loops next"
    ),
    "stepped_down": Event("Every task of a term has ended.", "epoch"),
    "switched_over": Event("A planned hand-over is complete.", "epoch was by"),
    "switchover_not_concluded": Event(
        "The request for a hand-over could not be removed; tried again.", "why"
    ),
    "contender_failed": Event("A defect in the contender; the process is ended by the watchdog.", "state"),
    "session_not_closed": Event("An abandoned session could not be closed; it expires by itself.", "why"),
    "probe_failed": Event("A read of the leader's znode failed; tried again.", "why"),
    "epoch_not_recorded": Event(
        "The term is not in the store yet: nothing is started or cleaned meanwhile.", "epoch why"
    ),
    "epoch_recorder_failed": Event("A defect while recording the term.", "epoch"),
    "registry_not_trusted": Event(
        "The registry was restored, emptied or exchanged: nothing is done to it.", "epoch why"
    ),
    "distrust_not_said": Event("The leader's distrust could not be written to /leader; tried again.", "why"),
    "restore_not_marked": Event(
        "That the registry was restored could not be left in the store; tried again.", "epoch why"
    ),
    "distrust_not_told": Event(
        "What this supervisor says of itself (distrust, delayed starts) could not be written; tried again.",
        "why",
    ),
    "restore_waited_out": Event(
        "The wait after an accepted restore is over: jobs start again.", "epoch acceptance by"
    ),
    "parents_made_anew": Event(
        "Fixed znodes were missing, and the leader made them again; what was below them is registered again.",
        "epoch paths why",
    ),
    "parents_not_made": Event("Missing fixed znodes could not be made again; tried again.", "why"),
    "wait_not_ended": Event("The end of that wait could not be written down; tried again.", "why"),
    "zxid_not_kept": Event("How far ZooKeeper was could not be written to disk.", "why"),
    # The leader's passes
    "pass": Event(
        "One pass, canonical line: said when something was done or changed.",
        "epoch jobs supervisors actions waiting alarms ms first starts_held",
    ),
    "action": Event(
        "The leader carried out, or tried, one action.", f"action {_ATTEMPT} epoch why outcome detail"
    ),
    "action_failed": Event(
        "A defect while carrying out an action; no other job is affected.", "action job epoch"
    ),
    "pass_skipped": Event(
        "No view could be taken, or the pass could not be finished; tried again.", "epoch why next"
    ),
    "alarm": Event("Something that a person should act on.", "epoch why"),
    "alarm_over": Event("It is over.", "epoch why"),
    "paused": Event("An operator paused the cluster.", "epoch why next"),
    "unpaused": Event("The leader acts again.", "epoch"),
    "swept": Event(
        "Records, blobs and uploaded logs of uids that are gone, and savepoints that were left incomplete, were removed.",
        "epoch records blobs savepoints logs",
    ),
    "cluster_application_ended": Event(
        "A cluster was asked to end the application of a driver that is over.",
        f"{_ATTEMPT} cluster application why",
    ),
    "cluster_silent": Event(
        "A cluster on which executors run does not answer, or refuses to.", "cluster job uid why next"
    ),
    "cluster_not_asked": Event(
        "What a cluster answered could not be understood: only its words are missing.", "cluster why"
    ),
    "cluster_answers_again": Event("A cluster answers again that did not.", "cluster was"),
    "leftovers_wait": Event(
        "What is left of a job on a cluster is not ended yet: ZooKeeper does not say what is over.",
        "job uid cluster why",
    ),
    "sweep_failed": Event("A sweep did not get through; tried again.", "epoch why next"),
    "checkpoint_deleted": Event(
        "The checkpoint of an ended job was deleted (checkpoint_on_cancel).",
        "epoch job uid checkpoint objects",
    ),
    "checkpoint_kept": Event(
        "It was not deleted, although the spec asks for it; `why` says why.", "epoch job uid checkpoint why"
    ),
    "checkpoint_not_deleted": Event("A deletion does not get on; tried again later.", "epoch path why next"),
    "deletion_interrupted": Event("Something changed meanwhile; checked again.", "epoch path why"),
    "deletion_not_looked_at": Event("ZooKeeper did not answer; tried again.", "epoch why next"),
    "savepoint_created": Event(
        "A savepoint of the schedule is complete.", f"{_ATTEMPT} savepoint batches objects bytes s"
    ),
    "left_behind": Event(
        "The leader has looked at what the target of a failed update has left in the checkpoint.",
        f"{_ATTEMPT} what",
    ),
    "update_savepoint_made": Event(
        "The savepoint before the hand-over of an update is complete (update.rollback: savepoint).",
        f"{_ATTEMPT} savepoint batches objects bytes",
    ),
    "update_savepoint_restored": Event(
        "It was copied to a place of its own, to which a failed update is rolled back.",
        "job uid savepoint to",
    ),
    "way_back_failed": Event(
        "The savepoint of an update could not be made, or not restored.", "job uid what why next"
    ),
    "way_back_defect": Event("A defect while doing so; no other job is affected.", "job uid"),
    "left_behind_unknown": Event("A defect while it looked: the update is not rolled back.", _ATTEMPT),
    "notifying": Event("Leaders write down what receivers are to be told (notify), or no more.", "epoch on"),
    "notification_sent": Event("A receiver has accepted a message.", "receiver id"),
    "notification_not_sent": Event(
        "A message could not be sent, or was not accepted. It is sent again.", "receiver id why next"
    ),
    "notifier_interrupted": Event("A step of the notifier was not finished; it is repeated.", "epoch why"),
    "savepoint_not_yet": Event(
        "A savepoint is due, but there is nothing to save: no checkpoint, or no committed batch.",
        "job uid why next",
    ),
    "savepoint_failed": Event(
        "A savepoint of the schedule could not be made; tried again.", f"{_ATTEMPT} why next"
    ),
    "savepoint_defect": Event(
        "A defect while seeing to the savepoints of a job; no other is affected.", "job uid"
    ),
    "savepoint_removed": Event("A savepoint of the schedule is beyond keep or max_age.", "job savepoint why"),
    "savepoint_kept": Event("It is, but somebody uses it.", "job savepoint why next"),
    "savepoints_not_removed": Event(
        "Those that may go could not be read or removed; tried again.", "job why next"
    ),
    # The host: agent and starting
    "registered": Event("This host can be given drivers.", "supervisor session session_timeout_s"),
    "agent_waits": Event("Nothing new is started here at the moment.", "supervisor why next"),
    "assignment_unreadable": Event("An assignment to this host cannot be read.", "uid attempt why next"),
    "start_delayed": Event(
        "A start could not be prepared (store, ZooKeeper); tried again.", "uid attempt why next"
    ),
    "start_failed": Event("A defect while preparing a start.", "uid attempt"),
    "start_held_back": Event("Assigned before a pause; started after it.", "uid attempt why next"),
    "start_refused": Event(
        "This host cannot start it, and says so to the leader, or to the driver that waits.",
        f"{_ATTEMPT} cause why next",
    ),
    "refusal_not_recorded": Event(
        "The refusal did not commit; the leader takes the assignment back.", f"{_ATTEMPT} why"
    ),
    "driver_being_prepared": Event(
        "The shim of a prepared driver was started: it waits for an attempt; attempt is its key.",
        f"{_ATTEMPT} revision level why shim_pid log",
    ),
    "application_not_held": Event(
        "A driver is prepared at the level session and not application: its queries could not be held.",
        f"{_ATTEMPT} why next",
    ),
    "driver_prepared": Event("A prepared driver waits at its barrier.", f"{_ATTEMPT} s"),
    "driver_not_prepared": Event(
        "A driver could not be prepared, or ended before it had an attempt.", "uid revision why next"
    ),
    "prepared_driver_discarded": Event(
        "The shim of a prepared driver was asked to discard it.", "uid attempt why"
    ),
    "attempt_handed_over": Event(
        "A prepared driver got the attempt; no shim was started.", f"{_ATTEMPT} prepared containment log"
    ),
    "hand_over_failed": Event("An attempt could not be handed over.", "uid attempt prepared why"),
    "shim_started": Event(
        "A shim was started; its log and the driver's are named.", f"{_ATTEMPT} shim_pid containment log"
    ),
    "checkpoint_checked": Event(
        "The checkpoint is the one that the job left.", f"{_ATTEMPT} checkpoint requests"
    ),
    "checkpoint_not_checked": Event(
        "This host has no access to the checkpoint: the job is started all the same.",
        f"{_ATTEMPT} checkpoint why next",
    ),
    "checkpoint_not_fenced": Event(
        "A driver with its checkpoint on S3 starts without the storage fence.", f"{_ATTEMPT} why"
    ),
    "limits_not_enforced": Event(
        "The kernel can't enforce here what the spec limits; the job starts without.", f"{_ATTEMPT} why next"
    ),
    "run_as_impossible": Event(
        "The policy has other users for jobs, and this host can start no driver as one.", "why next"
    ),
    "leftovers_not_removed": Event(
        "What a driver of another user has left could not be removed yet.", "directory next"
    ),
    "tools_of_job_ignored": Event(
        "An older version registered a job with a Spark or Java of its own: it is started with the host's.",
        f"{_ATTEMPT} why next",
    ),
    "fence_made": Event("The storage fence's jar is there, before the first start needs it.", "jar s"),
    "class_archive_made": Event(
        "A class-data archive is there: drivers of this Java and Spark start with it.", "archive bytes s"
    ),
    "class_archive_not_made": Event("It could not be made; drivers start without.", "why next"),
    "class_archive_given_up": Event(
        "The training run of an archive was killed, because a driver was being started.", "s next"
    ),
    "class_archive_damaged": Event("An archive is not what was dumped, and was removed.", "archive next"),
    "class_archives_untidy": Event("The directory of the archives could not be tidied.", "why next"),
    "fence_not_made": Event("It could not be made ahead.", "why next"),
    "hosting_not_told": Event("Metrics of this host's drivers could not be brought up to date.", "why next"),
    "commits_not_read": Event("The commit log of a JVM application cannot be read.", f"{_ATTEMPT} why"),
    "driver_stop_requested": Event(
        "The host goes down: a shim was asked to stop its driver.", "uid attempt shim_pid stop_grace_s"
    ),
    "driver_stop_not_requested": Event(
        "A shim could not be asked to stop; it is asked again.", "uid attempt why next"
    ),
    "drivers_stopped": Event("All shims of the host have ended, or the time is over.", "stopped left s next"),
    # The host: guardian
    "run_dir_removed": Event("A run directory in which no shim was ever started.", f"{_ATTEMPT} why"),
    "run_dir_of_stranger": Event(
        "A run directory names a living process as its shim, which is not there; only removed.",
        f"{_ATTEMPT} pid next",
    ),
    "run_dir_of_earlier_boot": Event(
        "A run directory from before the host was booted; only removed.", _ATTEMPT
    ),
    "launch_file_corrupt": Event("What to start cannot be read from a run directory.", f"{_ATTEMPT} why"),
    "shim_let_deadline_come": Event(
        "A shim lives but did not act: guardian kills it and its driver.", f"{_ATTEMPT} deadline_s"
    ),
    "kill_takes_too_long": Event(
        "A tree is not dead after 2 s: the host is not sound.", f"{_ATTEMPT} seconds"
    ),
    "shim_gone": Event("A shim died, and its driver was killed.", f"{_ATTEMPT} tree cause killed_s next"),
    "attempt_over": Event("A shim ended in order.", f"{_ATTEMPT} next"),
    "tombstone_written": Event("The guardian recorded the exit in the shim's place.", f"{_ATTEMPT} cause"),
    "no_tombstone": Event(
        "Nothing was recorded: the registry does not show the claim, or it is not known which attempt it was. "
        "The leader waits in full.",
        f"{_ATTEMPT} why",
    ),
    "guardian_failed": Event("No descriptor, no memory; tried again.", f"{_ATTEMPT} stage why"),
    "shim_log_lost": Event("The shim's log could not be put aside.", f"{_ATTEMPT} why"),
    "log_uploaded": Event(
        "The output of an attempt is in the store (bytes: before it was compressed).", f"{_ATTEMPT} key bytes"
    ),
    "log_not_uploaded": Event("The output of an attempt is not uploaded.", f"{_ATTEMPT} why next"),
    "log_uploads_wait": Event("The store takes no output of attempts of this host.", "why next"),
    "logs_removed": Event(
        "Output of drivers was removed, because its sum is above supervisor.logs.", "job bytes why"
    ),
    "job_directory_removed": Event(
        "The working directory of a job on this host goes: the job is gone, or it was cancelled with "
        "checkpoint_on_cancel: delete.",
        "job uid directory",
    ),
    "shim_logs_not_kept": Event("Logs of shims wait to be moved to log_dir (no room?).", "why next"),
    # The shim and its twin (in the shim's log)
    "shim_not_begun": Event("It could not even begin, and has claimed nothing.", "uid attempt why"),
    "shim_prepared": Event(
        "A driver was brought up and waits for an attempt, or it says why it can't.", "uid attempt ready why"
    ),
    "shim_not_handed_over": Event(
        "What was handed to a prepared driver is no attempt for it.", "uid attempt why next"
    ),
    "shim_stage": Event(
        "Where the attempt stands: connecting claiming settling starting running stopping killing burying done.",
        f"{_ATTEMPT} stage was",
    ),
    "shim_phase": Event(
        "How far the application is: claimed waiting begun session query running stopping.",
        f"{_ATTEMPT} phase was",
    ),
    "shim_driver_exited": Event(
        "The driver's root process ended. status: exit code, or minus the signal.",
        f"{_ATTEMPT} status driver_pid",
    ),
    "shim_terminates": Event("SIGTERM to the driver.", f"{_ATTEMPT} why"),
    "shim_diagnoses": Event(
        "Diagnostics of a driver are collected before it is killed for being silent.", f"{_ATTEMPT} why"
    ),
    "shim_diagnosed": Event("The file with the diagnostics of the driver.", f"{_ATTEMPT} path bytes"),
    "shim_not_diagnosed": Event("There are no diagnostics of the driver.", f"{_ATTEMPT} why"),
    "shim_kills": Event("SIGKILL to the driver's tree.", f"{_ATTEMPT} why"),
    "shim_waits_for_cluster": Event(
        "The driver has no executor: it waits for its cluster, and the time-outs of health do not run.",
        f"{_ATTEMPT} why",
    ),
    "shim_has_executors": Event("The wait for the cluster is over.", f"{_ATTEMPT} why"),
    "shim_tree_empty": Event("Proven: nothing of the driver lives.", f"{_ATTEMPT} why"),
    "shim_fence_unknown": Event("/own cannot be believed: no renewal until it can.", f"{_ATTEMPT} why"),
    "shim_clocks_jumped": Event(
        "REALTIME moved against BOOTTIME: /own is read before anything else.", f"{_ATTEMPT} why"
    ),
    "shim_deadline_unwritable": Event(
        "The deadline could not be written for the second killers.", f"{_ATTEMPT} why"
    ),
    "shim_not_sampled": Event("Nothing measures what the driver takes; it runs on.", f"{_ATTEMPT} why"),
    "shim_not_terminated": Event("The driver could not be sent SIGTERM.", f"{_ATTEMPT} why next"),
    "shim_request_failed": Event("A defect in a request to ZooKeeper.", f"{_ATTEMPT} why"),
    "shim_lost_twin": Event("The twin ended before the shim.", f"{_ATTEMPT} next"),
    "shim_done": Event("All is done, or nothing was to be done.", f"{_ATTEMPT} why"),
    "twin_acts": Event("The shim lives but let the deadline come near: the twin kills.", "uid attempt why"),
    "twin_killed": Event("The twin killed the driver's tree.", "uid attempt tree killed_s"),
    "twin_kill_slow": Event("The tree is not dead after 2 s.", "uid attempt tree killed_s"),
    "twin_failed": Event("A defect in the twin.", "uid attempt why"),
}
