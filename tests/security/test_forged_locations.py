"""Well-formed entries that name locations they should not: whatever they say, only the table's own garbage goes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from table_writer.errors import TableWriterError
from table_writer.model.location import Location
from tests.security.attacked import CALLS, NEIGHBOURS, Attacked, bodies, survives_every_call

LONG_AGO: Final = "2001-01-01T00:00:00+00:00"
LOCATIONS: Final = (
    *("", ".", "./", "/", "//", "..", "://", "s3://", "\x00", "x" * 10_000),  # no places
    *("_table_writer", "_table_writer/", "_table_writer//", "_table_writer/./", "_table_writer_of_mine/"),
    *("_table_writer/data/", "_table_writer/data//", "_table_writer/empty/", "_table_writer/log/"),
    *("_table_writer/writes/", "_table_writer/owner.json", "_table_writer/data/ /", "_table_writer/data/\x00/"),
    *("_table_writer/data/\u202e/", "_table_writer/data/{live}/", "_table_writer/data/{live}/dt=d1/"),
    *("_table_writer//data/./{live}//dt=d1", "_table_writer/data/{live}/dt=d1/..", "_table_writer/data/{live}/dt=d"),
    *("dt=d5/", "dt=d5", "dt=d", "../orders_v2/", "%2e%2e/orders_v2/"),
    *("s3a://lake/", "s3a://lake", "S3://lake/mart/", "s3a://lake/mart/orders", "s3n://lake/mart/orders/"),
    *("s3a://lake/mart/orders_v2/", "s3a://lake/mart/orders /", "s3a://lake/mart/order"),
    *("s3a://lake/mart/orders/../orders_v2/", f"s3a://lake/{NEIGHBOURS[0].removesuffix('dt=d1/part-0.json')}"),
    *(f"s3a://{bucket}/mart/orders/_table_writer/data/{{live}}/dt=d1/" for bucket in ("other", "LAKE", "")),
    *("s3a:///lake/mart/orders/", "file:///etc/", "file:/etc/", "file://etc/"),
    *("hdfs://namenode/mart/orders/", "gs://lake/mart/orders/"),
)


def forged(location: str, *, by: str) -> Attacked:
    """A world in whose log somebody has said that readers have left a location, in one way or another."""
    world = Attacked()
    text = location.replace("{live}", world.live_write_id)
    listed = [
        {"key": info.key, "size": info.size_bytes, "etag": info.etag}
        for info in world.store.list("")
        if info.key not in NEIGHBOURS[-2:]
    ]
    live = tuple(Location.parse(one.location).key for one in world.partitions().values())
    unseen = [one for one in listed if not one["key"].startswith(live)]  # one that readers see spares them all
    partition = {"values": ["d3"], "rows": 0, "bytes": 0, "raw_bytes": 0, "files": 0, "old_location": text}
    left = {"location": text, "delete_after": LONG_AGO}
    deletes = [{"location": text, "replaced_by": None}, {"location": text, "replaced_by": 1}]
    ways: dict[str, dict[str, Any]] = {
        "replaced": {"replaced": [{**left, "objects": []}]},
        "replaced, every object listed": {"replaced": [{**left, "objects": listed}]},
        "replaced, every object listed that no reader sees": {"replaced": [{**left, "objects": unseen}]},
        "old location": {"partitions": [{**partition, "new_location": "_table_writer/data/forged/dt=d3/"}]},
        "vacuum that died": {"operation": "vacuum", "deletes": deletes},
        "abandoned": {"partitions": [{**partition, "new_location": text}]},
    }
    outcome = {"vacuum that died": None, "abandoned": "abandoned"}.get(by, "published")
    world.add_entry({"partitions": [], "replaced": [], "deletes": [], **ways[by]}, outcome=outcome)
    return world


WAYS: Final = (
    *("replaced", "replaced, every object listed", "replaced, every object listed that no reader sees"),
    *("old location", "vacuum that died", "abandoned"),
)


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("call", ["vacuum", "recover"])
def test_a_location_in_the_log_deletes_nothing_that_is_not_the_tables_garbage(by: str, call: str) -> None:
    for location in LOCATIONS:
        error = survives_every_call(lambda location=location: forged(location, by=by), [call])[call]
        assert not error or "log entry 3" in error, (location, error)


@pytest.mark.parametrize("location", ["_table_writer/data/{live}/", "..", "file:///etc/", "", "s3a://other/x/"])
@pytest.mark.parametrize("by", WAYS)
def test_every_other_call_leaves_all_objects_as_they_are(by: str, location: str) -> None:
    survives_every_call(lambda: forged(location, by=by))


@pytest.mark.parametrize("location", LOCATIONS, ids=lambda text: repr(text[:60]))
def test_a_partition_that_another_tool_has_put_anywhere_does_not_make_a_vacuum_delete_more(location: str) -> None:
    world = Attacked()
    text = location.replace("{live}", world.live_write_id)
    if "://" not in text and not text.startswith("file:"):
        text = world.root + text
    world.pointed_by_another_tool("d7", text)
    before = bodies(world.store)
    try:
        CALLS["vacuum"](world.keeper)
    except TableWriterError as error:
        assert "full location" in str(error) or "'..'" in str(error)  # noqa: PT017  # other calls end without one
        assert bodies(world.store) == before
    lost = before.keys() - bodies(world.store).keys()
    assert lost <= world.garbage
