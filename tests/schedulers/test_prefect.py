"""Flows of Prefect over a server of its own that lasts for the tests: what is written, and what is tried again."""

from __future__ import annotations

import os
import runpy
from collections.abc import Iterator
from typing import Any

import pytest
from prefect import flow
from prefect.exceptions import ParameterBindError
from prefect.states import Failed
from prefect.testing.utilities import prefect_test_harness
from pyspark.sql import DataFrame, SparkSession

from table_writer import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    MetastoreError,
    NewTable,
    OutcomeUnknownError,
    PartitionExistsError,
    PartlyPublishedError,
    SchemaMismatchError,
    StorageError,
    TableWriter,
    TableWriterError,
)
from table_writer.check import not_null
from table_writer.integrations.prefect import VacuumUnfinishedError, retry_can_help, vacuum_tables, write_table
from table_writer.testing import Lakehouse
from tests.docs.markdown_blocks import ROOT

from .conftest import found

FLOW = ROOT / "docs" / "how-to" / "prefect_flow.py"
COLUMNS = "id INT, amount DOUBLE, dt STRING"
NEW = NewTable(partition_by=["dt"])
retried_write = write_table.with_options(retries=2, retry_delay_seconds=0.01)


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    os.environ["PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW"] = "ignore"  # some tasks are called by themselves
    with prefect_test_harness():
        yield


@pytest.fixture
def settings(lakehouse: Lakehouse) -> dict[str, Any]:
    return {"metastore_uri": lakehouse.metastore_uri, "conf": lakehouse.s3_server.hadoop_settings()}


def frame(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), COLUMNS)


@flow
def writing(rows: Any, table: str = "mart.orders", **options: Any) -> Any:
    return retried_write(rows, table, **{"if_missing": NEW, **options})


