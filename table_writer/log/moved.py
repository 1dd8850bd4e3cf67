"""A table that another tool has renamed or moved, so that its log and its rows are not where the metastore says.

Of a managed, unpartitioned table made with ``USING``, Spark's ``ALTER TABLE ... RENAME`` moves the SerDe parameter
``path`` to an empty directory, and nothing else. Hive's moves the directory and not ``path``. ``SET LOCATION`` moves
the location and no file.
"""

from __future__ import annotations

from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.log.files import files_read_at
from table_writer.log.owner import places_of
from table_writer.metastore.protocol import Metastore
from table_writer.model.location import Location
from table_writer.model.table import ROOT_PARAMETER, Table
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectStore

__all__ = ["home_of", "is_moved", "refuse_left_log", "require_in_place"]

LOOKED_AT: Final = 250  # partitions at the first write: what one call of the metastore answers


def is_moved(layout: TableLayout, table: Table) -> bool:
    """Whether an unpartitioned table that was published is outside its root, or at two places at once. No I/O."""
    if table.partition_columns or ROOT_PARAMETER not in table.parameters:
        return False
    return _is_split(table) or not layout.root.contains(Location.parse(table.location))


def home_of(store: ObjectStore, layout: TableLayout, table: Table) -> TableLayout:
    """Return the layout below the first place the table names where a log lies; as given if there is none."""
    named = (TableLayout(place, layout.directory_name) for place in places_of(table))
    return next((one for one in named if store.head(one.owner_key) is not None), layout)


def require_in_place(store: ObjectStore, layout: TableLayout, table: Table) -> None:
    """Refuse a table whose location is neither the log's nor holds its files.

    Of a table whose locations agree this takes no request.

    Raises
    ------
    InvalidInputError
        Names the places, and the way out.
    """
    name = table.name
    if is_moved(layout, table):
        raise InvalidInputError(
            f"{name} is at {_places(table)}, and its log and its rows are below {layout.root}: another tool has renamed"
            " or moved it (ALTER TABLE ... RENAME TO or SET LOCATION), and a write would build on what is there now."
            f" Nothing was changed. Adopt it: `table-writer adopt {name}` or TableWriter(spark).adopt({str(name)!r})"
            " points readers at its rows again, unless somebody has written elsewhere since. To go on with what is"
            f" there now: ALTER TABLE {name} UNSET TBLPROPERTIES ('{ROOT_PARAMETER}'), which begins a new log there and"
            f" leaves {layout.root} to you.",
            table=str(name),
        )
    if table.hive_location and _is_split(table) and _is_at_hives(store, layout, table):
        raise InvalidInputError(
            f"{name} is at {_places(table)}, and its files are where Hive looks: Hive has renamed or moved it, and the"
            f" SerDe parameter path, where Spark looks, has stayed. Nothing was changed. ALTER TABLE {name} SET"
            f" LOCATION '{table.hive_location.rstrip('/')}' in Spark puts both there.",
            table=str(name),
        )


def refuse_left_log(metastore: Metastore, layout: TableLayout, table: Table) -> None:
    """Refuse to begin a log where partitions say that the table has one elsewhere; the newest names are looked at.

    Raises
    ------
    InvalidInputError
        Names the place, and the ways out.
    """
    names = sorted(metastore.get_partition_names(table.name) if table.partition_columns else ())
    for partition in metastore.get_partitions(table, names[-LOOKED_AT:]).values():
        location = Location.parse_any(partition.location)
        before, found, _ = f"/{location.key}".partition(f"/{layout.directory_name}/") if location else ("", "", "")
        if location and found and not layout.own.contains(location):
            left = Location(location.scheme, location.bucket, f"{before.removeprefix('/')}/".removeprefix("/"))
            raise InvalidInputError(
                f"{table.name} is at {layout.root}, which has no log, and its partitions are below {left}, which this"
                f" library has written: another tool has moved the table (SET LOCATION). ALTER TABLE {table.name} SET"
                f" LOCATION '{str(left).rstrip('/')}' brings it back to its log. `table-writer adopt {table.name}`"
                " begins a new log here instead; nothing deletes the files there then.",
                table=str(table.name),
            )


def _is_at_hives(store: ObjectStore, layout: TableLayout, table: Table) -> bool:
    """Whether the log is where only Hive looks, or, of an unpartitioned table without a log, all files are."""
    hives = TableLayout(Location.parse(table.hive_location), layout.directory_name)
    if store.head(layout.owner_key) is not None:
        return False
    if store.head(hives.owner_key) is not None:
        return True
    seen = (any(files_read_at(store, one, one.root)) for one in (hives, layout))
    return not table.partition_columns and list(seen) == [True, False]


def _is_split(table: Table) -> bool:
    hives = Location.parse(table.hive_location or table.location)
    return not hives.same_place(Location.parse(table.location))


def _places(table: Table) -> str:
    return f"{table.location} (for Hive at {table.hive_location})" if table.hive_location else table.location
