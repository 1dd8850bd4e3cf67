"""What one look at a table says: the same as history, vacuum and recover say, also where the log is damaged."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.model.write_mode import WriteMode
from table_writer.reports.page.table_page import TablePage
from tests.publish.world import TABLE, DeathError, Fault, World

T = str(TABLE)
BOTH = {"d1": frozenset({1}), "d2": frozenset({2, 3})}


@pytest.fixture
def world() -> World:
    return World()


def looked(world: World, limit: int = 1_000) -> TablePage:
    return world.keeper.report(T, limit=limit)


def health_and_words(page: TablePage) -> tuple[str, str]:
    return page.health, "\n".join(f"{one.message} {one.advice}" for one in page.troubles)


def test_it_says_what_history_and_a_dry_run_of_vacuum_say(world: World) -> None:
    world.write(BOTH)
    world.write({"d2": frozenset({4})})
    page = looked(world)
    assert page.versions == world.keeper.history(T).versions
    assert page.vacuum == world.keeper.vacuum(T, dry_run=True)
    assert (page.version, page.health, page.troubles, page.rows, page.files) == (2, "ok", (), 2, 2)
    assert [(one.name, one.version, one.state) for one in page.partitions] == [
        ("dt=d1", 1, "in place"),
        ("dt=d2", 2, "in place"),
    ]
    assert [(one.name, one.changes) for one in page.generations] == [
        ("dt=d1", ((1, "added"),)),
        ("dt=d2", ((1, "added"), (2, "replaced"))),
    ]
    assert sum(one.locations for one in page.left) == 1
    assert page.bytes == page.versions[0].table_bytes


def test_what_is_left_is_due_when_a_vacuum_would_delete_it(world: World) -> None:
    world.write(BOTH)
    world.write(BOTH)
    assert sum(one.due_bytes for one in looked(world).left) == 0
    world.skipped_seconds += timedelta(days=4).total_seconds()
    page = looked(world)
    assert page.vacuum is not None
    assert sum(one.due_bytes for one in page.left) == page.vacuum.bytes_freed > 0
    assert next(one for one in page.left if one.locations).older_than_days == 3


def test_it_changes_nothing(world: World) -> None:
    world.write(BOTH)
    world.write(BOTH)
    before = {one.key: one.etag for one in world.store.list("")}, world.partitions()
    looked(world)
    assert ({one.key: one.etag for one in world.store.list("")}, world.partitions()) == before


def test_a_publish_in_doubt_is_named_with_the_command_that_resolves_it(world: World) -> None:
    world.write(BOTH)
    with suppress(TableWriterError), world.inject(Fault("metastore", "alter_partitions", 1, "after", Exception)):
        world.write(BOTH)
    if looked(world).healthy:  # the writer found out by itself
        world.store.delete([world.layout.outcome_key(2)])
    health, words = health_and_words(looked(world))
    assert health == "in doubt"
    assert "version 2 is in doubt: the write of" in words
    assert "another tool" not in words
    assert {one.name: one.state for one in looked(world).partitions} == {"dt=d1": "in doubt", "dt=d2": "in doubt"}
    assert f"table-writer recover {T}" in words


def test_what_a_publish_in_doubt_may_have_added_is_in_doubt_for_the_page_and_for_those_who_wait_for_it(
    world: World,
) -> None:
    world.write(BOTH)
    world.write({"d2": frozenset({4})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))  # drops d1
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(BOTH)
    (day,) = world.keeper.partitions(T, ["dt=d1"]).partitions
    assert day.state == "in doubt"
    assert {one.name: one.state for one in looked(world).partitions} == {"dt=d1": "in doubt", "dt=d2": "in place"}


def test_partitions_that_a_late_call_has_put_back_are_behind(world: World) -> None:
    world.write(BOTH)
    older = world.partitions()["d1"].location
    world.write(BOTH)
    world.pointed_by_another_tool("d1", older)
    page = looked(world)
    health, words = health_and_words(page)
    assert (health, "readers see older rows than were published in 1 partition" in words) == ("behind", True)
    assert {one.name: one.state for one in page.partitions} == {"dt=d1": "behind", "dt=d2": "in place"}


@pytest.mark.parametrize("meanwhile", ["rollback", "write"])
def test_what_is_published_between_a_look_at_the_log_and_one_at_the_metastore_is_no_harm(
    world: World, meanwhile: str
) -> None:
    world.write(BOTH)
    world.write(BOTH)
    act = {"rollback": lambda: world.keeper.rollback(T, version=1), "write": lambda: world.write(BOTH)}[meanwhile]
    looks: list[str] = []

    def called(call: str, phase: str) -> None:
        if (call, phase) == ("get_partition_names", "before"):
            looks.append(call)
            if len(looks) == 1:
                act()

    with world._hooked(lambda *_: None, called):
        page = looked(world)
    assert (page.version, page.health, page.troubles) == (3, "ok", ())
    assert {one.state for one in page.partitions} == {"in place"}


def test_what_other_tools_have_done_is_worth_knowing_and_no_harm(world: World) -> None:
    world.write(BOTH)
    world.written_by_another_tool("d1", frozenset({7}))
    world.written_by_another_tool("d9", frozenset({9}))
    world.metastore.drop_partition(world.table, ("d2",))
    page = looked(world)
    health, words = health_and_words(page)
    assert health == "ok"
    assert "the metastore lacks 1 published partition: dt=d2" in words
    assert "another tool has moved 1 partition, left alone here: dt=d1" in words
    assert {one.name: (one.state, one.rows) for one in page.partitions} == {
        "dt=d1": ("moved", None),
        "dt=d2": ("missing", None),
        "dt=d9": ("not in the log", None),
    }
    assert page.partition_count == 2, "what readers find"


@pytest.mark.parametrize("limit", [1_000, 1])
@pytest.mark.parametrize(
    "body", [b"", b'{"format": 1}', b"\x1f\x8b\x00broken", None], ids=["empty", "short", "gzip", "gone"]
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_page_is_made_of_a_damaged_log_and_says_so(
    world: World, version: int, body: bytes | None, limit: int
) -> None:
    for number in range(3):
        world.write({"d1": frozenset({number}), f"d{number + 2}": frozenset({number})})
    key = world.layout.entry_key(version)
    world.store.delete([key])
    if body is not None:
        world.store.put(key, body)
    page = looked(world, limit)
    assert page.health == "failed"
    assert [one.version for one in page.versions] == [one for one in (3, 2, 1) if one != version]
    assert page.version == 3
    assert page.vacuum is None
    words = page.to_html()
    assert f"version {version} cannot be read" in words if body is not None else f"(version {version})" in words
    assert {one.name for one in page.partitions} >= {"dt=d1", "dt=d2", "dt=d3", "dt=d4"}


def test_a_table_that_was_never_written_has_a_page_that_says_so(world: World) -> None:
    page = looked(world)
    assert (page.version, page.versions, page.healthy) == (0, (), True)
    assert "this library has not written the table yet" in page.to_html()


def test_older_versions_are_counted_and_not_read(world: World) -> None:
    for number in range(5):
        world.write({"d1": frozenset({number}), "d2": frozenset({number})})
    page = looked(world, limit=2)
    assert ([one.version for one in page.versions], page.older_count) == ([5, 4], 3)
    assert [one.table_bytes for one in page.versions] == [None, None]
    assert [one.name for one in page.partitions] == ["dt=d1", "dt=d2"], "where they are, takes all of the log"
    assert "3 older ones are in the log" in page.to_html()
    assert page.to_text().endswith("3 older versions not read")
    with pytest.raises(InvalidInputError, match="limit=0"):
        looked(world, limit=0)


def test_staged_writes_are_at_work_until_they_expire(world: World) -> None:
    world.write(BOTH)
    write_id = world.stage(BOTH)
    assert [(one.write_id, one.state) for one in looked(world).at_work] == [(write_id, "staged")]
    world.skipped_seconds += 6_000
    assert looked(world).at_work == ()


def test_a_dropped_partition_is_none(world: World) -> None:
    world.write(BOTH)
    world.write({"d1": frozenset({5})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    page = looked(world)
    assert [one.name for one in page.partitions] == ["dt=d1"]
    assert {one.name: one.changes[-1] for one in page.generations}["dt=d2"] == (2, "dropped")
