"""The DataFrame's columns, matched by name, in the table's types; and columns that the table gets.

What is safe is done for the user: columns in any order, types that widen without loss, limits checked on the data. All
else is refused with both types named, before anything is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timezone
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it

from table_writer.errors import InvalidInputError, MetastoreError, SchemaMismatchError
from table_writer.jobs.plan.types import (
    NOT_NULL,
    Limit,
    Match,
    Rule,
    enforce,
    in_array,
    in_struct,
    limits_of,
    match_values,
    plain_type,
    refused_pair,
    stored_field,
    unstorable,
)
from table_writer.metastore.protocol import Metastore
from table_writer.model.column_statistics import CURRENT_DEFAULT
from table_writer.model.new_table import SchemaMode
from table_writer.model.partition_value import java_zone
from table_writer.model.table import Table, TableName
from table_writer.spark.sql import SPARK_ERRORS, analyzed_now, is_utf8, misreading, quoted, spark_reason, spark_sentence
from table_writer.spark.types import all_types, column_sql, exact_type, rebuilt, shown_type

# cheaper to send than their text
SPELLED_ALIKE: Final = (T.DateType, T.ByteType, T.ShortType, T.IntegerType, T.LongType)
LONGEST_NAME: Final = 767  # Hive's metastore: COLUMNS_V2.COLUMN_NAME
NAME_HIVE_KEEPS: Final = re.compile(r"[^\x00-\x20,;{}()=\x7f]+")
"""Hive's SerDes split a list of names at commas, and its Parquet reader parses a schema as text: one name with a blank,
and Hive reads no file of the table."""
FIELD_HIVE_KEEPS: Final = re.compile(r"[\w.]+")
"""Hive keeps a struct as text too, names unquoted, for a parser that knows these characters."""
FIELD_BESIDE_LIMITS: Final = re.compile(r"\w+")
"""Spark keeps a column with ``char(n)`` inside as text too, and reads it as SQL."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRows:
    """Rows in the table's shape, and what was done to give them that."""

    given: DataFrame  # as the user gave it, with the defaults of columns that it lacks
    rows: DataFrame  # exactly the columns, order and types of the schema; partition values may be text; others behind
    schema: T.StructType  # the table's columns, with those it gets between its data and its partition columns
    added: tuple[T.StructField, ...] = ()  # columns that the table must get before these rows can be published
    filled: tuple[str, ...] = ()  # columns, and fields such as info.code, that the DataFrame lacks: null
    defaults: tuple[str, ...] = ()  # columns that it lacks, with what they get instead: "status: 'open'"
    limits: tuple[Limit, ...] = ()  # the rules that executors enforce on the rows, see violation()
    texts: tuple[Rule, ...] = ()  # those of partitions' texts, which our tasks enforce by themselves

    @property
    def told_by_spark(self) -> DataFrame:
        """The same rows for a job without tasks of ours: it refuses texts of partitions that no name tells."""
        checked = {rule.column: enforce(rule, _same_column)(F.col(quoted(rule.column))) for rule in self.texts}
        return self.rows.withColumns(checked) if checked else self.rows


