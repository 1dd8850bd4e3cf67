"""Calls on many tables: each gets what the call on one does, and one that fails stops no other."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError, MetastoreError, StorageError
from table_writer.maintenance import Maintenance
from table_writer.model.table import TableName
from table_writer.progress import Progress
from table_writer.protocol.table.services import Services
from table_writer.reports.many_reports import ManyInterruptedError, ManyReport
from table_writer.reports.vacuum_reports import VacuumReport
from table_writer.storage.local.store import LocalStore
from table_writer.storage.object_store import StoreSettings
from table_writer.storage.s3.settings import S3Settings
from tests.maintenance.operations import garbage
from tests.publish.world import DeathError, Fault, FaultyWorld, TableWorld, World

DAY = 86_400.0
ONE = {"d1": frozenset({1}), "d2": frozenset({2})}
IDLE_REQUESTS, REQUESTS_A_VERSION, IDLE_CALLS = 10, 2, 4
SHARED = {"get_all_databases", "get_all_tables"}
FLEET, VERSIONS = 60, 4 / 3  # tables, and versions of each on average


def add_table(world: World, name: str, *, database: str = "mart", bucket: str = "lake", **fields: Any) -> TableWorld:
    """Make another table in a world's metastore."""
    root = f"s3a://{bucket}/{database}/{name}/"
    made = replace(world.table, name=TableName(database, name), location=root, hive_location="")
    world.metastore.create_table(replace(made, **fields))
    return TableWorld(world.store, world.metastore, TableName(database, name), root, sleep=world.sleep)


@pytest.fixture
def world() -> World:
    """A world whose own table was never written: others stand beside it."""
    world = World(config=TableWriterConfig(progress="off"))
    world.sleep = lambda seconds: setattr(world, "skipped_seconds", world.skipped_seconds + seconds)
    return world


def fleet(world: World, count: int) -> list[TableWorld]:
    made = [add_table(world, f"t{number:03}") for number in range(count)]
    for number, one in enumerate(made):
        one.write(ONE)
        if number % 3 == 0:
            one.write({"d1": frozenset({number})})
    return made


@contextmanager
def counted_per_table(world: World, count: int, found: dict[str, float]) -> Iterator[None]:
    """Count requests and metastore calls of a block; those that list databases and tables are shared."""
    requests, calls = Counter(world.store.request_counts()), Counter(world.metastore.call_counts())
    yield
    own = {name: by for name, by in (Counter(world.metastore.call_counts()) - calls).items() if name not in SHARED}
    found["requests"] = (Counter(world.store.request_counts()) - requests).total() / count
    found["calls"] = sum(own.values()) / count


def test_sixty_idle_tables_cost_some_ten_requests_each(world: World) -> None:
    fleet(world, FLEET)
    keeper = world.keeper
    keeper.vacuum_many(database="mart")
    names = [f"mart.t{number:03}" for number in range(FLEET)]
    calls: list[Callable[[], Any]] = [
        lambda: keeper.tables("mart"),
        keeper.tables,
        lambda: keeper.vacuum_many(database="mart"),
        lambda: keeper.vacuum_many(database="mart", dry_run=True),
        lambda: keeper.vacuum_many(names),
        lambda: keeper.recover_many(database="mart"),
        lambda: keeper.recover_many(names),
    ]
    passed_over = 1 / FLEET  # a request at the one table that was never written
    for call in calls:
        found: dict[str, float] = {}
        with counted_per_table(world, FLEET, found):
            report = call()
        assert found["requests"] <= IDLE_REQUESTS + REQUESTS_A_VERSION * VERSIONS + passed_over
        assert found["calls"] <= IDLE_CALLS
        assert len(getattr(report, "tables", ()) or report.results) == FLEET


def test_tables_changes_nothing(world: World) -> None:
    fleet(world, 3)
    before = [(one.key, one.etag, one.modified_at) for one in world.store.list("")]
    world.keeper.tables()
    world.keeper.vacuum_many(dry_run=True)
    world.keeper.recover_many(dry_run=True)
    assert [(one.key, one.etag, one.modified_at) for one in world.store.list("")] == before


