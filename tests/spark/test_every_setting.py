"""A setting of the session that this library's own queries depend on is set by it, or does not matter.

A session with ``spark.sql.retainGroupColumns=false`` lost what a merge groups by, and a table that Spark's own writer
writes got no partition. Nobody can think of all: so all booleans that the running Spark knows are turned over, at once
for each call, and by halves until the guilty one is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.spark.settings_walk import CALLS, FAILED, Outcome, Settings, booleans, guilty, outcome_of

Outcomes = Callable[[str, Settings], Outcome]

SPARKS_OWN: Final[Mapping[str, str]] = {
    "spark.sql.hive.manageFilesourcePartitions": (
        "Spark lists a table's directory instead of its partitions, and finds no rows of ours: the doctor says so"
    ),
    "spark.sql.legacy.v1IdentifierNoCatalog": "Spark itself does not find tables by their full names any more",
    "spark.sql.preserveCharVarcharTypeInfo": "Spark itself makes no rows for Python of a CHAR that it reads from ORC",
}
"""Booleans under which Spark's own queries of the same kind fail, or see other rows."""

EXPERIMENT: Final = "spark.sql.analyzer.singlePassResolver"
"""How settings of an analyzer begin that Spark's developers compare with the usual one, and that knows few queries."""

HAVE_MATTERED: Final[Settings] = {
    "spark.sql.retainGroupColumns": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
}

REBASED: Final = ("datetimeRebaseModeInRead", "datetimeRebaseModeInWrite", "int96RebaseModeInRead")
OTHERS: Final[Settings] = {
    "spark.sql.session.timeZone": "Asia/Kathmandu",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.parquet.outputTimestampType": "INT96",
    **dict.fromkeys((f"spark.sql.parquet.{name}" for name in REBASED), "LEGACY"),
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.sources.default": "orc",
    "spark.sql.maxPlanStringLength": "0",
    "spark.sql.debug.maxToStringFields": "0",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.files.maxPartitionBytes": "1000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
}
"""Settings that are no booleans, each with another value than the usual one."""


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE DATABASE IF NOT EXISTS every_setting")
    yield "every_setting"
    spark.sql("DROP DATABASE every_setting CASCADE")


@pytest.fixture
def outcome(spark: SparkSession, database: str) -> Outcomes:
    return lambda call, settings: outcome_of(call, spark, database, settings)


def known_to(spark: SparkSession, settings: Settings) -> dict[str, str]:
    """Leave out what an older or a newer Spark has not."""
    return {name: value for name, value in settings.items() if spark.conf.get(name, None) is not None}


@pytest.mark.parametrize("call", ["plain_files", "statements"])
def test_settings_that_have_mattered_do_not(call: str, spark: SparkSession, outcome: Outcomes) -> None:
    settings = known_to(spark, HAVE_MATTERED)
    assert outcome(call, settings) == outcome(call, {})


@pytest.mark.slow
@pytest.mark.parametrize("call", list(CALLS))
def test_no_setting_of_the_session_changes_what_a_call_does(call: str, spark: SparkSession, outcome: Outcomes) -> None:
    usual = outcome(call, {})
    assert not usual[-1].startswith(FAILED)
    turned = {name: value for name, value in booleans(spark).items() if name not in SPARKS_OWN}
    turned = {name: value for name, value in turned.items() if not name.startswith(EXPERIMENT)}
    for settings in (turned, known_to(spark, OTHERS), {"spark.sql.storeAssignmentPolicy": "STRICT"}):
        found = list(guilty(settings, lambda part: outcome(call, part) == usual))
        assert [(one, outcome(call, one)[-1]) for one in found] == []
