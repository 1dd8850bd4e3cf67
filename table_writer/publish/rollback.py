"""Put partitions back to an earlier version: a publish whose files are there already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from table_writer.errors import ConflictError, InvalidInputError, counted
from table_writer.log.files import existing_values, files_read_at
from table_writer.log.history import History, Placement, StateThen
from table_writer.log.open_table import OpenTable
from table_writer.log.rules import Deadline
from table_writer.model.entry import EntryPartition, LogEntry, Operation, Outcome
from table_writer.model.location import Location
from table_writer.model.table import PartitionValues, Table, shown_name
from table_writer.publish.entry import (
    NotThereError,
    Republished,
    check_each,
    files_there,
    replaced_locations,
    require_known,
    there_under_other_names,
)
from table_writer.publish.recovery import Recovery
from table_writer.publish.switch import ClaimedEntries, PartitionsNow, locations


def roll_back(
    opened: OpenTable, version: int, chosen: Collection[PartitionValues] | None, *, dry_run: bool
) -> Republished:
    """Put partitions, or only the chosen ones, back to where they were after ``version``, in one metastore call.

    Version 0 is the state before the first entry. Raises ``InvalidInputError`` with the reason for each partition
    if it cannot be done, ``ConflictError`` if somebody else published one of them meanwhile, and what a write does.
    """
    table, claimed, recovery = opened.table, ClaimedEntries(opened), Recovery(opened)
    first: dict[PartitionValues, str | None] | None = None
    resolved: tuple[str, ...] = ()
    while True:
        history, notes = recovery.history_for(table, dry_run=dry_run)
        resolved += notes
        _require_version(history, version, table)
        targets = _targets(history, version, chosen, table)
        now = opened.metastore.get_partitions(table, list(targets))
        before = {values: locations(now).get(values) for values in targets}
        if first is not None and first != before:
            raise _moved(table)
        first = before
        partitions = _checked(opened, history, targets, now)
        if dry_run or not partitions:
            return Republished(version=None, partitions=partitions, notes=resolved)
        entry = _entry(opened, history, version, partitions, now)
        checked, now = now, opened.metastore.get_partitions(table, list(targets))
        if locations(checked) != locations(now):
            raise _moved(table)  # while files were listed, which can take minutes
        opened.log.remember_rollback(entry.version)
        deadline = Deadline(opened.config.publish_timeout_seconds)
        if claimed.claim(entry):
            notes = resolved + claimed.carry_out(table, entry, now, deadline)
            return Republished(version=entry.version, partitions=partitions, notes=notes)


def _checked(
    opened: OpenTable, history: History, targets: Mapping[PartitionValues, StateThen], now: PartitionsNow
) -> tuple[EntryPartition, ...]:
    """Return the partitions that must change, having checked that readers would find all of their files."""
    table, before = opened.table, locations(now)
    exists = existing_values(opened.store, opened.layout, now)
    wrong: list[str] = []
    changed: dict[PartitionValues, str | None] = {}
    for values, target in targets.items():
        current, wanted = before.get(values), _with_rows(opened, history, target.location)
        newest = history.current[values].partition.new_location
        is_moved = history.placement(values, current) is not Placement.IN_PLACE
        if is_moved or (values in exists and not _same(current, newest)):  # others may write where a name was left
            where = Location.parse(current) if current else "no location"
            wrong.append(
                f"{shown_name(table, values)} is at {where}, where another tool or a late call has"
                f" put it after version {history.current[values].version}"
            )
        elif not target.known:
            wrong.append(f"{shown_name(table, values)}: a vacuum has trimmed the entries that say where it was then")
        elif not _same(current, wanted):
            changed[values] = wanted
    checked, not_there = check_each(changed, partial(_check, opened, history))
    added = [values for values in changed if values not in now]
    not_there |= there_under_other_names(opened.metastore, table, added)
    wrong += [f"{shown_name(table, values)}: {reason}" for values, reason in not_there.items()]
    if wrong:
        shown = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        raise InvalidInputError(
            f"{len(wrong)} of {counted(len(targets), 'partition')} of {table.name} cannot be put back: {shown}."
            " Nothing changed. Run `table-writer recover` if a late call may be the reason, or name the other"
            " partitions.",
            table=str(table.name),
        )
    return tuple(replace(found, old_location=before.get(found.values)) for found in checked)


def _with_rows(opened: OpenTable, history: History, target: str | None) -> str | None:
    """Return a location to go back to; of a name that a refused publish had left, none: there was no partition then.

    Where another tool had written under that name, there was one, and whether its rows are there still is looked at.
    """
    location = Location.parse(target) if target else None
    if location is None or not opened.layout.is_placeholder(location):
        return target
    had_rows = location.place in history.deleted or location.place in history.doomed
    return target if had_rows or any(files_read_at(opened.store, opened.layout, location)) else None


def _check(opened: OpenTable, history: History, values: PartitionValues, target: str | None) -> EntryPartition:
    if target is None:
        return EntryPartition.without_rows(values, None)
    location = Location.parse(target)
    if not opened.layout.is_placeholder(location) and not history.restorable(location):
        raise NotThereError(f"its files at {location} were vacuumed, or were never this table's to keep")
    return replace(files_there(opened.store, history, values, location), new_location=target)


def _entry(
    opened: OpenTable, history: History, version: int, partitions: tuple[EntryPartition, ...], now: PartitionsNow
) -> LogEntry:
    created_at = datetime.now(UTC)
    left = [now[partition.values].location for partition in partitions if partition.values in now]
    partitioned = bool(opened.table.partition_columns)
    replaced = replaced_locations(
        opened.store, opened.layout, left, created_at + opened.retention, partitioned=partitioned
    )
    return opened.next_entry(
        history.newest,
        Operation.ROLLBACK,
        f"rollback to version {version}",
        rollback_to=version,
        created_at=created_at,
        partitions=partitions,
        replaced=replaced.locations,
    )


def _moved(table: Table) -> ConflictError:
    return ConflictError(
        f"partitions of {table.name} were moved by somebody else while they were being rolled back; nothing changed."
        " Look at the history and decide again.",
        table=str(table.name),
    )


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
    elif newest.entry.operation not in {Operation.WRITE, Operation.RECOVER}:
        why = f"it is no write but the {newest.entry.operation.value} that is version {newest.entry.version}"
    elif newest.outcome is None:
        why = f"its version {newest.entry.version} is in doubt: run `table-writer recover {table.name}` first"
    else:
        versions = ", ".join(str(record.entry.version) for record in own)
        why = f"readers have never seen it: version {versions} of the log was abandoned"
    raise InvalidInputError(
        f"{table.name} cannot go back to write {write_id}: {why}. `table-writer history {table.name}` shows all; a"
        " version can be named instead",
        table=str(table.name),
        write_id=write_id,
    )


def _require_version(history: History, version: int, table: Table) -> None:
    by_version = {record.entry.version: record for record in history.records}
    oldest = min(by_version, default=1)
    known_state = version in by_version or (version == 0 and oldest == 1)
    if not known_state:
        known = ", ".join(str(one) for one in sorted(by_version)[-5:])
        raise InvalidInputError(
            f"{table.name} has no version {version} to go back to: the log holds {len(by_version)} entries, the newest"
            f" {known or 'none'}; older ones may have been trimmed by a vacuum",
            table=str(table.name),
        )
    if version and by_version[version].outcome is Outcome.ABANDONED:
        raise InvalidInputError(
            f"version {version} of {table.name} was abandoned: it changed nothing; choose {version - 1} or another one",
            table=str(table.name),
        )


def _targets(
    history: History, version: int, chosen: Collection[PartitionValues] | None, table: Table
) -> dict[PartitionValues, StateThen]:
    """Return where the partitions were that are to be put back; of all, only if nobody has lost which ones changed."""
    states, lost = history.state_at(version), history.lost_after(version)
    if chosen is not None:
        require_known(chosen, history, table)
        return {values: states[values] for values in sorted(chosen) if values in states}
    if lost is not None:
        raise InvalidInputError(
            f"version {lost} of {table.name} is lost: which partitions it changed after version {version} is not known."
            " Nothing changed. Name the partitions that are to be put back, or replace them with overwrite_partitions",
            table=str(table.name),
        )
    return dict(sorted(states.items()))


def _same(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    return Location.parse(one).same_place(Location.parse(other))
