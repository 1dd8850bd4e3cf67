"""Options of a write call: refused at the call, not on an executor an hour later."""

from __future__ import annotations

from typing import Any

import pytest

from table_writer import InvalidInputError, TableWriterConfig, WriteOptions
from table_writer.config import NewTableKeywords, WriteKeywords, write_mode
from table_writer.model.new_table import NewTable
from table_writer.model.write_mode import WriteMode

BAD: dict[str, list[Any]] = {
    "where": [None, 3],
    "schema": ["merge", ""],
    "engine": ["Arrow", "hive"],
    "distribution": ["range", None],
    "sort_by": ["amount", [3], None, 5, iter(["amount"])],
    "target_file_bytes": [0, 1024, -1, "128MB", True],
    "if_empty": ["", "skip"],
    "if_missing": [{"partition_by": ["dt"]}, True],
    "carry": ["in place", None, True],
    "max_copied_bytes": [-1, "1GB"],
    "based_on": [-1, "3", True],
    "idempotency_key": [None, "k" * 501, "\ud800"],
    "tags": [{"run": 42}, {1: "a"}, None, ["run"]],
    "write_uuid": ["a/b", "", " ", "x" * 81, "../x", "a.json", "a.checks-1"],
    "checks": [None, "not_null", 5, iter([len])],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD.items() for value in values if value != "" or name != "write_uuid"],
)
def test_a_value_that_no_write_could_work_with_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=name):
        WriteOptions(**{name: value})


def test_every_option_has_a_bad_value_here() -> None:
    assert set(BAD) == set(WriteOptions.__dataclass_fields__) == set(WriteKeywords.__annotations__)


def test_the_keywords_of_create_table_are_those_of_a_new_table() -> None:
    assert set(NewTableKeywords.__annotations__) == set(NewTable.__dataclass_fields__)


@pytest.mark.parametrize("mode", [mode for mode in WriteMode if mode is not WriteMode.OVERWRITE_PARTITIONS])
def test_a_predicate_belongs_to_overwrite_partitions(mode: WriteMode) -> None:
    with pytest.raises(InvalidInputError, match="overwrite_partitions"):
        WriteOptions(where="dt = 1").require_fit(mode)


@pytest.mark.parametrize(
    ("mode", "where", "fits"),
    [
        (WriteMode.OVERWRITE_TABLE, "", True),
        (WriteMode.OVERWRITE_PARTITIONS, "dt = 1", True),
        (WriteMode.OVERWRITE_PARTITIONS, "", False),
        (WriteMode.APPEND, "", False),
        (WriteMode.CREATE_PARTITIONS, "", False),
    ],
)
def test_only_what_replaces_can_replace_with_nothing(mode: WriteMode, where: str, fits: bool) -> None:
    options = WriteOptions(where=where, if_empty="replace")
    if fits:
        options.require_fit(mode)
    else:
        with pytest.raises(InvalidInputError, match="if_empty='replace'"):
            options.require_fit(mode)


def test_a_mode_that_is_none_is_answered_with_all_of_them() -> None:
    with pytest.raises(InvalidInputError, match=r"create_partitions .*overwrite_table "):
        write_mode("insert")


@pytest.mark.parametrize("name", ["data", ".", "..", "_a/b", "_a ", "", "../x"])
def test_a_directory_that_listings_of_the_root_would_show_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="directory_name"):
        TableWriterConfig(directory_name=name)
    assert [TableWriterConfig(directory_name=one).directory_name for one in ("_ours", ".writes")] == [
        "_ours",
        ".writes",
    ]


@pytest.mark.parametrize(
    "prefix",
    ["", "_part", ".part", "-part", "a/b", "dt=1", "a b", "a.b", "ä", "x" * 65, "x-20240102T030405-0123456789abcdef"],
)
def test_a_prefix_that_would_hide_or_change_names_of_files_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidInputError, match="file_name_prefix"):
        TableWriterConfig(file_name_prefix=prefix)
    assert TableWriterConfig(file_name_prefix="x" * 64).file_name_prefix == "x" * 64


@pytest.mark.parametrize("value", ["table", "true", 1])
def test_what_mark_success_does_not_know_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="mark_success"):
        TableWriterConfig(mark_success=value)
    assert [TableWriterConfig(mark_success=known).mark_success for known in (None, True, False, "partitions")] == [
        None,
        True,
        False,
        "partitions",
    ]