def fit(
    df: DataFrame,
    schema: T.StructType,
    table: str,
    partition_columns: Sequence[str],
    mode: SchemaMode = SchemaMode.FIXED,
    beside: Sequence[str] = (),
) -> FittedRows:
    """Return the DataFrame with exactly the table's columns, order and types. Runs no Spark job.

    Spark itself turns partition values into text, as its own writer does; integers and dates, whose text is the same
    everywhere, stay as they are. In ``schema`` partition columns come last. A column that the DataFrame lacks gets its
    default, as in Spark's own ``INSERT … BY NAME``, else null. Columns that go along ``beside`` the
    table's come behind them. Raises ``SchemaMismatchError`` with every column that is missing, extra, there twice, or
    of a type that does not fit.
    """
    partitions = {name.lower() for name in partition_columns}
    defaults = _defaults(df, schema, partitions) if mode.fills else {}
    df = _with_defaults(df, defaults, table)
    own = df.drop(*beside)
    _refuse(_name_problems(own, schema, partitions, mode), table)
    wanted = {field.name.lower() for field in schema}
    added = tuple(added_field(field) for field in own.schema if field.name.lower() not in wanted)
    _refuse([problem for field in added for problem in addition_problems(field, schema)], table)
    cut = len(schema) - len(partition_columns)
    whole = T.StructType([*schema.fields[:cut], *added, *schema.fields[cut:]])
    given = {field.name.lower(): field for field in own.schema}
    matches = {field.name: _match(given.get(field.name.lower()), field, mode) for field in whole}
    _refuse([problem for found in matches.values() for problem in found.problems], table)
    columns: list[Column | str] = []
    limits: list[Limit] = []
    for field in whole:
        found = matches[field.name]
        source = given.get(field.name.lower())
        as_text = field.name.lower() in partitions and not isinstance(field.dataType, SPELLED_ALIKE)
        if as_text and isinstance(field.dataType, T.TimestampType):
            found = _told_by_its_clock(found, field.name, df.sparkSession)
        if source is not None and source.name == field.name and found.convert is None and not as_text:
            columns.append(quoted(field.name))  # a tenth of what a Column costs, and there may be thousands
            continue
        column = F.lit(None) if source is None else F.col(quoted(source.name))
        fitted = column if found.convert is None else found.convert(column)
        columns.append((fitted.cast("string") if as_text else fitted).alias(field.name))
        limits.extend(limits_of(found.rules, column))
    texts = _rules_of_texts(whole.names[len(whole) - len(partition_columns) :], given, df.sparkSession)
    limits += [limit for rule, source in texts.items() for limit in limits_of((rule,), F.col(quoted(source)))]
    filled = tuple(path for found in matches.values() for path in found.filled)
    return FittedRows(
        given=df,
        rows=_in_shape(df, [*columns, *map(quoted, beside)], table),
        schema=whole,
        added=added,
        filled=filled,
        defaults=tuple(f"{name}: {field.metadata[CURRENT_DEFAULT]}" for name, field in defaults.items()),
        limits=tuple(limits),
        texts=tuple(texts),
    )


def _in_shape(df: DataFrame, columns: Sequence[Column | str], table: str) -> DataFrame:
    try:
        return df.select(*columns)
    except SPARK_ERRORS as error:
        raise SchemaMismatchError(
            f"Spark cannot bring the DataFrame into the shape of table {table}: {spark_sentence(error)} Nothing was"
            " written. Cast its columns to the table's types first.",
            table=table,
        ) from error


def _defaults(df: DataFrame, schema: T.StructType, partitions: Collection[str]) -> dict[str, T.StructField]:
    """Return the columns that the DataFrame lacks and that have a default; partition columns are never guessed."""
    given = {name.lower() for name in df.columns} | set(partitions)
    lacking = (field for field in schema if field.name.lower() not in given)
    return {field.name: field for field in lacking if CURRENT_DEFAULT in field.metadata}


def _with_defaults(df: DataFrame, defaults: Mapping[str, T.StructField], table: str) -> DataFrame:
    """Give rows the defaults of columns as the table has them now; older files have those of when they were added."""
    if not defaults:
        return df
    values = [
        F.expr(f"({field.metadata[CURRENT_DEFAULT]}\n)").cast(field.dataType).alias(name)
        for name, field in defaults.items()
    ]
    try:
        return analyzed_now(df.select("*", *values))
    except SPARK_ERRORS as error:
        raise InvalidInputError(
            f"a default of {table} ({', '.join(defaults)}) cannot be computed: {spark_reason(error)} Give these columns"
            f" in the DataFrame, or change it: ALTER TABLE … ALTER COLUMN … SET DEFAULT",
            table=table,
        ) from error


def _match(source: T.StructField | None, field: T.StructField, mode: SchemaMode) -> Match:
    wanted = T.StructField(field.name, exact_type(field), field.nullable)
    problems = unstorable(wanted.dataType, field.name)
    if problems:
        return Match(problems=problems)
    if source is None:
        return Match(convert=lambda column: column.cast(field.dataType), filled=(field.name,))
    return match(T.StructField(field.name, plain_type(source.dataType), source.nullable), wanted, field.name, mode)


def _refuse(problems: Sequence[str], table: str) -> None:
    if problems:
        raise SchemaMismatchError(
            f"the DataFrame does not fit table {table}, nothing was written: {'; '.join(problems)}.", table=table
        )


