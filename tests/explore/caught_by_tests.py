"""The second judge: an ordinary test that fails while a defect is planted, for each defect that the explorer cannot see.

It cannot see what only shows in parts of a tick (of K, of ρ), in what it models thinly (a kill
that leaves something), or in what it leaves out (two terms of lease, want of room, the deletion of checkpoints). And what another
guard covers has no trace to be found; that the guard is there all the same is what a test of it says.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.explore.caught_adapters import CAUGHT_ADAPTERS
from tests.explore.caught_logs import CAUGHT_LOGS
from tests.fakes.registry_bench import Bench
from tests.unit.daemon.host.test_log_uploads import UploadRig
from tests.unit.daemon.host.test_running_uploads import RunningRig
from tests.unit.daemon.leader import test_way_back
from tests.unit.daemon.leader.test_sweeper import swept
from tests.unit.registry import test_fixed_znodes

MACHINE, GUARDED_ATTEMPT, KILLER = (
    "unit.shim.test_machine",
    "unit.daemon.host.test_guarded_attempt",
    "unit.model.test_second_killer",
)
PLAN, LEADS, COMMANDS = "unit.plan.test_make", "unit.coord.test_leadership", "unit.operations.test_jobs"
PREPARED = "unit.shim.test_prepared"
PLACEMENT = "unit.plan.test_placement"
POLICIES = "unit.plan.test_policies"
OBSERVED = "unit.plan.test_observed_update"
SAVED = "unit.plan.test_update_savepoint"
ROLL_BACK_GUARDS = "test_the_roll_back_has_the_guards_of_a_resume_from_a_savepoint_and_those_of_a_leader"
ENDS, WHOLE = "unit.shim.test_machine_properties", "unit.registry.test_fixed_znodes"
KEPT = "unit.daemon.leader.test_sweeper_references"
APPLICATIONS = "unit.daemon.leader.test_application_sweeper"
DEADLINE_FILE = "unit.shim.test_deadline_file"
GUARDS, WRITES = "explore.test_defects", "unit.registry.test_leader_writes"
FIRST_SEEN, TRUST, USERS = (
    "unit.observe.test_first_seen",
    "unit.coord.test_trust",
    "unit.registry.test_user_writes",
)

WAITS = "unit.shim.test_waiting"

DIAGNOSING = "unit.shim.test_diagnosing"

NOTIFIER, NOTIFICATION_WRITES = (
    "unit.daemon.leader.test_notifier",
    "unit.registry.test_notification_writes",
)

CAUGHT_BY: dict[str, tuple[str, str]] = {
    "a-silent-driver-waits-for-its-diagnostics-for-ever": (
        DIAGNOSING,
        "test_diagnostics_that_never_come_delay_the_kill_for_their_time_only",
    ),
    "a-deadline-waits-for-diagnostics": (DIAGNOSING, "test_the_deadline_waits_for_no_diagnostics"),
    "the-end-of-a-grace-waits-for-diagnostics": (
        DIAGNOSING,
        "test_one_that_does_not_stop_is_diagnosed_within_its_grace",
    ),
    "what-else-is-wrong-waits-for-diagnostics": (
        DIAGNOSING,
        "test_a_wait_for_the_cluster_that_is_over_waits_for_no_diagnostics",
    ),
    "a-stop-waits-for-a-look-at-the-heap": (
        DIAGNOSING,
        "test_one_that_is_to_stop_is_not_held_up_by_a_look_at_its_heap",
    ),
    "an-exec-that-hangs-holds-up-the-shim": (
        "unit.clients.test_diagnostics",
        "test_an_executable_that_cannot_be_opened_holds_up_nobody",
    ),
    "who-stops-the-collector-is-not-diagnosed-again": (
        "unit.shim.test_diagnosis",
        "test_a_collector_that_its_driver_has_stopped_is_ended_and_waited_for_no_longer",
    ),
    "a-silence-that-is-over-explains-another-end": (
        DIAGNOSING,
        "test_the_diagnostics_of_a_silence_that_is_over_are_those_of_no_end",
    ),
    "a-silence-that-is-over-explains-the-end-of-a-stop": (
        DIAGNOSING,
        "test_one_that_comes_back_while_it_is_to_stop_is_diagnosed_anew_if_it_does_not_end",
    ),
    "the-collector-counts-as-the-driver": (
        "unit.clients.test_tree_usage",
        "test_a_child_that_is_kept_apart_does_not_count",
    ),
    "marked-before-it-is-sent": (NOTIFIER, "test_a_receiver_is_marked_after_it_has_accepted_and_by_itself"),
    "marked-whatever-is-answered": (
        NOTIFIER,
        "test_a_receiver_is_marked_after_it_has_accepted_and_by_itself",
    ),
    "accepted-by-one-is-accepted-by-all": (
        NOTIFIER,
        "test_a_receiver_is_marked_after_it_has_accepted_and_by_itself",
    ),
    "what-was-written-down-is-forgotten-by-the-next-leader": (
        NOTIFIER,
        "test_what_was_written_down_is_sent_by_the_next_leader_under_the_same_id",
    ),
    "what-nobody-wrote-down-is-forgotten-by-the-next-leader": (
        NOTIFIER,
        "test_what_was_resumed_and_cancelled_since_is_told_from_the_history_of_its_result",
    ),
    "a-write-that-failed-is-not-made-again": (
        NOTIFIER,
        "test_what_could_not_be_written_down_is_written_down_later",
    ),
    "what-happened-between-two-steps-is-forgotten": (
        NOTIFIER,
        "test_a_quarantine_that_is_over_within_one_step_is_told",
    ),
    "what-is-over-is-not-sent": (NOTIFIER, "test_what_is_over_before_it_was_sent_is_sent_all_the_same"),
    "the-next-message-overtakes": (
        NOTIFIER,
        "test_messages_about_a_job_go_out_in_order_and_those_about_others_do_not_wait",
    ),
    "what-is-old-is-told": (
        NOTIFIER,
        "test_what_happened_before_anybody_was_to_be_told_is_told_to_nobody_and_what_lasts_is",
    ),
    "every-try-has-an-id-of-its-own": (NOTIFIER, "test_every_try_has_the_same_id"),
    "what-lasts-is-told-again-and-again": (
        NOTIFIER,
        "test_what_lasts_is_told_once_until_it_is_over_and_then_as_another_one",
    ),
    "a-later-attempt-is-quarantined-as-the-one-before": (
        NOTIFIER,
        "test_a_later_attempt_that_is_quarantined_is_told_though_nobody_saw_that_it_ran",
    ),
    "what-was-resumed-is-forgotten": (
        NOTIFIER,
        "test_what_failed_and_was_resumed_before_a_leader_has_read_it_is_told_from_the_history",
    ),
    "a-roll-back-is-forgotten-with-the-next-update": (
        NOTIFIER,
        "test_a_roll_back_is_told_after_another_update_and_after_a_cancel",
    ),
    "a-quarantine-is-forgotten-with-the-write-that-ends-it": (
        NOTIFIER,
        "test_each_write_that_ends_a_quarantine_keeps_it",
    ),
    "a-cancel-forgets-the-quarantine-that-it-ends": (
        NOTIFIER,
        "test_each_write_that_ends_a_quarantine_keeps_it",
    ),
    "a-suspend-forgets-the-quarantine-that-it-ends": (
        NOTIFIER,
        "test_each_write_that_ends_a_quarantine_keeps_it",
    ),
    "a-resume-forgets-the-quarantine-that-it-ends": (
        NOTIFIER,
        "test_each_write_that_ends_a_quarantine_keeps_it",
    ),
    "an-update-forgets-the-quarantine-that-it-ends": (
        NOTIFIER,
        "test_each_write_that_ends_a_quarantine_keeps_it",
    ),
    "a-job-that-fails-forgets-its-quarantines": (
        NOTIFIER,
        "test_a_quarantine_of_a_uid_that_has_failed_since_and_came_back_is_told",
    ),
    "a-job-that-comes-back-forgets-its-quarantines": (
        NOTIFIER,
        "test_a_quarantine_of_a_uid_that_has_failed_since_and_came_back_is_told",
    ),
    "a-quarantine-is-told-again-when-it-is-over": (
        NOTIFIER,
        "test_what_was_told_while_it_lasted_is_not_told_again_when_somebody_has_ended_it",
    ),
    "a-quarantine-that-was-shown-is-written-down-after-a-later-one": (
        "unit.model.test_notifications",
        "test_a_quarantine_that_a_view_has_shown_is_written_down_before_a_later_one",
    ),
    "a-quarantine-that-was-shown-is-forgotten-with-a-later-one": (
        "unit.model.test_notifications",
        "test_what_a_view_has_shown_of_a_quarantine_takes_the_place_of_what_the_record_says",
    ),
    "what-a-view-has-shown-of-a-quarantine-is-told-beside-what-its-record-says": (
        NOTIFIER,
        "test_a_quarantine_that_a_view_has_shown_is_told_with_what_that_said_though_a_write_has_failed",
    ),
    "a-restart-that-was-asked-for-before-the-end-ends-a-quarantine": (
        NOTIFIER,
        "test_no_quarantine_is_told_where_somebody_had_asked_for_something_else_before",
    ),
    "a-lag-is-measured-anew-by-each-leader": (
        "unit.plan.test_job_events",
        "test_the_word_of_a_lease_counts_before_what_a_leader_has_seen_itself",
    ),
    "a-window-of-a-lag-outlives-an-idle-query": (
        "unit.shim.test_queries",
        "test_nothing_is_said_of_a_query_without_a_lag_one_that_waits_for_data_and_one_that_has_ended",
    ),
    "what-histories-show-is-told-by-the-version-after": (
        NOTIFIER,
        "test_what_histories_show_of_the_time_before_they_were_read_is_told_to_nobody",
    ),
    "what-has-made-room-is-told-again": (
        NOTIFIER,
        "test_what_has_made_room_is_not_told_again_from_the_history",
    ),
    "write-notifications-unguarded-by-epoch": (NOTIFICATION_WRITES, "test_a_deposed_leader_writes_nothing"),
    "write-notifications-unguarded-by-pause": (
        NOTIFICATION_WRITES,
        "test_nothing_is_written_while_the_cluster_is_paused",
    ),
    "write-notifications-unguarded-by-notifications": (
        NOTIFICATION_WRITES,
        "test_nothing_is_written_over_what_was_not_read",
    ),
    "switch-notifying-unguarded-by-epoch": (NOTIFICATION_WRITES, "test_a_deposed_leader_writes_nothing"),
    "switch-notifying-unguarded-by-pause": (
        NOTIFICATION_WRITES,
        "test_nothing_is_written_while_the_cluster_is_paused",
    ),
    "switch-notifying-unguarded-by-notifications": (
        NOTIFICATION_WRITES,
        "test_nothing_is_written_over_what_was_not_read",
    ),
    "sweep-unguarded-by-notifications": (
        "unit.registry.test_notification_sweep",
        "test_one_that_was_written_meanwhile_stays",
    ),
    "a-driver-without-an-executor-is-a-slow-start": (
        WAITS,
        "test_a_start_without_an_executor_is_no_slow_start_and_is_judged_anew_from_the_first_one",
    ),
    "a-driver-without-an-executor-stalls": (
        WAITS,
        "test_a_running_job_that_loses_all_executors_does_not_stall_until_it_has_one_again",
    ),
    "a-driver-that-hangs-waits-for-its-cluster-for-ever": (
        WAITS,
        "test_a_driver_that_does_not_answer_any_more_is_judged_as_any_other",
    ),
    "a-driver-whose-context-hangs-waits-for-its-cluster-for-ever": (
        WAITS,
        "test_an_application_that_waits_in_the_queue_of_its_cluster_does_not_hang",
    ),
    "executors-that-flap-outlast-the-cluster-timeout": (
        WAITS,
        "test_executors_that_come_and_go_again_end_no_wait_but_those_that_stay_do",
    ),
    "the-end-of-a-wait-is-lost-after-other-news": (
        WAITS,
        "test_an_end_that_comes_right_after_other_news_is_told_as_soon_as_there_may_be_news_again",
    ),
    "a-driver-that-waits-holds-a-starting-slot": (
        "unit.plan.test_waiting_for_cluster",
        "test_thirty_that_wait_hold_no_starting_slot_but_their_memory_and_driver_slots",
    ),
    "a-change-that-no-host-can-carry-out-stops-what-runs": (
        PLACEMENT,
        "test_a_restart_that_no_host_could_carry_out_stops_nothing",
    ),
    "a-job-is-placed-without-the-spark-that-it-asks-for": (
        PLACEMENT,
        "test_a_job_goes_only_where_its_spark_is",
    ),
    "a-driver-is-prepared-without-the-labels-that-its-job-requires": (
        PLACEMENT,
        "test_a_driver_is_prepared_only_where_the_labels_are",
    ),
    "a-prepared-driver-stays-without-the-labels-that-its-job-requires": (
        PLACEMENT,
        "test_a_request_at_a_host_that_lost_the_label_is_taken_back_and_not_used",
    ),
    "what-is-placed-does-not-count-for-the-spread": (
        PLACEMENT,
        "test_jobs_of_a_group_are_spread_over_zones_and_then_over_the_least_used_host",
    ),
    "a-job-counts-for-its-own-spread": (PLACEMENT, "test_a_restart_keeps_the_group_spread"),
    "the-check-of-plans-does-not-look-at-labels": (
        PLACEMENT,
        "test_the_check_of_plans_refuses_an_assignment_without_the_labels",
    ),
    "a-job-that-all-refuse-waits-for-room": (
        POLICIES,
        "test_a_job_that_every_host_refuses_is_left_alone_and_says_key_and_rule",
    ),
    "a-move-asks-those-who-have-refused": (
        POLICIES,
        "test_a_job_is_not_moved_to_a_host_that_has_refused_it",
    ),
    "a-driver-is-prepared-where-it-was-refused": (
        POLICIES,
        "test_a_drain_prepares_a_driver_only_where_the_job_is_allowed",
    ),
    "what-is-stopped-for-a-move-was-refused-elsewhere": (
        POLICIES,
        "test_a_drain_stops_nothing_that_the_other_hosts_have_refused",
    ),
    "a-prepared-driver-stays-where-it-was-refused": (
        POLICIES,
        "test_a_request_at_a_host_that_has_refused_is_taken_back_and_not_used",
    ),
    "hosts-without-the-labels-have-to-refuse-too": (
        POLICIES,
        "test_a_job_that_every_host_with_its_labels_refuses_is_left_alone",
    ),
    "opened-without-a-deadline-for-the-second-killers": (
        PREPARED,
        "test_its_opening_comes_after_the_deadline_and_ends_with_it",
    ),
    "opening-is-valid-for-ever": (PREPARED, "test_its_opening_comes_after_the_deadline_and_ends_with_it"),
    "what-a-host-has-ended-counts-against-an-update": (
        OBSERVED,
        "test_what_is_no_fault_of_the_revision_does_not_count",
    ),
    "a-savepoint-that-is-slow-is-done-without": (
        SAVED,
        "test_the_driver_goes_on_until_the_savepoint_is_made",
    ),
    "a-checkpoint-that-is-not-seen-has-nothing-to-save": (
        SAVED,
        "test_but_one_whose_batches_the_leader_does_not_see_is_not_taken_for_one",
    ),
    "the-savepoint-of-another-attempt-will-do": (
        SAVED,
        "test_a_savepoint_is_named_by_uid_target_and_the_fence_of_the_attempt_that_runs",
    ),
    "a-copy-that-can-not-be-made-is-waited-for": (
        SAVED,
        "test_without_a_copy_the_job_goes_on_as_any_other_and_an_alarm_says_what_to_do",
    ),
    "a-copy-is-waited-for-without-end": (
        SAVED,
        "test_without_a_copy_the_job_goes_on_as_any_other_and_an_alarm_says_what_to_do",
    ),
    "what-a-replaced-update-has-left-counts-as-nothing": (
        SAVED,
        "test_what_it_replaces_may_have_left_something_so_nothing_is_looked_at",
    ),
    "the-way-back-depends-on-the-moment-of-an-update": (
        "unit.plan.test_replaced_update",
        "test_what_ran_before_and_its_savepoint_are_kept_whatever_the_moment",
    ),
    "what-a-replaced-target-has-left-was-there-before": (
        "unit.plan.test_replaced_update",
        "test_it_is_measured_from_the_revision_that_would_come_back",
    ),
    "a-savepoint-outlives-the-wait-of-its-hand-over": (
        "unit.plan.test_replaced_update",
        "test_it_is_dropped_while_the_hand_over_waits_and_made_anew",
    ),
    "the-queue-counts-against-a-savepoint": (
        "unit.daemon.leader.test_way_back",
        "test_its_time_counts_from_when_its_turn_comes",
    ),
    "back-to-what-never-ran": (
        "unit.plan.test_replaced_update",
        "test_the_leader_does_not_go_back_to_what_never_ran",
    ),
    "an-update-of-one-that-has-failed-loses-its-way-back": (
        SAVED,
        "test_an_update_of_one_that_has_failed_keeps_its_way_back",
    ),
    "all-terms-copy-to-one-place": (
        "unit.savepoints.test_target",
        "test_each_term_of_a_leader_copies_to_a_place_of_its_own",
    ),
    "a-savepoint-outlives-a-change-of-the-records": (
        "unit.daemon.leader.test_way_back",
        "test_what_was_made_is_forgotten_when_the_records_change",
    ),
    "a-signed-spec-is-moved": (
        "unit.daemon.leader.test_update_savepoint_task",
        "test_a_signed_spec_is_not_moved",
    ),
    "the-spec-that-has-failed-is-not-known-at-the-new-place": (
        "unit.operations.test_updating",
        "test_the_spec_that_has_failed_is_known_at_the_place_to_which_the_job_was_moved",
    ),
    "roll-back-to-savepoint-unguarded-by-own": (SAVED, ROLL_BACK_GUARDS),
    "roll-back-to-savepoint-unguarded-by-claim": (SAVED, ROLL_BACK_GUARDS),
    "roll-back-to-savepoint-unguarded-by-lease": (SAVED, ROLL_BACK_GUARDS),
    "no-answer-about-the-checkpoint-is-clean": (OBSERVED, "test_clean_waits_until_somebody_has_looked"),
    "a-roll-back-forgets-the-account": (
        OBSERVED,
        "test_the_revision_of_before_starts_at_once_and_keeps_the_account_of_failures",
    ),
    "an-update-is-done-before-its-first-batch": (
        OBSERVED,
        "test_without_a_first_batch_it_is_not_done_however_long_it_lasts",
    ),
    "revisions-of-a-kept-result-are-swept": (
        "unit.registry.test_revisions",
        "test_revisions_go_with_the_last_record_of_their_uid",
    ),
    "patience-counts-from-the-preparation": (
        PREPARED,
        "test_its_first_connection_and_its_patience_count_from_the_hand_over",
    ),
    "prepared-driver-is-kept-for-ever": (
        PREPARED,
        "test_it_goes_when_no_agent_has_wanted_it_for_ten_minutes",
    ),
    "lost-preparation-is-charged": (
        PREPARED,
        "test_one_that_does_not_begin_in_time_is_no_failure_of_the_job",
    ),
    "every-early-end-of-a-prepared-driver-is-a-lost-preparation": (
        PREPARED,
        "test_once_begun_it_is_a_driver_like_any_other",
    ),
    "restore-reads-before-its-mark": (
        "unit.savepoints.test_create_and_restore",
        "test_a_restore_leaves_its_mark_before_it_reads_anything",
    ),
    "directory-of-another-host-is-deleted": (
        "integration.test_checkpoint_deletion",
        "test_another_directory_at_the_same_path_is_kept",
    ),
    "restore-ends-before-it-is-compared": (
        "unit.savepoints.test_create_and_restore",
        "test_a_restore_takes_its_mark_off_the_target_last_of_all",
    ),
    "savepoint-is-complete-before-it-is-wanted": (
        "unit.savepoints.test_create_and_restore",
        "test_whether_it_is_still_wanted_is_asked_before_the_manifest_is_there",
    ),
    "exec-although-no-deadline-is-written": (
        DEADLINE_FILE,
        "test_nothing_is_executed_whose_deadline_the_second_killers_can_not_know",
    ),
    "torn-deadline-read-as-none": (DEADLINE_FILE, "test_a_torn_deadline_file_is_not_one_without_a_deadline"),
    "renewal-counts-from-its-answer": (MACHINE, "test_the_deadline_counts_from_sending_the_renewal"),
    "claim-counts-from-its-answer": (MACHINE, "test_the_deadline_counts_from_sending_the_claim"),
    "settled-claim-counts-from-the-reading": (
        MACHINE,
        "test_an_unknown_claim_is_read_back_in_its_session_before_exec",
    ),
    "unanswered-renewal-counts": (MACHINE, "test_an_unknown_renewal_moves_no_deadline"),
    "deadline-without-the-kill-time": (
        MACHINE,
        "test_a_claim_confirmed_too_late_executes_nothing_and_says_so",
    ),
    "shim-ignores-its-deadline": (
        MACHINE,
        "test_without_renewals_the_tree_is_killed_before_the_second_killers_act",
    ),
    "unanswered-claim-taken-as-failed": (
        MACHINE,
        "test_an_unknown_claim_is_read_back_in_its_session_before_exec",
    ),
    "claim-settled-on-another-session": (
        MACHINE,
        "test_an_unknown_claim_of_a_lost_session_is_read_back_after_that_was_closed",
    ),
    "closed-session-is-forgotten": (ENDS, "test_no_stage_is_without_an_end"),
    "settling-has-no-end": (ENDS, "test_an_unknown_claim_that_nobody_can_resolve_ends_the_shim"),
    "leases-without-a-parent-are-asked-for-at-once": (
        MACHINE,
        "test_a_missing_parent_of_all_leases_is_no_reason_to_hurry",
    ),
    "registry-that-lost-a-parent-is-acted-upon": (
        WHOLE,
        "test_nothing_is_done_to_a_registry_that_lost_what_nobody_can_tell_again",
    ),
    "parent-made-anew-is-believed": (WHOLE, "test_an_acceptance_makes_them_anew_and_ends_the_distrust"),
    "late-claim-is-executed": (MACHINE, "test_a_claim_confirmed_too_late_executes_nothing_and_says_so"),
    "starter-does-not-look-at-the-clock": (
        MACHINE,
        "test_nothing_is_executed_before_the_claim_has_committed",
    ),
    "nobody-looks-at-the-clock-before-exec": (
        MACHINE,
        "test_nothing_is_executed_before_the_claim_has_committed",
    ),
    "draining-claim-is-executed": (
        MACHINE,
        "test_an_unknown_claim_that_was_drained_meanwhile_is_buried_without_exec",
    ),
    "clock-jump-is-not-noticed": (MACHINE, "test_a_clock_jump_reads_before_anything_else"),
    "back-off-is-skipped": (
        PLAN,
        "TestAfterAnExit.test_the_back_off_counts_from_when_the_leader_first_saw_it",
    ),
    "an-update-that-cannot-be-prepared-stops-what-runs": (
        "unit.plan.test_update",
        "test_a_revision_that_cannot_be_prepared_is_given_up_and_stops_nothing",
    ),
    "an-update-is-given-up-for-what-may-pass": (
        "unit.plan.test_update",
        "test_what_may_pass_is_waited_for_however_long_it_lasts",
    ),
    "a-killed-preparation-is-the-fault-of-its-job": (
        "unit.daemon.host.test_prepared_drivers",
        "test_one_that_was_killed_is_no_fault_of_its_job_and_one_that_said_why_is",
    ),
    "cordon-unguarded-by-host": (
        "unit.operations.test_hosts",
        "test_a_cordon_that_arrives_late_undoes_nothing",
    ),
    "a-cordon-that-cannot-be-read-is-none": (
        "unit.plan.test_moves",
        "TestCordon.test_a_record_that_cannot_be_read_counts_and_moves_nothing",
    ),
    "a-driver-is-prepared-on-a-cordoned-host": (
        "unit.plan.test_moves",
        "TestCordon.test_no_driver_is_prepared_there",
    ),
    "room-is-given-to-two-moves": (
        "unit.plan.test_moves",
        "TestDrain.test_cold_drivers_are_stopped_only_for_as_much_room_as_there_is",
    ),
    "the-stops-of-a-plan-are-not-judged-together": (
        "unit.plan.test_stops",
        "test_a_place_is_counted_on_once",
    ),
    "what-nobody-trusting-can-take-is-stopped": (
        "unit.plan.test_stops",
        "test_a_driver_goes_on_while_no_host_trusts_the_registry",
    ),
    "a-move-stops-while-nothing-may-start": (
        "unit.plan.test_moves",
        "TestDrain.test_waits_while_starts_are_held_and_while_the_epoch_is_not_recorded",
    ),
    "a-move-is-obeyed-again-and-again": (
        "unit.plan.test_moves",
        "TestMove.test_places_it_there_and_only_once",
    ),
    "a-late-withdrawal-is-written": (
        "unit.operations.test_updating",
        "test_a_withdrawal_that_comes_too_late_changes_nothing",
    ),
    "a-roll-back-given-again-goes-forward": (
        "unit.operations.test_updating",
        "test_a_roll_back_given_again_changes_nothing",
    ),
    "a-standby-skips-every-back-off": (
        "unit.plan.test_prepare",
        "TestStandby.test_stays_over_a_second_crash_and_takes_the_job_over_after_the_back_off",
    ),
    "names-without-a-reference-take-no-place": (
        PLAN,
        "TestPlacement.test_what_has_no_reference_still_occupies_its_host",
    ),
    "terms-that-are-forgotten-are-not-noticed": (
        TRUST,
        "test_an_epoch_is_recorded_only_where_the_store_knows_this_registry",
    ),
    "agent-asks-not-what-its-host-remembers": (
        "unit.coord.test_start_doubt",
        "test_what_it_remembers_counts_without_anybody",
    ),
    "agent-asks-not-the-store": (
        "unit.coord.test_start_doubt",
        "test_a_new_host_learns_it_from_the_store_where_nobody_leads",
    ),
    "older-zxid-is-not-noticed": (TRUST, "test_the_highest_zxid_is_kept"),
    "draining-does-not-renew": (MACHINE, "test_draining_is_taken_over_and_renewed_while_the_driver_stops"),
    "revoked-goes-on": (MACHINE, "test_anything_else_kills_at_once"),
    "revoked-goes-on-renewing": (MACHINE, "test_anything_else_kills_at_once"),
    "another-attempt-is-not-noticed": (MACHINE, "test_anything_else_kills_at_once"),
    "renews-on-an-unknown-fence": (
        MACHINE,
        "test_what_cannot_be_believed_stops_renewals_and_the_deadline_decides",
    ),
    "older-fence-is-believed": (
        MACHINE,
        "test_what_cannot_be_believed_stops_renewals_and_the_deadline_decides",
    ),
    "new-session-does-not-read-first": (
        MACHINE,
        "test_a_new_session_reads_before_anything_else_and_announces_itself",
    ),
    "kill-that-left-something-is-believed": (
        MACHINE,
        "test_no_renewal_after_the_grace_even_if_the_tree_does_not_die",
    ),
    "wait-without-the-kill-time": (
        "unit.model.test_lease_terms",
        "test_the_full_wait_outlasts_any_deadline_by_clocks_that_differ",
    ),
    "wait-without-the-clocks-error": (
        "unit.model.test_lease_terms",
        "test_the_full_wait_outlasts_any_deadline_by_clocks_that_differ",
    ),
    "wait-by-the-terms-of-the-new-spec": (
        PLAN,
        "test_the_wait_goes_by_the_terms_of_the_old_attempt_not_of_the_new_spec",
    ),
    "wait-of-an-unreadable-lease-is-short": (
        PLAN,
        "test_an_absent_or_foreign_lease_waits_for_the_longest_there_can_be",
    ),
    "lease-of-another-claim-is-believed": (
        PLAN,
        "test_an_absent_or_foreign_lease_waits_for_the_longest_there_can_be",
    ),
    "first-seen-before-the-response": (
        FIRST_SEEN,
        "test_a_lease_was_first_seen_when_the_answer_that_showed_it_had_arrived",
    ),
    "wait-counts-up-to-the-answer": (
        FIRST_SEEN,
        "test_its_silence_counts_up_to_the_sending_of_the_latest_read",
    ),
    "absence-of-a-lease-outlives-its-attempt": (
        FIRST_SEEN,
        "test_the_absence_of_a_lease_is_not_waited_out_on_behalf_of_a_later_attempt",
    ),
    "plans-are-not-checked": (PLAN, "test_the_check_stops_what_the_table_would_never_say"),
    "draining-is-never-overdue": (PLAN, "test_cell"),
    "second-killers-do-not-act-on-the-death-of-the-shim": (
        KILLER,
        "test_the_death_of_the_shim_is_acted_on_at_once",
    ),
    "tree-killed-before-the-shim": (KILLER, "test_a_deadline_that_comes_near_kills_the_shim_before_its_tree"),
    "stopped-shim-is-left-alive": (KILLER, "test_a_deadline_that_comes_near_kills_the_shim_before_its_tree"),
    "kill-is-over-while-the-shim-lives": (
        KILLER,
        "test_it_is_not_over_while_the_shim_or_anything_of_the_tree_lives",
    ),
    "kill-is-over-while-the-tree-lives": (
        KILLER,
        "test_it_is_not_over_while_the_shim_or_anything_of_the_tree_lives",
    ),
    "tombstone-over-any-state": (
        GUARDED_ATTEMPT,
        "test_over_anything_but_this_very_claim_nothing_is_written",
    ),
    "guardian-buries-without-proof": (
        GUARDED_ATTEMPT,
        "test_without_proof_that_the_tree_is_empty_nothing_is_written",
    ),
    "guardian-believes-an-older-reading": (
        GUARDED_ATTEMPT,
        "test_unknown_is_not_absent_and_is_asked_again_for_long",
    ),
    "guardian-does-not-wait-for-a-claim-under-way": (
        GUARDED_ATTEMPT,
        "test_a_claim_that_the_dead_shim_had_sent_is_waited_for",
    ),
    "suspended-taken-as-lost": (LEADS, "test_flink_10011_suspended_is_not_loss"),
    "term-is-not-drained": (LEADS, "test_what_ends_a_term"),
    "new-session-keeps-the-epoch": (LEADS, "test_what_ends_a_term"),
    "lost-session-keeps-the-term": (LEADS, "test_what_ends_a_term"),
    "leader-without-a-deadline": (LEADS, "test_what_ends_a_term"),
    "leads-before-the-election-has-committed": (LEADS, "test_first_candidacy"),
    "unanswered-election-taken-as-won": (
        LEADS,
        "test_lost_reply_of_the_election_is_read_back_on_the_same_session",
    ),
    "election-of-another-taken-as-ours": (TRUST, "test_own_election_is_known_by_op_and_owner"),
    "election-without-its-leader-node-taken-as-won": (TRUST, "test_own_election_is_known_by_op_and_owner"),
    "deposed-leader-takes-the-new-fence": (LEADS, "test_what_ends_a_term"),
    "leader-does-not-notice-a-moved-epoch": (LEADS, "test_what_ends_a_term"),
    "stands-while-somebody-leads": (LEADS, "test_follows_whoever_leads_and_stands_when_they_go"),
    "epoch-does-not-grow": (LEADS, "test_first_candidacy"),
    "submit-unguarded-by-checkpoints": (COMMANDS, "test_two_nested_submits_at_once_do_not_both_pass"),
    "register-again-unguarded-by-checkpoints": (
        GUARDS,
        "test_the_guards_that_are_dropped_are_all_that_the_multis_have",
    ),
    "register-again-does-not-write-own": (
        USERS,
        "test_registering_again_undoes_the_result_and_keeps_the_attempt_number",
    ),
    "suspend-does-not-write-own": (USERS, "test_cancel_and_suspend_always_move_the_fence"),
    "assign-unguarded-by-lease": (WRITES, "test_what_rests_on_the_full_wait_checks_the_lease_as_it_was_seen"),
    "bury-unguarded-by-lease": (WRITES, "test_what_rests_on_the_full_wait_checks_the_lease_as_it_was_seen"),
    "clean-up-unguarded-by-lease": (
        WRITES,
        "test_what_rests_on_the_full_wait_checks_the_lease_as_it_was_seen",
    ),
    "suspend-exhausted-unguarded-by-job": (
        GUARDS,
        "test_the_guards_that_are_dropped_are_all_that_the_multis_have",
    ),
    "cancel-unguarded-by-result": (GUARDS, "test_the_guards_that_are_dropped_are_all_that_the_multis_have"),
    "acknowledged-before-the-commit": (COMMANDS, "test_the_same_spec_again_is_the_same_job"),
    "unknown-outcome-acknowledged": (COMMANDS, "test_a_write_that_never_arrived_is_sent_again"),
    "unknown-outcome-tried-again-blindly": (COMMANDS, "test_a_lost_reply_is_resolved_as_done_once"),
    "cancelled-uid-registered-again": (COMMANDS, "test_cancel_is_final_and_may_be_said_twice"),
    "older-uid-registered-again": (COMMANDS, "test_only_the_newest_uid_is_registered_again"),
    "cancel-leaves-the-attempt-claimed": (USERS, "test_cancel_and_suspend_always_move_the_fence"),
    "cancel-leaves-the-attempt-assigned": (USERS, "test_cancel_and_suspend_always_move_the_fence"),
    "cancel-frees-the-name-at-once": (USERS, "test_cancel_and_suspend_always_move_the_fence"),
    "suspended-is-started": (PLAN, "test_cell"),
    "job-that-changed-keeps-its-assignment": (PLAN, "test_cell"),
    "assignment-is-never-taken-back": (PLAN, "test_cell"),
    "distrusted-registry-is-acted-upon": (
        PLAN,
        "TestWhatStopsEverything.test_a_registry_that_is_not_trusted",
    ),
    "starts-before-the-epoch-is-recorded": (
        PLAN,
        "TestWhatStopsEverything.test_an_epoch_not_recorded_drains_and_revokes_but_starts_and_cleans_nothing",
    ),
    "claim-of-a-living-driver-is-swept": (
        "unit.registry.test_record_sweep",
        "test_a_claim_stays_while_a_driver_of_its_uid_may_be_alive",
    ),
    "result-and-reference-of-different-moments": (
        PLAN,
        "test_a_reference_beside_its_own_result_is_read_again",
    ),
    "cancel-turns-revoked-into-exited": (USERS, "test_cancel_and_suspend_always_move_the_fence"),
    "references-keep-nothing": (KEPT, "test_a_registered_uid_keeps_its_blobs_without_an_ownership"),
    "ownerships-keep-nothing": (
        KEPT,
        "test_an_ownership_keeps_the_blobs_of_its_attempt_and_of_the_newest_submission",
    ),
    "newest-uid-keeps-nothing": (
        KEPT,
        "test_an_ownership_keeps_the_blobs_of_its_attempt_and_of_the_newest_submission",
    ),
    "results-keep-nothing": (KEPT, "test_a_kept_result_keeps_its_blobs_when_the_name_is_anothers"),
    "assignments-keep-nothing": (KEPT, "test_an_assignment_keeps_its_blobs_whoever_owns_the_name"),
    "pending-deletions-keep-nothing": (
        KEPT,
        "test_a_claim_keeps_the_blobs_of_its_uid_only_while_its_checkpoint_is_being_deleted",
    ),
    "unreadable-records-keep-nothing": (
        KEPT,
        "test_an_unreadable_reference_is_made_up_for_by_the_ownership_and_by_nothing_else",
    ),
    "sweep-begins-in-distrust": (KEPT, "test_only_a_term_that_is_recorded_and_trusts_its_registry_sweeps"),
    "sweeps-before-the-epoch-is-recorded": (
        KEPT,
        "test_only_a_term_that_is_recorded_and_trusts_its_registry_sweeps",
    ),
    "applications-are-listed-after-the-registry": (
        APPLICATIONS,
        "test_the_registry_is_read_after_the_clusters_and_not_without_need",
    ),
    "applications-are-ended-after-the-term": (
        APPLICATIONS,
        "test_each_request_asks_whether_it_may_and_nothing_is_ended_by_a_registry_that_says_nothing",
    ),
    "applications-are-ended-while-paused": (
        APPLICATIONS,
        "test_nothing_is_ended_after_a_pause_that_came_while_the_cluster_answered",
    ),
    "applications-are-ended-before-an-acceptance-was-waited-out": (
        APPLICATIONS,
        "test_nothing_is_ended_after_the_term_nor_while_paused_distrusted_or_waiting",
    ),
    "applications-are-ended-by-an-ownership-in-doubt": (
        "unit.daemon.host.test_agent",
        "test_an_ownership_is_read_anew_and_only_one_that_may_be_believed_is_returned",
    ),
    "applications-are-ended-by-an-ownership-that-nobody-read": (
        "unit.daemon.host.test_cluster_leftovers",
        "test_a_shim_that_never_claimed_goes_and_the_same_attempt_starts_again",
    ),
    **CAUGHT_ADAPTERS,
    **CAUGHT_LOGS,
}
"""By the name of the defect: module below ``tests`` and the test. That each fails while it is planted is a test itself."""


def _on_disk() -> Any:
    from supervisor.spec.s3a import S3Access
    from tests.integration.test_checkpoint_deletion import DeletionWorld

    return DeletionWorld(f"file://{tempfile.mkdtemp(prefix='caught-by-tests-')}/checkpoints/a", S3Access())


FIXTURES: dict[str, Callable[[], Any]] = {
    "rig": lambda: test_fixed_znodes.running_rig(),
    "leader_rig": lambda: test_way_back.Rig(),
    "on_disk": _on_disk,
    "bench": Bench,
    "uploading": lambda: UploadRig(Path(tempfile.mkdtemp(prefix="caught-by-tests-"))),
    "running": lambda: RunningRig(Path(tempfile.mkdtemp(prefix="caught-by-tests-"))),
    "swept_rig": lambda: swept(Path(tempfile.mkdtemp(prefix="caught-by-tests-"))),
    "monkeypatch": pytest.MonkeyPatch,
    "tmp_path": lambda: Path(tempfile.mkdtemp(prefix="caught-by-tests-")),
}


def fails(module: str, name: str) -> bool:
    """Does the test fail, with any of its parameters?"""
    test = _found(module, name)
    for arguments in parameters(test):
        try:
            test(**arguments)
        except (Exception, pytest.fail.Exception):  # an assertion, or whatever the defect led to
            return True
        finally:
            for fixture in arguments.values():
                if isinstance(fixture, pytest.MonkeyPatch):
                    fixture.undo()
            if "tmp_path" in arguments:
                # A defect may leave a thread behind that still writes there: what it leaves is not what is judged.
                shutil.rmtree(arguments["tmp_path"], ignore_errors=True)
    return False


def _found(module: str, name: str) -> Callable[..., Any]:
    """``name``: of a function, or ``Class.method``."""
    loaded = importlib.import_module(f"tests.{module}")
    within, _, last = name.rpartition(".")
    found: Callable[..., Any] = getattr(getattr(loaded, within)() if within else loaded, last)
    return found


def parameters(test: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Every combination of what the test is parametrised with; plain fixtures are made anew for each."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    choices = [[_named(mark.args[0], value) for value in mark.args[1]] for mark in marks]
    wanted = inspect.signature(test).parameters
    for combination in itertools.product(*choices):
        given = {name: value for part in combination for name, value in part.items()}
        yield {**{name: FIXTURES[name]() for name in wanted if name not in given}, **given}


def _named(names: str | tuple[str, ...] | list[str], value: Any) -> dict[str, Any]:
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = getattr(value, "values", value) if not isinstance(value, dict) else value
    return dict(zip(listed, values if len(listed) > 1 else [value], strict=True))
