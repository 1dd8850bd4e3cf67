"""Whether other tools' files below a root may be another table's: then a vacuum does not delete them.

The first write refuses a root around another table's. A table can be made later, in any database, or be known to
another metastore only. So a vacuum looks again before it deletes files of other tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from table_writer.errors import StorageError
from table_writer.log.history import Left
from table_writer.log.owner import other_tables, places_of
from table_writer.metastore.protocol import Metastore
from table_writer.model.location import Location, Place, PlaceSet
from table_writer.model.table import Table, TableName
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectStore

__all__ = ["Others"]

THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class Others:
    """The other tables of a metastore, and the roots of others that the store shows.

    Not seen is a *partition* that somebody has pointed below this root by hand, while its table lies elsewhere: that
    would take all partitions of all tables.
    """

    layout: TableLayout
    tables: dict[Place, TableName]
    _places: PlaceSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", PlaceSet(self.tables))

    @classmethod
    def of(cls, metastore: Metastore, layout: TableLayout, table: Table) -> Others:
        """Read all tables of all databases; kept are only those that lie below, at or around the root."""
        root = PlaceSet([layout.root.place])
        near = (
            (location.place, other.name) for other in other_tables(metastore, table) for location in places_of(other)
        )
        return cls(layout, {place: name for place, name in near if root.meets(place)})

    def reasons(self, store: ObjectStore, locations: Iterable[Left]) -> dict[Place, str]:
        """Say why locations of other tools stay: one request for each directory that holds a listed file."""
        foreign = [left for left in locations if left.objects]
        directories = {one for left in foreign for found in left.objects for one in self._above(found.key)}
        with ThreadPoolExecutor(THREADS, thread_name_prefix="vacuum-look") as pool:
            answers = zip(directories, pool.map(partial(self._why_root, store), directories), strict=True)
            roots = {directory: why for directory, why in answers if why}
        found = ((left.location.place, self._reason(left, roots)) for left in foreign)
        return {place: reason for place, reason in found if reason}

    def _reason(self, left: Left, roots: Mapping[str, str]) -> str:
        store, bucket, _ = left.location.place
        for found in left.objects:
            holder = self._places.holder((store, bucket, found.key))
            if holder is not None:
                return f"files there may be those of table {self.tables[holder]}, whose location holds them"
            inner = next((one for one in self._above(found.key) if one in roots), None)
            if inner is not None:
                return f"files there may be those of another table, {roots[inner]}"
        return ""

    def _above(self, key: str) -> Iterable[str]:
        """Return the directories between the root and a file."""
        root = self.layout.root.key
        below = key.removeprefix(root).split("/")[:-1]
        return (f"{root}{'/'.join(below[:depth])}/" for depth in range(1, len(below) + 1))

    def _why_root(self, store: ObjectStore, directory: str) -> str:
        """Say of what a directory is, or may be, the root; empty: it is none."""
        owner_key = TableLayout(self._location(directory), self.layout.directory_name).owner_key
        try:
            is_root = store.head(owner_key) is not None
        except StorageError as error:  # a policy may not allow to look
            return f"whose root may be {self._location(directory)}: {error.message}"
        return f"whose root is {self._location(directory)}" if is_root else ""

    def _location(self, key: str) -> Location:
        return Location(self.layout.root.scheme, self.layout.root.bucket, key)
