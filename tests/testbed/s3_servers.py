"""The real S3 APIs that contracts are held to: moto always, Ceph's gateway in the slow suite, and one that the environment names.

``SPARK_SUPERVISOR_TEST_S3=http://127.0.0.1:9000 tests/run tests/contract -k given_s3``: a MinIO, a localstack, whatever takes the keys of
``moto.AWS_ENV`` (README.md has the commands that start them). Nothing else is asked of it: buckets are made by the tests.
"""

from __future__ import annotations

import os

import pytest

from tests.testbed.moto import S3Server

PLACE = os.environ.get("SPARK_SUPERVISOR_TEST_S3", "")


class GivenServer(S3Server):
    """Started and stopped by whoever gave it."""

    endpoint_url = PLACE


SERVERS = ("moto_server", pytest.param("radosgw", marks=pytest.mark.slow), *(("given_s3",) if PLACE else ()))
"""Names of fixtures, each of an ``S3Server``."""
