"""Step 2 on the driver: by tasks of ours, whose messages are checked against each other, or by Spark's own writer."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from table_writer.errors import CheckFailedError, TableWriterError, WideRowError
from table_writer.jobs.upload.messages import check_messages
from table_writer.jobs.upload.task import MESSAGE_COLUMN, map_function, upload_rows
from table_writer.model.message import CommitMessages
from table_writer.model.table import NULL_PARTITION, PartitionValues, partition_values
from table_writer.model.upload_spec import BatchLimits, UploadSpec
from table_writer.model.write import WritePlan, WrittenFiles, WrittenPartition
from table_writer.progress import current
from table_writer.protocol.table.open_table import OpenTable
from table_writer.spark import open_gateway
from table_writer.spark.comet import weighed_by_spark
from table_writer.spark.executors import as_sent
from table_writer.spark.few_rows import FewRows
from table_writer.spark.gateway import SparkGateway
from table_writer.spark.sql import balanced_tree, frame_of, quoted
from table_writer.spark.types import cast_sql
from table_writer.spark.widths import refusing_wide
from table_writer.storage.object_store import ObjectInfo, ObjectStore, is_hidden

logger = logging.getLogger(__name__)
FOUND: Final = "_exists"
MESSAGES: Final = StructType([StructField(MESSAGE_COLUMN, BinaryType())])  # as text, Spark would start its parser
PLAIN_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9_]*")  # PySpark trips over dots in others


def upload_few(few: FewRows, spec: UploadSpec, store: ObjectStore) -> CommitMessages | None:
    """Upload rows from this process if they are few, as the one task of a job would; no Python worker is started.

    ``None``: they are not, nothing of them was kept, and nothing is on the store. What the store was asked is counted
    by the store alone. Raises what :func:`run_upload` raises, and leaves no more.
    """
    current().name(spec.write_id)
    batches = few.fetched(spec.write_id)
    if batches is None:
        logger.debug("write_id=%s is uploaded by executors", spec.write_id)
        return None
    try:
        message = upload_rows(batches, spec, store, task_index=0, attempt_id=0)
    except TableWriterError as error:
        error.write_id = spec.write_id
        raise
    return check_messages([message], spec)


def run_upload(rows: DataFrame, spec: UploadSpec) -> CommitMessages:
    """Run one Spark job; afterwards all parts of all files are on the store and no object exists.

    ``rows`` has the data columns with the table's types, then the partition columns as strings. There is one message
    per task, from exactly one attempt of it, in the order of the tasks. Raises what an executor raised, a
    ``StorageError`` for messages that contradict each other, and lets failures of the DataFrame's own code pass
    through. Uploads may be left under ``spec.key_prefix``.

    Where a row is wider than ``spec.batches`` allows, a second job uploads all of them again, with weighed batches.
    """
    current().name(spec.write_id)
    spark = open_gateway(rows.sparkSession)
    spark.prepare_executors()
    rows = spark.with_pinned_types(rows)
    if not all(map(PLAIN_NAME.fullmatch, rows.columns)):
        rows = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
    if not spec.batches.max_row_bytes:
        return _messages(spark, rows, spec)
    try:
        return _messages(spark, refusing_wide(rows, spec.batches.max_row_bytes), spec)
    except WideRowError as error:
        logger.info("write_id=%s is uploaded again, in batches that Spark weighs: %s", spec.write_id, error.message)
    return _messages(spark, rows, replace(spec, batches=BatchLimits()))


def _messages(spark: SparkGateway, rows: DataFrame, spec: UploadSpec) -> CommitMessages:
    send = as_sent(map_function(spec))

    def collect() -> list[Row]:
        with spark.batches_of(spec.batches.row_count) as are_counted:
            return (rows if are_counted else weighed_by_spark(rows)).mapInArrow(send, MESSAGES).collect()

    return check_messages((row[MESSAGE_COLUMN] for row in spark.run(spec.write_id, collect)), spec)


def write_by_spark(rows: DataFrame, schema: StructType, plan: WritePlan, opened: OpenTable) -> WrittenFiles:
    """Write a DataFrame's rows as Spark itself would, where no reader looks; read them back and count them.

    Neither Spark's catalog nor the metastore hears of these files; the publish tells the metastore.

    On S3A the magic committer gives files their names, for this job alone, where the session has it. ``rows`` has the
    table's data columns, then its partition columns, which may be text; ``schema`` has the types of all of them, also
    of data columns that the metastore's table lacks as yet. Of every partition that has rows exactly the files are
    returned that readers will see; nothing else is left below ``plan.data_location``.

    ``InvalidInputError`` has Spark's reason why it cannot write this table or these types; nothing was written then.
    ``CheckFailedError``: other rows are read back than were written, since the format cannot hold some of these values.
    ``PartitionExistsError``: a row belongs to a partition that :func:`refuse_existing` was told of. Failures of the
    DataFrame's own code pass through. Files may be left below ``plan.data_location``.
    """
    spark = open_gateway(rows.sparkSession)  # a streaming query has a session of its own
    files = spark.files(plan, schema)
    written = spark.run(plan.write_id, lambda: files.write(rows, magic=opened.renames.is_magic))
    found = _only_visible(opened.store, plan)
    counted = spark.run(plan.write_id, lambda: files.count(list(found))) if written else {}
    _require_all(written, {values: counted.get(values, 0) for values in found}, plan, files.description)
    empty = [file for values, group in found.items() if not counted.get(values) for file in group]
    _delete(opened.store, empty, plan)
    partitions = (
        WrittenPartition(
            values=values,
            keys=tuple(file.key for file in group),
            rows=counted[values],
            bytes=sum(file.size_bytes for file in group),
            raw_bytes=None,
        )
        for values, group in found.items()
        if counted.get(values)
    )
    return WrittenFiles(plan=plan, partitions=tuple(partitions))


def refuse_existing(rows: DataFrame, existing: Collection[PartitionValues], columns: StructType) -> DataFrame:
    """Return the same rows; the job that meets one of a partition that exists fails, before its task writes a file.

    The partition columns come last, and may be text. The metastore may spell existing partitions otherwise: what
    readers take for one value is one.
    """
    if not existing:
        return rows
    names = [f"_exists_{number}" for number in range(len(columns))]
    texts = [tuple(None if value == NULL_PARTITION else value for value in partition) for partition in existing]
    schema = StructType([StructField(name, StringType()) for name in names])
    known = frame_of(rows.sparkSession, texts, schema)
    pairs = zip(names, rows.columns[len(rows.columns) - len(names) :], columns, strict=True)
    same = [
        _as_stored(F.expr(cast_sql(name, field.dataType, "try_cast"))).eqNullSafe(_as_stored(F.col(quoted(column))))
        for name, column, field in pairs
    ]
    values = (
        F.concat(F.lit(f"{field.name}="), F.coalesce(F.col(name), F.lit(NULL_PARTITION)))
        for name, field in zip(names, columns, strict=True)
    )
    advice = "exists; create_partitions changes nothing then: use append or overwrite_partitions"
    shown = F.concat_ws("/", *values)
    message = F.concat(F.lit("\ntable_writer.errors.PartitionExistsError: partition "), shown, F.lit(f" {advice}\n"))
    found = F.when(F.col(FOUND), F.raise_error(message).cast("boolean")).otherwise(F.lit(True))
    joined = rows.join(F.broadcast(known.withColumn(FOUND, F.lit(True))), balanced_tree(and_, same), "left").where(
        found
    )
    return joined.drop(*names, FOUND)


def _as_stored(column: Column) -> Column:
    """Spell a value as its directory does; null and the empty text are one."""
    text = column.cast("string")
    return F.when(text != "", text)


def _only_visible(store: ObjectStore, plan: WritePlan) -> dict[PartitionValues, list[ObjectInfo]]:
    """Delete what committers leave behind, so that listings of published locations show data only; group the rest."""
    prefix = plan.data_location.key
    listed = list(store.list(prefix))
    visible = [file for file in listed if not any(map(is_hidden, file.key.removeprefix(prefix).split("/")))]
    kept = {file.key for file in visible}
    _delete(store, [file for file in listed if file.key not in kept], plan)
    by_values: dict[PartitionValues, list[ObjectInfo]] = {}
    for file in visible:
        directory = file.key.removeprefix(prefix).rpartition("/")[0]
        by_values.setdefault(partition_values(directory) if directory else (), []).append(file)
    return dict(sorted(by_values.items()))


def _delete(store: ObjectStore, surplus: Sequence[ObjectInfo], plan: WritePlan) -> None:
    logger.debug("write_id=%s deletes %d files without rows from its own location", plan.write_id, len(surplus))
    store.delete([file.key for file in surplus])


def _require_all(written: int, counted: Mapping[PartitionValues, int], plan: WritePlan, description: str) -> None:
    read = sum(counted.values())
    if read != written:
        raise CheckFailedError(
            f"{written:,} rows were written for {plan.table.name} and {read:,} are read back: files of {description}"
            " cannot hold some of the values, usually line breaks in text, or rows of CSV with nothing but a null."
            " Nothing was published. Take them out of the DataFrame, or choose a format or options that can hold them.",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )
