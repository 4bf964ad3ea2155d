"""What takes too long for every run of the tests, and has a shorter one beside it: `make torture` runs it."""

import os

import pytest

ROUNDS = "HEADRACE_TORTURE_ROUNDS"

only_in_torture = pytest.mark.skipif(ROUNDS not in os.environ, reason="`make torture` runs this")
