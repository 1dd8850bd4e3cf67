"""Names and values that want to be paths, markup or terminal commands: they stay names and values."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_writer import TableWriter
from table_writer.errors import InvalidInputError, StorageError
from table_writer.jobs.session_services import SessionServices
from table_writer.maintenance import Maintenance
from table_writer.model.entry import LogEntry
from table_writer.model.location import Location
from table_writer.model.table import NULL_PARTITION, TableName, partition_name, partition_values
from table_writer.protocol.table.open_table import OpenTable
from table_writer.testing import Lakehouse
from tests.cli.shell import Shell
from tests.publish.world import TABLE, TableWorld, World
from tests.security.attacked import NOW, Attacked, T, bare_shell, bodies, local_world

MARKUP = "<script>alert('x')</script>&amp;\"><img src=x onerror=1>"
VALUES = (
    *("../", "..", ".", "../../orders_v2", "a/b", "/etc/passwd", "a\\..\\b", "%2e%2e", "%2E%2E%2F"),  # paths
    *("%", "%%", "100%", "=", "a=b", "dt=d1", "a=b/c=d", "d1,d2", "NaN", "null"),
    *("\t\n\r\x0b\x1b[2J\x07\x7f", "\x85\u2028\u2029", "\u202egnp.exe\u202c", "\u200b"),  # a terminal's commands
    *("🦆", "e\u0301", "\u00e9", "A", "a", "İ", "ß", " x", "x ", " ", "x" * 200),  # look-alikes
    *(NULL_PARTITION, NULL_PARTITION.lower(), "_temporary", ".hidden", "_table_writer"),
    *("*?[a-z]{1}", "'; DROP TABLE orders; --", "${env.HOME}", "$(reboot)", "-rf", "--dry-run", MARKUP),  # code
    *("#fragment?query", "s3a://lake/mart/orders_v2/", "file:///etc/"),
)
BY_SPARK = ("../", "a/b", "%2e%2e", "\t\x1b[2J\x7f", "🦆", "\u202egnp.exe", "x ", "A", "a", MARKUP)
ROWS = {value: frozenset({number}) for number, value in enumerate(VALUES)}
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u200b\u202a-\u202e\u2028\u2029]")  # but tab and line feed

LOOK_ALIKES = ("\u043cart.orders", "mart.\uff4frders", "mart.ord\u0435rs")


TABLE_NAMES = (
    *("../x", "mart/../x", "a.b.c.d", "mart.", ".orders", ".", "..", "", " ", "s3a://lake/mart/orders"),
    *("mart.orders;", "mart.'orders'", 'mart."orders"', "mart.or`ders", "mart.orders -- x", "mart.$orders", MARKUP),
    *("mart.orders\nmart.x", "mart.or\x00ders", "mart.orders\u202e", "mart.or\u200bders", "mart.orders%2e"),
    "mart." + "x" * 10_000 + "!",
    *LOOK_ALIKES,
)


@pytest.mark.parametrize("name", TABLE_NAMES, ids=lambda name: repr(name[:30]))
def test_a_hostile_table_name_is_refused_or_not_found_before_any_request_to_the_store(name: str) -> None:
    world = World()
    world.write({"d1": frozenset({1})})
    with world.recording() as calls:
        for call in (Maintenance.history, Maintenance.recover, Maintenance.vacuum, Maintenance.restore):
            with pytest.raises(InvalidInputError, match=r"no table|not a table name"):
                call(world.keeper, name)
    assert not [call for service, call in calls if service == "store"]


def test_a_name_that_only_looks_like_a_tables_is_another_ones() -> None:
    assert TableName.parse("mart.orders\n") == TABLE  # spaces around a name are cut off
    assert TABLE not in {TableName.parse(name) for name in LOOK_ALIKES}


@pytest.fixture(params=["memory", "local"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> TableWorld:
    return World() if request.param == "memory" else local_world(tmp_path)


def test_partitions_of_any_value_live_below_their_write_and_go_through_every_call(world: TableWorld) -> None:
    store, keeper = world.store, world.keeper
    for beside in ("mart/orders_v2/part-0.json", "mart/orders/notes.txt"):
        if isinstance(world, World):
            world.store.put(beside, b"stays")
    first = world.write(ROWS).entry
    assert world.rows() == ROWS
    second = world.write({value: frozenset({-number}) for number, value in enumerate(VALUES)}).entry
    for entry in (first, second):
        for partition in entry.partitions:
            location = Location.parse(str(partition.new_location))
            data = world.layout.data(entry.write_id)
            assert data.contains(location)
            assert data.relative_key(location).count("/") == 1
            assert str(location) == partition.new_location, "readers and the log spell it alike"
    names = {partition_name(["dt"], (value,)) for value in VALUES}
    assert {one.name for one in keeper.show(T, 1).partitions} == names
    assert len(keeper.rollback(T, version=1, partitions=sorted(names)).partitions) == len(VALUES)
    assert world.rows() == ROWS
    assert len(keeper.vacuum(T, older_than=timedelta(0), force=True).deleted) == len(VALUES)
    assert world.rows() == ROWS
    for value in VALUES:
        world.metastore.drop_partition(world.table, (value,))
    assert len(keeper.restore(T).partitions) == len(VALUES)
    assert world.rows() == ROWS
    assert keeper.recover(T).settled == {}
    for report in (keeper.history(T), keeper.show(T, 1), keeper.restore(T), keeper.recover(T)):
        shown = [report.to_text(all_rows=True), repr(report), report._repr_html_()]
        assert not [text for text in shown if RAW.search(text)]
        assert "<script" not in report._repr_html_()
        assert "<img" not in report._repr_html_()
    keys = {info.key for info in store.list(world.layout.root.key)}
    outside = {key for key in keys if not key.startswith(world.layout.own.key)}
    assert outside <= {"mart/orders/notes.txt"}


def test_a_value_that_the_store_cannot_hold_fails_whole(tmp_path: Path) -> None:
    world = local_world(tmp_path)
    world.write({"d1": frozenset({1})})
    with pytest.raises(StorageError, match="too long"):
        world.write({"d1": frozenset({2}), "x" * 1_000: frozenset({3})})
    with pytest.raises(InvalidInputError, match="can't be a key"):
        world.write({"a\0b": frozenset({1})})
    assert world.rows() == {"d1": frozenset({1})}
    in_memory = World()
    in_memory.write({"x" * 1_000: frozenset({3})})
    assert in_memory.rows() == {"x" * 1_000: frozenset({3})}


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1, max_size=3))
def test_hives_names_can_be_read_back_whatever_they_hold(pairs: list[tuple[str, str]]) -> None:
    columns, values = zip(*pairs, strict=True)
    name = partition_name(columns, values)
    assert partition_values(name) == values
    assert name.count("/") == len(pairs) - 1
    assert ".." not in name.split("/")
    assert not re.search(r"[\x01-\x1f\x7f]", name)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return bare_shell(World(), capsys, monkeypatch)


def test_the_command_line_takes_back_the_names_that_it_gives_out(shell: Shell) -> None:
    shell.world.write(ROWS)
    shell.world.write({value: frozenset({-1}) for value in VALUES})
    shown = shell.run("show", T, "1", "--json", "--all")
    assert not RAW.search(shown.out)
    names = [one["name"] for one in shown.json["partitions"]]
    for name in names:
        assert shell.run("rollback", T, "--version", "1", "--partition", name, "--json").code == 0, name
    assert shell.world.rows() == ROWS
    for words in (("history", T), ("show", T, "1", "--all"), ("vacuum", T, "--older-than", "0", "--force", "--all")):
        ran = shell.run(*words, "--verbose")
        assert not RAW.search(ran.out + ran.err)


@pytest.mark.parametrize(
    "name", ["", "d1", "/", "dt=d1/x", "dt=d1/dt=d1", "other=d1", "../dt=d1", "dt=nothing", "\x1b[2J"]
)
def test_a_name_of_no_partition_is_a_wrong_call_that_changes_nothing(shell: Shell, name: str) -> None:
    shell.world.write({"d1": frozenset({1})})
    shell.world.write({"d1": frozenset({2})})
    before = bodies(shell.world.store)
    for words in (("rollback", T, "--version", "1"), ("restore", T)):
        ran = shell.run(*words, "--partition", name)
        assert ran.code == 2, ran
        assert "\x1b" not in ran.out + ran.err
    assert bodies(shell.world.store) == before


HOSTILE = {
    "user": "\u202eroot\x1b]0;x\x07",
    "host": MARKUP,
    "application_id": "../../x\n\nfaked line",
    "pid": "1; reboot",
    "process": "\x00/\x00/\x00/\x00",
}


def test_hostile_users_hosts_tags_and_keys_are_escaped(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenTable, "identity", HOSTILE)
    world, attacked = shell.world, Attacked()
    world.write({"d1": frozenset({1})})
    tags = {MARKUP: "\x1b[2J", "\u202e": "../../x"}
    said = {"tags": tags, "call": f"\r\x1b[1A{MARKUP}\x1b[2J", "where": f"name = '{MARKUP}\x00'"}
    texts = {"key": {"text": f"../../{MARKUP}\x00/0"}, "schema": "\x00"}
    attacked.add_entry({"writer": HOSTILE, "counts": {"deleted": 1}, **said, **texts, "replaced": []})
    shell.world = attacked
    for words in (("history", T), ("show", T, "3"), ("recover", T), ("rollback", T, "--version", "2", "--verbose")):
        for more in ((), ("--json",)):
            ran = shell.run(*words, *more)
            assert ran.code == 0, ran
            assert not RAW.search(ran.out + ran.err)
    for keeper in (world.keeper, attacked.keeper):
        for report in (keeper.history(T), keeper.show(T, 1), keeper.vacuum(T, older_than=NOW, force=True)):
            assert "<script" not in report._repr_html_()
            assert "<img" not in report._repr_html_()
            assert not any(RAW.search(text) for text in (report._repr_html_(), repr(report)))
    newest = attacked.keeper.history(T).versions
    assert MARKUP in {tag for one in newest for tag in one.tags}, "facts stay as they are; what renders them escapes"
    assert f"name = '{MARKUP}\x00'" in {one.where for one in newest}
    line = next(one for one in repr(world.keeper.history(T)).splitlines() if "root" in one)
    assert "\\u202eroot\\x1b]0;x\\x07@<script>" in line, "in plain text markup is text"


def test_an_entry_is_data_only() -> None:
    """Nothing in it is code, a class, or a file to be read."""
    world = Attacked()
    evil = {"__class__": "os.system", "py/object": "subprocess.Popen", "$ref": "file:///etc/passwd", "!!python": "x"}
    world.add_entry({**evil, "writer": {name: str(value) for name, value in evil.items()}, "replaced": []})
    entry = world.services().log.slots.read(3).entry
    assert type(entry) is LogEntry
    assert {type(value) for value in entry.writer.values()} == {str}
    assert not evil.keys() & set(dir(entry)) - {"__class__"}


def test_spark_writes_hostile_values_and_reads_them_back(lakehouse: Lakehouse, lakehouse_database: str) -> None:
    """Those that Derby tells apart and Spark can write: it trims no value and takes an empty one for null."""
    spark, name = lakehouse.spark, f"{lakehouse_database}.orders"
    spark.sql(f"CREATE TABLE {name} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    rows = spark.createDataFrame([*enumerate(BY_SPARK), (-1, None)], "id INT, dt STRING").repartition(1)
    writer = TableWriter(spark)
    result = writer.overwrite_partitions(rows, name)
    services = SessionServices(spark, writer._services.config)
    opened = services.open_to_write(name)
    expected = {*enumerate(BY_SPARK), (-1, None)}
    assert read(spark, name) == expected
    keys = [info.key for info in opened.store.list(opened.layout.all_data.key)]
    data = opened.layout.data(result.write_id).key
    assert all(re.fullmatch(r"dt=[^/]+/part-[^/]+", key.removeprefix(data)) for key in keys)
    assert len(keys) == len(expected)
    keeper = Maintenance(services=services)
    writer.overwrite_partitions(rows.selectExpr("id + 1000 AS id", "dt"), name)
    keeper.rollback(name, version=1, partitions=[one.name for one in keeper.show(name, 1).partitions])
    keeper.vacuum(name, older_than=timedelta(0), force=True)
    spark.catalog.refreshTable(name)
    assert read(spark, name) == expected
    assert "<script" not in result._repr_html_()
    assert not RAW.search(result._repr_html_() + repr(result))


def read(spark: Any, table: str) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in spark.table(table).collect()}
