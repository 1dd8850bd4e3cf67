"""Files of one version, copied out of where appends in place have put others beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from table_writer.errors import ConflictError
from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition
from table_writer.model.location import Location
from table_writer.model.table import Table, name_in
from table_writer.model.write import new_write_id
from table_writer.protocol.log.history import History
from table_writer.protocol.operations.entry import FilesThere
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import ObjectInfo, SourceChangedError, many


class SeparateCopies:
    """The copies that a rollback or a restore takes: in one location nobody can tell the files of a version apart.

    They lie in a directory of its own entry's. One that does not come to its claim leaves that to a vacuum.
    """

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened
        self.write_id = new_write_id()
        """The id of the entry; kept for the next slot, since files may have been copied for it."""
        self._copies: Mapping[str, ObjectInfo] = {}  # by new key
        self._planned_for: Sequence[FilesThere] = ()
        self._made_for: Sequence[FilesThere] | None = None

    def partitions_of(self, found: Sequence[FilesThere], history: History) -> tuple[EntryPartition, ...]:
        """Return the partitions to point readers at: where their files lie alone, else where the copies come to."""
        place, state = self._opened.layout.data(self.write_id).place, history.state
        if found != self._made_for or place in state.deleted_places or place in state.doomed_places:
            self.write_id, self._made_for = new_write_id(), None
        partitions: list[EntryPartition] = []
        copies: dict[str, ObjectInfo] = {}
        for checked in found:
            partition = checked.described
            if checked.others:
                location = self._opened.layout.data(self.write_id).child(name_in(self._opened.table, partition.values))
                prefix = Location.parse(str(partition.new_location)).key
                copies |= {f"{location.key}{file.key.removeprefix(prefix)}": file for file in checked.files}
                partition = replace(partition, new_location=str(location))
            partitions.append(partition)
        self._copies, self._planned_for = copies, found
        return tuple(partitions)

    @property
    def notes(self) -> tuple[str, ...]:
        """Say how much is copied."""
        note = f"{Contents.of(self._copies.values())} copied: appends in place have added to them"
        return (note,) if self._copies else ()

    def make(self) -> None:
        """Copy, unless that was done for the slot before; ``ConflictError`` if a file was changed meanwhile."""
        if self._made_for is not None:
            return
        try:
            many(lambda key: self._opened.store.copy(self._copies[key], key), self._copies)
        except SourceChangedError as gone:
            raise moved_error(self._opened.table) from gone
        self._made_for = self._planned_for


def moved_error(table: Table) -> ConflictError:
    """Return the error for partitions of which somebody else has moved some meanwhile."""
    return ConflictError(
        f"partitions of {table.name} were moved by somebody else while they were being put back; nothing changed."
        " Look at the history and decide again.",
        table=str(table.name),
    )
