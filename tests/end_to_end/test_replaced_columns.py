"""An unpartitioned table gets the columns of a DataFrame in the call that shows its rows, and has its own back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import ConflictError, InvalidInputError, Maintenance, SchemaMismatchError, TableWriter
from table_writer.jobs.plan.types import table_schema
from table_writer.model.table import Table

from .watched import STAGED

Make = Callable[..., str]
OLD = "id BIGINT COMMENT 'The key', amount STRING"
KINDS = {
    "datasource": f"CREATE TABLE {{name}} ({OLD}) USING parquet",
    "Hive": f"CREATE TABLE {{name}} ({OLD}) STORED AS PARQUET",
    "ORC": f"CREATE TABLE {{name}} ({OLD}) USING orc",
}
EVERY_TYPE = (
    "SELECT 1L AS Key, CAST('x' AS CHAR(3)) AS code, 2.5D AS amount, CAST(1 AS DECIMAL(12, 2)) AS price,"
    " DATE '2024-01-01' AS day, TIMESTAMP '2024-01-01 10:00:00' AS at, X'01' AS raw, true AS is_new, 1Y AS b, 2S AS s,"
    " 3 AS i, 1.5F AS f, array(named_struct('Inner', 1)) AS tags, map('a', CAST(NULL AS VARCHAR(4))) AS notes"
)


@pytest.fixture
def old(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "one"), (2, "two")], "id BIGINT, amount STRING").coalesce(1)


@pytest.fixture
def new(spark: SparkSession) -> DataFrame:
    """Return rows with columns of every type: at the positions of the old ones their types, which Hive 2.3 demands."""
    rows = spark.sql(EVERY_TYPE).coalesce(1)
    return rows.withColumn("Key", rows["Key"].alias("Key", metadata={"comment": "It's new"}))


def found(writer: TableWriter, table: str) -> Table:
    table_now: Table = writer._services.open_to_write(table).table
    return table_now


def shown(spark: SparkSession, table: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns of a table and its rows, as a session that has never seen it reads them."""
    rows = spark.newSession().table(table)
    return [f"{field.name} {field.dataType.simpleString()}" for field in rows.schema], [
        tuple(row) for row in rows.collect()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_is_as_if_it_was_made_of_the_dataframe_and_goes_back_with_its_rows(
    kind: str,
    spark: SparkSession,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Make,
    old: DataFrame,
    new: DataFrame,
) -> None:
    table, twin = make_table(KINDS[kind], "codes"), make_table(f"{KINDS[kind]}", "twin")
    writer.overwrite_table(old, table)
    before, columns_before = shown(spark, table), found(writer, table).columns
    spark.sql(f"DROP TABLE {twin}")
    made_as = {"datasource": "parquet", "Hive": "hive:parquet", "ORC": "orc"}[kind]
    writer.create_table(new, twin, format=made_as)
    writer.overwrite_table(new, twin)

    writer.overwrite_table(new, table, schema="replace")
    assert shown(spark, table) == shown(spark, twin)
    assert spark.table(table).collect() == spark.table(twin).collect()
    assert spark.sql(f"DESCRIBE {table}").collect() == spark.sql(f"DESCRIBE {twin}").collect()
    now, as_made = found(writer, table), found(writer, twin)
    assert now.columns == as_made.columns
    assert table_schema(now) == table_schema(as_made)  # as Spark's own parameters have it
    assert not any("colStats.id." in name for name in now.parameters)
    of_old = replace(now, columns=columns_before[:1])
    assert writer._services.metastore.differing_statistics(of_old, {(): {}}) == []

    assert sorted(writer.read(table, version=1).collect()) == sorted(old.collect())
    assert writer.read(table, version=1).columns == ["id", "amount"]
    with pytest.raises(SchemaMismatchError):
        writer.append(old, table)
    writer.append(new, table)
    writer.compact(table)
    assert spark.table(table).count() == 2
    writer.delete_where(table, "f < 2")
    assert spark.table(table).count() == 0

    keeper.rollback(table, version=1)
    assert (shown(spark, table), found(writer, table).columns) == (before, columns_before)
    assert writer.read(table, version=2).collect() == new.collect()
    writer.append(old, table)
    assert spark.table(table).count() == 4
    keeper.rollback(table, version=2)
    assert shown(spark, table) == shown(spark, twin)


def test_a_write_planned_for_the_old_columns_conflicts_and_a_staged_one_is_published_without_spark(
    spark: SparkSession,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Make,
    old: DataFrame,
    new: DataFrame,
    stopped: Callable[..., TableWriter],
) -> None:
    table = make_table(KINDS["datasource"], "codes")
    writer.overwrite_table(old, table)
    staged = writer.stage(new, table, mode="overwrite_table", schema="replace")
    late = stopped(STAGED, lambda: keeper.publish(table, staged.write_id))
    with pytest.raises(ConflictError, match="altered"):
        late.append(old, table)
    assert spark.newSession().table(table).collect() == new.collect()
    with pytest.raises(InvalidInputError, match="has got other columns in between"):
        writer.read_changes(table, 1, 2)
    assert writer.read_changes(table, 0, 1).count() == 2
    writer.delete_where(table, "code = 'bob'", purge=True)
    assert any("written with other columns" in remark for remark in keeper.erasure(table).remarks)


def test_what_cannot_have_other_columns_is_refused_before_anything_is_written(
    spark: SparkSession, writer: TableWriter, make_table: Make, old: DataFrame
) -> None:
    def refusal(table: str, rows: DataFrame) -> str:
        with pytest.raises((InvalidInputError, SchemaMismatchError)) as refused:
            writer.overwrite_table(rows, table, schema="replace")
        return str(refused.value)

    parted = make_table("CREATE TABLE {name} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)", "parted")
    plain = make_table(KINDS["datasource"], "plain")
    bucketed = make_table(f"CREATE TABLE {{name}} ({OLD}) USING parquet CLUSTERED BY (id) INTO 2 BUCKETS", "bucketed")
    text = make_table(f"CREATE TABLE {{name}} ({OLD}) STORED AS TEXTFILE", "lines")
    local = make_table("CREATE TABLE {name} (id BIGINT, at TIMESTAMP_NTZ) USING parquet", "local")
    assert "each partition keeps columns of its own" in refusal(parted, old)
    assert "is bucketed" in refusal(bucketed, old)
    assert "which may know its columns by itself" in refusal(text, old)
    assert "other columns for Hive than for Spark" in refusal(local, old)
    assert "timestamp_ntz" in refusal(plain, spark.sql("SELECT TIMESTAMP_NTZ '2024-01-01 00:00:00' AS at"))
    assert "disallow.incompatible" in refusal(plain, spark.sql("SELECT array(1) AS id"))
    with pytest.raises(InvalidInputError, match="belongs to overwrite_table"):
        writer.append(old, plain, schema="replace")