def test_the_flow_of_the_documentation_replaces_a_day_and_vacuums(
    mart: SparkSession, lakehouse: Lakehouse, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABLE_WRITER_METASTORE_URI", lakehouse.metastore_uri)
    source = frame(mart, (1, 1.0, "2024-01-01"), (2, 2.0, "2024-01-02"))
    TableWriter(mart).create_table(source, "mart.new_orders")
    TableWriter(mart).append(source, "mart.new_orders")
    load_orders = runpy.run_path(str(FLOW))["load_orders"]
    for day in ("2024-01-01", "2024-01-02", "2024-01-02"):
        assert load_orders(day, settings) == 1
    assert found(mart, "mart.orders") == [(1, 1.0, "2024-01-01"), (2, 2.0, "2024-01-02")]
    TableWriter(mart).overwrite_table(frame(mart, (1, -1.0, "2024-01-01")), "mart.new_orders")
    with pytest.raises(CheckFailedError, match="1 of 1 row has amount below 0"):
        load_orders("2024-01-01", settings)
    assert load_orders("2024-01-02", settings) == 0  # a day without rows any more is empty
    assert found(mart, "mart.orders") == [(1, 1.0, "2024-01-01")]


def test_a_conflict_is_tried_again_with_rows_that_are_computed_again(mart: SparkSession) -> None:
    writer, tries = TableWriter(mart), []
    assert writing(frame(mart, (1, 1.0, "a"))).version == 1

    def rows() -> DataFrame:
        rows = writer.read("mart.orders").selectExpr("id + 1 AS id", "amount", "dt")
        tries.append(rows)
        if len(tries) == 1:
            writer.overwrite_partitions(frame(mart, (10, 1.0, "a")), "mart.orders")  # somebody else is faster
        return rows

    assert writing(rows).version == 3
    assert len(tries) == 2
    assert found(mart, "mart.orders") == [(11, 1.0, "a")]


def test_an_append_whose_answer_was_lost_is_not_added_twice(
    mart: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, tries = TableWriter.append, []

    def lossy(*given: Any, **options: Any) -> Any:
        result = append(*given, **options)
        tries.append(result)
        if len(tries) == 1:
            raise StorageError("the answer was lost")
        return result

    monkeypatch.setattr(TableWriter, "append", lossy)
    assert writing(frame(mart, (1, 1.0, "a")), mode="append").repeated
    assert not writing(frame(mart, (1, 1.0, "a")), mode="append").repeated  # a flow that runs again is another append
    assert len(found(mart, "mart.orders")) == 2


WRITE_ERRORS = {
    StorageError: True,
    MetastoreError: True,
    ConflictError: True,
    InvalidInputError: False,
    SchemaMismatchError: False,
    CheckFailedError: False,
    PartitionExistsError: False,
    PartlyPublishedError: False,
    OutcomeUnknownError: False,
}


@pytest.mark.parametrize("error", WRITE_ERRORS, ids=lambda error: error.code)
def test_only_what_a_retry_can_help_is_retried(error: type[TableWriterError]) -> None:
    state = Failed(data=error("it failed"))
    assert retry_can_help(write_table, None, state) is WRITE_ERRORS[error]
    assert retry_can_help(write_table, None, Failed(data=RuntimeError("of Spark")))


VACUUM_ERRORS = {StorageError: True, MetastoreError: True, OutcomeUnknownError: True, InvalidInputError: False}


@pytest.mark.parametrize("error", VACUUM_ERRORS, ids=lambda error: error.code)
def test_a_vacuum_is_retried_also_if_an_outcome_is_unknown(error: type[TableWriterError]) -> None:
    state = Failed(data=error("it failed"))
    assert vacuum_tables.retry_condition_fn(vacuum_tables, None, state) is VACUUM_ERRORS[error]


@pytest.mark.parametrize(("error", "tries"), [(ConflictError, 3), (OutcomeUnknownError, 1)])
def test_prefect_asks_before_it_retries(error: type[TableWriterError], tries: int) -> None:
    made = []

    def fail() -> Any:
        made.append(error)
        raise error("it failed")

    with pytest.raises(error, match="it failed"):
        writing(fail)
    assert len(made) == tries


def test_a_failed_check_publishes_nothing_and_a_merge_changes_rows_by_key(mart: SparkSession) -> None:
    writing(frame(mart, (1, 1.0, "a")))
    with pytest.raises(CheckFailedError, match="1 of 1 row has no id"):
        writing(frame(mart, (None, 1.0, "a")), checks=[not_null("id")])
    assert found(mart, "mart.orders") == [(1, 1.0, "a")]
    merged = write_table(frame(mart, (1, 2.0, "a"), (2, 2.0, "a")), "mart.orders", mode="merge", on=["id"])
    assert (merged.updated, merged.inserted) == (1, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "overwrit_partitions"}, r"did you mean overwrite_partitions\? expected one of"),
        ({"schem": "evolve"}, r"has no parameter schem; did you mean schema\?"),
        ({"rows": 1}, r"rows of mart\.orders are a builtins\.int: expected a Spark DataFrame"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused(mart: SparkSession, options: dict[str, Any], message: str) -> None:
    rows = frame(mart, (1, 1.0, "a"))
    with pytest.raises(InvalidInputError, match=message):
        writing(**{"rows": rows, **options})


def test_a_vacuum_takes_one_choice_of_tables_and_says_which_it_could_not_do(
    mart: SparkSession, settings: dict[str, Any]
) -> None:
    writing(frame(mart, (1, 1.0, "a")))
    for wrong in ({}, {"tables": ""}, {"tables": "a.b", "all_tables": True}):
        with pytest.raises(InvalidInputError, match="give exactly one of them"):
            vacuum_tables(settings=settings, **wrong)
    with pytest.raises(InvalidInputError, match="did you mean metastore_uri"):
        vacuum_tables("mart.orders", settings={"metastore_url": "thrift://x:1"})
    with pytest.raises(ParameterBindError, match="oldr_than"):
        vacuum_tables("mart.orders", oldr_than=1)
    assert vacuum_tables("mart.orders", settings=settings)["failures"] == []
    assert vacuum_tables(database="mart", settings=settings)["results"]
    with pytest.raises(VacuumUnfinishedError, match="no_such"):
        vacuum_tables(["mart.orders", "mart.no_such"], settings=settings)


def test_tasks_run_beside_one_another(mart: SparkSession, settings: dict[str, Any]) -> None:
    @flow
    def both() -> tuple[Any, Any]:
        writes = [
            write_table.submit(frame(mart, (number, 1.0, "a")), f"mart.t{number}", if_missing=NEW) for number in (1, 2)
        ]
        vacuum = vacuum_tables.submit(["mart.t1", "mart.t2"], settings=settings, wait_for=writes)
        return [write.result().rows for write in writes], len(vacuum.result()["results"])

    assert both() == ([1, 1], 2)
