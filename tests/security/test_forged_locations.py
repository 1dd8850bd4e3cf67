"""Well-formed entries that name locations they should not: whatever they say, only the table's own garbage goes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from table_writer.errors import TableWriterError
from table_writer.model.location import Location
from tests.security.attacked import CALLS, NEIGHBOURS, Attacked, bodies, survives_every_call

LONG_AGO: Final = "2001-01-01T00:00:00+00:00"
LOCATIONS: Final = (
    "",
    ".",
    "./",
    "/",
    "//",
    "_table_writer",
    "_table_writer/",
    "_table_writer//",
    "_table_writer/./",
    "_table_writer/data/",
    "_table_writer/data//",
    "_table_writer/empty/",
    "_table_writer/log/",
    "_table_writer/writes/",
    "_table_writer/owner.json",
    "_table_writer/data/{live}/",
    "_table_writer/data/{live}/dt=d1/",
    "_table_writer//data/./{live}//dt=d1",
    "_table_writer/data/{live}/dt=d1/..",
    "_table_writer/data/{live}/dt=d",
    "_table_writer/data/ /",
    "_table_writer_of_mine/",
    "dt=d5/",
    "dt=d5",
    "dt=d",
    "../orders_v2/",
    "..",
    "%2e%2e/orders_v2/",
    "s3a://lake/",
    "s3a://lake",
    "S3://lake/mart/",
    "s3a://lake/mart/orders",
    "s3n://lake/mart/orders/",
    "s3a://lake/mart/orders_v2/",
    "s3a://lake/mart/orders /",
    "s3a://lake/mart/order",
    "s3a://lake/mart/orders/../orders_v2/",
    "s3a://lake/mart/orders_v2/_table_writer/data/20240101T000000-0000000000000000/",
    "s3a://other/mart/orders/_table_writer/data/{live}/dt=d1/",
    "s3a://LAKE/mart/orders/_table_writer/data/{live}/dt=d1/",
    "s3a:///lake/mart/orders/",
    "s3://",
    "file:///etc/",
    "file:/etc/",
    "file://etc/",
    "hdfs://namenode/mart/orders/",
    "gs://lake/mart/orders/",
    "://",
    "x" * 10_000,
    "\x00",
    "_table_writer/data/\x00/",
    "_table_writer/data/\u202e/",
)


def forged(location: str, *, by: str) -> Attacked:
    """A world in whose log somebody has said that readers have left a location, in one way or another."""
    world = Attacked()
    text = location.replace("{live}", world.live_write_id)
    listed = [
        {"key": info.key, "size": info.size_bytes, "etag": info.etag}
        for info in world.store.list("")
        if info.key not in {"mart/orders/notes.txt", "mart/orders/_table_writer_of_mine/data/w/part-0.json"}
    ]
    live = tuple(Location.parse(one.location).key for one in world.partitions().values())
    unseen = [one for one in listed if not one["key"].startswith(live)]  # one that readers see spares them all
    partition = {"values": ["d3"], "rows": 0, "bytes": 0, "raw_bytes": 0, "files": 0}
    fields: dict[str, Any] = {"partitions": [], "replaced": [], "deletes": []}
    outcome: str | None = "published"
    if by == "replaced":
        fields["replaced"] = [{"location": text, "delete_after": LONG_AGO, "objects": []}]
    elif by == "replaced, every object listed":
        fields["replaced"] = [{"location": text, "delete_after": LONG_AGO, "objects": listed}]
    elif by == "replaced, every object listed that no reader sees":
        fields["replaced"] = [{"location": text, "delete_after": LONG_AGO, "objects": unseen}]
    elif by == "old location":
        fields["partitions"] = [{**partition, "old_location": text, "new_location": "_table_writer/data/forged/dt=d3/"}]
    elif by == "vacuum that died":
        outcome = None
        fields |= {
            "operation": "vacuum",
            "deletes": [{"location": text, "replaced_by": None}, {"location": text, "replaced_by": 1}],
        }
    elif by == "abandoned":
        outcome = "abandoned"
        fields["partitions"] = [{**partition, "old_location": text, "new_location": text}]
    world.add_entry(fields, outcome=outcome)
    return world


WAYS: Final = (
    "replaced",
    "replaced, every object listed",
    "replaced, every object listed that no reader sees",
    "old location",
    "vacuum that died",
    "abandoned",
)


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("call", ["vacuum", "recover"])
def test_a_location_in_the_log_deletes_nothing_that_is_not_the_tables_garbage(by: str, call: str) -> None:
    for location in LOCATIONS:
        world = forged(location, by=by)
        before = bodies(world.store)
        error = ""
        try:
            CALLS[call](world.keeper)
        except TableWriterError as raised:
            error = str(raised)
        after = bodies(world.store)
        lost = {key for key, body in before.items() if after.get(key) != body}
        assert lost <= world.garbage, (location, sorted(lost - world.garbage))
        if error:
            assert "log entry 3" in error, (location, error)
        assert all(key in after for key in NEIGHBOURS)


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
