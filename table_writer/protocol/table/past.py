"""A table after an earlier version: where its partitions were, and which files readers found there.

``read`` goes by it. What nobody can know is an error here, and never other rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from table_writer.errors import InvalidInputError, few
from table_writer.metastore.settings import GLUE_SCHEME
from table_writer.model.contents import Contents
from table_writer.model.entry import Outcome, ReplacedObject
from table_writer.model.location import Location, Place, same_place
from table_writer.model.table import RETENTION_PROPERTY, PartitionValues, PastPartition, quoted, shown_name
from table_writer.protocol.log.changes import changes_between
from table_writer.protocol.log.past_states import PastLocation
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.versions import (
    newest_known_version,
    oldest_whole_version,
    require_known_version,
    version_meant,
)
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import is_hidden
from table_writer.storage.table_files import files_read_at, written_placeholders

SHOWN: Final = 5
WHOLE_SECOND: Final = timedelta(milliseconds=999)  # a store that keeps seconds says when the second began


class _NotKnownError(Exception):
    """Nobody knows what readers saw of one partition, or it is gone; the text is the reason, for a person."""


class Past:
    """The partitions of one table after one version, which is named as for :func:`version_meant`; else the newest.

    The metastore is read before the log: what readers were pointed at until then has its entry there.
    """

    def __init__(
        self,
        opened: OpenTable,
        *,
        version: int | None = None,
        as_of: datetime | None = None,
        write_id: str | None = None,
    ) -> None:
        self._opened = opened
        self._now = opened.metastore.get_all_partitions(opened.table)
        self._history = history = opened.log.read_history()
        is_newest = version is None and as_of is None and write_id is None
        self.version = (
            newest_known_version(history)
            if is_newest
            else version_meant(history, opened.table, version=version, as_of=as_of, write_id=write_id)
        )
        require_known_version(history, self.version, opened.table)
        self._written_until = None if is_newest else self._seen_until()  # others' rows of today are part of today
        doubtful = reversed(
            history.records.in_doubt
        )  # the oldest wins: a recovery names the partitions of its entry again
        self._in_doubt = {partition.values: partition for record in doubtful for partition in record.entry.partitions}
        self._put_back = self._dropped_and_put_back() if is_newest else {}
        self._listed = self._replaced_objects()
        self._wrong: dict[PartitionValues, str] = {}
        self._otherwise: set[PartitionValues] = set()  # those of which the metastore says another description

    def partitions(self, names: Collection[str] | None = None) -> tuple[PastPartition, ...]:
        """Return what readers found after the version, of all partitions or of those named.

        One of which nobody knows that any more refuses the call.

        Files are not looked at: they are compared with what is returned when they are read.
        """
        opened, history = self._opened, self._history
        chosen = opened.partition_values(names)
        states = {**self._partitions_of_others(), **history.past.at(self.version), **self._put_back}
        if unknown := set(chosen or ()) - states.keys():
            raise InvalidInputError(
                f"no partition {few(opened.partition_names(unknown))} of {opened.table.name} is in the"
                " log or in the metastore",
                table=str(opened.table.name),
            )
        named = sorted(states if chosen is None else chosen)
        past_partitions = [self._past_partition(values, states[values]) for values in named]
        if self._wrong:
            raise self._refusal()
        return tuple(partition for partition in past_partitions if partition is not None)

    def differing_from(self, version: int) -> tuple[PartitionValues, ...]:
        """Return the partitions whose rows differ from those of an earlier version, by the log alone."""
        facts = changes_between(self._history, version, self.version, self._opened.table)
        return tuple(partition.values for partition in facts)

    @property
    def existing(self) -> frozenset[PartitionValues]:
        """The partitions that the metastore has, as it was read before the log."""
        return frozenset(self._now)

    def location_now(self, values: PartitionValues) -> Location | None:
        """Return where readers look for a partition, as the metastore was read before the log."""
        return Location.parse_any(self._now[values].location) if values in self._now else None

    @property
    def subject(self) -> str:
        """The subject of an error message."""
        return f"version {self.version} of {self._opened.table.name} cannot be read any more"

    def _past_partition(self, values: PartitionValues, state: PastLocation) -> PastPartition | None:
        """Return a partition as it was; ``None`` if there was none, or if it is noted as wrong."""
        try:
            past = self._as_it_was(values, state)
        except _NotKnownError as why:
            self._wrong[values] = str(why)
            return None
        if past is not None and values in self._now and self._now[values].differs:
            self._wrong[values] = f"it {self._now[values].differs}, and would be read as the table is today"
            self._otherwise.add(values)
            return None
        return past

    def _as_it_was(self, values: PartitionValues, state: PastLocation) -> PastPartition | None:
        opened, history = self._opened, self._history
        is_put_back = values in self._put_back
        if not is_put_back and (why := self._why_unsure(values, state)):
            raise _NotKnownError(why)
        if state.location is None:
            return None
        location = Location.parse_any(state.location)
        if location is None:
            raise _NotKnownError(f"its location {state.location!r} cannot be read")
        if not is_put_back and history.past.is_deleted(location):
            erasure = history.past.erasure_of(location)
            raise _NotKnownError(f"its files at {location} were {erasure.erased if erasure else 'deleted by a vacuum'}")
        if history.layout.is_placeholder(location):
            if any(files_read_at(opened.store, opened.layout, location)):
                raise _NotKnownError(f"another tool has written to {location}, of which the log has no list")
            return None
        name, schema = shown_name(opened.table, values), self._schema_then()
        later = history.past.surplus_names(location, self.version)
        past = PastPartition(
            values=values, name=name, location=str(location), files=None, bytes=None, without=later, schema=schema
        )
        if history.layout.all_data.contains(location):
            known = history.past.content_at(values, location, version=self.version)
            if known is None:
                raise _NotKnownError(f"the log has no list of the files at {location}")
            return replace(past, files=known.files, bytes=known.bytes)
        return self._with_files_of_others(past, location)

    def _schema_then(self) -> str:
        """Return the columns of an unpartitioned table that has been given others since; else empty."""
        table = self._opened.table
        columns = None if table.partition_columns else self._history.columns_at(self.version)
        return "" if columns is None or columns.columns_by == table.columns_by else columns.schema

    def _with_files_of_others(self, past: PastPartition, location: Location) -> PastPartition:
        """Say which files of other tools lay there: by the list of when they were replaced, or else by their times."""
        past = replace(past, written_until=self._written_until)
        listed = self._listed.get(location.place)
        if listed is not None:  # with what is hidden, or in directories of its own: Spark reads none of that
            names = ((file, file.key.removeprefix(location.key)) for file in listed)
            read = [
                file for file, name in names if "/" not in name and not is_hidden(name) and name not in past.without
            ]
            return replace(past, **Contents.of(read)._asdict())
        seen = Location.parse_any(self._now[past.values].location) if past.values in self._now else None
        if seen is None or not seen.same_place(location):
            raise _NotKnownError(f"the log has no list of the files at {location}")
        return past

    def _replaced_objects(self) -> dict[Place, tuple[ReplacedObject, ...]]:
        """Return the files of other tools, as they were when they were first replaced after the version."""
        later = (record for record in self._history.records if record.entry.version > self.version)
        seen = [record.entry for record in later if record.outcome is not Outcome.ABANDONED]
        replaced = (old for entry in reversed(seen) for old in entry.replaced)
        return {Location.parse(old.location).place: old.objects for old in replaced}

    def _why_unsure(self, values: PartitionValues, state: PastLocation) -> str:
        """Say why nobody knows where a partition was; empty if it is known."""
        if not state.known:
            return "a vacuum has trimmed the entries that say where it was then, or a late call had moved it"
        current = self._history.state.current_partitions.get(values)
        is_sure = state.sure
        if current is not None and current.version < self.version:  # nothing of ours has moved it since
            doubtful = self._in_doubt.get(values)
            seen = self._now[values].location if values in self._now else None
            if doubtful is not None:
                is_sure = same_place(doubtful.old_location, current.partition.new_location)
            else:
                is_in_place = self._history.placements.of(values, seen) is Placement.IN_PLACE
                is_sure = is_in_place and not self._is_written_name(values)
        if is_sure:
            return ""
        if self._written_until is None and current is not None and current.partition.new_location is None:
            name = self._opened.table.name
            return (
                f"version {current.version} has dropped it, and the metastore shows it again: if its rows are to go,"
                f" ALTER TABLE {name.sql} DROP PARTITION, and then `table-writer vacuum {name}`"
            )
        return f"another tool or a late call has moved it, and whether after version {self.version} is not known"

    def _is_written_name(self, values: PartitionValues) -> bool:
        """Return whether another tool has written where a refused publish left only a name: the log can't know when."""
        now = {values: self._now[values]} if values in self._now else {}
        return bool(written_placeholders(self._opened.store, self._opened.layout, now))

    def _partitions_of_others(self) -> dict[PartitionValues, PastLocation]:
        """Return partitions that the log has never published: of other tools, or of an entry in doubt."""
        found = {values: partition.location for values, partition in self._now.items()}
        before = found | {values: partition.old_location for values, partition in self._in_doubt.items()}
        return {
            values: PastLocation(location, known=True)
            for values, location in before.items()
            if values not in self._history.state.current_partitions
        }

    def _dropped_and_put_back(self) -> dict[PartitionValues, PastLocation]:
        """Return the partitions that the log has dropped, and that another tool has added since, with its files.

        As ``MSCK REPAIR TABLE`` does, which finds the directory of a partition whose rows were deleted. Who asks for
        the newest version makes sure that none was published between the looks at metastore and log. An answer that
        may be older than that says nothing.
        """
        opened, history = self._opened, self._history
        known = (self._now.keys() & history.state.current_partitions.keys()) - self._in_doubt.keys()
        if opened.metastore.uri.startswith(GLUE_SCHEME):
            return {}
        parsed = {values: Location.parse_any(self._now[values].location) for values in known}
        return {
            values: PastLocation(self._now[values].location, known=True)
            for values, location in parsed.items()
            if location is not None
            and not history.layout.own.contains(location)
            and history.state.current_partitions[values].partition.new_location is None
            and history.placements.of(values, str(location)) is Placement.MOVED
        }

    def _seen_until(self) -> datetime | None:
        """Return until when files of other tools were seen by readers of this version, by the store's clock.

        An outcome may be recorded long after, by a recovery; but not after the next version was claimed.
        """
        records, layout, store = self._history.records, self._opened.layout, self._opened.store
        if not records:
            return None
        claimed = layout.entry_key(self.version or records[0].entry.version)
        others = (record.entry for record in records if record.entry.partitions)
        later = next((entry.version for entry in others if entry.version > self.version), None)
        found = [
            (store.head(layout.outcome_key(self.version)) if self.version else None) or store.head(claimed),
            store.head(layout.entry_key(later)) if later and self.version else None,
        ]
        until = min((info.modified_at for info in found if info is not None), default=None)
        if until is None:
            return records[0].entry.created_at  # somebody has just deleted it: as early as can be
        return until if until.microsecond else until + WHOLE_SECOND

    def _refusal(self) -> InvalidInputError:
        table, wrong = self._opened.table, self._wrong
        shown = "; ".join(f"{shown_name(table, values)}: {why}" for values, why in list(wrong.items())[:SHOWN])
        more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        since = oldest_whole_version(self._history) or 0
        kept = f" Of version {since} and newer ones no vacuum has deleted files." if since > self.version else ""
        advice = ADVICE if len(wrong) > len(self._otherwise) else ""
        if self._otherwise:
            advice = f"{advice}{'. ' if advice else ''}{self._advice_of_descriptions}"
        return InvalidInputError(f"{self.subject}: {shown}{more}.{kept} {advice}", table=str(table.name))

    @property
    def _advice_of_descriptions(self) -> str:
        """Say what to do about partitions that the metastore describes otherwise than their table."""
        table = self._opened.table
        names = ", ".join(quoted(column.name) for column in table.partition_columns)
        return (
            "overwrite_partitions gives such a partition the table's description: replace its rows with what"
            f" spark.table({str(table.name)!r}) reads of them, or leave it out. Where only a type is another, and the"
            " files hold the table's, Hive changes it in all partitions:"
            f" ALTER TABLE {table.name.hive_sql} PARTITION ({names}) CHANGE COLUMN name name type,"
            " after SET hive.exec.dynamic.partition=true"
        )


CHANGED: Final = "does not hold the files that readers found then: they were deleted, or another tool has written there"
ADVICE: Final = (
    f"The table property {RETENTION_PROPERTY} (hours) keeps replaced files for longer; partitions=[...] reads others"
)


def files_of(opened: OpenTable, past: PastPartition, subject: str) -> dict[str, datetime]:
    """List the files that readers found in a partition: their full paths, and when each was written.

    Raises ``InvalidInputError``, which the subject begins, where other files lie there today.
    """
    location = Location.parse(past.location)
    names = {file: file.key.removeprefix(location.key) for file in files_read_at(opened.store, opened.layout, location)}
    files = [
        file
        for file, name in names.items()
        if "/" not in name and (name not in past.without if past.only is None else name in past.only)
    ]
    found = Contents.of(files)  # none where another tool has emptied it, for all that is known
    is_as_known = found.may_be(past.contents) if past.contents is not None else bool(found.files)
    is_later = past.written_until is not None and any(file.modified_at > past.written_until for file in files)
    if is_later or not is_as_known:
        raise InvalidInputError(f"{subject}: {past.name} {CHANGED}. {ADVICE}", table=str(opened.table.name))
    return {f"{location}{names[file]}": file.modified_at for file in files}
