"""A table after an earlier version: which version is meant, where its partitions were, what has changed since.

Rollback, ``read`` and ``changes`` decide by it. What nobody can know is an error here, and never other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from table_writer.errors import InvalidInputError, counted, few
from table_writer.log.history import History, Placement, SlotRecord, StateThen
from table_writer.model.entry import EntryPartition, LogEntry, Operation, Outcome, ReplacedObject
from table_writer.model.location import Location, Place
from table_writer.model.table import RETENTION_PROPERTY, PartitionValues, PastPartition, Table, shown_name
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import is_hidden
from table_writer.storage.table_files import files_read_at, written_placeholders
from table_writer.table.open_table import OpenTable

SHOWN: Final = 5
WHOLE_SECOND: Final = timedelta(milliseconds=999)  # a store that keeps seconds says when the second began


def require_one_name(version: int | None, as_of: datetime | None, write_id: str | None) -> None:
    """Refuse a call that names no version, or more than one."""
    if [version, as_of, write_id].count(None) != 2:
        raise InvalidInputError("name one version: by version, as_of or write_id, one of the three")


def version_meant(
    history: History,
    table: Table,
    *,
    version: int | None = None,
    as_of: datetime | None = None,
    write_id: str | None = None,
) -> int:
    """Return the version that one of three names: its number, a time at which readers saw it, its write.

    A time means the newest version that was written up to then, by the times that the history shows: those are whole
    seconds, so a time without a fraction means the end of its second.
    """
    require_one_name(version, as_of, write_id)
    if as_of is not None:
        return _version_at(history, as_of, table)
    return version_of(history, write_id, table) if version is None else version  # type: ignore[arg-type]  # one is given


def newest_known_version(history: History) -> int:
    """Return the newest version before which nothing is in doubt: what is, may yet be published."""
    end = min((record.entry.version for record in history.publishes_in_doubt), default=history.newest + 1)
    return max((record.entry.version for record in history.published_records if record.entry.version < end), default=0)


def _version_at(history: History, as_of: datetime, table: Table) -> int:
    if as_of.utcoffset() is None:
        raise InvalidInputError(
            f"as_of={as_of!r} has no time zone; add one, for example tzinfo=UTC: the history shows times in UTC"
        )
    as_of = as_of if as_of.microsecond else as_of.replace(microsecond=999_999)
    written = [record for record in history.published_records if record.entry.created_at <= as_of]
    if not written:
        oldest = "it is empty"
        if history.records:
            first = history.records[0].entry
            oldest = (
                f"its oldest is version {first.version}, of {first.created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
            )
        raise InvalidInputError(
            f"the log of {table.name} has no version of {as_of.isoformat()} or before: {oldest}", table=str(table.name)
        )
    if why := _note_of_doubt(history, as_of, table):
        raise InvalidInputError(
            f"which version of {table.name} readers saw at {as_of.isoformat()} is not known: {why}",
            table=str(table.name),
        )
    found = written[-1].entry.version
    present = [record.entry.version for record in history.records]
    published = (record.entry.version for record in history.published_records)
    later = next((version for version in published if version > found), history.newest + 1)
    if not set(present).issuperset(range(found, later)):
        raise InvalidInputError(
            f"which version of {table.name} readers saw at {as_of.isoformat()} is not known: entries between version"
            f" {found} and {later} were trimmed by a vacuum, or lost. Name a version instead",
            table=str(table.name),
        )
    return found


def _note_of_doubt(history: History, as_of: datetime, table: Table) -> str:
    """Say which publish readers may or may not have seen at a time, between its claim and its recovery; or nothing."""
    claimed = {record.entry.write_id: record.entry.created_at for record in history.records}
    for record in (*history.publishes_in_doubt, *history.published_records):
        entry = record.entry
        if entry.created_at > as_of:
            continue
        if record.outcome is None:
            return f"version {entry.version} is in doubt: run `table-writer recover {table.name}` first"
        trimmed = history.records[-1].entry.created_at  # at the latest: the newest entry is never trimmed
        if record.recorded_by != entry.write_id and as_of < claimed.get(record.recorded_by, trimmed):
            return f"version {entry.version} was in doubt then, and was resolved later. Name a version instead"
    return ""


def version_of(history: History, write_id: str, table: Table) -> int:
    """Return the version that made readers see a write first, though other entries of it may have been refused.

    Raises ``InvalidInputError`` if readers have not seen it, as far as is known, or if no write has this name.
    """
    published = history.publication(write_id)
    if published is not None:
        return published.entry.version
    own = [record for record in history.records if record.entry.write_id == write_id]
    newest = own[-1] if own else None
    if newest is None:
        why = "there is no entry of it in the log"
    elif not newest.entry.has_own_files and newest.entry.recovers is None:
        why = f"it is no write but the {newest.entry.operation.value} that is version {newest.entry.version}"
    elif newest.outcome is None:
        why = f"its version {newest.entry.version} is in doubt: run `table-writer recover {table.name}` first"
    else:
        versions = ", ".join(str(record.entry.version) for record in own)
        why = f"readers have never seen it: version {versions} of the log was abandoned"
    raise InvalidInputError(
        f"write {write_id} names no version of {table.name}: {why}. `table-writer history {table.name}` shows all; a"
        " version can be named instead",
        table=str(table.name),
        write_id=write_id,
    )


def require_version(history: History, version: int, table: Table) -> None:
    """Refuse a version that the log does not have, or that changed nothing; 0 is the state before the first."""
    by_version = {record.entry.version: record for record in history.records}
    oldest = min(by_version, default=1)
    known_state = version in by_version or (version == 0 and oldest == 1)
    if not known_state:
        known = ", ".join(str(number) for number in sorted(by_version)[-5:])
        raise InvalidInputError(
            f"{table.name} has no version {version}: the log holds {counted(len(by_version), 'entry')}, the newest"
            f" {known or 'none'}; older ones may have been trimmed by a vacuum",
            table=str(table.name),
        )
    if version and by_version[version].outcome is Outcome.ABANDONED:
        raise InvalidInputError(
            f"version {version} of {table.name} was abandoned: it changed nothing; choose {version - 1} or another one",
            table=str(table.name),
        )


def _require_known(history: History, version: int, table: Table) -> None:
    """Refuse a version of which nobody can tell what readers saw after it."""
    require_version(history, version, table)
    doubt = [record.entry.version for record in history.publishes_in_doubt if record.entry.version <= version]
    lost = history.lost_after(version)
    if not doubt and lost is None:
        return
    why = f"version {doubt[0]} is in doubt: run `table-writer recover {table.name}` first" if doubt else ""
    raise InvalidInputError(
        f"what readers of {table.name} saw after version {version} is not known: "
        f"{why or f'version {lost} is lost, and which partitions it changed'}",
        table=str(table.name),
    )


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
        _require_known(history, self.version, opened.table)
        self._written_until = None if is_newest else self._seen_until()  # others' rows of today are part of today
        doubtful = reversed(history.in_doubt)  # the oldest wins: a recovery names the partitions of its entry again
        self._in_doubt = {partition.values: partition for record in doubtful for partition in record.entry.partitions}
        self._listed = self._replaced_objects()
        self._wrong: dict[PartitionValues, str] = {}

    def partitions(self, names: Collection[str] | None = None) -> tuple[PastPartition, ...]:
        """Return what readers found after the version, of all partitions or of those named; a few wrong ones refuse it.

        Files are not looked at: they are compared with what is returned when they are read.
        """
        opened, history = self._opened, self._history
        chosen = opened.partition_values(names)
        states = {**self._partitions_of_others(), **history.states_at(self.version)}
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

    @property
    def existing(self) -> frozenset[PartitionValues]:
        """The partitions that the metastore has, as it was read before the log."""
        return frozenset(self._now)

    @property
    def subject(self) -> str:
        """The subject of an error message."""
        return f"version {self.version} of {self._opened.table.name} cannot be read any more"

    def _past_partition(self, values: PartitionValues, state: StateThen) -> PastPartition | None:
        """Return a partition as it was; ``None`` if there was none, or if it is noted as wrong."""
        try:
            past = self._as_it_was(values, state)
        except _NotKnownError as why:
            self._wrong[values] = str(why)
            return None
        if past is not None and values in self._now and self._now[values].differs:
            self._wrong[values] = f"it {self._now[values].differs}, and would be read as the table is today"
            return None
        return past

    def _as_it_was(self, values: PartitionValues, state: StateThen) -> PastPartition | None:
        opened, history = self._opened, self._history
        if why := self._why_unsure(values, state):
            raise _NotKnownError(why)
        if state.location is None:
            return None
        location = Location.parse_any(state.location)
        if location is None:
            raise _NotKnownError(f"its location {state.location!r} cannot be read")
        if history.is_deleted(location):
            raise _NotKnownError(f"its files at {location} were deleted by a vacuum")
        if history.layout.is_placeholder(location):
            if any(files_read_at(opened.store, opened.layout, location)):
                raise _NotKnownError(f"another tool has written to {location}, of which the log has no list")
            return None
        name = shown_name(opened.table, values)
        later = history.surplus_names(location, self.version)
        past = PastPartition(values=values, name=name, location=str(location), files=None, bytes=None, without=later)
        if history.layout.all_data.contains(location):
            known = history.content_at(values, location, version=self.version)
            if known is None:
                raise _NotKnownError(f"the log has no list of the files at {location}")
            return replace(past, files=known.files, bytes=known.bytes)
        return self._with_files_of_others(past, location)

    def _with_files_of_others(self, past: PastPartition, location: Location) -> PastPartition:
        """Say which files of other tools lay there: by the list of when they were replaced, or else by their times."""
        past = replace(past, written_until=self._written_until)
        listed = self._listed.get(location.place)
        if listed is not None:  # with what is hidden, or in directories of its own: Spark reads none of that
            names = ((file, file.key.removeprefix(location.key)) for file in listed)
            read = [
                file for file, name in names if "/" not in name and not is_hidden(name) and name not in past.without
            ]
            return replace(past, files=len(read), bytes=sum(file.size_bytes for file in read))
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

    def _why_unsure(self, values: PartitionValues, state: StateThen) -> str:
        """Say why nobody knows where a partition was; empty if it is known."""
        if not state.known:
            return "a vacuum has trimmed the entries that say where it was then, or a late call had moved it"
        current = self._history.current_partitions.get(values)
        is_sure = state.sure
        if current is not None and current.version < self.version:  # nothing of ours has moved it since
            doubtful = self._in_doubt.get(values)
            seen = self._now[values].location if values in self._now else None
            if doubtful is not None:
                is_sure = same_place(doubtful.old_location, current.partition.new_location)
            else:
                is_in_place = self._history.placement(values, seen) is Placement.IN_PLACE
                is_sure = is_in_place and not self._is_written_name(values)
        if is_sure:
            return ""
        return f"another tool or a late call has moved it, and whether after version {self.version} is not known"

    def _is_written_name(self, values: PartitionValues) -> bool:
        """Return whether another tool has written where a refused publish left only a name: the log can't know when."""
        now = {values: self._now[values]} if values in self._now else {}
        return bool(written_placeholders(self._opened.store, self._opened.layout, now))

    def _partitions_of_others(self) -> dict[PartitionValues, StateThen]:
        """Return partitions that the log has never published: of other tools, or of an entry in doubt."""
        found = {values: partition.location for values, partition in self._now.items()}
        before = found | {values: partition.old_location for values, partition in self._in_doubt.items()}
        return {
            values: StateThen(location, known=True)
            for values, location in before.items()
            if values not in self._history.current_partitions
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
        return InvalidInputError(f"{self.subject}: {shown}{more}.{kept} {ADVICE}", table=str(table.name))


CHANGED: Final = "does not hold the files that readers found then: they were deleted, or another tool has written there"
ADVICE: Final = (
    f"The table property {RETENTION_PROPERTY} (hours) keeps replaced files for longer; partitions=[...] reads others"
)


def oldest_whole_version(history: History) -> int | None:
    """Return the first version since which no vacuum has deleted files of any; ``None`` if none has deleted files."""
    present = {record.entry.version for record in history.records}
    since = max((number for number in range(1, history.newest) if number not in present), default=0)
    for record in history.records:
        if record.entry.operation is Operation.VACUUM and record.outcome is not Outcome.ABANDONED:
            since = max([since, *(deletion.replaced_by or 0 for deletion in record.entry.deletes if not deletion.kept)])
    return next(
        (record.entry.version for record in history.published_records if record.entry.version >= since > 0), None
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
    if past.bytes is None:
        is_as_known = bool(files)  # emptied by another tool, for all that is known
    else:
        is_as_known = sum(file.size_bytes for file in files) == past.bytes and len(files) <= (past.files or 0)
    is_later = past.written_until is not None and any(file.modified_at > past.written_until for file in files)
    if is_later or not is_as_known:
        raise InvalidInputError(f"{subject}: {past.name} {CHANGED}. {ADVICE}", table=str(opened.table.name))
    return {f"{location}{names[file]}": file.modified_at for file in files}


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionDifference:
    """A partition that two versions differ in, with what the log knows of both."""

    values: PartitionValues
    change: str  # added, replaced, appended, dropped
    before: EntryPartition | None  # None: it did not exist
    after: EntryPartition | None


def changes_between(history: History, first: int, last: int, table: Table) -> Iterator[PartitionDifference]:
    """Yield the partitions that are elsewhere after ``last`` than after ``first``, by the log alone."""
    if first > last:
        raise InvalidInputError(f"version {first} is newer than version {last}: name the older one first")
    for version in (first, last):
        _require_known(history, version, table)
    before, after = history.states_at(first), history.states_at(last)
    between = [record for record in history.published_records if first < record.entry.version <= last]
    present = {record.entry.version for record in history.records}
    is_whole = present.issuperset(range(first + 1, last + 1))  # else an entry that is gone may have changed any
    for values in sorted(set().union(*(_switched_values(record) for record in between)) if is_whole else after):
        if not (before[values].known and after[values].known):
            raise InvalidInputError(
                f"{shown_name(table, values)} of {table.name}: a vacuum has trimmed the entries that say where it was"
                f" after version {last if before[values].known else first}",
                table=str(table.name),
            )
        old, new = (_but_no_placeholder(history, states[values].location) for states in (before, after))
        if _content(history, values, first) != _content(history, values, last):
            appended = is_whole and all(
                _keeps_rows(record.entry) for record in between if values in _switched_values(record)
            )
            change = "added" if old is None else "dropped" if new is None else "appended" if appended else "replaced"
            yield PartitionDifference(
                values=values,
                change=change,
                before=_at(history, values, old, first),
                after=_at(history, values, new, last),
            )


def writes_behind(
    history: History, values: PartitionValues, version: int
) -> Iterator[tuple[SlotRecord, EntryPartition]]:
    """Yield the entries that wrote the rows of a partition after a version: appends in place, then what they add to.

    A rollback has the rows of the version that it goes back to, a compaction those from before it, and so have a
    restore and a recovery where an older entry has put the partition to the same place. Nothing more is yielded
    where rows of other tools, or of entries that are gone, are behind it.
    """
    put_back: tuple[SlotRecord, EntryPartition] | None = None  # the entry before it says what is there, if any does
    for record, partition in history.published_of(values):
        entry = record.entry
        if entry.version > version:
            continue
        if put_back is not None and not same_place(partition.new_location, put_back[1].new_location):
            break
        put_back = None
        if entry.rollback_to is not None:
            version = entry.rollback_to
        elif partition.added:
            yield record, partition
            version = entry.version - 1
        elif entry.is_compaction:
            version = entry.version - 1
        elif entry.operation is Operation.RESTORE or entry.recovers is not None:
            put_back, version = (record, partition), entry.version - 1
        else:
            yield record, partition
            return
    if put_back is not None:
        yield put_back


def _content(history: History, values: PartitionValues, version: int) -> tuple[Place | None, frozenset[str]]:
    """Return the identity of a partition's rows after a version: a location, and the files that were added to it."""
    added: set[str] = set()
    for _, partition in writes_behind(history, values, version):
        if not partition.added:
            return _place(history, partition.new_location), frozenset(added)
        added.update(partition.targets())
    oldest = [partition for _, partition in history.published_of(values)][-1:]
    return _place(history, oldest[0].old_location if oldest else None), frozenset(added)


def _place(history: History, location: str | None) -> Place | None:
    shown = _but_no_placeholder(history, location)
    return None if shown is None else Location.parse(shown).place


def change_of(partition: EntryPartition, layout: TableLayout, entry: LogEntry | None) -> str:
    """Return what an entry does to one of its partitions, in a word; without an entry, what one would do."""
    if partition.new_location is None:
        return "dropped"
    if partition.old_location is None or layout.is_placeholder(Location.parse(partition.old_location)):
        return "added"  # at a placeholder there was a name, without rows
    if entry is not None and entry.is_compaction:
        return "compacted"
    return "appended" if entry is not None and is_append(entry) else "replaced"


def is_append(entry: LogEntry) -> bool:
    """Return whether partitions that an entry finds keep their rows."""
    return entry.operation in {Operation.WRITE, Operation.RECOVER} and entry.mode == "append"


def _keeps_rows(entry: LogEntry) -> bool:
    return is_append(entry) or entry.is_compaction


def _switched_values(record: SlotRecord) -> frozenset[PartitionValues]:
    return record.entry.partition_values - record.superseded


def _at(history: History, values: PartitionValues, location: str | None, version: int) -> EntryPartition | None:
    if location is None:
        return None
    known = history.content_at(values, Location.parse(location), version=version)
    unknown = EntryPartition(
        values=values, old_location=None, new_location=location, rows=None, bytes=0, raw_bytes=None, files=0
    )
    return known or unknown


def _but_no_placeholder(history: History, location: str | None) -> str | None:
    is_name_alone = location is not None and history.layout.is_placeholder(Location.parse(location))
    return None if is_name_alone else location


def same_place(location: str | None, other: str | None) -> bool:
    """Return whether two locations are one, or neither exists."""
    if location is None or other is None:
        return location is other
    return Location.parse(location).same_place(Location.parse(other))