def test_what_this_library_has_not_written_is_passed_over(world: World) -> None:
    fleet(world, 2)
    add_table(world, "plain")
    add_table(world, "view", kind="VIRTUAL_VIEW")
    add_table(world, "no_place", location="", kind="VIRTUAL_VIEW")
    add_table(world, "iceberg", parameters={"table_type": "ICEBERG"})
    add_table(world, "delta", parameters={"spark.sql.sources.provider": "DELTA"})
    add_table(world, "far", location="hdfs://namenode/mart/far/")
    seen: list[str] = []
    world.store.on_call = lambda _call, _phase, key: seen.append(key)
    for report in (world.keeper.tables("mart"), world.keeper.vacuum_many(), world.keeper.recover_many()):
        assert report.others_count == 7
    touched = {key.split("/")[1] for key in seen}
    assert touched.isdisjoint({"view", "iceberg", "delta", "far"})
    assert sum("/plain/" in key for key in seen) / 2 == 3  # before and after; one request each


def test_tables_say_how_they_are(world: World) -> None:
    good, doubtful, due, behind = (add_table(world, name) for name in ("good", "doubtful", "due", "behind"))
    for one in (good, doubtful, due, behind):
        one.write(ONE)
    behind.write({"d1": frozenset({5})})
    due.write({"d1": frozenset({10_000})})
    in_doubt(world, doubtful)
    first = behind.history().records[0].entry.partitions[0].new_location
    assert first is not None
    behind.pointed_by_another_tool("d1", first)
    world.skipped_seconds += 4 * DAY
    found = {one.table: one for one in world.keeper.tables("mart").tables}
    assert {name: one.health for name, one in found.items()} == {
        "mart.behind": "behind",
        "mart.doubtful": "in doubt",
        "mart.due": "ok",
        "mart.good": "ok",
    }
    assert found["mart.doubtful"].in_doubt == (2,)
    assert found["mart.behind"].behind == ("dt=d1",)
    assert found["mart.due"].free_bytes == len("[1]")
    assert found["mart.good"].version == 1
    assert found["mart.good"].age_seconds == pytest.approx(4 * DAY, rel=0.2)
    text = world.keeper.tables("mart").to_text()
    assert "`table-writer recover mart.doubtful`" in text
    assert text.index("mart.behind") < text.index("mart.good")
    assert "mart.good" in world.keeper.tables("mart")._repr_html_()
    assert world.keeper.tables("mart").to_dict()["tables"][1]["in_doubt"] == [2]


def in_doubt(world: World, one: TableWorld) -> None:
    faulty = FaultyWorld(world.store, world.metastore, one.name, one.root, sleep=world.sleep)
    fault = Fault("metastore", "alter_partitions", 1, "before", DeathError)
    with faulty.inject(fault), pytest.raises(DeathError):
        faulty.write({"d1": frozenset({99})})


# Failures


def test_one_that_fails_stops_no_other(world: World) -> None:
    made = {name: add_table(world, name) for name in ("damaged", "foreign", "good", "lost", "reborn", "wrong")}
    for one in made.values():
        one.write(ONE)
        one.write({"d1": frozenset({3})})
    world.store.put(made["damaged"].layout.entry_key(1), b"{")
    world.store.delete([made["lost"].layout.entry_key(1)])
    reborn = made["reborn"].table
    world.metastore.create_table(replace(reborn, created_at_seconds=reborn.created_at_seconds + 60))
    wrong = made["wrong"].table
    world.metastore.create_table(replace(wrong, parameters={"table_writer.retentions": "5"}))
    names = [*(f"mart.{name}" for name in made), "mart.not_there", "mart.orders"]
    for report in (world.keeper.vacuum_many(names), world.keeper.recover_many(names)):
        failed = {one.table: type(one.error) for one in report.failed}
        assert failed.keys() >= {"mart.damaged", "mart.lost", "mart.reborn", "mart.not_there"}
        assert all(issubclass(kind, InvalidInputError) for kind in failed.values())
        done = {one.table for one in report.results if one.error is None}
        assert done >= {"mart.good", "mart.foreign", "mart.orders"}
        assert f"FAILED: {'mart.not_there'}" in report.to_text() or "mart.not_there" in report.to_text()
    tables = {one.table: one for one in world.keeper.tables("mart").tables}
    assert {name for name, one in tables.items() if one.health == "failed"} == {
        *("mart.damaged", "mart.lost", "mart.reborn", "mart.wrong")
    }
    assert tables["mart.damaged"].version == 2
    assert tables["mart.damaged"].error is not None
    assert tables["mart.damaged"].error["code"] == "invalid_input"


