"""What the metastore says of a table's log, held against the log itself: one that is gone, another one, an older state.

Each publish leaves in the parameters of what it points at new rows which log it is of, and its version there. So the
metastore knows of a log that somebody has deleted, of a second one under another directory name, and of versions that a
log has lost which was set back. ``docs/design/log.md`` says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from table_writer.errors import InvalidInputError, MetastoreError, counted
from table_writer.metastore.hive_objects import DDL_TIME
from table_writer.metastore.protocol import Metastore, compares_and_sets
from table_writer.model.entry import LogEntry
from table_writer.model.location import Location
from table_writer.model.table import (
    LOG_PARAMETER,
    VERSION_PARAMETER,
    WRITE_ID_PARAMETER,
    Partition,
    PartitionChange,
    PartitionsNow,
    PartitionValues,
    Table,
    shown_name,
)
from table_writer.model.write import TableLayout
from table_writer.protocol.log.owner import found_log_id, precedes, readable_owner
from table_writer.storage.object_store import ObjectStore, many

logger = logging.getLogger(__name__)
MOST_COMPARED: Final = 16  # versions whose entries are read to see whether they are of the same writes
MARK: Final = "log/id-"  # of a log, below the directory of this library


def log_address(layout: TableLayout, log_id: str) -> str:
    """Return what parameters say of a log: where the mark lies that shows its id."""
    return f"{layout.own}{MARK}{log_id}"


def log_named_here(parameters: Mapping[str, str], layout: TableLayout) -> str:
    """Return the id of the log below this root that parameters name; empty if they name none there."""
    return _named(parameters, layout, "")[1]


def published_version(partition: Partition, log_id: str) -> int:
    """Return the version of this log that has last published a partition, as its parameters say; 0 if none has.

    A version that another log has given says nothing of this one, wherever that log lies.
    """
    text, named_log = partition.parameters.get(VERSION_PARAMETER, ""), partition.parameters.get(LOG_PARAMETER, "")
    is_of_this = not named_log or named_log.rpartition(MARK)[2] == log_id
    return int(text) if is_of_this and text.isdecimal() else 0


def is_newer(entry: LogEntry, partition: Partition, layout: TableLayout, log_id: str) -> bool:
    """Return whether an entry was claimed after the publish of which a partition's parameters tell.

    Where another log below this root has published it, or this one before a person went on without some log, only
    entries since then are newer for certain: those that have the present id.
    """
    if log_named_here(partition.parameters, layout) in {"", log_id}:
        return entry.version > published_version(partition, log_id)
    return entry.log_id == log_id


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownPublish:
    """A partition that the log at hand has not published, by what the metastore says, nor any that it knows of."""

    values: PartitionValues
    log_id: str  # of the log that is named; empty: only the location says that there was one
    directory: str  # of this library, below the root, in which that log lies or was
    version: int = 0  # of this very log, which has no such version


def unknown_publishes(
    now: PartitionsNow, layout: TableLayout, log_id: str, newest: int | None = None
) -> tuple[UnknownPublish, ...]:
    """Return what was published by another log below this root, or by a version of this one that it does not have.

    ``log_id`` is empty where there is no log: then also what lies where only a write puts files. Parameters that name a
    log of another root were copied from another table, or the table has moved with its log: they say nothing.
    """
    found = (_unknown_publish(values, partition, layout, log_id, newest) for values, partition in now.items())
    return tuple(unknown for unknown in found if unknown is not None)


def overwritten_versions(
    now: PartitionsNow, layout: TableLayout, log_id: str, find_entry: Callable[[int], LogEntry | None]
) -> tuple[UnknownPublish, ...]:
    """Return what versions of this log have published that are other writes by now: it was set back, and went on.

    One request for each of the versions, the newest ones if there are many: those are lost first.
    """
    versions = {values: published_version(partition, log_id) for values, partition in now.items()}
    asked = sorted({*versions.values()} - {0}, reverse=True)[:MOST_COMPARED]
    entries = dict(zip(asked, many(find_entry, asked), strict=True))

    def is_other(values: PartitionValues) -> bool:
        entry, written_by = entries.get(versions[values]), now[values].parameters.get(WRITE_ID_PARAMETER)
        return entry is not None and written_by is not None and entry.write_id != written_by

    return tuple(
        UnknownPublish(values=values, log_id=log_id, directory=str(layout.own), version=versions[values])
        for values in versions
        if is_other(values)
    )


def _unknown_publish(
    values: PartitionValues, partition: Partition, layout: TableLayout, log_id: str, newest: int | None
) -> UnknownPublish | None:
    directory, named_id = _named(partition.parameters, layout, log_id)
    if named_id not in {"", log_id} and not precedes(named_id, log_id):
        return UnknownPublish(values=values, log_id=named_id, directory=directory)
    version = published_version(partition, log_id) if named_id else 0
    if newest is not None and version > newest:
        return UnknownPublish(values=values, log_id=named_id, directory=directory, version=version)
    location = None if log_id else Location.parse_any(partition.location)
    if location is not None and layout.all_data.contains(location):
        return UnknownPublish(values=values, log_id="", directory=str(layout.own))
    return None


def _named(parameters: Mapping[str, str], layout: TableLayout, log_id: str) -> tuple[str, str]:
    """Return the directory and the id of the log that parameters name; empty if none, or one of another root."""
    text, found, named_id = parameters.get(LOG_PARAMETER, "").rpartition(MARK)
    directory = Location.parse_any(text) if found else None
    if directory is None:
        return "", ""
    is_here = layout.root.contains(directory) or directory.contains(layout.root)
    return (str(directory), named_id) if is_here or named_id == log_id else ("", "")


def unknown_publish_message(
    table: Table, layout: TableLayout, unknown: Collection[UnknownPublish], store: ObjectStore, newest: int = 0
) -> str:
    """Say which log the metastore knows of, and the ways on."""
    first = min(unknown, key=lambda publish: (not publish.log_id, publish.values))
    which = f"{counted(len(unknown), 'partition')}, such as {shown_name(table, first.values)}" if first.values else "it"
    adopt = (
        f"`table-writer adopt {table.name} --accept-loss`: readers keep the rows that they see; history, older versions"
        " and idempotency keys are forgotten, and a repeated call writes again"
    )
    directory = Location.parse(first.directory)
    mark = f"{directory.key}{MARK}{first.log_id}"
    if first.log_id and not first.version and store.head(mark) is not None:
        if directory.same_place(layout.own):
            return (
                f"by the metastore the log of {table.name} has published {which} under another id than the one that"
                f" {layout.own}owner.json names: an earlier owner.json was put back, or a person has adopted the table"
                " meanwhile. Nothing was changed. Run it again; if that stays, bring back the newest owner.json from"
                f" older versions of the object. Or go on without what was published since, by {adopt}."
            )
        return (
            f"by the metastore a log in {first.directory} has published {which}, and this call goes by the one in"
            f" {layout.own}: {table.name} has two, and their writers lose each other's rows. Nothing was changed. Let"
            " all writers use one directory_name (TableWriterConfig). To go on with this log alone, end the others,"
            f" then {adopt}."
        )
    if first.version:
        instead = f"the newest entry below {layout.own} is {newest}"
        if first.version <= newest:
            instead = f"below {layout.own} another write has that version now"
        says = (
            f"version {first.version} has published {which}, and {instead}: the log was set back to an earlier state,"
            " or has lost its newest entries"
        )
        back = "Bring them back from older versions of the bucket's objects, or a backup"
    else:
        says = (
            f"one that is gone from {first.directory} has published {which}. Spark's INSERT OVERWRITE without PARTITION"
            " takes it along, and so does whoever deletes what is below the root"
        )
        back = "Bring owner.json and log/ back from older versions of the bucket's objects, or a backup"
    return (
        f"the log of {table.name} is not the one that the metastore knows: {says}. What was published since, and under"
        f" which idempotency keys, cannot be told. Nothing was changed. {back}. Or go on without, by {adopt}."
    )


def refuse_unknown_publishes(
    store: ObjectStore, layout: TableLayout, table: Table, unknown: Collection[UnknownPublish], newest: int = 0
) -> None:
    """Raise ``InvalidInputError`` if something was published by another log than the one at hand.

    One request where there is something: a person may have said that the table goes on without that log.
    """
    owner = readable_owner(store, layout) if unknown else None
    lost_logs = owner.lost_logs if owner else ()
    left = [publish for publish in unknown if not publish.log_id or publish.log_id not in lost_logs]
    if left:
        message = unknown_publish_message(table, layout, left, store, newest)
        raise InvalidInputError(message, table=str(table.name))


def require_known_log(
    store: ObjectStore, layout: TableLayout, table: Table, log_id: str, shown: PartitionsNow = MappingProxyType({})
) -> None:
    """Raise ``InvalidInputError`` if the metastore knows of another log than this one; empty: there is none.

    No request while there is one: what the table says is at hand, and partitions are asked by whoever is about to
    change them. Where there is none, all partitions are ``shown``: nobody has written here, or the log is gone.
    """
    whole = Partition(values=(), location=table.location, parameters=table.parameters)
    now = {(): whole, **shown}
    unknown = unknown_publishes(now, layout, log_id)
    if unknown and not log_id:  # what is named may be there: only owner.json is lost
        unknown = unknown_publishes(now, layout, found_log_id(store, layout))
    refuse_unknown_publishes(store, layout, table, unknown)


def name_log(metastore: Metastore, table: Table, layout: TableLayout, log_id: str) -> None:
    """Let a partitioned table say which log it has, once, where the server compares before it sets.

    Elsewhere another tool's ALTER TABLE could be lost; and in AWS Glue columns, which a role does not see. What is
    written back was read just before: what a server compares is a time of whole seconds, which some tools keep as it
    is. The table is one more witness, for when no partition is left. So where it cannot be set, the write goes on.
    """
    try:
        may_be_set = table.partition_columns and compares_and_sets(metastore.server_version())
        now = metastore.get_table(table.name) if may_be_set else None
        if now is None or now.created_at_seconds != table.created_at_seconds or now.hive_location:
            return
        if not now.parameters.get(DDL_TIME, "").isdecimal():
            return  # there is nothing to compare
        whole = Partition(values=(), location=now.location, parameters=now.parameters, native=now.native)
        named = {LOG_PARAMETER: log_address(layout, log_id)}
        change = PartitionChange(partition=whole, location=now.location, set_parameters=named)
        metastore.alter_partitions(replace(now, partition_columns=()), [change])
    except (MetastoreError, InvalidInputError) as error:
        logger.info("%s does not say which log it has: %s", table.name, error)


def shown_partitions(metastore: Metastore, table: Table) -> dict[PartitionValues, Partition]:
    """Read all partitions of a partitioned table, the last by name first."""
    names = metastore.get_partition_names(table.name) if table.partition_columns else ()
    return dict(metastore.get_partitions(table, sorted(names, reverse=True)) if names else {})