def _name_problems(df: DataFrame, schema: T.StructType, partitions: set[str], mode: SchemaMode) -> list[str]:
    """Name columns that are there twice, and those that only one side has and that the mode does not allow."""
    wanted = {field.name.lower() for field in schema}
    counts = Counter(name.lower() for name in df.columns)
    missing = [field for field in schema if field.name.lower() not in counts]
    required = [field for field in missing if field.name.lower() in partitions or not field.nullable]
    extra = [name for name in df.columns if name.lower() not in wanted]
    fills, evolves = "schema='allow_missing' gives them their defaults, or null", "schema='evolve' adds them"
    if mode is SchemaMode.FIXED:
        fills = "give them, too: df.withColumn(name, F.lit(None)) has null"
        evolves = "drop them; or first add them to the table: ALTER TABLE … ADD COLUMNS"
    lacking = "partition or NOT NULL columns" if mode.fills else "columns"
    return [
        f"{what}: {', '.join(map(repr, names))}{advice}"
        for what, names, advice in (
            (
                "columns that differ only by case, or are there twice",
                sorted(name for name, count in counts.items() if count > 1),
                " (rename or drop one where it comes from; a join with on=[…] keeps one)",
            ),
            (
                f"{lacking} of the table missing in the DataFrame",
                [field.name for field in (required if mode.fills else missing)],
                "" if mode.fills or required else f" ({fills})",
            ),
            ("columns the table does not have", [] if mode is SchemaMode.EVOLVE else extra, f" ({evolves})"),
        )
        if names
    ]


def match(given: T.StructField, wanted: T.StructField, path: str, mode: SchemaMode) -> Match:
    """Return how a column, field or element of the DataFrame becomes one of the table.

    ``given`` has strings for ``char(n)`` and ``varchar(n)``, ``wanted`` has them as types; messages name it ``path``.
    """
    if isinstance(given.dataType, T.UserDefinedType) and not isinstance(wanted.dataType, T.UserDefinedType):
        stored = match(T.StructField(given.name, given.dataType.sqlType(), given.nullable), wanted, path, mode)
        return stored if stored.convert is None else refused_pair(given.dataType, wanted.dataType, path)
    nested = NESTED.get((type(given.dataType), type(wanted.dataType)))
    inner = (
        match_values(given.dataType, wanted.dataType, path)
        if nested is None
        else nested(given.dataType, wanted.dataType, path, mode)
    )
    if wanted.nullable or not given.nullable or inner.problems:
        return inner
    rule = Rule(
        column=path, rule=NOT_NULL, verdict="are null", offender=lambda column: F.when(column.isNull(), F.lit("null"))
    )
    return replace(inner, convert=enforce(rule, inner.convert or _same_column), rules=(rule, *inner.rules))


def _told_by_its_clock(found: Match, name: str, spark: SparkSession) -> Match:
    """Refuse moments that a partition's name would make others of: it says what the session's clocks show.

    Of the hour that they show twice readers see the first, so a merge would find no row of the second, and insert each
    again.
    """
    zone, convert = str(spark.conf.get("spark.sql.session.timeZone")), found.convert or _same_column
    if isinstance(java_zone(zone), timezone):  # whose clocks are never set
        return found

    def offender(column: Column) -> Column:
        moment = convert(column)
        text = moment.cast("string")
        return F.when(~text.cast(T.TimestampType()).eqNullSafe(moment), text)

    rule = Rule(
        column=name,
        rule="a partition's timestamp",
        verdict=f"are of the second of two hours that clocks in {zone} show alike, which no name of a partition tells"
        " (write such partitions in a session in UTC)",
        offender=offender,
    )
    return replace(found, convert=enforce(rule, convert), rules=(rule, *found.rules))


def _rules_of_texts(
    partition_columns: Sequence[str], given: Mapping[str, T.StructField], spark: SparkSession
) -> dict[Rule, str]:
    """Refuse texts that a partition's name would make others of: a name is UTF-8, and Spark's strings are any bytes.

    Each rule comes with the column of the DataFrame that has the texts.
    """
    sources = {name: given.get(name.lower()) for name in partition_columns}
    return {
        Rule(
            column=name,
            rule="a partition's text",
            verdict="are no UTF-8, which no name of a partition tells (store such values as a column of the files)",
            offender=lambda column: F.when(~is_utf8(spark, column), F.concat(F.lit("0x"), F.hex(column))),
        ): source.name
        for name, source in sources.items()
        if source is not None and isinstance(source.dataType, T.StringType)
    }


def _same_column(column: Column) -> Column:
    return column


def _match_structs(given: T.StructType, wanted: T.StructType, path: str, mode: SchemaMode) -> Match:
    fields = {field.name.lower(): field for field in given}
    found = {field.name: fields[field.name.lower()] for field in wanted if field.name.lower() in fields}
    absent = [field for field in wanted if field.name not in found]
    matches = {
        field.name: match(found[field.name], field, f"{path}.{field.name}", mode)
        for field in wanted
        if field.name in found
    }
    problems = _field_problems(given, wanted, path, mode) + tuple(
        problem for inner in matches.values() for problem in inner.problems
    )
    filled = tuple(f"{path}.{field.name}" for field in absent) + tuple(
        name for inner in matches.values() for name in inner.filled
    )
    rules = tuple(in_struct(rule, found[name].name) for name, inner in matches.items() for rule in inner.rules)
    untouched = given.names == wanted.names and all(inner.convert is None for inner in matches.values())

    def convert(column: Column) -> Column:
        parts = [
            (matches[field.name].convert or _same_column)(column.getField(found[field.name].name))
            if field.name in found
            else F.lit(None).cast(plain_type(field.dataType))
            for field in wanted
        ]
        named = [part.alias(field.name) for part, field in zip(parts, wanted, strict=True)]
        return F.when(column.isNotNull(), F.struct(*named))

    return Match(convert=None if untouched else convert, rules=rules, problems=problems, filled=filled)