def test_a_store_that_cannot_be_reached_fails_its_tables_alone(world: World) -> None:
    near, far = add_table(world, "near"), add_table(world, "far", bucket="gone")
    near.write(ONE)
    far.write(ONE)

    class Unreachable:
        def __getattr__(self, name: str) -> Any:
            raise StorageError("gone.example: no route to host")

    def open_store(settings: StoreSettings) -> Any:
        return Unreachable() if isinstance(settings, S3Settings) and settings.bucket == "gone" else world.store

    services = Services(
        SessionSettings(hadoop={"hive.metastore.uris": "thrift://metastore:9083"}),
        TableWriterConfig(progress="off"),
        open_metastore=lambda _: world.metastore,
        open_object_store=open_store,
    )
    keeper = Maintenance(services=services)
    for report in (keeper.vacuum_many(database="mart"), keeper.recover_many()):
        assert [(one.table, type(one.error)) for one in report.failed] == [("mart.far", StorageError)]
        assert [one.table for one in report.results if one.error is None] == ["mart.near"]
    assert {one.table: one.health for one in keeper.tables().tables} == {"mart.far": "failed", "mart.near": "ok"}


def test_a_table_that_is_dropped_before_its_turn_is_passed_over(world: World) -> None:
    gone, stays = fleet(world, 2)
    listed = list(world.metastore.get_tables("mart"))
    world.metastore.drop_table(gone.name)
    world.metastore.get_tables = lambda _: listed  # type: ignore[method-assign]
    for report in (world.keeper.vacuum_many(), world.keeper.recover_many()):
        assert [(one.table, one.error) for one in report.results] == [(str(stays.name), None)]
    assert [one.table for one in world.keeper.tables().tables] == [str(stays.name)]


def test_a_database_that_cannot_be_listed_stops_no_other(world: World) -> None:
    fleet(world, 1)
    add_table(world, "t", database="broken")
    real = world.metastore.get_tables

    def get_tables(database: str) -> Any:
        if database == "broken":
            raise MetastoreError("table of which nobody knows")
        return real(database)

    world.metastore.get_tables = get_tables  # type: ignore[method-assign]
    report = world.keeper.vacuum_many()
    assert [(one.table, one.outcome) for one in report.results] == [
        ("broken.*", "failed"),
        ("mart.t000", "nothing to do"),
    ]
    assert [one.health for one in world.keeper.tables().tables] == ["failed", "ok"]


def test_a_bug_of_ours_is_the_result_of_its_table(world: World) -> None:
    fleet(world, 2)

    def fail(_call: str, _phase: str, key: str) -> None:
        if "t000" in key:
            raise KeyError(key)

    world.store.on_call = fail
    report = world.keeper.vacuum_many(database="mart")
    assert [one.error is None for one in report.results] == [False, True]
    assert report.to_dict()["results"][0]["error"]["code"] == "internal"


def test_after_ctrl_c_no_further_table_is_begun_and_the_report_says_which(world: World) -> None:
    fleet(world, 30)
    before = set(threading.enumerate())  # Spark, where it runs, has threads of its own
    touched: set[str] = set()
    lock = threading.Lock()

    def interrupt(_call: str, _phase: str, key: str) -> None:
        with lock:
            touched.add(key.split("/")[1])
            if len(touched) > 10:
                raise KeyboardInterrupt

    world.store.on_call = interrupt
    with pytest.raises(ManyInterruptedError) as caught:
        world.keeper.vacuum_many(database="mart", workers=2)
    world.store.on_call = None
    report = caught.value.report
    assert isinstance(report, ManyReport)
    assert (len(report.results), report.others_count) == (30, 1)
    codes = Counter(type(one.error) for one in report.results)
    assert codes[type(None)] >= 5
    assert codes[KeyboardInterrupt] >= 15
    assert len(touched) <= 12
    assert "interrupted before its turn" in report.to_text(all_rows=True)
    assert set(threading.enumerate()) <= before, "threads that are left"
    assert all(one.error is None for one in world.keeper.vacuum_many(database="mart").results)


