"""Directories in a table's root by which some readers take other files for its rows than the metastore says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.model.table import Table
from table_writer.storage.object_store import ObjectStore

SINK: Final = "_spark_metadata"
DELTA_LOG: Final = "_delta_log"
ICEBERG_MIRROR: Final = "_iceberg"  # of an Iceberg mirror; a table of Iceberg's own has "metadata"
MOST_COMMITS_READ: Final = 50  # of a log that may be another tool's: no write waits for all of them
OF_OWN_COMMIT: Final = (b'"appId":"table_writer"', b'"engineInfo":"table_writer/')
MARKERS: Final = {
    SINK: (
        "a list of files that a stream of Spark keeps there (writeStream.start or toTable): Spark takes the files of"
        " that list alone for the table's rows, so what anybody else writes is not seen. Write the stream with"
        " foreachBatch(TableWriter(spark).for_each_batch(...)) into a table of its own place, or, once no stream writes"
        f" there, delete {SINK}/; files of batches that failed are rows then"
    ),
    DELTA_LOG: "the log of a Delta table: write it with Delta, or make the table over another place",
    ".hoodie": "the timeline of a Hudi table: write it with Hudi, or make the table over another place",
    "_symlink_format_manifest": (
        "lists of files that readers of a Delta table go by: they would not see these rows. Delete them if nobody does"
    ),
}
ICEBERG: Final = "metadata"
NOTE: Final = re.compile(r"table_writer(-\d+)?\.json")  # as iceberg_note names it
ACID: Final = re.compile(r"base_\d+(_v\d+)?|(delete_)?delta_\d+_\d+(_\d+)?(_v\d+)?")


def iceberg_note(root: Location, number: int) -> str:
    """Return the key of what says in which catalog an Iceberg mirror is found; each mirror of a table has its own."""
    return f"{root.child(ICEBERG_MIRROR).key}table_writer{f'-{number}' if number else ''}.json"


def why_marked(store: ObjectStore, root: Location) -> Iterator[str]:
    """Yield what is in a root that makes some readers look elsewhere, each with what to do: one listing, or two."""
    names = store.list_directories(root.key)
    own = {DELTA_LOG} if DELTA_LOG in names and is_own_delta_log(store, root) else set()
    yield from (f"{root}{name}/ is {MARKERS[name]}" for name in names if name in MARKERS and name not in own)
    if acid := next(filter(ACID.fullmatch, names), ""):
        yield f"{root}{acid}/ is of a Hive ACID table: only Hive can write it; make the table over another place"
    if ICEBERG in names:
        files = store.list_files(f"{root.key}{ICEBERG}/")
        if any(key.endswith(".metadata.json") for key in files):
            advice = "write it with Iceberg, or make the table over another place"
            yield f"{root}{ICEBERG}/ is the metadata of an Iceberg table: {advice}"


def is_own_delta_log(store: ObjectStore, root: Location) -> bool:
    """Return whether the Delta log in a root is a mirror of this library: one of its newest commits says so."""
    commits = [key for key in store.list_files(f"{root.key}{DELTA_LOG}/") if key.endswith(".json")]
    bodies = (store.get(key) for key in commits[: -MOST_COMMITS_READ - 1 : -1])
    return any(found is not None and any(mark in found.body for mark in OF_OWN_COMMIT) for found in bodies)


def is_own_iceberg_mirror(store: ObjectStore, root: Location) -> bool:
    """Return whether this library keeps an Iceberg mirror in a root: the note of one says so."""
    names = (key.rpartition("/")[2] for key in store.list_files(f"{root.key}{ICEBERG_MIRROR}/"))
    return any(NOTE.fullmatch(name) for name in names)


def refuse_sink(store: ObjectStore, root: Location, table: Table) -> None:
    """Refuse a root in which a stream of Spark keeps its list of files, perhaps since yesterday: one listing a write.

    The other marks are of whole tables of another format, which nobody begins over rows that are there without a word.
    An unpartitioned table leaves its root with its first write, and the list with it.
    """
    if table.partition_columns and store.list_files(f"{root.key}{SINK}/"):
        _refuse(table, f"{root}{SINK}/ is {MARKERS[SINK]}")


def refuse_marked_root(store: ObjectStore, root: Location, table: Table) -> None:
    """Refuse a root where some readers look elsewhere: at a table's first write, when it is made, and adopted."""
    if reason := next(why_marked(store, root), ""):
        _refuse(table, reason)


def _refuse(table: Table, reason: str) -> NoReturn:
    raise InvalidInputError(f"readers of {table.name} would not see its rows: {reason}.", table=str(table.name))
