"""Which ordinary test fails while a defect of ``defects_of_adapters`` is planted. Part of ``caught_by_tests``."""

from __future__ import annotations

from itertools import chain

RUNNER, STARTER, TWIN, LINK = (f"unit.shim.test_{each}" for each in ("runner", "starter", "twin", "link"))
SCAN, SESSION = "unit.clients.test_scan", "unit.clients.test_zookeeper_session"
GUARDIAN, LEADER, SESSION_CLOSER = (
    f"unit.daemon.{each}"
    for each in ("host.test_guardian_events", "leader.test_leader_loops", "process.test_session_closer_watch")
)
OUTPUT, DRAIN_HOST = "unit.shim.test_output_and_reports", "unit.daemon.host.test_drain_host"
LOOPS = "unit.daemon.leader.test_term_checks"
AGENT, RUN_DIR = "unit.daemon.host.test_agent_reads", "unit.clients.test_run_dir"
PROCESSES, KEPT = "unit.clients.test_processes", "unit.clients.test_sessions"
CONTENDER = "unit.coord.test_contender_events"

ACCESS, SECURE = "unit.registry.test_access_control", "unit.operations.test_secure_registry"

_TESTS: dict[str, dict[str, tuple[str, ...]]] = {
    ACCESS: {
        "test_children_come_before_their_parents_and_the_root_last": ("root-is-secured-first",),
        "test_whoever_would_be_locked_out_is_named_and_nothing_is_changed": (
            "shims-without-credentials-are-locked-out",
            "processes-with-other-admins-are-locked-out",
        ),
        "test_going_back_opens_everything_while_shims_with_credentials_run": (
            "way-back-beside-supervisors-that-set-acls",
        ),
        "test_one_that_comes_in_the_middle_without_credentials_stops_it": ("who-comes-late-is-locked-out",),
        "test_what_is_made_open_meanwhile_is_found_by_another_pass": ("what-is-made-meanwhile-stays-open",),
        "test_an_operator_who_is_no_admin_is_refused_before_anything_changes": (
            "operator-locks-itself-out",
            "trial-of-an-operator-stays",
        ),
        "test_enforce_refuses_an_open_root_and_takes_one_that_is_absent_or_secured": (
            "open-root-is-taken-by-who-enforces",
        ),
    },
    SECURE: {
        "test_the_way_there_needs_an_acl_to_set": ("secured-with-the-open-acl",),
        "test_the_way_back_needs_an_open_configuration": ("way-back-while-znodes-are-made-with-an-acl",),
    },
    "unit.clients.test_digest_md5": {
        "test_a_server_that_does_not_know_the_password_is_not_believed": (
            "server-need-not-know-the-password",
        ),
    },
    "unit.clients.test_zookeeper_failures": {
        "test_a_connection_is_announced_after_sasl_and_counts_once": ("announced-before-sasl",),
        "test_what_a_person_must_correct_counts_more_than_what_may_pass": (
            "what-may-pass-hides-what-must-be-corrected",
        ),
        "test_rounds_that_need_a_correction_come_later_and_later": ("refused-as-fast-as-it-can",),
    },
    RUNNER: {
        "test_it_looks_at_the_clock_again_in_time_whatever_it_waits_for": (
            "runner-waits-as-long-as-it-likes",
        ),
        "test_a_tree_is_empty_only_when_that_is_proven": ("runner-tells-what-is-not-proven-empty",),
        "test_the_exit_is_told_before_the_tree_is_told_empty": ("runner-tells-no-exit-after-a-kill",),
        "test_what_became_of_exec_is_told_as_the_starter_said_it": (
            "refused-exec-told-as-executed",
            "starter-is-let-go-for-ever",
        ),
        "test_a_starter_that_died_before_it_was_let_go_has_executed_nothing": (
            "starter-that-died-waiting-told-as-executed",
        ),
        "test_a_starter_that_is_gone_is_told": ("starter-that-is-gone-is-not-told",),
        "test_the_last_words_of_a_starter_are_heard_before_its_exit": (
            "runner-does-not-hear-the-last-words",
        ),
        "test_each_event_is_judged_at_its_own_time": ("effects-take-no-time",),
        "test_a_chatty_driver_does_not_stop_the_clock": (
            "no-tick-beside-other-events",
            "reports-are-taken-without-end",
        ),
        "test_the_word_of_the_gate_goes_with_the_exit": ("word-of-the-gate-is-not-told",),
        "test_an_order_that_nobody_takes_is_unheard": ("unheard-order-told-as-heard",),
    },
    STARTER: {
        "test_it_looks_at_the_clock_itself": ("starter-does-not-look-itself",),
        "test_the_end_of_the_shim_is_no_word": ("starter-executes-without-a-word",),
        "test_it_is_inside_before_it_waits": ("starter-is-born-outside",),
        "test_one_that_can_not_get_inside_is_none": ("starter-that-is-not-inside-waits",),
    },
    TWIN: {
        "test_it_reads_the_deadline_again_and_kills_the_shim_before_its_tree": (
            "twin-reads-the-deadline-once",
            "twin-takes-the-living-for-dead",
            "twin-strikes-once",
        ),
        "test_it_looks_again_in_time_however_far_the_deadline_is": ("twin-sleeps-until-the-deadline",),
        "test_neither_signals_of_a_stop_nor_the_death_of_its_group_end_it": (
            "twin-ends-with-a-hint",
            "twin-dies-with-its-group",
        ),
        "test_without_a_twin_nothing_begins": ("shim-begins-without-a-twin",),
        "test_a_shim_that_was_struck_is_dead_when_it_is_seen_dead": (
            "shim-is-dead-when-struck",
            "shim-is-alive-when-seen-dead",
            "shim-is-asked-to-end",
        ),
        "test_of_a_tree_that_was_struck_is_told_what_is_seen_of_it_afterwards": (
            "tree-that-was-struck-is-empty",
            "tree-is-looked-at-before-the-blow",
        ),
    },
    LINK: {
        "test_what_is_read_is_read_after_a_sync": ("reads-without-a-sync",),
        "test_a_deadline_counts_from_the_sending_and_the_fence_is_the_version_of_own": (
            "deadline-counts-from-the-answer",
            "fence-is-the-version-of-another-record",
        ),
        "test_what_is_for_the_first_connection_goes_out_on_no_other": ("claim-goes-out-on-any-connection",),
        "test_each_failure_of_a_write_is_told_as_what_it_is": ("unknown-outcome-told-as-not-sent",),
        "test_a_defect_leaves_no_request_unanswered_and_no_write_for_not_sent": (
            "defect-in-a-write-told-as-not-sent",
            "request-is-left-without-an-answer",
        ),
        "test_of_a_client_that_was_replaced_nothing_is_told": (
            "older-client-is-heard",
            "older-client-stays-open",
        ),
        "test_a_suspended_session_is_not_lost_and_a_lost_one_is": ("lost-session-told-as-suspended",),
        "test_a_session_is_told_closed_when_it_was_closed": (
            "session-told-closed-that-was-not",
            "session-told-closed-that-nobody-can-close",
        ),
        "test_the_newest_sessions_can_be_closed": ("newest-session-can-not-be-closed",),
        "test_what_could_not_be_read_is_neither_absent_nor_unreadable": (
            "failed-read-told-as-absent",
            "unreadable-told-as-absent",
        ),
    },
    SCAN: {
        "test_a_tree_that_was_not_seen_once_is_looked_for_again": ("scan-does-not-look-again",),
        "test_a_scan_proves_nothing_but_to_who_has_no_child_left": (
            "scan-from-outside-proves",
            "scan-proves-while-children-live",
        ),
        "test_all_descendants_are_seen_whatever_they_did_to_their_session": ("scan-overlooks-descendants",),
        "test_orphans_that_fell_to_the_shim_are_seen_by_the_shim": ("scan-overlooks-orphans",),
        "test_a_number_that_means_another_process_now_is_no_root": (
            "scan-believes-a-root-of-another-boot",
            "scan-believes-a-reused-number",
        ),
        "test_who_has_a_child_that_lives_is_not_childless": ("childless-while-children-live",),
        "test_a_group_is_killed_until_it_is_empty": ("group-is-killed-once",),
        "test_a_group_that_can_not_be_looked_at_is_not_empty": ("group-that-does-not-say-is-empty",),
    },
    GUARDIAN: {
        "test_a_torn_deadline_calls_nothing_off": ("guardian-reads-a-torn-deadline-as-none",),
        "test_a_deadline_that_was_written_since_is_seen": (
            "guardian-reads-the-deadline-once",
            "guardian-sleeps-until-the-deadline",
        ),
        "test_a_shim_that_nobody_has_waited_for_is_dead": ("guardian-takes-a-zombie-for-alive",),
        "test_a_tombstone_is_written_when_zookeeper_says_so": ("failed-tombstone-told-as-written",),
        "test_an_answer_is_for_the_attempt_that_asked": ("answer-told-to-another-attempt",),
        "test_only_the_group_of_the_attempt_proves_that_it_is_empty": (
            "guardian-overlooks-the-group",
            "guardian-proves-by-a-scan",
        ),
        "test_a_launch_file_about_another_attempt_says_nothing": ("guardian-believes-any-launch-file",),
    },
    SESSION: {
        "test_what_is_under_way_when_the_connection_goes_is_unknown_and_what_waits_was_not_sent": (
            "pending-request-told-as-not-sent",
        ),
        "test_what_has_no_answer_in_time_is_unknown_and_ends_a_silent_connection": (
            "overdue-request-told-as-not-sent",
        ),
        "test_a_reply_that_makes_no_sense_leaves_the_outcome_unknown": ("senseless-reply-told-as-not-sent",),
        "test_nothing_is_kept_for_another_connection": (
            "request-goes-out-on-another-connection",
            "request-waits-for-a-connection",
        ),
        "test_what_could_not_be_sent_in_time_is_not_sent_later": ("request-goes-out-after-its-time",),
        "test_another_session_than_the_one_asked_for_is_none_of_ours": ("another-session-is-taken",),
        "test_a_lost_session_has_no_successor": ("lost-session-has-a-successor",),
        "test_a_node_without_a_quorum_is_left": ("read-only-node-is-taken",),
        "test_every_watch_is_told_when_the_connection_goes": ("watches-go-quietly-with-the-connection",),
        "test_the_session_counts_from_the_sending_of_what_was_answered": (
            "success-counts-from-the-answer",
            "success-counts-from-the-grant",
        ),
        "test_a_session_that_nobody_has_heard_close_is_not_told_closed": (
            "abandoned-session-told-as-closed",
        ),
        "test_a_request_is_pending_with_its_time_before_a_byte_of_it_leaves": (
            "sent-after-sending",
            "pending-after-sending",
        ),
    },
    LEADER: {
        "test_a_step_down_is_over_when_every_loop_is": (
            "step-down-awaits-no-loop",
            "step-down-awaits-the-first-loop",
        ),
        "test_a_defect_that_ends_a_loop_is_told": ("loop-that-failed-is-not-told",),
    },
    SESSION_CLOSER: {
        "test_it_closes_the_newest_sessions_when_the_supervisor_is_dead_and_not_before": (
            "end-of-the-pipe-is-taken-for-a-death",
            "session-closer-hears-the-first-word-only",
        ),
        "test_a_line_that_comes_in_two_pieces_is_one": ("session-closer-hears-half-a-line",),
    },
    RUN_DIR: {
        "test_the_lock_of_a_directory_that_was_removed_is_none": ("lock-of-a-removed-directory-is-taken",),
        "test_a_deadline_that_was_written_in_part_is_not_written": ("part-of-a-deadline-is-taken-for-all",),
    },
    PROCESSES: {
        "test_a_number_that_is_handed_out_while_it_is_opened_is_another_process": (
            "process-is-compared-before-it-is-opened",
        ),
    },
    KEPT: {
        "test_resolving_reads_nothing_that_a_lagging_server_would_show": ("command-settles-without-a-sync",),
        "test_each_client_is_checked_before_it_is_used": ("checked-once-for-all-clients",),
    },
    AGENT: {
        "test_an_id_that_another_session_holds_is_not_ours": ("agent-is-registered-as-another",),
        "test_what_was_taken_back_meanwhile_is_not_started": ("agent-starts-what-was-taken-back",),
        "test_what_is_being_started_is_not_started_again": ("agent-starts-twice",),
        "test_a_new_assignment_rings": ("agent-is-not-notified",),
        "test_a_look_counts_from_before_it_was_asked": ("look-counts-from-its-answer",),
        "test_whether_somebody_lives_there_is_no_when_that_was_seen": ("place-of-the-unknown-is-given-away",),
        "test_a_node_that_is_gone_is_made_anew": ("agent-without-a-node-goes-on",),
        "test_a_second_supervisor_of_an_id_does_not_begin": ("second-supervisor-of-an-id-begins",),
    },
    OUTPUT: {"test_a_disk_that_fails_costs_output_and_nothing_else": ("full-disk-ends-the-pump",)},
    DRAIN_HOST: {
        "test_attempts_that_come_while_it_waits_are_asked_as_well": ("who-comes-late-is-not-asked-to-stop",),
        "test_it_waits_for_the_longest_stop_that_any_of_them_may_take": ("stop-grace-is-not-waited-for",),
    },
    LOOPS: {
        "test_a_batch_goes_out_after_a_sync_between_two_looks_at_the_term": (
            "batch-goes-out-whatever-became-of-the-term",
            "batch-goes-out-however-long-the-look-took",
            "batch-goes-out-without-a-sync",
        ),
        "test_no_batch_goes_out_on_a_connection_on_which_nobody_has_looked": (
            "batch-goes-out-on-any-connection",
        ),
        "test_no_batch_goes_out_where_somebody_else_has_come_to_be": ("batch-goes-out-over-another-claim",),
        "test_a_batch_without_an_answer_is_waited_out_from_then_on": ("unanswered-batch-is-forgotten",),
        "test_a_reading_of_the_claims_that_failed_is_made_up_for_at_the_next_step": (
            "failed-reading-of-claims-is-not-made-up-for",
        ),
        "test_what_is_needed_is_read_after_a_sync": ("references-are-read-without-a-sync",),
    },
    CONTENDER: {
        "test_a_look_is_made_after_a_sync_with_the_watch_set_and_noted_for_the_connection_before_it": (
            "contender-looks-without-a-sync",
            "connection-is-noted-after-the-look",
            "watch-is-set-after-the-read",
            "look-is-not-noted-for-the-term",
        ),
        "test_the_watch_is_set_anew_after_it_has_rung_and_not_twice_before": ("watch-is-not-set-anew",),
        "test_a_watch_that_could_not_be_set_is_set_by_the_next_look": ("watch-that-failed-is-taken-for-set",),
        "test_the_next_session_sets_a_watch_of_its_own_and_forgets_what_the_last_one_saw": (
            "watch-of-the-last-session-is-taken-for-set",
            "first-seen-of-the-last-session-is-kept",
        ),
        "test_of_a_candidacy_that_is_over_nothing_is_heard": ("news-of-the-last-candidacy-are-heard",),
        "test_after_a_stop_of_the_process_the_deadline_comes_before_any_news": (
            "news-come-before-the-deadline",
            "leader-hears-of-success-all-the-time",
        ),
        "test_who_leads_is_told_by_the_term_and_not_by_the_thread": ("leads-beyond-its-deadline",),
        "test_each_election_has_an_op_of_its_own_and_an_unknown_one_is_told_as_such": (
            "unanswered-election-told-as-not-stood",
            "elections-share-an-op",
            "unread-settlement-told-as-not-stood",
            "failed-probe-told-as-well",
        ),
        "test_a_session_that_was_not_closed_is_closed_before_the_next_look": (
            "unclosed-session-is-forgotten",
            "unclosed-session-is-not-closed-first",
        ),
        "test_distrust_that_could_not_be_kept_is_distrust_all_the_same": (
            "distrust-that-is-not-kept-is-none",
        ),
        "test_a_term_that_ends_is_over_before_its_tasks_are_awaited": ("term-is-awaited-before-it-is-over",),
        "test_a_defect_of_the_thread_ends_the_term": ("failed-thread-leaves-its-term",),
        "test_while_the_connection_is_down_nothing_new_is_begun": ("term-is-not-paused",),
        "test_an_election_of_another_is_not_read_back_as_ours": ("election-of-anybody-taken-as-ours",),
        "test_an_epoch_is_recorded_when_the_store_has_it_and_while_the_term_lasts": (
            "defect-of-the-recorder-told-as-recorded",
            "store-that-is-down-told-as-recorded",
            "recorded-after-its-term",
        ),
        "test_a_restore_is_marked_when_the_store_is_back": ("restore-is-marked-at-the-first-try-only",),
        "test_what_is_said_of_the_recording_is_said_by_the_term_that_leads": (
            "term-that-is-over-says-that-it-records",
        ),
    },
}
"""By module and test: the defects that make it fail."""

CAUGHT_ADAPTERS: dict[str, tuple[str, str]] = dict(
    chain.from_iterable(
        ((defect, (module, test)) for defect in defects)
        for module, tests in _TESTS.items()
        for test, defects in tests.items()
    )
)