@pytest.mark.parametrize("presses", [1, 2])
def test_the_first_ctrl_c_waits_for_those_at_work_and_the_second_does_not(world: World, presses: int) -> None:
    """Nothing here depends on time: each step waits for the event that makes it due."""
    fleet(world, 6)
    tables: set[str] = set()
    all_at_work, is_noticed, go_on = threading.Event(), threading.Event(), threading.Event()

    def block(_call: str, _phase: str, key: str) -> None:
        tables.add(key.split("/")[1])
        if len(tables) >= 2:
            all_at_work.set()
        go_on.wait(60)

    class Noticed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("interrupted: "):
                is_noticed.set()

    def press() -> None:
        for event in (all_at_work, is_noticed)[:presses]:
            event.wait(60)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if presses == 1:
            is_noticed.wait(60)
            go_on.set()

    world.store.on_call = block
    pressing, noticed = threading.Thread(target=press), Noticed()
    logging.getLogger("table_writer").addHandler(noticed)
    pressing.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            world.keeper.vacuum_many(database="mart", workers=2)
    finally:
        logging.getLogger("table_writer").removeHandler(noticed)
        go_on.set()
        pressing.join()
    assert isinstance(caught.value, ManyInterruptedError) == (presses == 1)
    if isinstance(caught.value, ManyInterruptedError):
        assert isinstance(caught.value.report, ManyReport)
        assert [one.error is None for one in caught.value.report.results].count(True) == 1  # beside mart.orders


def test_progress_counts_tables(world: World) -> None:
    fleet(world, 4)
    told: list[Progress] = []
    world.config = TableWriterConfig(progress=told.append)
    world.store.on_call = lambda call, phase, _key: (
        time.sleep(0.4) if (call, phase) == ("list_page", "before") else None
    )
    world.keeper.tables("mart", workers=2)
    assert {(one.table, one.step, one.unit, one.total) for one in told} == {("mart.*", "look", "tables", 5)}
    assert (told[-1].state, told[-1].done) == ("done", 5)
    assert str(told[0]).startswith("mart.*: look, ")


def test_tables_on_files_are_idle_too(world: World, tmp_path: Path) -> None:
    store = LocalStore()
    name = TableName("files", "orders")
    root = f"file://{tmp_path}/orders/"
    world.metastore.create_table(replace(world.table, name=name, location=root, hive_location=""))
    one = TableWorld(store, world.metastore, name, root, TableWriterConfig(progress="off"))
    one.write(ONE)
    one.write({"d1": frozenset({3})})
    keeper = one.keeper
    for _ in range(2):
        assert [found.outcome for found in keeper.vacuum_many(database="files").results] == ["nothing to do"]
    before = Counter(store.request_counts())
    assert [found.health for found in keeper.tables("files").tables] == ["ok"]
    assert (Counter(store.request_counts()) - before).total() <= IDLE_REQUESTS + REQUESTS_A_VERSION * 2
    (tmp_path / "orders" / "_table_writer" / "log" / f"{1:020d}.done").unlink()
    assert [found.health for found in keeper.tables("files").tables] == ["in doubt"]


# Which tables


def test_one_table_spelled_in_several_ways_is_visited_once(world: World) -> None:
    fleet(world, 1)
    report = world.keeper.vacuum_many(["mart.t000", "MART.T000", "`mart`.`t000`", "spark_catalog.mart.t000"])
    assert [one.table for one in report.results] == ["mart.t000"]
    assert len(world.keeper.tables(["mart", "MART"]).tables) == 1


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda keeper: keeper.tables("marts"), "there is no database 'marts'; did you mean mart"),
        (lambda keeper: keeper.vacuum_many(database=["mart", "nowhere"]), "there is no database 'nowhere'"),
        (lambda keeper: keeper.vacuum_many(database="ma*"), "Patterns are not read"),
        (lambda keeper: keeper.vacuum_many(["mart.*"]), "is a pattern"),
        (lambda keeper: keeper.vacuum_many(["mart.a", "a.b.c.d"]), "is not a table name"),
        (lambda keeper: keeper.vacuum_many([]), "no table is named"),
        (lambda keeper: keeper.tables([]), "no database is named"),
        (lambda keeper: keeper.vacuum_many("mart.t000"), "expected a list"),
        (lambda keeper: keeper.recover_many(["mart.a"], database="mart"), "exclude each other"),
        (lambda keeper: keeper.recover_many(workers=0), "expected 1 to 64"),
        (lambda keeper: keeper.vacuum_many(older_than=timedelta(hours=1)), "is less than 1 day"),
    ],
)
def test_a_wrong_call_does_nothing(world: World, call: Callable[[Maintenance], object], why: str) -> None:
    fleet(world, 1)
    seen: list[str] = []
    world.store.on_call = lambda operation, _phase, _key: seen.append(operation)
    with pytest.raises(InvalidInputError, match=why.replace("*", r"\*")):
        call(world.keeper)
    assert seen == []


