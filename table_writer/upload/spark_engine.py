"""Steps 2 and 3 by Spark's own writer: every format that Spark can write, into this write's own location."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StringType, StructField, StructType

from table_writer.config import SessionSettings
from table_writer.errors import CheckFailedError
from table_writer.model.table import NULL_PARTITION, PartitionValues, partition_values
from table_writer.model.write import WritePlan, WrittenFiles, WrittenPartition
from table_writer.spark import open_gateway
from table_writer.spark.sql import quoted
from table_writer.storage.hadoop import why_renamed
from table_writer.storage.object_store import ObjectInfo, ObjectStore, is_hidden

logger = logging.getLogger(__name__)
FOUND: Final = "_exists"


class SparkEngine:
    """Writes a DataFrame's rows as Spark itself would write them into the table, where no reader looks.

    Neither Spark's catalog nor the metastore hears of these files; the publish tells the metastore.
    """

    def __init__(self, spark: SparkSession, settings: SessionSettings) -> None:
        self._spark = open_gateway(spark)
        self._settings = settings

    def write(self, rows: DataFrame, schema: StructType, plan: WritePlan, store: ObjectStore) -> WrittenFiles:
        """Write all rows below ``plan.data_location``, read them back and count them.

        On S3A the magic committer gives files their names, for this job alone, where the session has it. ``rows`` has
        the table's data columns, then its partition columns, which may be text; ``schema`` has the types of all of
        them, also of data columns that the metastore's table lacks as yet. Of every partition that has rows exactly the
        files are returned that readers will see; nothing else is left below ``plan.data_location``.

        ``InvalidInputError`` has Spark's reason why it cannot write this table or these types; nothing was written
        then. ``CheckFailedError``: other rows are read back than were written, since the format cannot hold some of
        these values. ``PartitionExistsError``: a row belongs to a partition that :func:`refusing` was told of. Failures
        of the DataFrame's own code pass through. Files may be left below ``plan.data_location``.
        """
        files = open_gateway(rows.sparkSession).files(plan, schema)  # a streaming query has a session of its own
        renamed, _ = why_renamed(plan.data_location, self._settings.hadoop, self._settings.missing_jar)
        magic = plan.data_location.scheme == "s3a" and not renamed
        written = self._spark.run(plan.write_id, lambda: files.write(rows, magic=magic))
        found = _only_visible(store, plan)
        counted = self._spark.run(plan.write_id, lambda: files.count(list(found))) if written else {}
        _require_all(written, {values: counted.get(values, 0) for values in found}, plan, files.description)
        _delete(store, [one for values, group in found.items() if not counted.get(values) for one in group], plan)
        return WrittenFiles(plan=plan, partitions=_staged(found, counted))


def refusing(rows: DataFrame, existing: Collection[PartitionValues], columns: StructType) -> DataFrame:
    """Return the same rows; the job that meets one of a partition that exists fails, before its task writes a file.

    The partition columns come last, and may be text. The metastore may spell existing partitions otherwise: what
    readers take for one value is one.
    """
    if not existing:
        return rows
    names = [f"_exists_{number}" for number in range(len(columns))]
    known = rows.sparkSession.createDataFrame([tuple(map(_text, values)) for values in existing], _texts(names))
    pairs = zip(names, rows.columns[len(rows.columns) - len(names) :], columns, strict=True)
    same = [
        _as_stored(F.expr(f"try_cast({name} AS {field.dataType.simpleString()})")).eqNullSafe(
            _as_stored(F.col(quoted(column)))
        )
        for name, column, field in pairs
    ]
    shown = F.concat_ws("/", *(_shown(name, field.name) for name, field in zip(names, columns, strict=True)))
    advice = "exists; create_partitions changes nothing then: use append or overwrite_partitions"
    message = F.concat(F.lit("\ntable_writer.errors.PartitionExistsError: partition "), shown, F.lit(f" {advice}\n"))
    found = F.when(F.col(FOUND), F.raise_error(message).cast("boolean")).otherwise(F.lit(True))
    joined = rows.join(F.broadcast(known.withColumn(FOUND, F.lit(True))), reduce(and_, same), "left").where(found)
    return joined.drop(*names, FOUND)


def _text(value: str) -> str | None:
    return None if value == NULL_PARTITION else value


def _texts(names: Sequence[str]) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])


def _as_stored(column: Column) -> Column:
    """Spell a value as its directory does; null and the empty text are one."""
    text = column.cast("string")
    return F.when(text != "", text)


def _shown(column: str, name: str) -> Column:
    return F.concat(F.lit(f"{name}="), F.coalesce(F.col(column), F.lit(NULL_PARTITION)))


def _only_visible(store: ObjectStore, plan: WritePlan) -> dict[PartitionValues, tuple[ObjectInfo, ...]]:
    """Delete what committers leave behind, so that listings of published locations show data only; group the rest."""
    prefix = plan.data_location.key
    listed = list(store.list(prefix))
    visible = [one for one in listed if not any(map(is_hidden, one.key.removeprefix(prefix).split("/")))]
    kept = {one.key for one in visible}
    _delete(store, [one for one in listed if one.key not in kept], plan)
    by_values = sorted(((_values(one.key.removeprefix(prefix)), one) for one in visible), key=lambda pair: pair[0])
    return {values: tuple(one for _, one in group) for values, group in groupby(by_values, key=lambda pair: pair[0])}


def _values(relative_key: str) -> PartitionValues:
    directory = relative_key.rpartition("/")[0]
    return partition_values(directory) if directory else ()


def _delete(store: ObjectStore, surplus: Sequence[ObjectInfo], plan: WritePlan) -> None:
    logger.debug("write_id=%s deletes %d files without rows from its own location", plan.write_id, len(surplus))
    store.delete([one.key for one in surplus])


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


def _staged(
    found: Mapping[PartitionValues, Collection[ObjectInfo]], counted: Mapping[PartitionValues, int]
) -> tuple[WrittenPartition, ...]:
    return tuple(
        WrittenPartition(
            values=values,
            keys=tuple(one.key for one in group),
            rows=counted[values],
            bytes=sum(one.size_bytes for one in group),
            raw_bytes=None,
        )
        for values, group in found.items()
        if counted.get(values)
    )
