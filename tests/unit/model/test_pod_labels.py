"""By what the pods and ConfigMaps of an attempt are found, and that a prepared driver gets it with its opening."""

from __future__ import annotations

from supervisor.model.application_tag import NAMING_KEYS, naming_properties
from supervisor.model.launch import NO_ATTEMPT
from supervisor.model.master import ClusterKind
from supervisor.model.pod_labels import (
    APPLICATION_ID,
    ATTEMPT_LABEL,
    REGISTRY_LABEL,
    UID_LABEL,
    application_id,
    attempt_of_application,
    attempt_of_labels,
    is_value,
    pod_properties,
)
from supervisor.records.ids import new_op_id, new_uid

REGISTRY, OTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2


def test_tags_are_valid_labels_and_are_read_back() -> None:
    registry, uid = new_op_id(), new_uid("orders")
    properties = pod_properties(registry, uid, 4_294_967_295)
    assert all(is_value(value) for value in properties.values())
    application = properties[APPLICATION_ID]
    assert attempt_of_application(application, registry) == (uid, 4_294_967_295)
    assert attempt_of_application(application, OTHER) is None


def test_ids_that_spark_makes_are_of_no_attempt() -> None:
    for application in ("spark-0123456789abcdef0123456789abcdef", "spark-application-1732600000000", ""):
        assert attempt_of_application(application, REGISTRY) is None


def test_an_application_id_of_the_job_does_not_count_for_all_its_attempts_would_share_it() -> None:
    made = naming_properties(ClusterKind.KUBERNETES, REGISTRY, "u-1", 1, {APPLICATION_ID: "mine"})
    assert made[APPLICATION_ID] == application_id(REGISTRY, "u-1", 1)


def test_labels_are_read_only_if_they_are_those_of_an_attempt() -> None:
    labels = {REGISTRY_LABEL: REGISTRY, UID_LABEL: "u-1", ATTEMPT_LABEL: "7"}
    assert attempt_of_labels(labels, REGISTRY) == ("u-1", 7)
    assert attempt_of_labels(labels, OTHER) is None
    for odd in ("", "0", "-1", "07", "9" * 11, "x"):
        assert attempt_of_labels({**labels, ATTEMPT_LABEL: odd}, REGISTRY) is None
    assert attempt_of_labels({**labels, UID_LABEL: ""}, REGISTRY) is None


def test_a_driver_that_is_being_prepared_has_none_yet_and_all_of_them_differ_between_attempts() -> None:
    kind = ClusterKind.KUBERNETES
    assert naming_properties(kind, REGISTRY, "u-1", NO_ATTEMPT, {}) == {}
    assert naming_properties(kind, "", "u-1", 1, {}) == {}
    made = naming_properties(kind, REGISTRY, "u-1", 1, {})
    assert made == pod_properties(REGISTRY, "u-1", 1)
    assert set(made) <= set(NAMING_KEYS)