def test_a_view_or_a_table_of_another_format_that_is_named_is_refused(world: World) -> None:
    add_table(world, "view", kind="VIRTUAL_VIEW")
    add_table(world, "ice", parameters={"table_type": "ICEBERG"})
    report = world.keeper.vacuum_many(["mart.view", "mart.ice"])
    assert [str(one.error) for one in report.results] == [
        "mart.ice is of format iceberg: only its own tools look after it",
        "mart.view is a view (VIRTUAL_VIEW): it has no log of its own",
    ]


def test_each_worker_has_a_connection_of_its_own(world: World) -> None:
    fleet(world, 20)
    opened: list[str] = []
    services = world.all_services()
    beside = services.beside
    services.beside = lambda: (opened.append("one"), beside())[1]  # type: ignore[method-assign]
    Maintenance(services=services).vacuum_many(workers=3)
    assert len(opened) == 3


# The same as of one table


def visited(world: World) -> TableWorld:
    """Return a table at which a vacuum has found nothing to do."""
    table_world = add_table(world, "visited")
    table_world.write(ONE)
    table_world.write({"d1": frozenset({3})})
    world.keeper.vacuum_many(["mart.visited"])
    return table_world


def age(world: World, _: TableWorld) -> None:
    world.skipped_seconds += 3 * DAY + 60


def dead_write(world: World, one: TableWorld) -> None:
    faulty = FaultyWorld(world.store, world.metastore, one.name, one.root, sleep=world.sleep)
    fault = Fault("store", "complete_upload", 1, "before", DeathError)
    with faulty.inject(fault), pytest.raises(DeathError):
        faulty.write({"d9": frozenset({9})})
    world.skipped_seconds += 2.9 * DAY


def stray_object(world: World, one: TableWorld) -> None:
    one.store.put(f"{one.layout.data('20240101T000000-0123456789abcdef').key}dt=d1/part-0", b"[1]")
    world.skipped_seconds += 2.9 * DAY


def lost_entry(_: World, one: TableWorld) -> None:
    one.store.delete([one.layout.entry_key(1)])


def damaged_entry(_: World, one: TableWorld) -> None:
    one.store.put(one.layout.entry_key(1), b"{")


def other_owner(_: World, one: TableWorld) -> None:
    one.store.put(one.layout.owner_key, b"{}")


def born_again(world: World, one: TableWorld) -> None:
    table = one.table
    world.metastore.create_table(replace(table, created_at_seconds=table.created_at_seconds + 60))


def doubtful(world: World, one: TableWorld) -> None:
    in_doubt(world, one)
    world.skipped_seconds += 20_000


def short_retention(world: World, one: TableWorld) -> None:
    table = one.table
    world.metastore.create_table(replace(table, parameters={**table.parameters, "table_writer.retention": "25"}))
    world.skipped_seconds += 26 * 3600


def wrong_property(world: World, one: TableWorld) -> None:
    table = one.table
    world.metastore.create_table(replace(table, parameters={**table.parameters, "table_writer.retentions": "25"}))


CHANGES = [
    *(age, dead_write, stray_object, lost_entry, damaged_entry, other_owner, born_again, doubtful, short_retention),
    wrong_property,
]


@pytest.mark.parametrize("change", CHANGES)
def test_many_are_told_what_one_is_told(world: World, change: Callable[[World, TableWorld], None]) -> None:
    one = visited(world)
    change(world, one)
    assert_same(world, one)
    with suppress(InvalidInputError):
        whole = world.keeper.vacuum("mart.visited", dry_run=True)
        assert [one.free_bytes for one in world.keeper.tables("mart").tables] == [whole.bytes_freed]


