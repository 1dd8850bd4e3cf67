"""What an entry means is one value, and so is what it does to a partition: no other file asks which kind it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from table_writer.model import meaning
from table_writer.model.entry import Erasure, LogEntry
from table_writer.model.meaning import Meaning, Operation
from tests.log.test_entries import entry

PACKAGE: Final = Path(meaning.__file__).parents[1]
KNOW_OPERATIONS: Final = {"model/meaning.py", "model/entry.py"}
KNOW_ADDED_FILES: Final = {
    "model/entry.py",
    "protocol/log/past_states.py",  # which files are part of which version
    "protocol/operations/in_place.py",
    "mirrors/changes.py",  # a mirror names each file
}
ERASURE: Final = Erasure(predicate_sha256="", deleted_rows=None, write_id="")
RECOVER: Final[dict[str, Any]] = {"operation": Operation.RECOVER, "version": 2, "base_version": 1, "recovers": 1}
KINDS: Final = {
    "a write": (entry(), meaning.WRITTEN),
    "a compaction": (entry(operation=Operation.COMPACT), meaning.COMPACTED),
    "a recovery": (entry(**RECOVER), meaning.RECOVERED),
    "a recovery of a compaction": (entry(**RECOVER, repeats=Operation.COMPACT), meaning.RECOVERED),
    "a late call undone": (entry(**{**RECOVER, "operation": Operation.UNDO}), meaning.UNDONE),
    "a rollback": (entry(operation=Operation.ROLLBACK, rollback_to=0), meaning.ROLLED_BACK),
    "a restore": (entry(operation=Operation.RESTORE), meaning.RESTORED),
    "a vacuum": (entry(operation=Operation.VACUUM), meaning.VACUUMED),
    "a discard": (entry(operation=Operation.DISCARD), meaning.DISCARDED),
    "an erasure": (entry(operation=Operation.ERASE, erasure=ERASURE), meaning.ERASED),
    "a handover": (entry(operation=Operation.HANDOVER), meaning.CLOSED),
    "the way back": (entry(operation=Operation.TAKE_BACK), meaning.CLOSED),
}


@pytest.mark.parametrize(("one", "meant"), KINDS.values(), ids=KINDS)
def test_each_kind_of_entry_has_its_meaning(one: LogEntry, meant: Meaning) -> None:
    assert one.meaning is meant


def test_every_meaning_is_that_of_a_kind_and_no_two_are_the_same() -> None:
    all_meanings = {name: value for name, value in vars(meaning).items() if isinstance(value, Meaning)}
    assert {id(value) for value in all_meanings.values()} == {id(meant) for _, meant in KINDS.values()}
    assert len(set(all_meanings.values())) == len(all_meanings)


def test_every_fact_tells_some_meanings_from_others() -> None:
    values = [meant for _, meant in KINDS.values()]
    assert [one.name for one in fields(Meaning) if len({getattr(value, one.name) for value in values}) == 1] == []


def comparisons() -> Iterator[tuple[str, str]]:
    """Yield, by file, what is compared with an operation, or with the mode that stands for one."""
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        tree = ast.parse(file.read_text())
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        if name in KNOW_OPERATIONS or not imported & {"Operation", "LogEntry", "SlotRecord", "History"}:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare | ast.Match | ast.Dict):
                parts = {ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Attribute | ast.Name)}
                asks = {p for p in parts if p.startswith("Operation.") or p.endswith("entry.operation")}
                if asks and "pyiceberg" not in ast.unparse(tree):
                    yield name, ast.unparse(node)


def test_no_other_file_asks_which_operation_an_entry_is() -> None:
    assert list(comparisons()) == []


def askers_of_added_files() -> Iterator[str]:
    """Yield the files that look at what an append in place adds, other than by the facts of its partitions."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "added":
                owner = ast.unparse(node.value)
                if owner.endswith(("partition", "named", "placed")):
                    yield file.relative_to(PACKAGE).as_posix()


def test_few_files_know_how_an_append_in_place_is_stored() -> None:
    assert set(askers_of_added_files()) == KNOW_ADDED_FILES
