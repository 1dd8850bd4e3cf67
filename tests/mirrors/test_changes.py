"""Several changes in one, and what is said of files that a mirror cannot show."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from table_writer.mirrors.changes import _merged
from table_writer.mirrors.fitting import advice
from table_writer.mirrors.mirror import MirrorChange, MirroredFile, MirroredTable
from tests.publish.world import written

ID: Final[dict[str, Any]] = {"name": "id", "type": "long", "metadata": {}}
TABLE: Final = MirroredTable(name="mart.orders", fields=(ID,), partition_columns=("dt",), log_id="l", columns_by="c")
A, B, C, D = (("a",), ("b",), ("c",), ("d",))


def file(name: str, unfit: str = "") -> MirroredFile:
    return MirroredFile(key=f"mart/orders/{name}", size_bytes=1, unfit=unfit)


def change(version: int, **more: Any) -> MirrorChange:
    return MirrorChange(
        **{
            "table": TABLE,
            "version": version,
            "mode": f"mode {version}",
            "created_at": datetime(2024, 1, version, tzinfo=UTC),
            "partitions": {},
            **more,
        }
    )


def test_of_two_changes_the_later_one_wins_and_what_was_added_stays() -> None:
    earlier = change(
        1,
        partitions={A: (file("1"),), B: (file("2"),)},
        added={C: (file("3"),), D: (file("4"),)},
        paths=frozenset({("x",)}),
        is_whole=True,
    )
    later = change(
        2,
        partitions={B: (file("5"),), C: (file("6"),)},
        added={A: (file("7"),), D: (file("8"),)},
        paths=frozenset({("y",)}),
        changes_rows=False,
        write_id="w",
    )
    merged = _merged(earlier, later)
    assert merged.partitions == {A: (file("1"), file("7")), B: (file("5"),), C: (file("6"),)}
    assert merged.added == {D: (file("4"), file("8"))}
    assert merged.paths == {("x",), ("y",)}
    assert merged.changes_rows
    assert not _merged(replace(earlier, changes_rows=False), later).changes_rows
    facts = (merged.version, merged.mode, merged.created_at.day, merged.write_id, merged.is_whole)
    assert facts == (2, "mode 2", 2, "w", False)


def test_whoever_has_files_that_do_not_fit_is_told_what_to_overwrite() -> None:
    world = written({"d1": frozenset({1})})
    unfit = change(1, partitions={("d1",): (file("x", "spells it otherwise"), file("y"))}, added={A: (file("z"),)})
    assert unfit.unfit == {("d1",): (file("x", "spells it otherwise"),)}
    assert advice(world.services(), "delta", unfit) == "Overwrite dt=d1 with its own rows by this library"
    with_ids = replace(unfit, table=replace(TABLE, fields=({**ID, "metadata": {"parquet.field.id": 1}},)))
    assert advice(world.services(), "iceberg", with_ids).startswith("Columns of the table have ids (parquet.field.id)")
    assert advice(world.services(), "delta", with_ids).startswith("Overwrite dt=d1 ")
    unpartitioned = replace(unfit, table=replace(TABLE, partition_columns=()))
    assert advice(world.services(), "delta", unpartitioned) == "Overwrite the table with its own rows by this library"
