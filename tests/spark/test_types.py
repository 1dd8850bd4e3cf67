"""How types are spelled for Spark's parser: in one place, and so that they mean the same in every session."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it

from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.spark.sql import fetched
from table_writer.spark.types import cast_sql, column_sql, exact_type, literal, type_of_ddl, type_of_hive, type_sql

PACKAGE: Final = Path(__file__).parents[2] / "table_writer"
TIMESTAMP_TYPE: Final = "spark.sql.timestampType"
NESTED: Final = T.StructType(
    [
        T.StructField("a `b`, c: d", T.ArrayType(T.MapType(T.StringType(), T.TimestampType()))),
        T.StructField("timestamp", T.TimestampNTZType(), metadata={"comment": 'it\'s ${so} \\ "x"'}),
        T.StructField("date", T.StructType([T.StructField("select", T.DecimalType(38, 18), nullable=False)])),
    ]
)
KINDS: Final = {
    "TIMESTAMP": T.TimestampType(),
    "TIMESTAMP_NTZ": T.TimestampNTZType(),
    "nested": NESTED,
    "CHAR": T.CharType(3),
    "VARCHAR": T.VarcharType(7),
    "day to second": T.DayTimeIntervalType(),
    "hour to minute": T.DayTimeIntervalType(T.DayTimeIntervalType.HOUR, T.DayTimeIntervalType.MINUTE),
    "year to month": T.YearMonthIntervalType(),
    "year": T.YearMonthIntervalType(T.YearMonthIntervalType.YEAR, T.YearMonthIntervalType.YEAR),
    "void": T.NullType(),
    **{kind.simpleString(): kind for kind in (T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType())},
    **{kind.simpleString(): kind for kind in (T.FloatType(), T.DoubleType(), T.DateType(), T.BinaryType())},
    **{kind.simpleString(): kind for kind in (T.BooleanType(), T.StringType(), T.DecimalType(5, 2))},
}


@pytest.fixture(params=["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """A session in which the word TIMESTAMP means the one or the other."""
    spark.conf.set(TIMESTAMP_TYPE, request.param)
    yield spark
    spark.conf.unset(TIMESTAMP_TYPE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("session")
def test_the_parser_reads_the_type_that_was_spelled_in_every_session(kind: str) -> None:
    assert type_of_ddl(type_sql(KINDS[kind])) == KINDS[kind]


@pytest.mark.usefixtures("session")
def test_a_collation_is_spelled() -> None:
    if not hasattr(T.StringType(), "collation"):  # Spark 3.5 has none
        assert type_sql(T.StringType()) == "string"
        return
    text = T.ArrayType(T.StringType("UNICODE_CI"))
    assert type_of_ddl(type_sql(text)) == text


def test_a_column_is_spelled_with_its_constraints(session: SparkSession) -> None:
    field = T.StructField("a `b`", T.TimestampType(), nullable=False, metadata={"comment": "it's", "other": "x"})
    assert column_sql(field) == r"`a ``b``` timestamp_ltz NOT NULL COMMENT 'it\'s'"
    with_default = T.StructField("n", T.IntegerType(), metadata={"CURRENT_DEFAULT": "1 + 1"})
    assert column_sql(with_default) == "`n` int DEFAULT 1 + 1"
    parsed: Any = type_of_ddl(column_sql(field))
    assert parsed == T.StructType(
        [T.StructField("a `b`", T.TimestampType(), nullable=False, metadata={"comment": "it's"})]
    )
    assert (
        fetched(session.sql(f"SELECT typeof({cast_sql(literal('2024-01-01'), T.TimestampType())})"))[0][0]
        == "timestamp"
    )


@pytest.mark.usefixtures("session")
def test_hives_timestamp_is_an_instant_as_it_is_to_sparks_catalog() -> None:
    text = "struct<timestamp:timestamp,a timestamp b:array<timestamp>,n:decimal(5,2),`x:y,timestamp`:TIMESTAMP>"
    assert type_of_hive(text) == T.StructType(
        [
            T.StructField("timestamp", T.TimestampType()),
            T.StructField("a timestamp b", T.ArrayType(T.TimestampType())),
            T.StructField("n", T.DecimalType(5, 2)),
            T.StructField("x:y,timestamp", T.TimestampType()),
        ]
    )


@pytest.mark.usefixtures("session")
def test_a_declared_limit_changes_no_other_type() -> None:
    inside = T.StructType([T.StructField("at", T.TimestampType(), nullable=False), T.StructField("c", T.StringType())])
    field = T.StructField("s", inside, metadata={CHAR_VARCHAR: "struct<at:timestamp,c:char(3)>"})
    found: Any = exact_type(field)
    assert found == T.StructType([inside["at"], T.StructField("c", T.CharType(3))])


HOMES: Final = {"spark/types.py", "model/table.py"}  # of types, and of quoted names
SPELLERS: Final = {"simpleString", "catalogString", "jsonValue", "typeName"}
CAST: Final = re.compile(r"(?i:(?<!\.)\b(?:try_)?cast\s*\()|\bAS $")
AMBIGUOUS: Final = re.compile(r"\btimestamp\b", re.IGNORECASE)


def texts_of(node: ast.AST) -> list[str]:
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def in_a_formatted_text(node: ast.JoinedStr) -> str:
    """Say the same of an f-string."""
    if any(isinstance(part, ast.Attribute) and part.attr in SPELLERS for part in ast.walk(node)):
        return "typeName"
    for before, value, after in zip(node.values, node.values[1:], [*node.values[2:], None], strict=False):
        texts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in (before, after)]
        if not isinstance(value, ast.FormattedValue):
            continue
        if texts[0].endswith("`") and texts[1].startswith("`"):
            return "`{…}`"
        if CAST.search(texts[0]) and not ast.unparse(value.value).startswith("quoted("):
            return "CAST(… AS {…})"
    return ""


def in_a_call(called: ast.Attribute, call: ast.Call) -> str:
    """Say the same of a call of a method."""
    texts = texts_of(call)
    if called.attr in {"cast", "try_cast", "astype", "add"} and AMBIGUOUS.search(" ".join(texts)):
        return "cast('timestamp')"
    if called.attr == "replace" and texts[-2:] == ["`", "``"]:
        return "replace('`', '``')"
    return "format" if called.attr in {"format", "join"} and any(map(CAST.search, texts_of(called.value))) else ""


def spelled_alone(node: ast.AST) -> str:
    """Say in what way a piece of code spells a type, or quotes a name, by itself; empty if it does not."""
    if isinstance(node, ast.Attribute) and node.attr in SPELLERS - {"typeName"}:
        return node.attr
    if isinstance(node, ast.JoinedStr):
        return in_a_formatted_text(node)
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return in_a_call(node.func, node) if is_call else ""  # type: ignore[union-attr, arg-type]


def places(source: str) -> set[str]:
    return set(map(spelled_alone, ast.walk(ast.parse(source)))) - {""}


def test_no_other_file_spells_a_type_or_quotes_a_name() -> None:
    files = {file.relative_to(PACKAGE).as_posix(): file for file in sorted(PACKAGE.rglob("*.py"))}
    found = {name: places(file.read_text()) for name, file in files.items() if name not in HOMES}
    assert {name: ways for name, ways in found.items() if ways} == {}


@pytest.mark.parametrize(
    "line",
    [
        'F.expr(f"try_cast({quoted(name)} AS {field.dataType.simpleString()})")',
        "kind = field.dataType.simpleString()",
        'f"ALTER TABLE t ADD COLUMNS ({name} {kind.typeName()})"',
        'f"CAST({value} AS {kind})"',
        '"CAST({} AS {})".format(value, kind)',
        'F.col("a").cast("timestamp")',
        'T.StructType().add("at", "timestamp")',
        'f"SELECT `{name}` FROM t"',
        '"`" + name.replace("`", "``") + "`"',
    ],
)
def test_an_eleventh_place_is_found(line: str) -> None:
    assert places(line) != set()


def test_the_homes_are_where_types_are_spelled() -> None:
    assert all(places((PACKAGE / name).read_text()) for name in HOMES)
