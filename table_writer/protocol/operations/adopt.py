"""Adopt the files below a root for a table: one that was renamed, moved, or created again over its files."""

from __future__ import annotations

from dataclasses import replace

from table_writer.errors import InvalidInputError, counted, few
from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition
from table_writer.model.location import Location
from table_writer.model.table import ROOT_PARAMETER, Partition, PartitionChange, Table, TableName, shown_name
from table_writer.model.table_kind import refuse_others
from table_writer.model.write import TableLayout
from table_writer.protocol.log.history import History
from table_writer.protocol.log.known_log import (
    name_log,
    overwritten_versions,
    refuse_unknown_publishes,
    shown_partitions,
    unknown_publishes,
)
from table_writer.protocol.log.owner import (
    Owner,
    adopt_root,
    found_log_id,
    home_of,
    is_moved,
    places_of,
    readable_owner,
    require_columns,
    require_in_place,
)
from table_writer.protocol.operations.entry import NotThereError, columns_of
from table_writer.protocol.operations.parameters import with_columns_of
from table_writer.protocol.operations.restore import refuse_new_files, restore_partitions
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.root_markers import refuse_marked_root
from table_writer.storage.table_files import files_read_at


def adopt(opened: OpenTable, *, accept_loss: bool = False) -> None:
    """Make the files this table's, once readers look at its rows again; the log stays.

    An unpartitioned table is pointed at the location of the newest published entry, if its files are there and nobody
    has written where the table is now. A partitioned one that was created again, and has none of its partitions, gets
    them as by a restore. If it has some, or a renamed one none, these may have been dropped on purpose: ``accept_loss``
    says so, and also that the table goes on without a log that partitions name. Raises
    ``InvalidInputError``, with nothing changed, if it cannot be told whose rows readers would see, or if the files are
    those of another table that exists.
    """
    table, owner = opened.table, opened.owner
    refuse_others(table)
    refuse_marked_root(opened.store, opened.layout.root, table)
    layout = opened.layout if table.partition_columns else home_of(opened.store, opened.layout, table)
    found = readable_owner(opened.store, layout)
    _refuse_files_of_another(opened, layout, found, owner)
    if found is not None and not accept_loss:
        require_columns(found, owner)
    if found is None or found.identity != owner.identity:
        opened.require_all_columns()
    if table.partition_columns:
        require_in_place(opened.store, layout, table)
        if found is not None and not accept_loss:
            was_made_again = found.created_at_seconds != owner.created_at_seconds
            if was_made_again or not opened.metastore.get_partition_names(table.name):
                _restore_all_or_refuse(opened, found, was_made_again=was_made_again)
    else:
        _bring_back(opened, layout, table)
    lost_logs = _lost_logs(opened, layout, accept_loss=accept_loss)
    adopt_root(opened.store, layout, owner, lost_logs)
    if lost_logs:
        name_log(opened.metastore, table, layout, found_log_id(opened.store, layout))


def _lost_logs(opened: OpenTable, layout: TableLayout, *, accept_loss: bool) -> frozenset[str]:
    """Return the logs without which the table is to go on, by what the metastore says; refuse unless that is accepted.

    The log at hand is one of them if it does not have all that it has published: it was set back.
    """
    table, store = opened.table, opened.store
    whole = Partition(values=(), location=table.location, parameters=table.parameters)
    now = {(): whole, **shown_partitions(opened.metastore, table)}
    log_id, log = found_log_id(store, layout), replace(opened, layout=layout).log
    newest = log.lister.read(listed_after=0, allow_lost=True).newest
    unknown = unknown_publishes(now, layout, log_id, newest)
    unknown = unknown or overwritten_versions(now, layout, log_id, log.slots.find_entry)
    if not accept_loss:
        refuse_unknown_publishes(store, layout, table, unknown, newest)
    return frozenset(publish.log_id for publish in unknown if publish.log_id)


def _refuse_files_of_another(opened: OpenTable, layout: TableLayout, found: Owner | None, owner: Owner) -> None:
    if found is None or (found.database, found.name) == (owner.database, owner.name):
        return
    other = opened.metastore.get_table(TableName(found.database, found.name))
    if other is None and (partial := opened.why_partial()):
        raise InvalidInputError(
            f"{layout.own}owner.json belongs to {found.database}.{found.name}, which the metastore does not show:"
            f" {partial}, and the table may be there. Nothing was changed. Use a role that sees everything, and say so"
            f" (TableWriterConfig(sees_everything=True), or --sees-everything).",
            table=f"{owner.database}.{owner.name}",
        )
    lives = other is not None and other.created_at_seconds == found.created_at_seconds
    if other is not None and lives and any(place.same_place(layout.root) for place in places_of(other)):
        raise InvalidInputError(
            f"{layout.own}owner.json belongs to {other.name}, which exists: {owner.database}.{owner.name} cannot"
            " adopt its files. Move one of the two tables.",
            table=f"{owner.database}.{owner.name}",
        )