def _field_problems(given: T.StructType, wanted: T.StructType, path: str, mode: SchemaMode) -> tuple[str, ...]:
    names = [field.name.lower() for field in given]
    twice = (f"struct {path} has fields that differ only by case",) if len(set(names)) < len(names) else ()
    absent = tuple(
        f"field {path}.{field.name} is missing" + ("" if field.nullable else ", and is NOT NULL in the table")
        for field in wanted
        if field.name.lower() not in names and not (mode.fills and field.nullable)
    )
    known = {field.name.lower() for field in wanted}
    extra = [f"{path}.{field.name}" for field in given if field.name.lower() not in known]
    if extra and mode is SchemaMode.EVOLVE:
        problem = (
            f"column {path} is {shown_type(given)} in the DataFrame and {shown_type(wanted)} in the table:"
            f" fields ({', '.join(extra)}) cannot be added inside a struct of a Hive table; leave them out, or give"
            " them as a column of their own"
        )
        return (*twice, *absent, problem)
    return (*twice, *absent, *(f"field {name} is not in the table" for name in extra))


def _match_arrays(given: T.ArrayType, wanted: T.ArrayType, path: str, mode: SchemaMode) -> Match:
    inner = match(_element(given), _element(wanted), f"{path}.element", mode)
    of_element = inner.convert

    def convert(column: Column) -> Column:
        if of_element is None:
            return column
        return F.transform(column, lambda item: of_element(item))  # noqa: PLW0108  # Spark counts parameters

    return replace(
        inner, convert=None if of_element is None else convert, rules=tuple(in_array(rule) for rule in inner.rules)
    )


def _element(kind: T.ArrayType) -> T.StructField:
    return T.StructField("element", kind.elementType, kind.containsNull)


def _match_maps(given: T.MapType, wanted: T.MapType, path: str, mode: SchemaMode) -> Match:
    def inside(name: str, part: Callable[[T.MapType], T.StructField]) -> Match:
        return match(part(given), part(wanted), f"{path}.{name}", mode)

    key = inside("key", lambda kind: T.StructField("key", kind.keyType, nullable=False))
    value = inside("value", lambda kind: T.StructField("value", kind.valueType, kind.valueContainsNull))
    of_key, of_value = key.convert, value.convert

    def convert(column: Column) -> Column:
        values = column if of_value is None else F.transform_values(column, lambda _, item: of_value(item))
        return values if of_key is None else F.transform_keys(values, lambda item, _: of_key(item))

    return Match(
        convert=None if of_key is None and of_value is None else convert,
        rules=(
            *(in_array(rule, F.map_keys) for rule in key.rules),
            *(in_array(rule, F.map_values) for rule in value.rules),
        ),
        problems=key.problems + value.problems,
        filled=key.filled + value.filled,
    )


NESTED: Final[dict[tuple[type[T.DataType], type[T.DataType]], Callable[..., Match]]] = {
    (T.StructType, T.StructType): _match_structs,
    (T.ArrayType, T.ArrayType): _match_arrays,
    (T.MapType, T.MapType): _match_maps,
}


def added_field(given: T.StructField) -> T.StructField:
    """Return the column a table gets for one of the DataFrame, with its comment and text limits.

    Everything in it may be null: Spark cannot read a Hive table with NOT NULL inside a struct.
    """
    return stored_field(given.name, rebuilt(exact_type(given), nullable=True), str(given.metadata.get("comment", "")))


