"""One place has many spellings: data stays that readers reach by any of them, and look-alikes protect nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.model.table import Partition
from table_writer.reports.vacuum_reports import VacuumReport
from tests.publish.world import TABLE, TableWorld
from tests.security.attacked import NOW, Attacked, T, bodies, local_world

S3 = settings(max_examples=50, deadline=None)
slashes = st.integers(1, 3).map(lambda count: "/" * count)
between = st.one_of(slashes, st.just("/./"), st.just("//././/"))


@st.composite
def spelled(draw: st.DrawFn, authority: str, key: str) -> str:
    """Spell a path with more slashes and dots than it needs, with or without the last one."""
    text = authority + draw(between)
    for segment in key.strip("/").split("/"):
        text += segment + draw(between)
    return draw(st.sampled_from([text, text.rstrip("/."), text.rstrip("/.") + "/"]))


@st.composite
def s3_spelled(draw: st.DrawFn, key: str) -> str:
    scheme = draw(st.sampled_from(["s3", "s3a", "s3n", "S3", "S3A", "s3A", "S3n"]))
    return draw(spelled(f"{scheme}://lake", key))


def replaced_key(world: TableWorld) -> str:
    """Where d1 was before: the one location that a vacuum deletes here."""
    (location,) = (one.location for one in world.history().state.left_locations.values())
    return location.key


def vacuum_while_pointed_at(world: TableWorld, location: str) -> VacuumReport:
    world.metastore.put_partition(TABLE, Partition(values=("d7",), location=location))  # type: ignore[attr-defined]
    return world.keeper.vacuum(T, older_than=NOW, force=True)


@S3
@given(st.data())
def test_data_stays_that_a_partition_names_or_meets_in_any_spelling(data: st.DataObject) -> None:
    world = Attacked()
    key = replaced_key(world)
    meets = [f"{key}hour=1/", key.rsplit("/", 2)[0], "mart/orders/_table_writer", "mart"]
    named = data.draw(st.sampled_from([key, key, *meets]))
    report = vacuum_while_pointed_at(world, data.draw(s3_spelled(named)))
    assert any(found.startswith(key) for found in bodies(world.store))
    assert named != key or f"s3a://lake/{key}" in {one.location for one in report.kept}


LOOK_ALIKES: dict[str, Callable[[str], str]] = {
    "another bucket": lambda key: f"s3a://lake2/{key}",
    "a bucket in capitals": lambda key: f"s3a://LAKE/{key}",
    "a bucket in the path": lambda key: f"s3a:///lake/{key}",
    "a bucket with a port": lambda key: f"s3a://lake:9000/{key}",
    "another store": lambda key: f"hdfs://lake/{key}",
    "a scheme of no store": lambda key: f"s3b://lake/{key}",
    "a file": lambda key: f"file:///{key}",
    "a longer sibling": lambda key: f"s3a://lake/{key[:-1]}1/",
    "a shorter sibling": lambda key: f"s3a://lake/{key[:-2]}/",
    "a space at its end": lambda key: f"s3a://lake/{key[:-1]} /",
    "capitals in the key": lambda key: f"s3a://lake/{key.upper()}",
    "an encoded slash": lambda key: f"s3a://lake/{key.replace('/dt', '%2Fdt')}",
    "an encoded letter": lambda key: f"s3a://lake/{key.replace('d', '%64')}",
    "an encoded underscore": lambda key: f"s3a://lake/{key.replace('_table', '%5Ftable')}",
    "an encoded equals sign": lambda key: f"s3a://lake/{key.replace('=', '%3D')}",
    "backslashes": lambda key: f"s3a://lake/{key[:-1].replace('/', chr(92))}/",
    "a query": lambda key: f"s3a://lake/{key[:-1]}?x/",
    "three dots": lambda key: f"s3a://lake/.../{key}",
    "another unicode spelling": lambda key: f"s3a://lake/{key}".replace("d1", "d\u0661"),
}


@pytest.mark.parametrize("look_alike", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_what_only_looks_alike_protects_nothing(look_alike: Callable[[str], str]) -> None:
    """Percent signs are characters of the key: Hadoop's ``Path`` decodes nothing, so no reader finds files there."""
    world = Attacked()
    key = replaced_key(world)
    vacuum_while_pointed_at(world, look_alike(key))
    assert not any(found.startswith(key) for found in bodies(world.store))


