"""What cannot be made is refused by name, with the reason, before anything is made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
)

from table_writer.errors import InvalidInputError, MetastoreError, TableWriterError
from table_writer.model.new_table import NewTable
from table_writer.model.table import TableName
from table_writer.spark.create_table import create_table, create_table_statement
from table_writer.writer import TableWriter

from .conftest import Twins

CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
NAME = TableName("mart", "orders")
ID = StructType([StructField("id", LongType())])


class PointType(UserDefinedType):
    @classmethod
    def sqlType(cls) -> DataType:  # noqa: N802  # Spark's name
        return ArrayType(DoubleType())


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, one) for name, one in types.items()])


def beside_char(field: str) -> StructType:
    return columns(s=StructType([StructField(field, LongType()), StructField("c", CharType(3))]))


TWO = columns(id=LongType(), dt=StringType())


@pytest.mark.parametrize(
    ("schema", "new", "reason"),
    [
        (StructType([]), NewTable(), "there are no columns"),
        (columns(a=LongType(), A=LongType(), b=LongType()), NewTable(), r"case does not count: \['a', 'A'\]"),
        (TWO, NewTable(partition_by=["day"]), r"partition_by names \['day'\], and the columns are \['id', 'dt'\]"),
        (TWO, NewTable(partition_by=["dt", "DT"]), r"more than once: \['dt', 'DT'\]"),
        (TWO, NewTable(partition_by=["dt", "ID"]), "every column is a partition column"),
        (columns(a=ArrayType(LongType()), id=LongType()), NewTable(partition_by=["a"]), "column 'a' is a array"),
        (columns(a=MapType(LongType(), LongType()), b=LongType()), NewTable(partition_by=["a"]), "is a map"),
        (columns(a=ID, b=LongType()), NewTable(partition_by=["a"]), "is a struct"),
        (columns(a=NullType()), NewTable(), "column 'a' has no type"),
        (
            columns(a=ArrayType(ArrayType(NullType()))),
            NewTable(),
            r"'a' has no type, only nulls \(array<array<void>>\)",
        ),
        (columns(a=MapType(LongType(), PointType())), NewTable(), "'a' has a user-defined type"),
        (beside_char("x y"), NewTable(), r"Spark cannot read fields named \['x y'\]"),
        (beside_char("x:int,y"), NewTable(), "Spark cannot read fields named"),
        (
            columns(a=StructType([StructField("x", LongType(), nullable=False)]), dt=StringType()),
            NewTable(partition_by=["dt"], format="hive:parquet"),
            "'a' has a NOT NULL field",
        ),
    ],
)
def test_a_schema_that_makes_no_table_is_refused_with_the_reason(
    schema: StructType, new: NewTable, reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=reason) as raised:
        create_table_statement(schema, NAME, new, if_not_exists=False)
    assert "table mart.orders cannot be made" in str(raised.value)
    assert raised.value.table == "mart.orders"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidInputError, match=r"'day'.*'a' has no type.*'b' has no type"):
        create_table_statement(
            columns(a=NullType(), b=NullType()), NAME, NewTable(partition_by=["day"]), if_not_exists=True
        )


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"partition_by": "dt"}, r"write partition_by=\['dt'\]"),
        ({"partition_by": [1]}, r"partition_by\[0\]=1: expected a text"),
        ({"location": None}, "location=None: expected a text"),
        ({"format": 1}, "format=1: expected a text"),
        ({"format": "parquet) LOCATION 'x'"}, "neither a data source"),
        ({"format": ""}, "neither a data source"),
        ({"format": "hive:"}, "neither a data source"),
        ({"format": "hive"}, "does not say which"),
        ({"format": "Delta"}, "only its own writer"),
        ({"format": "hive:avro", "compression": "zstd"}, "the property that its SerDe reads"),
        ({"format": "hive:textfile", "options": {"separatorChar": ";"}}, r"not \['separatorChar'\]"),
        (
            {"properties": {"table_writer.retention": 168}},
            r"properties\['table_writer\.retention'\]: expected a text, got an int",
        ),
        ({"properties": ["a"]}, "properties: expected a dict of texts, got a list"),
        ({"options": {"header": True}}, r"options\['header'\]: expected a text, got a bool"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_where_it_is_given(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        NewTable(**values)


def test_a_new_table_keeps_no_hold_on_the_callers_values() -> None:
    chosen, properties = ["dt"], {"a": "b"}
    new = NewTable(partition_by=chosen, properties=properties)
    chosen.append("x")
    properties["c"] = "d"
    assert (new.partition_by, new.properties) == (("dt",), {"a": "b"})


def make(twins: Twins, schema: StructType = ID, **values: Any) -> str:
    return twins.make(schema, NewTable(**values))


def default(text: str) -> StructType:
    return StructType([StructField("a", LongType(), True, {"CURRENT_DEFAULT": text})])


@pytest.mark.smaller_run
@pytest.mark.parametrize(
    ("attempt", "reason"),
    [
        (lambda twins: make(twins, format="nonsense"), "nonsense"),
        (lambda twins: make(twins, format="hive:nonsense"), "nonsense"),
        (lambda twins: make(twins, properties={"location": "s3a://x"}), "reserved table property"),
        (lambda twins: make(twins, properties={"spark.sql.x": "1"}), "may not start with 'spark.sql.'"),
        (lambda twins: make(twins, location="nofs://x/y"), 'No FileSystem for scheme "nofs"'),
        (lambda twins: make(twins, default("5 -- USING csv")), "is no expression.*a comment"),
        (lambda twins: make(twins, default("5 /* */")), "is no expression.*a comment"),
        (lambda twins: make(twins, default("5, b INT")), "is no expression"),
        (lambda twins: make(twins, default("5) USING csv")), "is no expression"),
        (lambda twins: make(twins, default("5 AS b")), "is no expression.*the name of what stands before it"),
        (lambda twins: make(twins, columns(s=columns(a=LongType(), A=LongType()))), "already exists"),
        (lambda twins: make(twins, StructType([StructField("${user.home}", LongType())])), "for a variable"),
        (
            lambda twins: make(twins, StructType([StructField("a", LongType(), True, {CHAR_VARCHAR: "char(3) x"})])),
            "is no type of Spark",
        ),
    ],
)
def test_what_spark_refuses_is_our_error_and_nothing_is_made(
    attempt: Callable[[Twins], str], reason: str, twins: Twins
) -> None:
    with pytest.raises(InvalidInputError, match=reason) as raised:
        attempt(twins)
    assert f"table {twins.database}.made cannot be made" in str(raised.value)
    assert "Nothing was made" in str(raised.value)
    assert not twins.exists()


@pytest.mark.smaller_run
def test_a_setting_that_would_garble_texts_is_named(twins: Twins) -> None:
    with (
        twins.settings({"spark.sql.parser.escapedStringLiterals": "true"}),
        pytest.raises(InvalidInputError, match=r"set spark.sql.parser.escapedStringLiterals=false"),
    ):
        make(twins, comment="it's")
    assert not twins.exists()


@pytest.mark.smaller_run
def test_a_name_that_looks_like_a_variable_is_made_where_there_are_none(twins: Twins) -> None:
    with twins.settings({"spark.sql.variable.substitute": "false"}):
        make(twins, StructType([StructField("${user.home}", LongType())]))
    assert twins.spark.table(f"{twins.database}.made").columns == ["${user.home}"]


@pytest.mark.smaller_run
def test_a_database_that_is_not_there_is_named(twins: Twins) -> None:
    with pytest.raises(InvalidInputError, match="nowhere"):
        create_table(twins.spark, ID, TableName("nowhere", "made"), NewTable(), if_not_exists=True)


@pytest.mark.smaller_run
def test_a_table_that_exists_is_an_error_or_left_alone(twins: Twins) -> None:
    twins.make(TWO, NewTable(partition_by=["dt"]))
    before = twins.describe()
    with pytest.raises(InvalidInputError, match=f"{twins.database}.made exists already, and was left alone"):
        twins.make(ID, NewTable())
    twins.make(ID, NewTable(comment="another"), if_not_exists=True)
    assert twins.describe() == before


class ScriptedSession:
    """A session whose ``sql`` fails with what Spark said in a race, or in an outage."""

    def __init__(self, said: str) -> None:
        self.conf: dict[str, str] = dict.fromkeys(
            ("spark.sql.variable.substitute", "spark.sql.parser.escapedStringLiterals"), "false"
        )
        self._said = said

    def sql(self, statement: str) -> None:
        raise AnalysisException(self._said)


def scripted(said: str) -> SparkSession:
    return ScriptedSession(said)  # type: ignore[return-value]


RACE = "org.apache.hadoop.hive.ql.metadata.HiveException: AlreadyExistsException(message:Table orders already exists)"


def test_whoever_comes_second_succeeds_with_if_not_exists_and_fails_without() -> None:
    create_table(scripted(RACE), ID, NAME, NewTable(), if_not_exists=True)
    with pytest.raises(InvalidInputError, match="exists already"):
        create_table(scripted(RACE), ID, NAME, NewTable(), if_not_exists=False)


def test_an_outage_of_the_metastore_is_a_metastore_error_that_says_what_to_do() -> None:
    outage = "org.apache.hadoop.hive.ql.metadata.HiveException: MetaException(message:Got exception: refused)"
    with pytest.raises(MetastoreError, match=r"may have been made: call again with if_not_exists=True.*refused"):
        create_table(scripted(outage), ID, NAME, NewTable(), if_not_exists=False)


@pytest.mark.smaller_run
@pytest.mark.parametrize(("if_not_exists", "winners"), [(True, 4), (False, 1)])
def test_of_many_who_make_it_at_once_one_does(if_not_exists: bool, winners: int, twins: Twins) -> None:
    def attempt(_: int) -> bool:
        try:
            twins.make(TWO, NewTable(partition_by=["dt"]), if_not_exists=if_not_exists)
        except TableWriterError as error:
            assert "exists already" in str(error)  # noqa: PT017  # the losers' error, whoever they are
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(4))) == winners
    assert twins.spark.table(f"{twins.database}.made").columns == ["id", "dt"]


def test_a_database_on_a_store_that_is_not_supported_is_refused_before_a_table_is_made(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TableWriter(twins.spark)
    monkeypatch.setattr(writer._services, "_database_location", lambda _: "hdfs://namenode/warehouse/mart.db")
    for make in (
        lambda: writer.create_table(ID, f"{twins.database}.made"),
        lambda: writer.append(twins.spark.range(1), f"{twins.database}.made", if_missing=NewTable()),
    ):
        with pytest.raises(
            InvalidInputError, match=r"made was not made, since no write could use it: hdfs://namenode/"
        ):
            make()
    assert not twins.exists()


def test_a_table_that_exists_is_left_alone_wherever_the_database_is(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.make(TWO, NewTable(partition_by=["dt"]))
    writer = TableWriter(twins.spark)
    monkeypatch.setattr(writer._services, "_database_location", lambda _: "hdfs://namenode/warehouse/mart.db")
    writer.create_table(ID, f"{twins.database}.made", if_not_exists=True)


def test_a_place_of_an_earlier_table_is_taken_whatever_lies_inside_it(twins: Twins) -> None:
    writer, made = TableWriter(twins.spark), f"{twins.database}.made"
    writer.create_table(TWO, made, location=twins.location)
    writer.append(twins.spark.createDataFrame([(1, "a")], TWO), made)
    twins.spark.sql(f"DROP TABLE {made}")
    inside = twins.make(TWO, NewTable(location=f"{twins.location}/inside"), "inside")
    writer.create_table(TWO, made, location=twins.location)
    assert twins.exists()
    twins.spark.sql(f"DROP TABLE {inside}")


def test_a_codec_of_the_session_refuses_no_table(twins: Twins) -> None:
    with twins.settings({"spark.sql.parquet.compression.codec": "lzo"}):
        TableWriter(twins.spark).create_table(ID, f"{twins.database}.made")
    assert twins.exists()
