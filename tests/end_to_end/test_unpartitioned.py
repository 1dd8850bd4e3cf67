"""Tables without partitions: the location moves with each write, whoever reads finds it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import (
    ConflictError,
    InvalidInputError,
    Maintenance,
    OutcomeUnknownError,
    TableWriter,
    TableWriterConfig,
)
from table_writer.errors import LostResponseError
from table_writer.testing import Lakehouse
from tests.cells import first_fast

from .watched import BEFORE_CLAIM, STAGED, SWITCHING, Moment, Seen, failing_with

Make = Callable[..., str]
Look = Callable[[str], Seen]
Stopped = Callable[..., TableWriter]
WORDS = "COMMENT 'All codes' TBLPROPERTIES ('team' = 'sales')"
KINDS = {
    "datasource, managed": f"CREATE TABLE {{name}} (id INT COMMENT 'The key', Code STRING) USING parquet {WORDS}",
    "datasource, external": (
        f"CREATE TABLE {{name}} (id INT COMMENT 'The key', Code STRING) USING parquet LOCATION '{{location}}' {WORDS}"
    ),
    "Hive, managed": (
        "CREATE TABLE {name} (id INT COMMENT 'The key', Code STRING) COMMENT 'All codes' STORED AS PARQUET"
        " TBLPROPERTIES ('team' = 'sales')"
    ),
    "Hive, external": (
        "CREATE EXTERNAL TABLE {name} (id INT COMMENT 'The key', Code STRING) COMMENT 'All codes' STORED AS PARQUET"
        " LOCATION '{location}' TBLPROPERTIES ('team' = 'sales')"
    ),
    "ORC": f"CREATE TABLE {{name}} (id INT COMMENT 'The key', Code STRING) USING orc {WORDS}",
}


@pytest.fixture
def codes(make_table: Make) -> str:
    return make_table("CREATE TABLE {name} (id INT, code STRING) USING parquet", "codes")


@pytest.fixture
def batch(spark: SparkSession) -> Callable[..., DataFrame]:
    return lambda *ids: spark.createDataFrame([(i, f"c{i}") for i in ids], "id INT, code STRING").coalesce(1)


def ids(spark: SparkSession, table: str) -> list[int]:
    spark.catalog.refreshTable(table)
    return sorted(row.id for row in spark.table(table).collect())


def described(spark: SparkSession, table: str) -> dict[str, str]:
    return {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}


@pytest.mark.connect
@pytest.mark.parametrize("kind", first_fast(KINDS, 2))
def test_every_session_and_the_metastore_find_the_new_rows_and_the_table_stays_what_it_is(
    kind: str,
    spark: SparkSession,
    another_session: SparkSession,
    writer: TableWriter,
    make_table: Make,
    batch: Callable[..., DataFrame],
    lakehouse: Lakehouse,
    lakehouse_database: str,
) -> None:
    table = make_table(KINDS[kind], "codes", f"{lakehouse.warehouse}/{lakehouse_database}/ext")
    batch(1, 2).write.insertInto(table)
    before = described(spark, table)
    assert another_session.table(table).count() == 2

    result = writer.overwrite_table(batch(3), table)
    assert [(one.name, one.action, one.rows) for one in result.partitions] == [("", "replaced", 1)]
    appended = writer.append(batch(4), table)
    assert (appended.copied_files, [one.action for one in appended.partitions]) == (1, ["appended"])
    assert ids(spark, table) == [3, 4]
    another_session.sql(f"REFRESH TABLE {table}")
    assert sorted(row.id for row in another_session.table(table).collect()) == [3, 4]

    after = described(spark, table)
    assert after["Location"].rstrip("/") == appended.partitions[0].location.rstrip("/")
    kept = ("Comment", "Type", "id", "Code")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    now = writer._services.open_to_write(table)
    assert (now.table.parameters["team"], now.table.root.rstrip("/")) == ("sales", before["Location"].rstrip("/"))
    assert now.table.location == appended.partitions[0].location
    assert now.table.serde_parameters.get("path", after["Location"]).rstrip("/") == after["Location"].rstrip("/")
    assert now.table.parameters["numRows"] == "2"
    assert [(column.name.lower(), column.comment) for column in now.table.columns] == [("id", "The key"), ("code", "")]


def test_hive_s_own_reader_follows_the_location(
    spark: SparkSession, writer: TableWriter, make_table: Make, batch: Callable[..., DataFrame]
) -> None:
    table = make_table(KINDS["Hive, managed"], "codes")
    writer.overwrite_table(batch(1), table)
    writer.overwrite_table(batch(2, 3), table)
    spark.conf.set("spark.sql.hive.convertMetastoreParquet", "false")
    try:
        assert ids(spark, table) == [2, 3]
    finally:
        spark.conf.unset("spark.sql.hive.convertMetastoreParquet")


@pytest.mark.slow
def test_spark_goes_on_writing_and_an_append_brings_its_rows_along(
    spark: SparkSession, writer: TableWriter, codes: str, batch: Callable[..., DataFrame]
) -> None:
    batch(1).write.insertInto(codes)
    writer.append(batch(2), codes)
    batch(3).write.insertInto(codes)
    assert ids(spark, codes) == [1, 2, 3]
    assert writer.append(batch(4), codes).copied_files == 3
    assert ids(spark, codes) == [1, 2, 3, 4]
    assert spark.sql(f"SELECT count(*) FROM {codes}").first()[0] == 4


@pytest.mark.slow
def test_versions_come_back_and_a_vacuum_takes_what_was_replaced(
    spark: SparkSession,
    writer: TableWriter,
    keeper: Maintenance,
    codes: str,
    batch: Callable[..., DataFrame],
    look: Look,
) -> None:
    batch(1).write.insertInto(codes)
    theirs = look(codes).data
    writer.overwrite_table(batch(2), codes)
    writer.overwrite_table(batch(3), codes)
    for version, seen in ((1, [2]), (0, [1]), (2, [3])):
        keeper.rollback(codes, version=version)
        assert ids(spark, codes) == seen
    assert theirs.items() <= look(codes).data.items()
    assert keeper.recover(codes).settled == {}
    keeper.vacuum(codes, older_than=timedelta(0), force=True)
    left = look(codes)
    assert not theirs.keys() & left.data.keys()
    assert len(left.data) == 1
    assert ids(spark, codes) == [3]


def test_it_is_emptied_only_when_that_is_said_and_can_be_filled_again(
    spark: SparkSession, writer: TableWriter, codes: str, batch: Callable[..., DataFrame]
) -> None:
    writer.append(batch(1), codes)
    with pytest.raises(InvalidInputError, match="if_empty='replace'"):
        writer.overwrite_table(batch(1).where("id > 1"), codes)
    result = writer.overwrite_table(batch(1).where("id > 1"), codes, if_empty="replace")
    assert result.rows == 0
    assert ids(spark, codes) == []
    assert writer.append(batch(2), codes).copied_files == 0
    assert ids(spark, codes) == [2]


@pytest.mark.slow
@pytest.mark.parametrize("moment", [STAGED, BEFORE_CLAIM], ids=["staged", "before the claim"])
def test_the_second_of_two_overwriters_is_a_conflict(
    moment: Moment,
    spark: SparkSession,
    writer: TableWriter,
    codes: str,
    batch: Callable[..., DataFrame],
    stopped: Stopped,
    look: Look,
) -> None:
    writer.overwrite_table(batch(1), codes)
    late = stopped(moment, lambda: writer.overwrite_table(batch(2), codes))
    with pytest.raises(ConflictError, match=codes):
        late.overwrite_table(batch(3), codes)
    assert ids(spark, codes) == [2]
    assert look(codes).uploads == frozenset()


@pytest.mark.slow
@pytest.mark.connect
@pytest.mark.parametrize("moment", [STAGED, BEFORE_CLAIM], ids=["staged", "before the claim"])
def test_both_of_two_appenders_succeed(
    moment: Moment,
    spark: SparkSession,
    writer: TableWriter,
    codes: str,
    batch: Callable[..., DataFrame],
    stopped: Stopped,
) -> None:
    writer.append(batch(1), codes)
    stopped(moment, lambda: writer.append(batch(2), codes)).append(batch(3), codes)
    assert ids(spark, codes) == [1, 2, 3]


@pytest.mark.slow
def test_a_publish_that_got_no_answer_is_resolved_by_recover(
    spark: SparkSession, writer: TableWriter, codes: str, batch: Callable[..., DataFrame], stopped: Stopped
) -> None:
    writer.overwrite_table(batch(1), codes)
    quick = TableWriterConfig(metastore_timeout_seconds=1, publish_timeout_seconds=7)
    lost = stopped(SWITCHING, failing_with(LostResponseError("no answer")), quick)
    with pytest.raises(OutcomeUnknownError, match="recover"):
        lost.overwrite_table(batch(2), codes)
    assert ids(spark, codes) == [1]
    assert writer.recover(codes).settled == {2: "published"}
    assert ids(spark, codes) == [2]


def test_the_session_of_the_dataframe_sees_the_new_rows_too(
    spark: SparkSession, writer: TableWriter, codes: str
) -> None:
    session = spark.newSession()  # as a streaming query has one
    for number in (1, 2):
        new = session.createDataFrame([(number, f"c{number}")], "id INT, code STRING")
        writer.overwrite_table(session.table(codes).union(new), codes)
    assert sorted(row.id for row in session.table(codes).collect()) == [1, 2]


@pytest.mark.parametrize("method", ["overwrite_partitions", "create_partitions"])
def test_modes_that_speak_of_partitions_are_refused_with_those_that_do_not(
    method: str, writer: TableWriter, codes: str, batch: Callable[..., DataFrame], look: Look
) -> None:
    with pytest.raises(InvalidInputError, match=r"is not partitioned.*use append .*or overwrite_table"):
        getattr(writer, method)(batch(1), codes)
    assert look(codes).objects == {}
