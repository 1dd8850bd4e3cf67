"""End a write after its publish: the result that it returns, and the marker that other tools look for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from table_writer.errors import InvalidInputError, StorageError, counted
from table_writer.metastore.settings import GLUE_BATCH
from table_writer.mirrors.follow import follow_publish
from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.table import are_small_files, name_in
from table_writer.model.write import WritePlan, WrittenFiles, WrittenPartition
from table_writer.model.write_mode import WriteMode
from table_writer.progress import Stopwatch
from table_writer.protocol.operations.append import CarriedFiles
from table_writer.protocol.operations.publisher import PublishResult
from table_writer.protocol.operations.success import mark_partitions, success_json
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.layout import size
from table_writer.reports.write_result import WriteResult

Refresh = Callable[[str], tuple[str, ...]]
"""Lets sessions read a table anew after a write, given the ``write_id``; returns notes on what failed."""


def nothing_written(plan: WritePlan, if_empty: str, watch: Stopwatch, notes: tuple[str, ...] = ()) -> WriteResult:
    """Return the result of a write without rows; ``InvalidInputError`` unless the call allows that."""
    if if_empty == "error":
        replaces = plan.mode.facts.replaces_table or plan.where
        empties = ", or with if_empty='replace' to empty what the call replaces" if replaces else ""
        raise InvalidInputError(
            f"the DataFrame has no rows, so no partition of {plan.table.name} would change; nothing was written."
            f" If that may happen, call with if_empty='ignore'{empties}.",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )
    name, mode = str(plan.table.name), plan.mode.value
    result = WriteResult(table=name, mode=mode, write_id=plan.write_id, version=None, notes=notes)
    return _with_costs(result, watch)


def repeated_result(
    entry: LogEntry, watch: Stopwatch, opened: OpenTable | None = None, *, write_id: str = ""
) -> WriteResult:
    """Return the result of a call whose work another write had done, with the identity of that write.

    ``write_id`` is given for a staged write, which another process may have published. With ``opened`` the markers of
    its partitions are set again: the write may have died before it had set them.
    """
    marker_notes = mark_partitions(opened, opened.table, entry) if opened else ()
    # the entry of a recovery has no key
    is_other = not write_id or (entry.write_id != write_id and entry.idempotency_key != "")
    same_write_note = (
        f"write {write_id} was published already, by {entry.writer.get('user', '?')}@{entry.writer.get('host', '?')}"
    )
    other_write_note = f"idempotency key {entry.idempotency_key} was published by write {entry.write_id}"
    result = WriteResult(
        table=entry.table,
        mode=entry.called,
        write_id=entry.write_id if is_other else write_id,
        version=entry.version,
        repeated=True,
        notes=(other_write_note if is_other else same_write_note, *marker_notes),
    )
    return _with_costs(result, watch)


def end_publish(
    opened: OpenTable, files: WrittenFiles, published: PublishResult, watch: Stopwatch, refresh: Refresh | None = None
) -> WriteResult:
    """End a publish, readers having switched: write the marker, let sessions read anew, let mirrors take it up."""
    plan = files.plan
    with ThreadPoolExecutor(1, thread_name_prefix="table_writer-success") as executor:
        marking = executor.submit(mark_success, opened, files, published, watch)
        refresh_notes = refresh(plan.write_id) if refresh else ()
        mirror_notes = follow_publish(opened, files, published.entry)
    result = WriteResult(
        table=str(plan.table.name),
        mode=files.words.call or plan.mode.value,
        write_id=plan.write_id,
        version=published.entry.version,
        partitions=_partitions(files, published),
        notes=(
            *plan.notes,
            *published.notes,
            *_switch_notes(opened, published),
            *marking.result(),
            *refresh_notes,
            *mirror_notes,
            *_small_files_notes(files),
        ),
        checks=files.checks,
    )
    return _with_costs(result, watch)


def _with_costs(result: WriteResult, watch: Stopwatch) -> WriteResult:
    """Add the seconds, requests and calls that were used until now, and by whom."""
    return replace(
        result,
        seconds=watch.seconds,
        storage_requests=watch.storage_requests(),
        metastore_calls=watch.metastore_calls(),
        uploaded_by=watch.uploaded_by,
    )


def _partitions(files: WrittenFiles, published: PublishResult) -> tuple[PartitionFacts, ...]:
    plan = files.plan
    written_partitions = {plan.spelled(partition.values): partition for partition in files.partitions}
    nothing = WrittenPartition(values=(), keys=(), rows=0, bytes=0, raw_bytes=0)

    def partition_facts(partition: EntryPartition) -> PartitionFacts:
        own = written_partitions.get(partition.values, nothing)
        carried = published.carried.get(partition.values, CarriedFiles())
        return PartitionFacts(
            name=name_in(plan.table, partition.values),
            values=partition.values,
            location=partition.new_location or "",
            action=_action(partition, plan.mode),
            rows=own.rows,
            bytes=own.bytes,
            files=len(own.keys),
            copied_bytes=carried.bytes,
            copied_files=carried.files,
        )

    return tuple(map(partition_facts, sorted(published.entry.partitions, key=lambda partition: partition.values)))


def mark_success(opened: OpenTable, files: WrittenFiles, published: PublishResult, watch: Stopwatch) -> tuple[str, ...]:
    """Write ``_SUCCESS`` if the table wants it. A failure is a note, since readers have switched already."""
    if not opened.marks_success():
        return ()
    names = (key for partition in files.partitions for key in partition.keys)
    try:
        body = success_json(
            published.entry, names, opened.layout.root, requests=watch.storage_requests(), seconds=watch.seconds
        )
        opened.store.put(opened.layout.success_key, body)
    except StorageError as error:
        return (f"_SUCCESS was not written: {error.message}",)
    return ()


def _action(partition: EntryPartition, mode: WriteMode) -> str:
    if not partition.files:
        return "emptied"
    if partition.old_location is None:
        return "added"
    return "appended" if mode.facts.keeps_rows else "replaced"


def _switch_notes(opened: OpenTable, published: PublishResult) -> tuple[str, ...]:
    count = len(published.entry.partitions)
    if count < 2 or opened.metastore.switches_at_once(opened.table):
        return ()
    return (f"AWS Glue switched these {count:,} partitions one after another, {GLUE_BATCH} a call: not at one moment",)


def _small_files_notes(written: WrittenFiles) -> tuple[str, ...]:
    count = sum(len(partition.keys) for partition in written.partitions)
    size_bytes = sum(partition.bytes for partition in written.partitions)
    if not are_small_files(count, size_bytes) or count < 2 * len(written.partitions):
        return ()
    partitions = counted(len(written.partitions), "partition")
    files = f"{count:,} files of {size(size_bytes / count)} on average in {partitions}"
    advice = "distribution='rebalance' or 'hash' writes them, for a shuffle of the rows."
    return (f"{files}: readers like fewer, larger ones. {advice}",)