@pytest.mark.parametrize(
    "twin", ["{key}1/x", "{parent}dt=d11/x", "{parent}dt=d/x", "{parent}dt=d1", "{parent}dt=d1 /x"]
)
def test_what_only_looks_alike_is_not_deleted(twin: str) -> None:
    """A neighbour whose name begins like the deleted one's: its key has the other's as a prefix, but for the slash."""
    world = Attacked()
    key = replaced_key(world)
    neighbour = twin.format(key=key[:-1], parent=key.removesuffix("dt=d1/"))
    world.store.put(neighbour, b"stays")
    world.keeper.vacuum(T, older_than=NOW, force=True)
    assert neighbour in bodies(world.store)


@pytest.mark.parametrize(
    "location", ["", "mart/orders/dt=1", "/mart/orders", "s3a://lake/mart/../mart/orders", "s3a:", "lake/x", "s3a:lake"]
)
def test_a_location_that_cannot_be_compared_stops_the_vacuum_before_anything_is_deleted(location: str) -> None:
    world = Attacked()
    before = bodies(world.store)
    stored = Partition(values=("d7",), location=location)
    world.metastore._partitions[TABLE][("d7",)] = stored
    if location == "s3a:":  # a store without a bucket: nothing of ours is there
        world.keeper.vacuum(T, older_than=NOW, force=True)
        return
    with pytest.raises(InvalidInputError, match="location"):
        world.keeper.vacuum(T, older_than=NOW, force=True)
    assert bodies(world.store) == before


@pytest.fixture
def local(tmp_path: Path) -> TableWorld:
    """The table in a directory of this machine."""
    world = local_world(tmp_path)
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    world.write({"d1": frozenset({10})})
    return world


FILE_SPELLINGS = (
    "file:/{path}",
    "file:///{path}",
    "file:////{path}",
    "FILE:/{path}",
    "File:///{path}",
    "file:/./{path}",
)


@pytest.mark.parametrize("spelling", FILE_SPELLINGS)
@pytest.mark.parametrize("end", ["", "/", "//", "/./"])
def test_files_stay_that_a_partition_names_in_any_spelling(local: TableWorld, spelling: str, end: str) -> None:
    key = replaced_key(local)
    stored = Partition(values=("d7",), location=spelling.format(path=key[:-1]) + end)
    local.metastore._partitions[TABLE][("d7",)] = stored  # type: ignore[attr-defined]
    local.keeper.vacuum(T, older_than=timedelta(0), force=True)
    assert list(Path(f"/{key}").iterdir())


@pytest.mark.parametrize("spelling", ["file://{path}", "file://other/{path}", "file:///x/{path}", "s3a:///{path}"])
def test_files_on_another_host_or_in_another_directory_protect_nothing(local: TableWorld, spelling: str) -> None:
    """After two slashes comes a host: Hadoop refuses to read there (``Wrong FS``)."""
    key = replaced_key(local)
    vacuum_while_pointed_at(local, spelling.format(path=key))
    assert not Path(f"/{key}").exists()


def test_links_among_a_dead_writes_files_lead_a_vacuum_nowhere(local: TableWorld, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious.txt").write_text("stays")
    dead = Path(f"/{local.layout.all_data.key}") / "20240101T000000-0000000000000000"
    dead.mkdir()
    (dead / "garbage.json").write_text("[]")
    (dead / "link").symlink_to(elsewhere)
    (dead.parent / "20240101T000000-1111111111111111").symlink_to(elsewhere)
    local.keeper.vacuum(T, older_than=timedelta(0), force=True)
    assert not (dead / "garbage.json").exists()
    assert (elsewhere / "precious.txt").read_text() == "stays"


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_parsing_undoes_every_spelling(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(["a/", "a/b/", "mart/orders/_table_writer/data/w/dt=%2F/"]))
    found = Location.parse(data.draw(s3_spelled(key)))
    assert found.place == ("s3", "lake", key)
    assert Location.parse(str(found)) == found
