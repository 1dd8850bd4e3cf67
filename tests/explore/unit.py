"""Print the broken rules that their tests notice: ``python -m tests.explore.unit``.

In a process of its own, and each rule in a fork of it: a test module holds on to the functions that it has imported.
"""

from __future__ import annotations

import os
import sys

import pytest

import tests.conftest  # noqa: F401  # once, and not in each fork
from table_writer.errors import TableWriterError

from .every_mutation import EVERY_MUTATION
from .mutation import Mutation

AS_IT_SHOULD = (AssertionError, TableWriterError, pytest.fail.Exception)
OPTIONS = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class Failures:
    """Collects what tests raise."""

    def __init__(self) -> None:
        self.kinds: list[type[BaseException]] = []

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None:
            self.kinds.append(call.excinfo.type)


def is_noticed(mutation: Mutation) -> bool:
    """Run a test with the rule broken: it fails as a test does, and not for another reason."""
    if child := os.fork():
        return os.waitpid(child, 0)[1] == 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    failures = Failures()
    with mutation.applied():
        pytest.main([mutation.test, *OPTIONS], plugins=[failures])
    os._exit(not (failures.kinds and all(issubclass(one, AS_IT_SHOULD) for one in failures.kinds)))


if __name__ == "__main__":
    for one in EVERY_MUTATION:
        if one.test and is_noticed(one):
            print(one.rule, flush=True)
