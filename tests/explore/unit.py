"""Run the test that notices a broken rule: ``python -m tests.explore.unit "a rule"`` ends well if it fails.

In a process of its own: a test holds on to the functions that it has imported.
"""

from __future__ import annotations

import sys

import pytest

from table_writer.errors import TableWriterError

from .every_mutation import EVERY_MUTATION

AS_IT_SHOULD = (AssertionError, TableWriterError, pytest.fail.Exception)


class Failures:
    """Collects what tests raise."""

    def __init__(self) -> None:
        self.kinds: list[type[BaseException]] = []

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None:
            self.kinds.append(call.excinfo.type)


if __name__ == "__main__":
    failures = Failures()
    mutation = next(one for one in EVERY_MUTATION if one.rule == sys.argv[1])
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with mutation.applied():
        pytest.main([mutation.test, *options], plugins=[failures])
    sys.exit(not (failures.kinds and all(issubclass(one, AS_IT_SHOULD) for one in failures.kinds)))
