"""A statement of SQL does exactly what it says, by the call that it stands for; or it is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

import pyspark
import pytest
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, TableWriter
from table_writer.spark.connect import ConnectSpark

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]
FIRST = [(1, "a", "d1"), (2, None, "d1"), (3, "c", "d2")]


@pytest.fixture
def feed(spark: SparkSession) -> None:
    """Two rows: one of them is in the table; what the table calls note they have as text."""
    columns = "id BIGINT, text STRING, note STRING, dt STRING, extra INT"
    spark.createDataFrame([(3, "x", "C", "d2", 1), (5, "y", None, "d3", 3)], columns).createOrReplaceTempView("feed")


@pytest.mark.usefixtures("feed")
def test_delete_takes_the_rows_that_its_condition_is_true_of(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows(*FIRST, (4, "b", "d2"), (5, None, "d1"), (6, "f", "d3")), orders)

    def deleted(statement: str, **options: Any) -> int | None:
        return writer.sql(statement.format(t=orders), **options).deleted  # type: ignore[union-attr]

    assert deleted("/* of the feed */ delete from {t} AS a where a.id IN (SELECT id FROM feed) -- all of it") == 2
    assert deleted("DELETE FROM {t} WHERE {t}.id < 3 AND spark_catalog.{t}.dt = 'd1' AND orders.note IS NULL") == 1
    assert listed(orders) == [(1, "a", "d1"), (4, "b", "d2"), (6, "f", "d3")]
    assert deleted("DELETE FROM spark_catalog.{t}", tags={"by": "sql"}) == 3
    assert listed(orders) == []
    assert writer.maintenance.history(orders).versions[0].tags == {"by": "sql"}


@pytest.mark.usefixtures("feed")
def test_update_sets_what_it_says_as_spark_would_store_it(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows(*FIRST), orders)
    result = writer.sql(
        f"UPDATE {orders} AS a SET a.note = upper(a.note) || (SELECT max(id) FROM feed), dt = 'd9', id = 2.0 * a.id"
        " WHERE a.id <> 2"
    )
    assert result.updated == 2  # type: ignore[union-attr]
    assert listed(orders) == [(2, "A5", "d9"), (2, None, "d1"), (6, "C5", "d9")]
    writer.sql(f"UPDATE {orders} SET note = id")
    assert listed(orders) == [(2, "2", "d1"), (2, "2", "d9"), (6, "6", "d9")]


@pytest.mark.usefixtures("feed")
def test_merge_does_what_its_clauses_say(writer: TableWriter, orders: str, rows: Rows, listed: Listed) -> None:
    writer.overwrite_partitions(rows(*FIRST), orders)

    def merged(statement: str, **options: Any) -> tuple[Any, ...]:
        result: Any = writer.sql(f"MERGE INTO {orders} {statement}".format(t=orders), **options)
        return result.inserted, result.updated, result.deleted

    same_key = "ON feed.id = orders.id AND {t}.dt <=> feed.dt"
    stars = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    assert merged(f"USING feed {same_key} {stars}", where="dt > 'd1'") == (1, 1, 0)
    assert listed(orders) == [*FIRST[:2], (3, "C", "d2"), (5, None, "d3")]

    assert merged(
        "AS a USING (WITH c AS (SELECT id + 3 AS k, text AS n, dt FROM feed) SELECT * FROM c) AS b ON k = a.id"
        " WHEN MATCHED THEN UPDATE SET a.note = n, dt = b.dt"
        " WHEN NOT MATCHED BY TARGET THEN INSERT (dt, a.id, note) VALUES (b.dt, b.k, n)"
    ) == (2, 0, 0)
    assert merged(f"USING feed {same_key} WHEN MATCHED THEN UPDATE SET note = concat(text, extra * 0.5)") == (0, 2, 0)
    assert listed(orders) == [*FIRST[:2], (3, "x0.5", "d2"), (5, "y1.5", "d3"), (6, "x", "d2"), (8, "y", "d3")]

    itself = "a USING (SELECT * FROM {t} WHERE id > 2) AS b ON a.id = b.id AND a.dt = b.dt"
    assert merged(f"{itself} WHEN MATCHED THEN DELETE") == (0, 0, 4)
    values = "(SELECT * FROM VALUES (2, 7.5, 'd1'), (3, 8.5, 'd2') AS v(id, note, dt)) AS s"
    assert merged(f"a USING {values} ON a.id = s.id WHEN NOT MATCHED THEN INSERT *") == (1, 0, 0)
    assert listed(orders) == [*FIRST[:2], (3, "8.5", "d2")]


def test_insert_adds_rows_by_position_by_list_and_by_name(
    writer: TableWriter, make_table: Callable[..., str], listed: Listed
) -> None:
    table = make_table(
        "CREATE TABLE {name} (id BIGINT, amount DOUBLE DEFAULT 7.5, c CHAR(3), dt STRING, h INT) USING parquet"
        " PARTITIONED BY (dt, h)"
    )
    writer.sql(f"INSERT INTO {table} VALUES (1, 1.5, 'a', 'x', 1), (2, DEFAULT, NULL, 'y', 2)")
    writer.sql(f"INSERT INTO {table} PARTITION (dt = 'x', h = 01) (c, id) WITH n AS (SELECT 3) SELECT 'c', * FROM n")
    writer.sql(f"INSERT INTO {table} BY NAME SELECT h, dt, amount / 3 AS amount, 4 AS id, c FROM {table} WHERE id = 1")
    assert listed(table) == [
        (1, 1.5, "a  ", "x", 1),
        (2, 7.5, None, "y", 2),
        (3, 7.5, "c  ", "x", 1),
        (4, 0.5, "a  ", "x", 1),
    ]
    assert writer.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id > 4").version is None


def test_an_overwrite_replaces_what_spark_would_replace(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str], listed: Listed
) -> None:
    hive = make_table("CREATE TABLE {name} (id INT) PARTITIONED BY (dt STRING, h INT) STORED AS PARQUET", "hive")
    own = make_table("CREATE TABLE {name} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)", "own")
    plain = make_table("CREATE TABLE {name} (id INT) USING parquet", "plain")
    writer.sql(f"INSERT OVERWRITE {hive} VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', 1)")
    writer.sql(f"INSERT OVERWRITE {hive} PARTITION (dt = 'x', h) SELECT id + 3, h FROM {hive} WHERE id = 2")
    assert listed(hive) == [(1, "x", 1), (3, "y", 1), (5, "x", 2)]
    writer.sql(f"INSERT OVERWRITE {hive} PARTITION (dt, h) SELECT 1, 'z', 1 WHERE false")
    writer.sql(f"INSERT OVERWRITE {hive} PARTITION (dt = 'x', h = 2) SELECT id FROM {hive} WHERE id = 1")
    writer.sql(f"INSERT OVERWRITE {hive} PARTITION (dt = 'y', h = 1) SELECT 1 WHERE false")
    assert listed(hive) == [(1, "x", 1), (1, "x", 2)]

    writer.sql(f"INSERT INTO {own} VALUES (1, 'x'), (2, 'y')")
    with pytest.raises(
        InvalidInputError, match=r"partitionOverwriteMode=static.* overwrite_partitions, .* overwrite_ta"
    ):
        writer.sql(f"INSERT OVERWRITE {own} PARTITION (dt) VALUES (3, 'x')")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        writer.sql(f"INSERT OVERWRITE {own} VALUES (3, 'x')")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert listed(own) == [(2, "y"), (3, "x")]

    writer.sql(f"INSERT OVERWRITE {plain} SELECT id FROM {own}")
    writer.sql(f"INSERT OVERWRITE TABLE {plain} SELECT id + 1 FROM {plain} WHERE id = 3")
    assert listed(plain) == [(4,)]


MERGE = "MERGE INTO {t} AS a USING feed AS b ON a.id = b.id "
REFUSED = {
    # other statements
    "SELECT 1": "SELECT: sql.. takes MERGE INTO, DELETE FROM, UPDATE and INSERT; run this with spark.sql$",
    "/* all */ (WITH a AS (SELECT 1) SELECT * FROM a)": "run this with spark.sql$",
    "TABLE {t}": "run this with spark.sql$",
    "SHOW PARTITIONS {t}": "run this with spark.sql$",
    "EXPLAIN TRUNCATE TABLE {t}": "run this with spark.sql$",
    "SET spark.sql.ansi.enabled": "run this with spark.sql$",
    "-- all\nTRUNCATE TABLE {t}": "TRUNCATE: sql.. takes .* call delete_where",
    "CREATE TABLE {t}_2 (id INT)": "CREATE: sql.. takes .* call create_table",
    "DELETE FROM {t} WHERE id = ": "DELETE: .*PARSE_SYNTAX_ERROR.* Syntax error at or near end of input",
    "": "no statement: .*PARSE",
    "WITH c AS (SELECT 1) DELETE FROM {t} WHERE id IN (SELECT * FROM c)": "WITH before the statement.* put it inside",
    # tables
    "DELETE FROM feed": "feed, a temporary view: .* name the table itself",
    "DELETE FROM nowhere.{t}": "nowhere.* of catalog 'spark_catalog'",
    "DELETE FROM {t}_gone": "gone does not exist",
    # expressions
    "DELETE FROM {t} WHERE rand() < 2": "is about other rows each time it is asked",
    "DELETE FROM {t} WHERE id = :x": "UNBOUND_SQL_PARAMETER",
    "DELETE FROM {t} AS a WHERE orders.id = 1": r"`orders`.`id` cannot be resolved",
    "UPDATE {t} SET note = DEFAULT": "DEFAULT for note: .* write the value out",
    "UPDATE {t} SET note = 'a', NOTE = 'b'": "SET with note twice",
    "UPDATE {t} SET other.note = 'a'": "SET other.note: .* name a column of",
    "UPDATE {t} SET nota = 'a'": "no column 'nota'; did you mean note",
    "UPDATE {t} SET id = 'x' WHERE id = 1": "the DataFrame does not fit",
    # clauses of MERGE
    MERGE + "AND a.note = 'a' WHEN MATCHED THEN DELETE": "ON .* expected a column of the table and one of the source",
    MERGE + "AND a.dt > b.dt WHEN MATCHED THEN DELETE": r"ON … .*a\.dt > b\.dt.* filter the source",
    MERGE + "OR a.dt = b.dt WHEN MATCHED THEN DELETE": "ON … .* OR .* filter the source",
    MERGE + "AND a.id = b.id WHEN MATCHED THEN DELETE": "ON with id twice",
    MERGE + "AND dt = b.dt WHEN MATCHED THEN DELETE": "ON: .*AMBIGUOUS_REFERENCE",
    MERGE + "WHEN MATCHED AND rand() < 0.5 THEN DELETE": "condition of WHEN MATCHED=.* is about other rows each time",
    MERGE + "WHEN MATCHED AND a.id THEN DELETE": "condition of WHEN MATCHED=.* is bigint, not boolean",
    MERGE + "WHEN NOT MATCHED AND a.id = 1 THEN INSERT *": "of WHEN NOT MATCHED=.*`a`.`id` cannot be",
    MERGE + "WHEN NOT MATCHED BY SOURCE AND b.id = 1 THEN DELETE": "NOT MATCHED BY SOURCE=.*`b`.`id` cannot be",
    MERGE + "WHEN NOT MATCHED BY SOURCE THEN DELETE": "WHEN NOT MATCHED BY SOURCE: .* every partition.* where=",
    MERGE + "WHEN NOT MATCHED THEN INSERT (id, note) VALUES (b.id, text)": "INSERT without dt: .* its partition",
    MERGE + "WHEN NOT MATCHED THEN INSERT (id, note, dt) VALUES (b.id, a.note, b.dt)": "INSERT note: .*`a`.`note`",
    "MERGE INTO {t} a USING (SELECT 1 AS k) b ON a.note = b.k WHEN MATCHED THEN DELETE": "ON note: .* a text is",
    "MERGE INTO {t} USING {t} ON id = id WHEN MATCHED THEN DELETE": "by its own name: .* give both sides names",
    "MERGE INTO {t} a USING (SELECT 5 AS id) b ON a.id = b.id WHEN MATCHED THEN UPDATE SET *": "without note, dt: ",
    # clauses of INSERT
    "INSERT INTO {t} VALUES (1)": "INSERT: .*NOT_ENOUGH_DATA_COLUMNS",
    "INSERT INTO {t} VALUES ('x', 'a', 'd1')": "INSERT: .*Cannot safely cast `id`",
    "INSERT INTO {t} PARTITION (dt = NULL) SELECT 1, 'a'": "PARTITION .dt=.* give the column in the query instead",
    "INSERT OVERWRITE {t} PARTITION (dt = 'd1') IF NOT EXISTS SELECT 1, 'a'": "IF NOT EXISTS: .* create_partitions",
    "INSERT INTO {t} REPLACE WHERE dt = 'd1' SELECT 1, 'a', 'd1'": "REPLACE: .* overwrite_partitions with where",
    "INSERT OVERWRITE DIRECTORY '/tmp/none' USING parquet SELECT 1": "INSERT OVERWRITE DIRECTORY: .* DataFrame.write",
    "FROM feed INSERT INTO {t} SELECT 1 INSERT INTO {t} SELECT 2": "several INSERT of one FROM",
}


@pytest.mark.usefixtures("feed")
def test_what_no_call_does_exactly_is_refused_by_name_and_changes_nothing(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    version = writer.overwrite_partitions(rows(*FIRST), orders).version
    for statement, words in REFUSED.items():
        with pytest.raises(ValueError, match=words) as raised:
            writer.sql(statement.format(t=orders))
        assert "\tat org.apache" not in str(raised.value)
    with pytest.raises(InvalidInputError, match="no parameter if_empty"):
        writer.sql(f"DELETE FROM {orders}", if_empty="ignore")
    with pytest.raises(InvalidInputError, match="no parameter retries"):
        writer.sql(f"INSERT INTO {orders} SELECT 1, 'a', 'd1'", retries=3)
    for statement in (f"DELETE FROM {orders}", f"INSERT INTO {orders} SELECT 1, 'a', 'd1'"):
        with pytest.raises(InvalidInputError, match=r"where: .* write it into the statement"):
            writer.sql(statement, where="dt = 'd1'")
    assert (listed(orders), writer.maintenance.history(orders).versions[0].version) == (FIRST, version)


HARMFUL = {
    "TRUNCATE TABLE {t}": "call delete_where('{t}', 'true')",
    "TRUNCATE TABLE spark_catalog.{t} PARTITION (dt = 'd1')": (
        """call delete_where('spark_catalog.{t}', "`dt` = 'd1'")"""
    ),
    "DROP TABLE IF EXISTS {t} PURGE": "call delete_where('{t}', 'true'), which leaves the table",
    "ALTER TABLE {t} DROP PARTITION (dt = 'd1'), PARTITION (dt = 'it\\'s')": (
        """call delete_where('{t}', "`dt` = 'd1' OR `dt` = 'it\\\\'s'")"""
    ),
    "ALTER TABLE {t} DROP IF EXISTS PARTITION (dt = NULL)": "call delete_where('{t}', '`dt` IS NULL')",
    "DROP DATABASE {d} CASCADE": "call delete_where(…, 'true') for each table",
    "ALTER TABLE {t} PARTITION (dt = 'd1') RENAME TO PARTITION (dt = 'd9')": (
        """call update_where('{t}', {{…}}, where="`dt` = 'd1'")"""
    ),
    "ALTER TABLE {t} ADD PARTITION (dt = 'd9') LOCATION 's3a://lakehouse/x'": "call create_partitions(df, '{t}')",
    "ALTER TABLE {t} RECOVER PARTITIONS": "call maintenance.restore('{t}')",
    "MSCK REPAIR TABLE {t}": "call maintenance.restore('{t}')",
    "MSCK REPAIR TABLE {t} SYNC PARTITIONS": "call maintenance.restore('{t}')",
    "ALTER TABLE {t} SET LOCATION 's3a://lakehouse/x'": "call maintenance.rollback('{t}', version=…)",
    "ALTER TABLE {t} PARTITION (dt = 'd1') SET LOCATION 's3a://lakehouse/x'": "call maintenance.rollback('{t}', ver",
    "ALTER TABLE {t} SET SERDEPROPERTIES ('path' = 's3a://lakehouse/x')": "overwrite_table(spark.table('{t}'), …, if",
    "ALTER TABLE {t} REPLACE COLUMNS (id BIGINT)": "overwrite_table(df, '{t}', schema='replace')",
    "ALTER TABLE {t} RENAME TO {t}_2": "overwrite_table(spark.table('{t}'), …, if_missing=NewTable(…))",
    "CREATE TABLE {t} USING parquet AS SELECT 1 AS id": "append(spark.sql('SELECT …'), '{t}', if_missing=NewTable(…)",
    "CREATE OR REPLACE TABLE {t} AS SELECT 1 AS id": "overwrite_table(spark.sql('SELECT …'), '{t}', if_missing=",
    "REPLACE TABLE {t} (id INT) USING parquet": "overwrite_table(df, '{t}')",
    "CREATE TABLE {t}_2 LIKE {t} LOCATION 's3a://lakehouse/x'": "call create_table(…, '{t}_2')",
    "LOAD DATA INPATH 's3a://lakehouse/x' INTO TABLE {t} PARTITION (dt = 'd1')": "append(spark.read.load(…), '{t}')",
    "LOAD DATA INPATH 's3a://lakehouse/x' OVERWRITE INTO TABLE {t}": "overwrite_partitions(spark.read.load(…), '{t}')",
    "INSERT OVERWRITE DIRECTORY 's3a://lakehouse/x' USING parquet SELECT 1": "in its mode 'errorifexists'",
    "WITH c AS (SELECT 1) INSERT OVERWRITE DIRECTORY 's3a://lakehouse/x' USING parquet SELECT * FROM c": "'errorif",
    "FROM feed INSERT OVERWRITE DIRECTORY '/x' SELECT 1 INSERT OVERWRITE DIRECTORY '/y' SELECT 1": "'errorifexists'",
}
if not pyspark.__version__.startswith("3."):  # which does not parse these
    HARMFUL |= {
        "EXECUTE IMMEDIATE 'TRUNCATE TABLE {t}'": "a statement inside of another: sql() does not take this; give each",
        "CALL system.rollback()": "no call does this, and what it does",
        "ALTER TABLE {t} CLUSTER BY (id)": "no call does this, and what it does",
    }
DESCRIBING: Final = (
    "ANALYZE TABLE {t} COMPUTE STATISTICS",
    "ANALYZE TABLE {t} PARTITION (dt) COMPUTE STATISTICS NOSCAN",
    "ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS",
    "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE {t} UNSET TBLPROPERTIES ('a')",
    "ALTER TABLE {t} ADD COLUMNS (n INT)",
    "COMMENT ON TABLE {t} IS 'of orders'",
)


def test_what_harms_beside_us_is_answered_by_a_call_that_makes_a_version(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    version = writer.overwrite_partitions(rows(*FIRST, (4, "d", None), (5, "e", "it's")), orders).version
    database, deleted = orders.partition(".")[0], []
    for statement, words in HARMFUL.items():
        with pytest.raises(InvalidInputError) as raised:
            writer.sql(statement.format(t=orders, d=database))
        said = str(raised.value)
        assert words.format(t=orders) in said, said
        assert "run this with spark.sql" not in said
        for called in re.findall(r"delete_where\((?!…).*?\)(?=,|$| )", said):  # to the letter
            deleted.append(eval(f"writer.{called}").deleted)  # noqa: S307
            writer.maintenance.rollback(orders, version=version)
            assert len(listed(orders)) == 5
    assert deleted == [5, 2, 5, 3, 1]


def test_what_changes_a_description_alone_waits_until_nobody_writes(writer: TableWriter, orders: str) -> None:
    for statement in DESCRIBING:
        with pytest.raises(InvalidInputError, match=f"with spark.sql while nobody writes '{orders}': Spark sends back"):
            writer.sql(statement.format(t=orders))


def test_a_connect_session_says_what_to_call_instead() -> None:
    with pytest.raises(InvalidInputError, match="call merge, delete_where, update_where or a write mode"):
        ConnectSpark(cast(Any, None)).statements()
