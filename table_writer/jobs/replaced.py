"""The rows that a write takes from readers, as far as the metastore has counts of them."""

from __future__ import annotations

from collections.abc import Sequence

from table_writer.model.location import Location
from table_writer.model.table import Partition, PartitionValues
from table_writer.model.write import WrittenFiles
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.table_files import written_placeholders


def replaced_rows(opened: OpenTable, files: WrittenFiles) -> tuple[int, Sequence[PartitionValues]]:
    """Count the rows that readers would see no more; also return the partitions of which there is no count.

    The metastore has the count of partitions that this library wrote.
    """
    partitions_now = opened.metastore.get_partitions(opened.table, replaced_partitions(opened, files)).values()
    counts = {partition.values: _known_rows(opened, partition) for partition in partitions_now}
    known_count = sum(count for count in counts.values() if count is not None)
    return known_count, [values for values, count in counts.items() if count is None]


def replaced_partitions(opened: OpenTable, files: WrittenFiles) -> list[PartitionValues]:
    """Return the partitions whose present rows readers would see no more; none for an append."""
    plan = files.plan
    if plan.mode.facts.keeps_rows:
        return []
    written_values = {plan.spelled(partition.values) for partition in files.partitions}
    existing = opened.metastore.get_partition_names(opened.table.name)
    return sorted((written_values & set(existing)) | plan.scope(existing))


def _known_rows(opened: OpenTable, partition: Partition) -> int | None:
    location = Location.parse_any(partition.location)
    if location is None or opened.layout.write_id_of(location) is None:
        return None
    if opened.layout.is_placeholder(location):
        rewritten = written_placeholders(opened.store, opened.layout, {partition.values: partition})
        return None if rewritten else 0
    text = partition.parameters.get("numRows", "")
    return int(text) if text.isdecimal() else None