def assert_same(world: World, one: TableWorld) -> None:
    """Compare the calls on many tables with those on one; all are dry runs."""
    name = str(one.name)
    alone: dict[str, Any] = {}
    for what, call in (("vacuum", world.keeper.vacuum), ("recover", world.keeper.recover)):
        try:
            alone[what] = call(name, dry_run=True).to_dict()
        except InvalidInputError as error:
            alone[what] = error.message
    many = {
        "vacuum": world.keeper.vacuum_many([name], dry_run=True).results[0],
        "recover": world.keeper.recover_many([name], dry_run=True).results[0],
    }
    for what, one_result in many.items():
        found: Any = one_result.error.message if isinstance(one_result.error, InvalidInputError) else None
        if one_result.report is not None:
            found = one_result.report.to_dict()
        assert said(found) == said(alone[what]), what


def said(found: Mapping[str, Any] | str) -> Any:
    """Return what a report says without ages that go on."""
    if isinstance(found, str):
        return found
    for path in found.get("deleted", ()):
        path["reason"] = path["reason"].rpartition(" ")[0] if "hours" in path["reason"] else path["reason"]
    return found


def test_a_metastore_that_was_set_back_is_noticed(world: World) -> None:
    one = visited(world)
    first = one.history().records[0].entry.partitions[0].new_location
    assert first is not None
    one.pointed_by_another_tool("d1", first)
    assert world.keeper.tables("mart").tables[0].health == "behind"
    assert [one.report.put_right for one in world.keeper.recover_many(database="mart").results if one.report] == [
        ("dt=d1",)
    ]
    assert one.rows()["d1"] == frozenset({3})


def test_a_dropped_partition_is_named_each_time(world: World) -> None:
    one = visited(world)
    world.metastore.drop_partition(one.table, ("d2",))
    missing = [
        [found.report.missing for found in world.keeper.recover_many().results if found.report] for _ in range(3)
    ]
    assert missing == [[("dt=d2",)]] * 3


def test_an_unpartitioned_table_is_idle_too(world: World) -> None:
    one = add_table(world, "whole", partition_columns=())
    one.write({"": frozenset({1})})
    one.write({"": frozenset({2})})
    world.keeper.vacuum_many()
    for call in (world.keeper.vacuum_many, world.keeper.recover_many, world.keeper.tables):
        found: dict[str, float] = {}
        with counted_per_table(world, 1, found):
            call()
        assert found["requests"] <= IDLE_REQUESTS + REQUESTS_A_VERSION * 2 + 1  # one at a table never written
        assert found["calls"] <= IDLE_CALLS
    assert one.rows() == {"": frozenset({2})}


def test_a_report_of_a_vacuum_is_that_of_the_table(world: World) -> None:
    fleet(world, 1)
    world.skipped_seconds = 4 * DAY
    (one,) = world.keeper.vacuum_many(dry_run=True).results
    assert isinstance(one.report, VacuumReport)
    assert one.report.dry_run
    assert one.outcome == "done"
    assert one.report.bytes_freed == 3


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("kind", [Exception, DeathError])
def test_wherever_a_vacuum_of_many_fails_the_next_ones_leave_nothing(kind: type[BaseException], phase: str) -> None:
    calls = calls_of_a_vacuum()
    assert len(calls) > 30
    numbers: Counter[tuple[str, str]] = Counter()
    for service, call in calls:
        numbers[service, call] += 1
        world, fault = started(), Fault(service, call, numbers[service, call], phase, kind)
        rows = world.rows()
        with world.inject(fault), suppress(DeathError, MetastoreError):
            world.keeper.vacuum_many(workers=1)
        assert world.rows() == rows, fault
        world.wait_out_claims()
        world.skipped_seconds += 4 * DAY
        for _ in range(2):  # the second takes over what the first could not know yet
            results = world.keeper.vacuum_many(workers=1).results
            assert [(one.error, one.report and one.report.failures) for one in results] == [(None, ())], fault
        assert (world.rows(), world.leftovers()) == (rows, []), fault
        assert_same(world, world)


def started() -> World:
    world = World(config=TableWriterConfig(progress="off"))
    world.sleep = lambda seconds: setattr(world, "skipped_seconds", world.skipped_seconds + seconds)
    garbage(world)
    world.skipped_seconds += 4 * DAY
    return world


def calls_of_a_vacuum() -> list[tuple[str, str]]:
    world = started()
    with world.recording() as found:
        world.keeper.vacuum_many(workers=1)
    return found