def _restore_all_or_refuse(opened: OpenTable, found: Owner, *, was_made_again: bool) -> None:
    """Add the partitions of a table that was created again: a write would take them for dropped on purpose.

    A renamed table keeps its partitions. If it has none, nobody can tell: a table that was created again within the
    second in which the earlier one was made looks like it.
    """
    table = opened.table
    done = restore_partitions(opened, None, dry_run=True)
    if done.present_count == 0 and done.partitions and was_made_again:
        done = restore_partitions(opened, None, dry_run=False)
        missing = sorted(done.not_there)
    else:
        missing = sorted({*done.not_there, *(partition.values for partition in done.partitions)})
    if not missing:
        return
    shown = few(shown_name(table, values) for values in missing)
    without = f"`table-writer adopt {table.name} --accept-loss`"
    if was_made_again or (found.database, found.name) == (table.name.database, table.name.name):
        advice = (
            f"Add them: `table-writer restore {table.name}`. Or if they were dropped on purpose, adopt the table"
            f" without them: {without}; a restore before the next write still brings them back."
        )
    else:
        advice = (
            f"Adopt the table without them: {without}. Unless they were dropped on purpose, add them before the next"
            f" write: `table-writer restore {table.name}`."
        )
    raise InvalidInputError(
        f"the metastore lacks {counted(len(missing), 'partition')} that the log of {table.name} knows: {shown}. A"
        f" write would take them for dropped, and forget their rows. {advice}",
        table=str(table.name),
    )


def _bring_back(opened: OpenTable, layout: TableLayout, table: Table) -> None:
    """Point an unpartitioned table at its rows, in one alter, which needs no entry: the log says so already."""
    strayed = is_moved(opened.layout, table)
    if not strayed:
        require_in_place(opened.store, opened.layout, table)
    history = replace(opened, layout=layout).log.read_history()
    current = history.state.current_partitions.get(())
    now = Location.parse(table.location)
    newest = current.partition if current else None
    if newest is not None and newest.new_location is not None:
        held = history.past.content_at((), Location.parse(newest.new_location))
        newest = replace(held, new_location=newest.new_location) if held else newest
    in_place = newest is None or layout.own.contains(now) or now.same_place(Location.parse(str(newest.new_location)))
    if in_place and not strayed:
        return  # it is where the log says, or where recovery takes care of it
    try:
        target = _require_proof(opened, history, table, newest)
    except NotThereError as reason:
        new_log = (
            f"ALTER TABLE {table.name.sql} UNSET TBLPROPERTIES ('{ROOT_PARAMETER}')"
            if strayed
            else f"once nothing reads the old rows, delete {layout.own}owner.json, checkpoint.json and log/"
        )
        raise InvalidInputError(
            f"{table.name} is at {table.location}, and its log is below {layout.root}: {reason}. Nothing changed. Move"
            " files of others away, adopt the table, and write their rows into it. To go on with what is there now,"
            f" begin a new log: {new_log}.",
            table=str(table.name),
        ) from reason
    whole = opened.metastore.get_partitions(table, [()])[()]
    change = PartitionChange(partition=whole, location=str(target), set_parameters={ROOT_PARAMETER: str(layout.root)})
    columns = columns_of(history, history.newest, {(): whole})
    change = with_columns_of(change, columns.get("schema", ""), columns.get("columns_by", ""))
    opened.metastore.alter_partitions(table, [change])


def _require_proof(opened: OpenTable, history: History, table: Table, newest: EntryPartition | None) -> Location:
    """Return where the rows are: all files of the newest published entry, and no reader sees other rows now.

    More files than the entry names are rows that others have added to its location, which an append brings along too.
    """
    if newest is None or newest.new_location is None:
        raise NotThereError("it does not say where the rows are")
    target = Location.parse(newest.new_location)
    found = Contents.of(files_read_at(opened.store, history.layout, target))
    if found.lacks(newest.contents):
        raise NotThereError(f"of {newest.contents} at {target} {found.files} with {found.bytes:,} are left")
    for place in map(Location.parse, filter(None, (table.location, table.hive_location))):
        if not place.same_place(target) and not history.layout.own.contains(place):
            refuse_new_files(opened.store, history, place)
    return target
