"""The rows that two versions of a table differ in: inserted, deleted, and with a key also updated.

Both versions come together in one aggregation: a group is the rows of one key, or, where there is none, equal rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from table_writer.errors import InvalidInputError
from table_writer.jobs.rows.keys import Keys
from table_writer.model.location import same_place
from table_writer.model.table import PastPartition
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.past import Past
from table_writer.spark import open_gateway
from table_writer.spark.sql import balanced_tree, grouped, quoted, version_name
from table_writer.spark.types import all_types, shown_type

CHANGE_TYPE: Final = "_change_type"
KEY: Final = "__table_writer_key_"  # the columns of the key
WHOLE: Final = "__table_writer_whole"  # all values of a row that no key names, as they are compared
ROW, IS_AFTER = "__table_writer_row", "__table_writer_is_after"
BEFORE, AFTER = "__table_writer_before", "__table_writer_after"  # rows of a group
BEFORE_COUNT, AFTER_COUNT = "__table_writer_before_count", "__table_writer_after_count"
POSITION, REPEATED = "__table_writer_position", "__table_writer_repeated"


def row_changes(spark: SparkSession, opened: OpenTable, first: int, last: int, key: Sequence[str]) -> DataFrame:
    """Return the rows that differ after two versions, with :data:`CHANGE_TYPE` last; only partitions that differ count.

    Raises ``InvalidInputError`` for what cannot be known or compared.
    """
    opened.require_owner()
    table = opened.table
    keys = Keys.of(key, table, "key") if key else None
    after = Past(opened, version=last)
    values = after.differing_from(first)
    names = opened.partition_names(values) if table.partition_columns else None

    pasts = Past(opened, version=first), after
    found = [list(past.partitions(names)) if values else [] for past in pasts]
    if not keys:  # with one, a key of these files may be in others a second time
        found = _without_shared_files(*found)
    gateway = open_gateway(spark)
    sides = [gateway.past_rows(opened, past.subject, partitions) for past, partitions in zip(pasts, found, strict=True)]
    if not all(found):  # who has no rows has the columns of the other
        with_rows = sides[0 if found[0] else 1]
        sides = [side if partitions else with_rows.limit(0) for side, partitions in zip(sides, found, strict=True)]
    schema = sides[0].schema
    columns, other_columns = ([(field.name, field.dataType) for field in side.schema] for side in sides)
    if columns != other_columns:
        raise InvalidInputError(
            f"the rows of versions {first} and {last} of {table.name} cannot be compared: the table has got other"
            " columns in between, by schema='replace'",
            table=str(table.name),
        )
    if problems := list(_problems(schema)):
        raise InvalidInputError(
            f"the rows of two versions of {table.name} cannot be compared: {'; '.join(problems)}", table=str(table.name)
        )
    both = _side(sides[0], keys, is_after=False).union(_side(sides[1], keys, is_after=True))
    key_names = keys.names(KEY) if keys else []
    groups = grouped(
        both,
        {name: F.col(name) for name in (*key_names, WHOLE)},
        F.count_if(~F.col(IS_AFTER)).alias(BEFORE_COUNT),
        F.count_if(F.col(IS_AFTER)).alias(AFTER_COUNT),
        F.first(F.when(~F.col(IS_AFTER), F.col(ROW)), ignorenulls=True).alias(BEFORE),
        F.first(F.when(F.col(IS_AFTER), F.col(ROW)), ignorenulls=True).alias(AFTER),
    )
    if keys:
        groups = _with_unique_keys(groups, keys, first, last)
    return _changes(groups, schema).alias(version_name(str(table.name), last))


def _without_shared_files(before: Sequence[PastPartition], after: Sequence[PastPartition]) -> list[list[PastPartition]]:
    """Leave out the files to which appends in place have added others: their rows are on both sides."""
    olds = {old.values: old for old in before}
    pairs = ((olds[new.values], new) for new in after if new.values in olds)
    grown = {new.values: added for old, new in pairs if (added := _added(old, new)) is not None}
    return [[old for old in before if old.values not in grown], [grown.get(new.values, new) for new in after]]


def _added(old: PastPartition, new: PastPartition) -> PastPartition | None:
    """Return the files that appends in place have added to a partition; ``None`` if there is more to its changes."""
    if None in {old.files, old.bytes, new.files, new.bytes} or not same_place(old.location, new.location):
        return None
    names, files, size_bytes = (
        old.without - new.without,
        (new.files or 0) - (old.files or 0),
        (new.bytes or 0) - (old.bytes or 0),
    )
    return replace(new, only=names, files=files, bytes=size_bytes) if new.without < old.without else None


def _problems(schema: StructType) -> Iterator[str]:
    for field in schema:
        if field.name.lower() == CHANGE_TYPE:
            yield f"it has a column {field.name} already"
        if any(kind.typeName() == "variant" for kind in all_types(field.dataType)):
            yield f"column {field.name} is {shown_type(field.dataType)}, and Spark compares no variant"


def _side(rows: DataFrame, keys: Keys | None, *, is_after: bool) -> DataFrame:
    names: list[str] = []
    whole = F.struct(
        *(_comparable(F.col(quoted(field.name)), field.dataType).alias(field.name) for field in rows.schema)
    )
    row = F.struct(*map(quoted, rows.columns))
    if keys:
        names, rows = keys.names(KEY), keys.added_to(rows, KEY)
        whole = F.when(balanced_tree(Column.__or__, [F.col(name).isNull() for name in names]), whole)
    return rows.select(*names, whole.alias(WHOLE), F.lit(is_after).alias(IS_AFTER), row.alias(ROW))


def _comparable(column: Column, kind: DataType) -> Column:
    """Return a value with its maps as entries in the order of their keys: Spark compares no maps."""
    if not any(isinstance(inner, MapType) for inner in all_types(kind)):
        return column
    if isinstance(kind, StructType):
        parts = (_comparable(column.getField(field.name), field.dataType).alias(field.name) for field in kind)
        return F.when(column.isNotNull(), F.struct(*parts))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(column, lambda item: _comparable(item, element))
    assert isinstance(kind, MapType)  # no other type has types inside  # noqa: S101
    entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
    return F.sort_array(F.transform(F.map_entries(column), lambda pair: _comparable(pair, entry)))


def _with_unique_keys(groups: DataFrame, keys: Keys, first: int, last: int) -> DataFrame:
    """Return groups whose job fails if a key is there twice in one version."""
    columns = F.struct(
        *(F.col(name).alias(field.name) for name, field in zip(keys.names(KEY), keys.fields, strict=True))
    )
    is_before = F.col(BEFORE_COUNT) > 1
    said = F.concat(
        F.lit("\ntable_writer.errors.InvalidInputError: key: "),
        F.to_json(columns),
        F.lit(" is there "),
        F.when(is_before, F.col(BEFORE_COUNT)).otherwise(F.col(AFTER_COUNT)).cast("string"),
        F.lit(f" times in {keys.table.name} after version "),
        F.when(is_before, F.lit(str(first))).otherwise(F.lit(str(last))),
        F.lit(": name the columns that tell rows apart, or none\n"),
    )
    is_repeated = F.col(WHOLE).isNull() & (F.greatest(BEFORE_COUNT, AFTER_COUNT) > 1)
    return groups.where(F.when(is_repeated, F.raise_error(said).cast("boolean")).otherwise(F.lit(True)))


def _changes(groups: DataFrame, schema: StructType) -> DataFrame:
    """Return one row for each change of a group: as often as it is there more on one side, or before and after."""
    surplus = F.col(AFTER_COUNT) - F.col(BEFORE_COUNT)
    has_both = F.col(WHOLE).isNull() & (surplus == 0)
    is_same = _comparable(F.col(BEFORE), schema).eqNullSafe(_comparable(F.col(AFTER), schema))
    count = F.when(has_both, F.when(is_same, 0).otherwise(2)).otherwise(F.abs(surplus)).cast("int")
    change = (
        F.when(has_both & (F.col(POSITION) == 0), "update_before")
        .when(has_both, "update_after")
        .otherwise(F.when(surplus > 0, "insert").otherwise("delete"))
    )
    repeated = F.posexplode(F.array_repeat(F.lit(True), count)).alias(POSITION, REPEATED)
    row = F.when(F.col(CHANGE_TYPE).isin("insert", "update_after"), F.col(AFTER)).otherwise(F.col(BEFORE))
    changes = groups.select("*", repeated).select(change.alias(CHANGE_TYPE), BEFORE, AFTER)
    values = (F.col(ROW).getField(name).alias(name) for name in schema.names)
    return changes.select(CHANGE_TYPE, row.alias(ROW)).select(*values, CHANGE_TYPE)
