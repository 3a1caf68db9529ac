"""A Python that finds this directory on its path gets failpoints, if ``CRASH_POINTS`` says where it is told of them."""

import os

if "CRASH_POINTS" in os.environ:
    import failpoints

    failpoints.install(os.environ["CRASH_POINTS"])
