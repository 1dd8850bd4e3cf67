"""Column statistics in the metastore: of the rows that readers see, or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import LostResponseError, MetastoreError, TableWriterError
from table_writer.metastore.hive_statistics import ColumnDescription
from table_writer.model.column_figures import ColumnFigures
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.records import LogEnd
from table_writer.protocol.operations.append import CarriedFiles
from table_writer.protocol.operations.entry import with_figures
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.operations.statistics import spark_statistics
from table_writer.testing.late import Late
from tests.cells import first_fast
from tests.publish.world import ROOT, DeathError, Fault, World, fail

OLD = {"1": frozenset({1, 2, 3}), "2": frozenset({10, 11})}
NEW = {"2": frozenset({50}), "3": frozenset({60, 70})}
ANALYZED: ColumnDescription = ("longStats", -5, 5, 0, 9)  # by another tool
ACCURATE = "COLUMN_STATS_ACCURATE"
FAULTS = {"refused": MetastoreError, "lost": LostResponseError, "dies": DeathError}


def append(world: World, *, in_place: bool = False) -> None:
    world.write(NEW, plan=world.plan(WriteMode.APPEND, in_place=in_place))


def restore(world: World) -> None:
    world.metastore.drop_partition(world.table, ("2",))
    world.keeper.restore(str(world.name))


OPERATIONS: dict[str, Callable[[World], object]] = {
    "overwrite": lambda world: world.write(NEW),
    "overwrite table": lambda world: world.write(NEW, plan=world.plan(WriteMode.OVERWRITE_TABLE)),
    "append": append,
    "append in place": lambda world: append(world, in_place=True),
    "compact": lambda world: world.compact("1", "2"),
    "restore": restore,
    "roll back": lambda world: world.keeper.rollback(str(world.name), version=1),
}


def started() -> World:
    world = World(counts_figures=True)
    world.write(OLD)
    world.write({"2": frozenset({20, 21, 22})})
    return world


def right(world: World) -> dict[str, ColumnDescription]:
    return {value: ("longStats", min(ids), max(ids), 0, len(ids)) for value, ids in world.rows().items()}


def kept(world: World) -> dict[str, ColumnDescription]:
    return {"".join(values): one["id"] for values, one in world.metastore.statistics(world.name).items()}


def marked(world: World) -> list[str]:
    return [value for value, one in world.partitions().items() if ACCURATE in one.parameters]


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"append in place"}))
def test_after_a_publish_the_metastore_knows_the_new_rows_and_does_not_take_it_for_accurate(name: str) -> None:
    world = started()
    OPERATIONS[name](world)
    assert kept(world) == right(world)
    assert marked(world) == []


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "to files of another tool"])
def test_what_an_append_adds_to_has_none_where_nobody_has_counted_all_of_it(in_place: bool) -> None:
    world = started()
    if not in_place:
        world.written_by_another_tool("2", frozenset({99}))
    append(world, in_place=in_place)
    assert kept(world) == {value: one for value, one in right(world).items() if value != "2"}


@pytest.mark.parametrize("choice", ["on", "auto", "off"])
def test_statistics_of_another_tool_go_with_the_rows_they_are_of(choice: str) -> None:
    world = World(config=TableWriterConfig(column_statistics=choice))  # type: ignore[arg-type]  # each of them
    world.write(OLD)
    for value in OLD:
        world.metastore.put_statistics(world.name, (value,), {"id": ANALYZED})
    world.write({"2": frozenset({7})})
    assert kept(world) == {"1": ANALYZED}
    assert marked(world) == ["1"]  # which nobody has written since


def test_off_sets_none_and_more_columns_than_the_limit_set_none() -> None:
    world = World(counts_figures=True, config=TableWriterConfig(column_statistics="off"))
    world.write(OLD)
    assert kept(world) == {}
    world = World(counts_figures=True)
    world.write({str(number): frozenset({1}) for number in range(1_001)})
    assert kept(world) == {}


CELLS = [(name, kind) for name in OPERATIONS for kind in FAULTS]
CELLS.sort(key=lambda cell: cell[0] != "overwrite" and cell[1] != "lost")


@pytest.mark.parametrize("cell", first_fast(CELLS, len(OPERATIONS) + len(FAULTS) - 1), ids=" ".join)
def test_whatever_call_fails_wrong_statistics_never_stay(cell: tuple[str, str]) -> None:
    name, kind = cell
    world = started()
    with world.recording() as calls:
        OPERATIONS[name](world)
    called = [call for service, call in calls if service == "metastore"]
    numbered = [(call, called[: at + 1].count(call)) for at, call in enumerate(called)]
    for call, number in numbered:
        for phase in ("before", "after"):
            world = started()
            with (
                world.inject(Fault("metastore", call, number, phase, FAULTS[kind])),
                suppress(TableWriterError, DeathError),
            ):
                OPERATIONS[name](world)
            world.recover_later()
            wrong = kept(world).items() - right(world).items()
            if kind == "refused" and call in {"drop_statistics", "differing_statistics"}:  # the result says so
                world.write({value: frozenset({5}) for value, _ in wrong})
                wrong = kept(world).items() - right(world).items()
            assert not wrong, f"{call} {number} {phase}"
            if kind != "refused":
                assert marked(world) == [], f"{call} {number} {phase}"


def recovered(world: World) -> None:
    world.keeper.recover(str(world.name))


def vacuumed_days_later(world: World) -> None:
    world.skipped_seconds += 5 * 86_400.0
    world.keeper.vacuum(str(world.name))
    assert not world.services().log.lister.read(listed_after=0).unverified


@pytest.mark.parametrize(
    ("call", "verified"),
    [("set_statistics", recovered), ("alter_partitions", recovered), ("set_statistics", vacuumed_days_later)],
)
def test_a_call_that_comes_after_others_have_replaced_the_rows_is_undone(
    call: str, verified: Callable[[World], None]
) -> None:
    world = started()
    lost = lambda: fail(Late(LostResponseError("no answer")))  # noqa: E731
    second = lambda: world.at_metastore(call, "before", lost)  # noqa: E731
    world.at_metastore(call, "before", lost if call == "set_statistics" else second)
    published = world.write(NEW)
    assert any("is not known" in note or "resolves it" in note for note in published.notes)
    state = world.services().log.lister.read()
    assert len(state.in_doubt) == (call == "alter_partitions"), "an alter could move partitions when it comes"
    assert len(state.unverified) == (call == "set_statistics"), "whoever comes next compares"
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    newest = {"2": frozenset({500}), "3": frozenset({600})}
    world.write(newest)
    for applied in world.metastore.pending:
        applied()
    assert kept(world) != right(world) or world.rows() != {**OLD, **newest}
    verified(world)
    assert world.rows() == {**OLD, **newest}
    assert kept(world).items() <= right(world).items()


def test_a_write_is_not_confirmed_while_its_statistics_are_under_way() -> None:
    """Its claimant alters the partitions once more: others must not publish over it before."""
    world = started()
    seen: list[str] = []

    def look() -> None:
        with pytest.raises(TimeoutError):
            Recovery(world.services()).resolve(3, world.table, end=LogEnd(3))
        seen.append("waits")

    world.sleep = lambda _: fail(TimeoutError())
    world.at_metastore("set_statistics", "before", look)
    world.write(NEW)
    assert seen == ["waits"]


def test_a_refusal_is_a_note_and_no_failure() -> None:
    world = started()
    with world.inject(Fault("metastore", "set_statistics", 1, "before", MetastoreError)):
        published = world.write(NEW)
    assert any("column statistics were not set" in note for note in published.notes)
    assert world.rows() == {**OLD, **NEW}
    assert world.services().log.lister.read().in_doubt == frozenset()


def test_an_unpartitioned_table_is_one_partition_here_too() -> None:
    world = World(counts_figures=True)
    world.become_unpartitioned()
    world.write({"": frozenset({1, 2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert kept(world) == {"": ("longStats", 1, 2, 0, 2)}
    world.write({"": frozenset({7})}, plan=world.plan(WriteMode.APPEND))
    assert kept(world) == {"": ("longStats", 1, 7, 0, 3)}
    assert marked(world) == []


def test_a_metastore_without_calls_for_statistics_hinders_neither_writes_nor_a_recovery() -> None:
    world = started()
    unknown = MetastoreError("Invalid method name")
    world.metastore.on_call = lambda method, _: fail(unknown) if method.endswith("statistics") else None
    world.write(NEW)
    world.services().log.marks.remember_recovery(1)
    world.wait_seconds = 3 * 86_400
    world.wait_out_claims()
    world.write({"2": frozenset({77})}, plan=world.plan(WriteMode.APPEND))
    world.keeper.recover(str(world.name))
    assert world.rows()["2"] >= {77}


@pytest.mark.parametrize("call", ["set_statistics", "drop_statistics"])
def test_a_server_that_never_answers_calls_for_statistics_hinders_nobody(call: str) -> None:
    world = started()
    lost = LostResponseError("no answer")
    world.metastore.on_call = lambda *now: fail(lost) if now == (call, "before") else None
    for number in range(3):
        assert world.write({"1": frozenset({number}), "2": frozenset({500 + number})}).notes
        assert not world.services().log.lister.read().in_doubt
    world.recover_later()
    assert not world.services().log.lister.read().in_doubt
    assert world.rows()["2"] == frozenset({502})


@pytest.mark.parametrize("year", [1, 999, 9999])
def test_spark_can_read_the_bounds_of_any_year(year: int) -> None:
    micros = int((datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    schema = '{"fields": [{"name": "at", "type": "timestamp"}]}'
    found = spark_statistics(schema, {"at": ColumnFigures("timestamp", 0, 1, micros, micros, distinct=1)})
    assert found["spark.sql.statistics.colStats.at.min"] == f"{year:04}-01-01 00:00:00.000000"


def test_a_column_whose_parameters_no_database_keeps_is_left_out() -> None:
    names = ("x" * 250, "größe", "id")
    schema = json.dumps({"fields": [{"name": name, "type": "long"} for name in names]})
    found = spark_statistics(schema, {name: ColumnFigures("integer", 0, 2, 1, 2, distinct=2) for name in names})
    assert {name.split(".")[4] for name in found} == {"id"}


@pytest.mark.parametrize(
    ("kind", "figures", "expected"),
    [
        ("long", ColumnFigures("integer", 1, 2, -5, 7, distinct=2), "1 2 8 8 -5 7"),
        ("byte", ColumnFigures("integer", 0, 1, 0, 0, distinct=1), "0 1 1 1 0 0"),
        ("boolean", ColumnFigures("boolean", 3, 0, true_values=0), "3 - 1 1 - -"),
        ("date", ColumnFigures("date", 0, 2, -1, 365, distinct=2), "0 2 4 4 1969-12-31 1971-01-01"),
        ("date", ColumnFigures("date", 0, 1, 10**9, 10**9, distinct=1), "0 1 4 4 - -"),  # no year that Python knows
        ("timestamp", ColumnFigures("timestamp", 0, 1, 10**18, 10**18, distinct=1), "0 1 8 8 - -"),
        ("decimal(18,2)", ColumnFigures("decimal", 0, 1, "1.50", "1.50", distinct=1), "0 1 8 8 1.50 1.50"),
        ("decimal(19,2)", ColumnFigures("decimal", 0, 1, "1.50", "1.50", distinct=1), "0 1 16 16 1.50 1.50"),
        ("decimal(8,2)", ColumnFigures("decimal", 4, 0), "4 - 8 8 - -"),
        ("string", ColumnFigures("text", 0, 1, total_bytes=3, longest_bytes=3, distinct=1), "0 1 3 3 - -"),
        ("string", ColumnFigures("text", 1, 3, total_bytes=7, longest_bytes=5, distinct=3), "1 3 3 5 - -"),
        ("binary", ColumnFigures("text", 2, 0, total_bytes=0), "2 - 0 0 - -"),
        ("string", ColumnFigures("text", 2, 0), "2 - 0 0 - -"),
        ("binary", ColumnFigures("text", 2, 0), "2 - 0 0 - -"),
        ("string", ColumnFigures("text", 0, 2), None),  # how long they are is not known
        ("array<int>", ColumnFigures("integer", 0, 2), None),
        ("array<int>", ColumnFigures("integer", 2, 0), None),
    ],
)
def test_spark_is_told_of_a_column_what_its_analyze_would_say(
    kind: str, figures: ColumnFigures, expected: str | None
) -> None:
    schema = json.dumps({"fields": [{"name": "c", "type": kind}]})
    found = {name.rpartition(".")[2]: text for name, text in spark_statistics(schema, {"c": figures}).items()}
    names = ("nullCount", "distinctCount", "avgLen", "maxLen", "min", "max")
    said = dict(zip(names, expected.split(), strict=True), version="2") if expected else {}
    assert found == {name: text for name, text in said.items() if text != "-"}


def test_statistics_that_nobody_could_take_back_are_named_as_marked() -> None:
    world = started()
    switched = False

    def refusing(method: str, phase: str) -> None:
        nonlocal switched
        if method in {"alter_partitions", "drop_statistics"} and phase == "before" and switched:
            raise MetastoreError("refused")
        switched = switched or (method, phase) == ("alter_partitions", "before")

    world.metastore.on_call = refusing
    (note,) = world.write(NEW).notes
    assert "its column statistics are set, but marked as accurate (refused" in note
    world.metastore.on_call = None
    assert kept(world) == right(world)
    assert world.services().log.lister.read().in_doubt == frozenset()


def test_where_a_server_marks_no_statistics_the_switch_is_the_only_alter() -> None:
    world = started()

    def unmark() -> None:
        for partition in world.partitions().values():
            parameters = {name: text for name, text in partition.parameters.items() if name != ACCURATE}
            world.metastore.put_partition(world.name, replace(partition, parameters=parameters))

    world.at_metastore("set_statistics", "after", unmark)
    with_marks, before = "alter_partitions_with_environment_context", world.metastore.call_counts()
    world.write(NEW)
    assert world.metastore.call_counts()[with_marks] == before[with_marks] + 1
    assert kept(world) == right(world)


@pytest.mark.parametrize(("refusals", "are_set"), [(2, True), (3, False), (99, False)])
def test_marks_are_taken_away_in_three_tries_at_most_and_else_the_statistics_go(refusals: int, are_set: bool) -> None:
    world = started()
    alters = 0

    def refusing(method: str, phase: str) -> None:
        nonlocal alters
        if (method, phase) == ("alter_partitions", "before"):
            alters += 1
            if 1 < alters <= 1 + refusals:
                raise MetastoreError("refused")

    world.metastore.on_call = refusing
    notes = world.write(NEW).notes
    assert [("were not set" in note) for note in notes] == ([] if are_set else [True])
    assert kept(world) == {value: one for value, one in right(world).items() if are_set or value not in NEW}
    assert alters == 1 + 3
    assert not are_set or marked(world) == []


@pytest.mark.parametrize(
    ("unlike", "elsewhere", "are_known"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"files": 2}, False, False),
        ({"bytes": 99}, False, False),
        ({"version": None}, False, False),  # as where another tool has set figures of its own
        ({"version": 2}, False, False),  # which names another partition
        ({"version": 9}, False, False),  # which the log has not
    ],
)
def test_figures_of_the_log_are_those_of_exactly_the_files_that_a_version_has_put_there(
    unlike: dict[str, int | None], elsewhere: bool, are_known: bool
) -> None:
    world = World(counts_figures=True)
    (named,) = world.write({"1": frozenset({1, 2})}).entry.partitions
    world.write({"2": frozenset({7})})
    now = world.metastore.get_all_partitions(world.table)
    if elsewhere:
        now = {values: replace(one, location=f"{ROOT}elsewhere/") for values, one in now.items()}
    brought = replace(CarriedFiles(files=named.files, bytes=named.bytes, version=1), **unlike)  # type: ignore[arg-type]
    beside = CarriedFiles(files=1, bytes=3, version=1)  # so that the entry of version 1 is read in any case
    found = with_figures(world.services().log, {("1",): brought, ("2",): beside}, now)
    assert {values: one.figures for values, one in found.items()} == {
        ("1",): named.figures if are_known else "",
        ("2",): "",
    }
    assert named.figures
