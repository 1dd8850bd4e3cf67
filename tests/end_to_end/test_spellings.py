"""Which texts are one partition: compared with what Spark reads, and with what a write of that value leaves."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import InvalidInputError, PartitionExistsError, TableWriter
from table_writer.model.partition_value import canonical
from table_writer.model.table import NULL_PARTITION, Partition, partition_name
from tests.model.partition_texts import ONE_VALUE, TEXTS, ZONE

LONGEST_NAME: Final = 767  # of a partition, in the metastore's database
SOME: Final = "0123456789+-.eET: Z\tNaf"
TYPES: Final = (
    *("tinyint", "smallint", "int", "bigint", "decimal(10,2)", "decimal(38,20)", "float", "double", "boolean", "date"),
    *("timestamp", "timestamp_ntz", "string", "char(5)", "varchar(5)", "binary"),
)
READ: Final = [kind for kind in TYPES if kind not in {"tinyint", "smallint", "bigint", "decimal(38,20)", "float"}]
"""What a table is partitioned by; the others are cast by the same code."""

MakeTable = Callable[..., str]
Groups = set[frozenset[str]]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark as it reads texts that are no value, which it refuses by default."""
    names = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    before = {name: str(spark.conf.get(name)) for name in names}
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def drawn_texts() -> list[str]:
    """Change known texts a little, always in the same way."""
    drawn = random.Random(9)  # no secret
    texts: set[str] = set()
    while len(texts) < 500:
        text = drawn.choice(TEXTS[:-1])
        cut = drawn.randrange(len(text) + 1)
        texts.add(text[:cut] + drawn.choice(SOME) + text[cut + drawn.randrange(2) :])
    return sorted(text for text in texts if "T" not in text[:1] and ":" not in text[:3])  # a time of today


def groups(values: dict[str, object]) -> Groups:
    """Return the texts that are one value."""
    found = defaultdict(set)
    for text, value in values.items():
        found[value].add(text)
    return set(map(frozenset, found.values()))


def test_two_texts_are_one_value_exactly_if_spark_reads_one_value_from_their_partitions(
    session: SparkSession, writer: TableWriter, make_table: MakeTable, tmp_path: Path
) -> None:
    columns = [chr(ord("a") + number) for number in range(len(READ))]
    typed = ", ".join(f"{name} {kind}" for name, kind in zip(columns, READ, strict=True))
    table = make_table(
        f"CREATE TABLE {{name}} (id INT, nr INT, {typed}) USING parquet PARTITIONED BY (nr, {', '.join(columns)})"
    )
    one_row = (tmp_path / "row").as_uri()
    session.range(1).select(F.col("id").cast("int")).coalesce(1).write.parquet(one_row)
    partitions = [
        Partition(values=(str(number), *[text] * len(READ)), location=f"{one_row}/")
        for number, text in enumerate(TEXTS)
    ]
    assert max(len(partition_name(["nr", *columns], one.values)) for one in partitions) <= LONGEST_NAME
    services = writer._services.open_to_write(table)
    services.metastore.add_partitions(services.table, partitions)
    session.conf.set("spark.sql.session.timeZone", ZONE)
    columns = [as_text(name, kind).alias(name) for name, kind in zip(columns, READ, strict=True)]
    rows = {row.nr: row for row in session.table(table).select("nr", *columns).collect()}
    for position, kind in enumerate(READ, start=1):
        read = {text: rows[number][position] for number, text in enumerate(TEXTS)}
        assert groups(ours(TEXTS, kind, ZONE)) == groups(read), kind
        if kind in ONE_VALUE:
            recorded = set(map(frozenset, ONE_VALUE[kind]))
            nulls = frozenset(text for text, value in read.items() if value is None)
            assert groups(read) == recorded | {nulls}, f"tests/model/partition_texts.py has other groups of {kind}"


@pytest.mark.parametrize("zone", [ZONE, "Australia/Lord_Howe"])
def test_texts_that_nobody_thought_of_are_one_value_exactly_if_spark_casts_them_to_one(
    zone: str, session: SparkSession
) -> None:
    texts = drawn_texts()
    frame = session.createDataFrame([(text,) for text in texts], "text string")
    session.conf.set("spark.sql.session.timeZone", zone)
    kinds = [kind for kind in TYPES if "char" not in kind]
    rows = frame.select(*(as_text(f"CAST(text AS {kind})", kind) for kind in kinds)).collect()
    for kind, read in zip(kinds, zip(*rows, strict=True), strict=True):
        assert groups(ours(texts, kind, zone)) == groups(dict(zip(texts, read, strict=True))), kind


