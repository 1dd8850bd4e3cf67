"""A mirror in Iceberg's format: ``_iceberg/`` in the table's root, and a table in a catalog.

==============  ======================================================================
``table``       the mirror as it lies in store and catalog: read, write, tidy, drop
``catalog``     what names the newest metadata: the commit is here
``snapshot``    what readers find, and what a change makes of it
``manifests``   the files that say so
``columns``     columns, values and statistics as Iceberg has them
``files``       pyiceberg's files in this library's store
==============  ======================================================================
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

from table_writer.errors import MissingExtraError, needs_extra
from table_writer.mirrors.mirror import Held, Mirror, MirrorChange
from table_writer.model.location import Location
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.root_markers import iceberg_note
from table_writer.storage.footers import Names

__all__ = ["iceberg_mirror"]

KIND: Final = "iceberg"


def iceberg_mirror(opened: OpenTable) -> Mirror:
    """Return the mirror of a table; without pyiceberg one that can only tell whether there is none."""
    try:
        with needs_extra("iceberg", "an Iceberg mirror"):
            from table_writer.mirrors.iceberg.table import IcebergMirror  # noqa: PLC0415 - an optional extra
    except MissingExtraError as missing:
        return _WithoutLibrary(opened, missing)
    return IcebergMirror(opened)


@dataclass(frozen=True)
class _WithoutLibrary:
    """The mirror of a table for a process that cannot read it."""

    numbers_versions: ClassVar = False
    opened: OpenTable
    missing: MissingExtraError

    def read(self) -> Held | None:
        number = self.opened.log.lister.mirror(KIND).number
        if self.opened.store.head(iceberg_note(self.opened.layout.root, number)) is None:
            return None
        raise self.missing

    def is_there(self, held: Held) -> bool:  # noqa: ARG002  # nothing can be done
        raise self.missing

    def why_unfit(self, wanted: Names, there: Names, *, has_ids: bool) -> str:  # noqa: ARG002  # nothing can be done
        raise self.missing

    def write(self, held: Held | None, change: MirrorChange) -> Held | None:  # noqa: ARG002  # nothing can be done
        raise self.missing

    def hand_over(self, held: Held, version: int) -> Held | None:  # noqa: ARG002  # nothing can be done
        raise self.missing

    def take_back(self, held: Held, version: int) -> Held | None:  # noqa: ARG002  # nothing can be done
        raise self.missing

    def release(self, locations: Collection[Location]) -> None:  # noqa: ARG002  # nothing can be done
        raise self.missing

    def tidy(self, older_than_seconds: float) -> None:  # noqa: ARG002  # nothing can be done
        self.read()

    def why_unguarded(self) -> str:
        raise self.missing

    def retire(self, held: Held) -> Held | None:  # noqa: ARG002  # nothing can be done
        raise self.missing

    def drop(self, held: Held | None) -> int:  # noqa: ARG002  # nothing can be done
        raise self.missing