def addition_problems(field: T.StructField, table_schema: T.StructType) -> tuple[str, ...]:
    def is_local(kind: T.DataType) -> bool:
        return any(isinstance(inner, T.TimestampNTZType) for inner in all_types(kind))

    name, kind = field.name, exact_type(field)
    problems = list(unstorable(kind, name))
    if len(name) > LONGEST_NAME or not NAME_HIVE_KEEPS.fullmatch(name):
        problems.append(f"new column {name[:80]!r} has a name that Hive cannot keep; rename it")
    keeps = FIELD_HIVE_KEEPS if kind == field.dataType else FIELD_BESIDE_LIMITS
    problems += [
        f"new column {name} has a field {part.name[:80]!r} inside, a name that Hive cannot keep; rename it"
        for inner in all_types(kind)
        if isinstance(inner, T.StructType)
        for part in inner
        if not keeps.fullmatch(part.name)
    ]
    if any(isinstance(inner, T.StringType) and shown_type(inner) != "string" for inner in all_types(field.dataType)):
        problems.append(f"new column {name} has a collation, which Hive does not know; cast it to string")
    if any(isinstance(inner, T.UserDefinedType) for inner in all_types(kind)):
        problems.append(
            f"new column {name} has a user-defined type, for which SQL has no name: leave it out, or store what it is"
            " made of, a vector as vector_to_array(…)"
        )
    if is_local(field.dataType) and not is_local(table_schema):
        problems.append(
            f"new column {name} has timestamp_ntz, which Hive does not know: Spark would hide all columns of the table"
            " from Hive; cast it to timestamp"
        )
    return tuple(problems)


def add_columns(spark: SparkSession, metastore: Metastore, table: Table, added: Sequence[T.StructField]) -> Table:
    """Add columns to a table, at the end of its data columns; partitions that exist keep their own.

    Returns the table as it is now. Spark runs ``ALTER TABLE``, so that both Hive's columns and Spark's own schema
    change. Another writer may add the same column at the same moment: that is fine, if it has the same type; if not,
    or if the table is gone, that is a ``SchemaMismatchError``. ``MetastoreError``: Spark or the metastore refused.
    """
    require_spellable(spark, table, added)
    try:
        _add_missing(spark, table, added)
    except SPARK_ERRORS as failure:
        _existing_table(metastore, table)
        raise MetastoreError(
            f"Spark could not look at table {table.name} to add columns ({_columns(added)}): {spark_reason(failure)}."
            " Nothing was published; run it again.",
            table=str(table.name),
        ) from failure
    return _existing_table(metastore, table)


def require_spellable(spark: SparkSession, table: Table, added: Sequence[T.StructField]) -> None:
    """Refuse comments that the session would change on the way into the table; names the setting in the way."""
    if why := misreading(_columns(added), spark.conf.get):
        raise InvalidInputError(
            f"columns ({_columns(added)}) cannot be added to table {table.name}: {why}. Nothing was published.",
            table=str(table.name),
        )


def _existing_table(metastore: Metastore, table: Table) -> Table:
    now = metastore.get_table(table.name)
    if now is None:
        raise SchemaMismatchError(
            f"table {table.name} was dropped meanwhile; nothing was published. Create it, and write again.",
            table=str(table.name),
        )
    return now


def _add_missing(spark: SparkSession, table: Table, added: Sequence[T.StructField]) -> None:
    for _ in range(len(added) + 1):  # each round that is lost to another writer finds one column more
        missing = _missing_columns(spark, table.name, added)
        if not missing:
            return
        try:
            spark.sql(f"ALTER TABLE {table.name.sql} ADD COLUMNS ({_columns(missing)})")
        except SPARK_ERRORS as failure:
            if len(_missing_columns(spark, table.name, added)) == len(missing):
                raise MetastoreError(
                    f"could not add columns ({_columns(missing)}) to table {table.name}: {spark_reason(failure)}."
                    f" Nothing was published; add them yourself with ALTER TABLE {table.name.sql} ADD COLUMNS, or"
                    " leave them out.",
                    table=str(table.name),
                ) from failure
        else:
            return


def _missing_columns(spark: SparkSession, table: TableName, added: Sequence[T.StructField]) -> list[T.StructField]:
    """Return the columns that the table still lacks; one that is there with another type is an error."""
    spark.catalog.refreshTable(table.sql)  # this session may remember the table as it was
    there = {field.name.lower(): field for field in spark.table(table.sql).schema}
    for field in added:
        other = there.get(field.name.lower())
        if other is not None and _type_text(other) != _type_text(field):
            raise SchemaMismatchError(
                f"table {table} got a column {field.name} meanwhile, as {_type_text(other)}, and the DataFrame has"
                f" {_type_text(field)}; nothing was published. Cast it, and write again.",
                table=str(table),
            )
    return [field for field in added if field.name.lower() not in there]


def _type_text(field: T.StructField) -> str:
    return shown_type(exact_type(field)).lower()


def _columns(fields: Sequence[T.StructField]) -> str:
    """Spell columns for ``ALTER TABLE``."""
    return ", ".join(
        column_sql(T.StructField(field.name, exact_type(field), field.nullable, field.metadata)) for field in fields
    )