def test_with_ansi_fewer_texts_are_values_and_none_is_another(session: SparkSession) -> None:
    frame = session.createDataFrame([(text,) for text in TEXTS], "text string")
    session.conf.set("spark.sql.session.timeZone", ZONE)
    kinds = [kind for kind in TYPES if "char" not in kind]
    pairs = [as_text(f"{cast}(text AS {kind})", kind) for kind in kinds for cast in ("CAST", "TRY_CAST")]
    for row in frame.select(*pairs).collect():
        for usual, strict in zip(row[::2], row[1::2], strict=True):
            assert strict in {None, usual}


OTHERS: Final = {
    "tinyint": ("01", "1"),
    "bigint": ("+1", "1"),
    "decimal(10,2)": ("1", "1.00"),
    "float": ("1", "1.0"),
    "double": ("1e20", "1.0E20"),
    "boolean": ("TRUE", "true"),
    "date": ("2024-1-1", "2024-01-01"),
    "timestamp": ("2024-01-01 00:00:00.0", "2024-01-01 00:00:00"),
    "timestamp_ntz": ("2024-01-01T00:00:00Z", "2024-01-01 00:00:00"),
    "char(5)": ("ab", "ab   "),
    "int": ("no number", NULL_PARTITION),
}
"""By type: how another tool spells a value, and how Spark does."""


def test_a_partition_that_another_tool_spelled_in_every_column_is_replaced_under_its_name(
    session: SparkSession, writer: TableWriter, make_table: MakeTable, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.session.timeZone", ZONE)
    old = (tmp_path / "old").as_uri()
    session.range(1).selectExpr("-1 AS id").coalesce(1).write.parquet(old)
    columns = {f"p{number}": kind for number, kind in enumerate(OTHERS)}
    typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    table = make_table(f"CREATE TABLE {{name}} (id INT, {typed}) USING parquet PARTITIONED BY ({', '.join(columns)})")
    services = writer._services.open_to_write(table)
    theirs = tuple(text for text, _ in OTHERS.values())
    services.metastore.add_partitions(services.table, [Partition(values=theirs, location=f"{old}/")])
    texts = [None if text == NULL_PARTITION else text for _, text in OTHERS.values()]
    frame = session.createDataFrame([texts], ", ".join(f"{name} string" for name in columns))
    casts = [f"CAST({name} AS {'STRING' if 'char' in kind else kind})" for name, kind in columns.items()]
    df = frame.selectExpr("5 AS id", *(f"{cast} AS {name}" for cast, name in zip(casts, columns, strict=True)))
    assert [(one.values, one.action) for one in writer.plan(df, table).partitions] == [(theirs, "replace")]
    result = writer.overwrite_partitions(df, table, where="p0 = 1")
    assert [one.values for one in result.replaced] == [theirs]
    assert services.metastore.get_partition_names(services.table.name) == [theirs]
    assert [row.id for row in session.table(table).collect()] == [5]
    calls = result.metastore_calls["get_partition_names"]
    assert calls == 3, "one at plan for all that is compared, one for the claim, one of a first write for roots inside"


def test_one_value_in_two_spellings_is_refused_with_both(
    session: SparkSession, writer: TableWriter, make_table: MakeTable
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, d DATE, b BOOLEAN) USING parquet PARTITIONED BY (d, b)")
    services = writer._services.open_to_write(table)
    root = services.table.location
    both = [("2024-1-1", "true"), ("2024-01-01", "T")]
    services.metastore.add_partitions(
        services.table, [Partition(values=values, location=f"{root}{number}/") for number, values in enumerate(both)]
    )
    df = session.sql("SELECT 5 AS id, DATE '2025-01-01' AS d, false AS b")
    with pytest.raises(InvalidInputError) as refused:
        writer.overwrite_partitions(df, table)
    assert all(str(values) in str(refused.value) for values in both)
    assert refused.value.table == table


def test_create_partitions_finds_one_that_another_tool_spelled(
    session: SparkSession, writer: TableWriter, make_table: MakeTable
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, p DOUBLE) USING parquet PARTITIONED BY (p)")
    services = writer._services.open_to_write(table)
    services.metastore.add_partitions(
        services.table, [Partition(values=("1",), location=f"{services.table.location}p=1/")]
    )
    with pytest.raises(PartitionExistsError):
        writer.create_partitions(session.sql("SELECT 5 AS id, 1D AS p"), table)
    writer.create_partitions(session.sql("SELECT 5 AS id, 2D AS p"), table)


def as_text(expression: str, kind: str) -> Column:
    """Spell a value so that others are spelled differently."""
    value = F.expr(expression)
    return (F.unix_micros(value) if kind == "timestamp" else value).cast("string")


def ours(texts: Sequence[str], kind: str, zone: str) -> dict[str, object]:
    return {text: canonical((text,), (kind,), zone) for text in texts}
