"""What is spelled for Spark, and what of its words is shown."""

from __future__ import annotations

import pytest
from pyspark.errors.exceptions.connect import ArithmeticException, PythonException, SparkConnectGrpcException
from pyspark.sql.types import StructType

from table_writer import NewTable, StorageError
from table_writer.model.table import TableName
from table_writer.spark.create_table import create_table_statement
from table_writer.spark.files import jar_for
from table_writer.spark.sql import DataError, error_in_data, misreading, quoted, spark_errors_translated, spark_reason
from table_writer.spark.types import literal


def test_a_name_is_quoted_whatever_is_in_it() -> None:
    assert quoted("a `b`") == "`a ``b```"


def test_a_text_is_quoted_and_holds_no_variable() -> None:
    assert literal("it's ${env:HOME}\\") == r"'it\'s \u0024{env:HOME}\\'"


def test_a_session_that_would_not_undo_the_quoting_is_told_which_setting_to_change() -> None:
    session = {"spark.sql.parser.escapedStringLiterals": "true"}
    assert misreading("COMMENT 'plain'", session.get) == ""
    advice = "set spark.sql.parser.escapedStringLiterals=false in this session, or choose other texts"
    assert misreading("COMMENT " + literal("it's"), session.get).endswith(f": {advice}")


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


def of_a_server(condition: str, state: str, said: str, kind: type = SparkConnectGrpcException) -> Exception:
    error: Exception = kind(f"[{condition}] {said}", errorClass=condition, messageParameters={}, sql_state=state)
    return error


def test_a_servers_error_is_the_datas_fault_by_its_sqlstate_and_a_traceback_by_its_last_line() -> None:
    zero = of_a_server("DIVIDE_BY_ZERO", "22012", "Division by zero.", ArithmeticException)
    assert error_in_data(zero) == DataError("[DIVIDE_BY_ZERO]", "[DIVIDE_BY_ZERO] Division by zero.")
    of_python = 'Traceback:\n  File "job.py", line 3, in even\n    check(x)\nValueError: two is odd\n'
    assert error_in_data(PythonException(of_python)) == DataError("ValueError", "ValueError: two is odd")


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ("FAILED_READ_FILE.FILE_NOT_EXIST", "KD001"),
        ("INVALID_HANDLE.SESSION_NOT_FOUND", "HY000"),
        ("OPERATION_CANCELED", "HY008"),
        ("INTERNAL_ERROR", "XX000"),
    ],
)
def test_what_no_value_can_cause_is_no_fault_of_the_data_over_connect_either(condition: str, state: str) -> None:
    assert error_in_data(of_a_server(condition, state, "in value 'a'")) is None


def test_an_error_of_this_library_is_found_in_what_a_server_says_of_a_task() -> None:
    said = PythonException(
        "Traceback:\n  File x\ntable_writer.errors.StorageError: no room on the disk\n SQLSTATE: 38000"
    )
    with pytest.raises(StorageError, match="no room on the disk") as caught, spark_errors_translated("w1"):
        raise said
    assert caught.value.write_id == "w1"
