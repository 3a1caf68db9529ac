"""Which ordinary test fails while a defect of ``defects_of_logs`` is planted. Part of ``caught_by_tests``."""

from __future__ import annotations

UPLOADS, RUNNING, SWEEPER, STORED = (
    "unit.daemon.host.test_log_uploads",
    "unit.daemon.host.test_running_uploads",
    "unit.daemon.leader.test_sweeper",
    "unit.operations.test_uploaded_output",
)

CAUGHT_LOGS: dict[str, tuple[str, str]] = {
    "output-is-uploaded-before-the-tombstone": (
        UPLOADS,
        "test_what_an_attempt_has_left_is_uploaded_when_it_has_its_tombstone",
    ),
    "an-attempt-that-the-registry-does-not-know-is-over": (
        UPLOADS,
        "test_the_registry_says_whether_it_has_ended",
    ),
    "an-assigned-attempt-is-over": (UPLOADS, "test_the_registry_says_whether_it_has_ended"),
    "name-goes-before-the-output-is-stored": (
        UPLOADS,
        "test_a_store_that_takes_nothing_is_asked_again_also_after_a_restart",
    ),
    "what-runs-is-not-noted": (UPLOADS, "test_a_host_that_was_lost_uploads_when_it_is_back"),
    "what-was-noted-goes-before-it-is-kept": (
        UPLOADS,
        "test_a_disk_that_takes_nothing_keeps_what_was_noted",
    ),
    "sweep-of-outputs-outlives-its-term": (SWEEPER, "test_a_sweep_of_outputs_ends_when_the_term_does"),
    "an-output-that-grows-is-read-for-ever": (
        UPLOADS,
        "test_an_output_that_grows_while_it_is_read_has_an_end",
    ),
    "an-output-that-grows-holds-up-all-others": (
        RUNNING,
        "test_an_output_that_grows_without_end_holds_up_no_other",
    ),
    "what-runs-waits-for-the-registry": (
        RUNNING,
        "test_a_registry_that_does_not_answer_keeps_nothing_from_the_store",
    ),
    "what-has-ended-waits-for-pieces": (
        RUNNING,
        "test_a_piece_that_is_refused_keeps_no_output_of_what_has_ended",
    ),
    "an-output-that-is-refused-stays-first": (
        RUNNING,
        "test_an_output_that_is_refused_keeps_no_other_and_no_piece",
    ),
    "pieces-go-though-nothing-counts-in-place-of-them": (
        RUNNING,
        "test_pieces_stay_that_nothing_counts_in_place_of",
    ),
    "a-piece-that-was-refused-waits-for-the-next-period": (
        RUNNING,
        "test_a_store_that_takes_nothing_is_asked_again_and_counted",
    ),
    "pieces-are-not-looked-for-again-after-an-error": (
        RUNNING,
        "test_the_pieces_are_listed_again_after_an_error",
    ),
    "pieces-are-put-beside-the-whole-output": (
        RUNNING,
        "test_a_number_that_recurs_does_not_hide_what_is_there",
    ),
    "a-piece-goes-that-counts": (
        RUNNING,
        "test_pieces_are_full_but_for_the_newest_and_go_when_others_count",
    ),
    "a-bomb-is-unpacked": (STORED, "test_what_no_supervisor_has_uploaded_is_not_unpacked"),
}
