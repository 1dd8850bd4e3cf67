"""Entries, folds and records as they are stored: they load for ever, and go back byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from table_writer.errors import ConflictError, InvalidInputError
from table_writer.model.entry import ALWAYS, BODIES, LogEntry
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.staged_write import StagedRecord
from table_writer.model.write import TableLayout
from table_writer.model.write_mode import WriteMode
from tests.publish.world import ROOT

STORED = Path(__file__).parent / "stored"
ENTRIES = sorted(STORED.glob("entry-*.json"))
STAGED = {path.stem: json.loads(path.read_bytes())["staged"] for path in sorted(STORED.glob("staged-*.json"))}


def staged_record(fields: dict[str, Any]) -> StagedRecord:
    return StagedRecord.from_fields(fields, layout=TableLayout(Location.parse(ROOT)), write_id="w1")


def loaded(path: Path) -> LogEntry:
    version = int(path.stem.removeprefix("entry-"))
    return LogEntry.from_json(path.read_bytes(), root=Location.parse(ROOT), version=version)


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_goes_back_to_the_bytes_it_came_from(path: Path) -> None:
    assert loaded(path).to_json(Location.parse(ROOT)) == path.read_bytes()


def test_an_entry_tells_what_its_caller_has_said() -> None:
    entry = loaded(STORED / "entry-10.json")
    assert (entry.called, entry.mode) == ("delete_where", WriteMode.OVERWRITE_PARTITIONS)
    assert (entry.words.where, entry.words.deleted) == ("customer = 17 AND name = 'é'", 3)
    assert entry.tags == {"run": "nächtlich"}
    assert loaded(STORED / "entry-9.json").called == "compact"


def test_every_operation_is_among_the_entries() -> None:
    assert {loaded(path).operation for path in ENTRIES} == set(Operation)


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_follows_its_table_to_another_root(path: Path) -> None:
    elsewhere = Location.parse("s3a://other/place/")
    moved = LogEntry.from_json(path.read_bytes(), root=elsewhere, version=loaded(path).version)
    locations = [one.new_location for one in moved.partitions] + [
        one.location for one in (*moved.replaced, *moved.deletes)
    ]
    assert all(location is None or location.startswith(str(elsewhere)) for location in locations)
    assert moved.to_json(elsewhere) == path.read_bytes()


NEEDED_BY_ALL = {
    *("table", "version", "write_id", "operation", "created_at", "base_version", "publish_timeout_seconds", "body")
}


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_without_a_field_that_every_entry_has_is_refused(path: Path) -> None:
    fields = json.loads(path.read_bytes())
    assert fields.keys() >= NEEDED_BY_ALL
    for name in NEEDED_BY_ALL:
        lacking = {key: value for key, value in fields.items() if key != name}
        with pytest.raises(InvalidInputError, match=name):
            LogEntry.from_json(json.dumps(lacking).encode(), root=Location.parse(ROOT), version=loaded(path).version)


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_no_field_is_stored_that_says_nothing(path: Path) -> None:
    fields = json.loads(path.read_bytes())
    usual = {**fields, **fields["body"]}
    assert [name for name, value in usual.items() if not value and name not in ALWAYS] == []
    assert fields["body"].keys() <= BODIES[loaded(path).operation]


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_what_is_not_known_is_passed_over_unless_it_must_be_understood(path: Path) -> None:
    fields = json.loads(path.read_bytes())
    root, version = Location.parse(ROOT), loaded(path).version
    later = {**fields, "later": 1, "body": {**fields["body"], "more": [2]}, "must_understand": {}}
    assert LogEntry.from_json(json.dumps(later).encode(), root=root, version=version) == loaded(path)
    group = json.dumps({**fields, "must_understand": {"a group of tables": "0.3"}}).encode()
    with pytest.raises(InvalidInputError, match=r"must not go on from it: .* 'a group of tables' \(since 0\.3\)"):
        LogEntry.from_json(group, root=root, version=version)


def test_a_staged_write_goes_back_to_the_fields_it_came_from() -> None:
    append, overwrite, rows = records = [*map(staged_record, STAGED.values())]
    assert [json.loads(json.dumps(record.to_fields())) for record in records] == [*STAGED.values()]
    assert overwrite.plan.spellings.names == {("1",): (("01",),)}
    assert overwrite.plan.scope([("d2",), ("d3",)]) == {("d2",)}
    assert (rows.called, rows.words.counts) == ("merge", {"inserted": 1, "updated": 2, "deleted": 0})
    assert (append.called, append.words.inserted, append.words.tags) == ("append", 8, {"run": "nächtlich"})
    assert (overwrite.called, overwrite.words.where, overwrite.words.counts) == ("overwrite_partitions", "dt > 'a'", {})
    assert (rows.plan.depends_on_rows, rows.plan.watched([("d1",)])) == (True, {("d1",)})
    with pytest.raises(ConflictError, match="takes Spark to say"):
        rows.plan.watched([("d9",)])
    assert rows.plan.scope([("d2",), ("d9",)]) == {("d2",)}  # no predicate: d9 is not selected, whenever it came
    assert (append.plan.key.text, append.plan.in_doubt, append.plan.based_on) == ("batch-7", {2, 4}, 1)


def damage(name: str) -> Any:
    return {"deleted": "all"} if name == "words" else {"": {"": [1.5]}}  # an unknown word is passed over


@pytest.mark.parametrize("fields", STAGED.values(), ids=STAGED)
def test_a_staged_write_without_a_field_or_with_another_type_is_refused(fields: dict[str, Any]) -> None:
    needed = fields.keys() - {"in_place", "based_on", "tags", "max_copied_bytes", "notes", "words"}
    lacking = [{name: value for name, value in fields.items() if name != left_out} for left_out in needed]
    for damaged in (*lacking, *({**fields, name: damage(name)} for name in fields)):
        with pytest.raises(InvalidInputError):
            staged_record(damaged)
