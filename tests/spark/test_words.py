"""What is spelled for Spark, and what of its words is shown."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from table_writer import NewTable
from table_writer.model.table import TableName
from table_writer.spark.create_table import create_table_statement
from table_writer.spark.files import jar_for
from table_writer.spark.sql import garbled, literal, quoted, spark_reason


def test_a_name_is_quoted_whatever_is_in_it() -> None:
    assert quoted("a `b`") == "`a ``b```"


def test_a_text_is_quoted_and_holds_no_variable() -> None:
    assert literal("it's ${env:HOME}\\") == r"'it\'s \u0024{env:HOME}\\'"


def test_a_session_that_would_not_undo_the_quoting_is_told_which_setting_to_change() -> None:
    session = {"spark.sql.parser.escapedStringLiterals": "true"}
    assert garbled("COMMENT 'plain'", session.get) == ""
    advice = "set spark.sql.parser.escapedStringLiterals=false in this session, or choose other texts"
    assert garbled("COMMENT " + literal("it's"), session.get).endswith(f": {advice}")


def test_the_first_line_that_says_something_is_the_reason() -> None:
    said = "An error occurred while calling o1.collect.\n: java.lang.Error: no room\n\tat x"
    assert spark_reason(said) == "java.lang.Error: no room"


@pytest.mark.parametrize(
    ("spark", "scala", "jar"), [("3.5.1-amzn-0", "2.12.18", "2.12:3.5.1"), ("4.3.0", "2.13.17", "2.13:4.1.2")]
)
def test_the_jar_of_the_committer_is_the_newest_there_is(spark: str, scala: str, jar: str) -> None:
    assert jar_for(spark, scala) == f"org.apache.spark:spark-hadoop-cloud_{jar}"


def test_a_statement_has_a_line_for_each_clause() -> None:
    schema = StructType().add("dt", "string").add("id", "long", nullable=False)
    new = NewTable(partition_by=["DT"], comment="What's ordered")
    statement = create_table_statement(schema, TableName("mart", "orders"), new, if_not_exists=False)
    assert statement.splitlines() == [
        "CREATE TABLE `spark_catalog`.`mart`.`orders` (`dt` string, `id` bigint NOT NULL)",
        "USING parquet",
        "PARTITIONED BY (`dt`)",
        r"COMMENT 'What\'s ordered'",
    ]
