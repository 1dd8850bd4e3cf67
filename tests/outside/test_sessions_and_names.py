"""Sessions that use another catalog or database, and tables whose names want quotes.

``USE other`` makes another catalog the one that names without a catalog belong to: the refresh after a write failed,
the advice in its note failed too, and the session read the old rows of an unpartitioned table. The like was reported as
apache/hudi#18139 and apache/spark#26183. AWS Glue has databases and tables with hyphens: apache/iceberg#11483,
ibis-project/ibis#10577.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import table_writer
from table_writer import InvalidInputError, TableWriter
from table_writer.check import references
from table_writer.model.table import TableName
from tests.cli.shell import Shell
from tests.publish.world import TABLE, World

PACKAGE = Path(table_writer.__file__).parent
STATEMENT = re.compile(
    r"\b(?:REFRESH|REPAIR|ALTER|ANALYZE|DROP|TRUNCATE|CREATE)\s+(?:TABLE|DATABASE)\s+(?:IF[A-Z ]+)?$"
)
QUOTED = re.compile(r"\.(hive_)?sql$|SPARK_CATALOG")
OF_A_NAME = {"sql", "table", "refreshTable", "getTable", "getDatabase", "tableExists", "insertInto", "saveAsTable"}
NAMED_BY_THE_USER = {
    "check/keys.py target.spark.table(table)",
    "check/keys.py catalog.getTable(table)",
    "check/keys.py facts.audit.spark.table(self.table)",
    "integrations/dbt/__init__.py spark.sql(json.loads(query))",
}
"""What means what the session says: a temporary view, a table of another catalog, a query."""


def trees() -> Iterator[tuple[Path, ast.AST]]:
    for path in PACKAGE.rglob("*.py"):
        yield path.relative_to(PACKAGE), ast.parse(path.read_text())


def test_each_statement_that_is_run_or_advised_names_the_catalog_and_is_quoted() -> None:
    """A text that ends in ``ALTER TABLE`` is followed by the one spelling that means the same in each session."""
    bare = [
        f"{path}:{text.lineno} {ast.unparse(value)}"
        for path, tree in trees()
        for text in ast.walk(tree)
        if isinstance(text, ast.JoinedStr)
        for before, value in zip(text.values, text.values[1:], strict=False)
        if isinstance(before, ast.Constant) and STATEMENT.search(str(before.value))
        if isinstance(value, ast.FormattedValue) and not QUOTED.search(ast.unparse(value.value))
        if "IF NOT EXISTS" not in ast.unparse(value.value)  # the name follows it
    ]
    assert bare == []


def test_each_table_that_spark_is_asked_for_is_named_in_full() -> None:
    calls = [
        f"{path} {ast.unparse(node)}"
        for path, tree in trees()
        if "pyspark" in (PACKAGE / path).read_text() and path.parts[0] != "testing"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OF_A_NAME
        if re.search(r"(?:^|[._])(?:spark|catalog|write|read)$", ast.unparse(node.func.value))
        if not re.search(r"\.sql\b(?!\()|SPARK_CATALOG|'SELECT |\(statement\)", ast.unparse(node))
    ]
    assert set(calls) == NAMED_BY_THE_USER


@pytest.fixture
def other_catalog(spark: SparkSession) -> Iterator[str]:
    """Let the session use a catalog of another kind, which knows none of its tables."""
    settings = {
        "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        ".url": "jdbc:derby:memory:other_catalog;create=true",
        ".driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.other{name}", value)
    spark.sql("USE other")
    yield "other"
    spark.sql("USE spark_catalog.default")
    for name in settings:
        spark.conf.unset(f"spark.sql.catalog.other{name}")


def of_catalog(spark: SparkSession, table: str) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in spark.table(f"spark_catalog.{table}").collect()}


@pytest.mark.slow
@pytest.mark.connect
def test_a_session_that_uses_another_catalog_writes_and_reads_its_tables(
    spark: SparkSession, make_table: Callable[..., str], other_catalog: str
) -> None:
    writer = TableWriter(spark)
    database = make_table("CREATE TABLE spark_catalog.{name} (id INT) USING parquet").partition(".")[0]
    table = f"{database}.made"
    writer.create_table(spark.range(0).selectExpr("CAST(id AS INT)"), table)
    for written in range(3):  # the session has read it each time, and remembers where
        result = writer.overwrite_table(spark.sql(f"SELECT {written} AS id"), table)
        assert (result.notes, of_catalog(spark, table)) == ((), {(written,)})
    checked = references("id", table, "id")
    with pytest.raises(InvalidInputError, match="cannot be read"):  # it is of the catalog in use, as in a query
        writer.append(spark.sql("SELECT 2 AS id"), table, checks=[checked])
    named = references("id", f"spark_catalog.{table}", "id")
    writer.append(spark.sql("SELECT 2 AS id, 'x' AS added"), table, checks=[named], schema="evolve")
    assert of_catalog(spark, table) == {(2, None), (2, "x")}
    assert writer.read(table, version=3).count() == 1
    writer.compact(table, min_files=2)
    with pytest.raises(InvalidInputError, match=r"catalog 'other', which this session uses"):
        writer.append(spark.sql("SELECT 2 AS id"), "made")


def test_a_statement_means_the_table_that_the_session_would_find(
    spark: SparkSession, make_table: Callable[..., str], other_catalog: str
) -> None:
    writer = TableWriter(spark)
    table = make_table("CREATE TABLE spark_catalog.{name} (id INT) USING parquet")
    database, _, name = table.partition(".")
    writer.overwrite_table(spark.sql("SELECT explode(array(1, 2, 3)) AS id"), table)
    for elsewhere in (table, name, f"{other_catalog}.{table}"):
        with pytest.raises(InvalidInputError, match="of catalog 'other'"):
            writer.sql(f"DELETE FROM {elsewhere} WHERE id = 1")
    writer.sql(f"DELETE FROM spark_catalog.{table} WHERE id = 1")
    spark.sql(f"USE spark_catalog.{database}")
    for number, named in ((2, name), (3, f"`{database}`.{name}")):
        writer.sql(f"DELETE FROM {named} WHERE id = {number}")
    assert of_catalog(spark, table) == set()


@pytest.mark.slow
@pytest.mark.connect
def test_a_view_of_the_same_name_and_another_database_change_nothing(
    spark: SparkSession, make_table: Callable[..., str]
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)", name="shadowed")
    spark.sql("SELECT 'other' AS x").createOrReplaceTempView("shadowed")
    spark.sql(f"USE {table.partition('.')[0]}")
    try:
        for name in ("shadowed", f"`spark_catalog`.{table}", table.upper()):
            TableWriter(spark).overwrite_partitions(spark.sql("SELECT 1 AS id, 'a' AS dt"), name)
    finally:
        spark.sql("USE spark_catalog.default")
        spark.catalog.dropTempView("shadowed")
    assert of_catalog(spark, table) == {(1, "a")}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("`my-db`.`my-table`", TableName("my-db", "my-table")),
        ("my-db.my-table", TableName("my-db", "my-table")),
        ("spark_catalog.`my-db`.t", TableName("my-db", "t")),
        ("`Spark_Catalog` . `Mart` . `ORDERS`", TableName("mart", "orders")),
        ("hive.orders", TableName("hive", "orders")),
        ("mart.1st", TableName("mart", "1st")),
        ("`order`.`table`", TableName("order", "table")),
        ("märz.`zahlen-über`", TableName("märz", "zahlen-über")),
        ("orders", TableName("default", "orders")),
    ],
)
def test_a_name_is_read_with_and_without_backquotes_and_read_again_as_it_is_printed(text: str, name: TableName) -> None:
    assert TableName.parse(text) == name
    assert TableName.parse(str(name)) == TableName.parse(name.sql) == name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("`a.b`", "is not a table name"),
        ("mart.`a.b`", "two names of letters, digits, _ and -"),
        ("other.mart.orders", "is not a table name of spark_catalog"),
        ("a.b.c.d", "is not a table name"),
        ("`mart`orders", "is not a table name"),
        ("mart.`a``b`", "is not a table name"),
        ("mart.-x", "is not a table name"),
        ("mart.", "is not a table name"),
        ("", "is not a table name"),
    ],
)
def test_what_is_no_name_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        TableName.parse(text)


def test_spark_says_itself_which_names_hive_does_not_take(spark: SparkSession, lakehouse_database: str) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot be made: Spark said: .*INVALID_SCHEMA_OR_RELATION_NAME"):
        TableWriter(spark).create_table(spark.range(1), f"{lakehouse_database}.`my-table`", if_not_exists=True)


HYPHENS = TableName("my-db", "my-table")


@pytest.fixture
def world_of_hyphens() -> World:
    """Make a table that AWS Glue may have, and two versions of it."""
    world = World(name=HYPHENS, root="s3://lake/my-db/my-table/")
    usual = world.metastore.get_table(TABLE)
    assert usual is not None
    world.metastore.create_table(replace(usual, name=HYPHENS, location=world.root))
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    return world


@pytest.mark.parametrize("name", ["`my-db`.`my-table`", "my-db.my-table", "spark_catalog.`my-db`.`my-table`"])
def test_a_name_with_hyphens_is_one_for_maintenance_and_the_command_line(
    name: str, world_of_hyphens: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = world_of_hyphens.keeper
    assert keeper.rollback(name, version=1).version == 3
    assert {one.version for one in keeper.history(name).versions} == {1, 2, 3}
    staged = world_of_hyphens.stage({"d2": frozenset({3})})
    assert keeper.publish(name, staged).table == str(HYPHENS)
    assert [one.table for one in keeper.vacuum_many(database="`my-db`").results] == [str(HYPHENS)]
    shell = Shell(world_of_hyphens, capsys, monkeypatch)
    for command in ("history", "recover", "doctor"):
        assert "my-db.my-table" in shell.run(command, name).out
    assert "my-db.my-table" in shell.run("vacuum", "--database", "spark_catalog.`My-DB`", "--dry-run").out


def test_what_a_doctor_advises_for_a_name_with_hyphens_can_be_run(world_of_hyphens: World) -> None:
    table = world_of_hyphens.table
    parameters = {**table.parameters, "table_writer.retention": "1"}
    world_of_hyphens.metastore.create_table(replace(table, parameters=parameters))
    advised = [finding.advice for finding in world_of_hyphens.keeper.doctor(str(HYPHENS)).findings]
    assert any("ALTER TABLE `spark_catalog`.`my-db`.`my-table` SET" in advice for advice in advised)
