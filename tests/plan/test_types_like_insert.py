"""What a table gets from us is what Spark's own INSERT would have stored; what INSERT would lose is refused.

Every given type meets every table type, with values at the edges of both. Pairs that are accepted go through INSERT
and through fit, side by side, a column each; pairs that only INSERT accepts stand in a table below, with the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    YearMonthIntervalType,
    _parse_datatype_string,
)

from table_writer.jobs.plan.fit import FittedRows, fit, match
from table_writer.jobs.plan.types import Match, plain_type, stored_field, violation
from table_writer.model.new_table import SchemaMode

DECIMALS: Final = {
    f"decimal({precision},{scale})": DecimalType(precision, scale)
    for precision, scale in ((3, 0), (5, 2), (10, 0), (10, 2), (19, 0), (20, 10), (38, 0), (38, 18), (38, 38))
}
ROOMS: Final = (0, 3, 8, 10, 19, 20)  # digits that decimals above have before the point
VALUES: Final[dict[str, list[str]]] = {
    "tinyint": ["-128", "-1", "0", "127"],
    "smallint": ["-32768", "0", "999", "1000", "-1000", "32767"],
    "int": ["-2147483648", "0", "-999", "1000", "99999999", "100000000", "2147483647"],
    "bigint": ["-9223372036854775808", "0", "999", "-1000", "9999999999", "10000000000", "9223372036854775807"],
    "float": ["NaN", "Infinity", "-0.0", "0.1", "3.4028235E38", "1.4E-45", "16777216"],
    "double": ["NaN", "-Infinity", "-0.0", "0.1", "1.7976931348623157E308", "4.9E-324", "1E7", "0.001"],
    "boolean": ["true", "false"],
    "string": ["", "a", "abc", "abc  ", "ab    ", "   ", "abcd", " abc", "日本語", "日本語!", "é" * 41],
    "binary": ["", "abc", "abcd"],
    "date": ["0001-01-01", "1582-10-15", "1970-01-01", "2024-03-10", "9999-12-31"],
    "timestamp": ["1900-01-01 00:00:00", "2024-03-10 01:59:59.999999", "2024-11-03 01:30:00", "9999-12-31 12:00:00"],
    "timestamp_ntz": ["0001-01-01 00:00:00", "2024-03-10 02:30:00.000001", "9999-12-31 23:59:59.999999"],
    "interval day to second": ["INTERVAL '-1 02:03:04.5' DAY TO SECOND"],
    "interval year to month": ["INTERVAL '1-2' YEAR TO MONTH"],
}
GIVEN: Final[dict[str, DataType]] = {
    **{kind.simpleString(): kind for kind in (ByteType(), ShortType(), IntegerType(), LongType())},
    **{kind.simpleString(): kind for kind in (FloatType(), DoubleType(), BooleanType(), StringType(), BinaryType())},
    **{kind.simpleString(): kind for kind in (DateType(), TimestampType(), TimestampNTZType(), NullType())},
    **{kind.simpleString(): kind for kind in (DayTimeIntervalType(0, 3), YearMonthIntervalType(0, 1))},
    **DECIMALS,
}
TABLE_TYPES: Final = {
    **{name: kind for name, kind in GIVEN.items() if name in VALUES and not name.startswith("interval")},
    **DECIMALS,
    **{kind.simpleString(): kind for kind in (CharType(3), VarcharType(3), CharType(40), VarcharType(40))},
}

REFUSED: Final[dict[str, dict[str, str]]] = {
    "a larger integer fails a task, or is cut": {
        "smallint": "tinyint",
        "int": "tinyint smallint",
        "bigint": "tinyint smallint int",
    },
    "an integer may have more digits than the float": {"int": "float", "bigint": "float double"},
    "fractions are cut off": {
        **dict.fromkeys(("float", "double"), "tinyint smallint int bigint"),
        **dict.fromkeys(DECIMALS, "tinyint smallint int bigint float double"),
    },
    "a float is rounded": {"float": " ".join(DECIMALS), "double": " ".join(["float", *DECIMALS])},
    "digits after the point are rounded": {
        "decimal(5,2)": "decimal(3,0) decimal(10,0) decimal(19,0) decimal(38,0)",
        "decimal(10,2)": "decimal(3,0) decimal(10,0) decimal(19,0) decimal(38,0)",
        "decimal(20,10)": "decimal(3,0) decimal(5,2) decimal(10,0) decimal(10,2) decimal(19,0) decimal(38,0)",
        "decimal(38,18)": "decimal(3,0) decimal(5,2) decimal(10,0) decimal(10,2) decimal(19,0) decimal(20,10)"
        " decimal(38,0)",
        "decimal(38,38)": "decimal(3,0) decimal(5,2) decimal(10,0) decimal(10,2) decimal(19,0) decimal(20,10)"
        " decimal(38,0) decimal(38,18)",
    },
    "a time zone is guessed, or the time of day cut off": {
        "timestamp": "timestamp_ntz date",
        "timestamp_ntz": "timestamp date",
    },
    "bytes may be no text": {"binary": "string char(3) varchar(3) char(40) varchar(40)"},
}
"""What INSERT takes and we refuse: reason, given type, table types."""


def edges(kind: DecimalType) -> list[str]:
    """Return values around every number of digits that a table's decimal may have room for."""
    powers = [10 ** (room + kind.scale) for room in ROOMS if room < kind.precision - kind.scale]
    unscaled = [0, 1, -1, 10**kind.precision - 1, *(edge for one in powers for edge in (one, one - 1, 1 - one, -one))]
    return [f"{'-' * (number < 0)}{_with_point(str(abs(number)), kind.scale)}" for number in unscaled]


def _with_point(digits: str, scale: int) -> str:
    padded = digits.zfill(scale + 1)
    return f"{padded[: len(padded) - scale]}.{padded[len(padded) - scale :]}".rstrip(".")


ALL_VALUES: Final = VALUES | {name: edges(kind) for name, kind in DECIMALS.items()}


@dataclass(frozen=True)
class Pair:
    given: str
    wanted: str

    @property
    def match(self) -> Match:
        given, wanted = StructField("c", GIVEN[self.given]), StructField("c", TABLE_TYPES[self.wanted])
        return match(given, wanted, "c", SchemaMode.STRICT)

    def __str__(self) -> str:
        return f"{self.given} to {self.wanted}"


PAIRS: Final = [Pair(given, wanted) for given, wanted in itertools.product(GIVEN, TABLE_TYPES)]


@pytest.fixture(scope="module")
def values(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Return one column for each given type, ``n`` to tell rows apart; from files, so that executors convert."""
    row_count = max(map(len, ALL_VALUES.values()))
    rows = []
    for number in range(row_count):
        cells = [f"{number} AS n"]
        for position, (kind, texts) in enumerate(ALL_VALUES.items()):
            text = texts[number] if number < len(texts) else None
            spelled = "NULL" if text is None else text if text.startswith("INTERVAL") else f"'{text}'"
            cells.append(f"CAST({spelled} AS {kind}) AS g{position}")
        rows.append("SELECT " + ", ".join(cells))
    path = str(tmp_path_factory.mktemp("values"))
    spark.sql(" UNION ALL ".join(rows)).coalesce(1).write.mode("overwrite").parquet(f"file://{path}")
    read = spark.read.parquet(f"file://{path}")
    named = {f"g{position}": kind for position, kind in enumerate(ALL_VALUES)}
    return read.select("n", *(F.col(name).alias(kind) for name, kind in named.items()), F.lit(None).alias("void"))


# Hundreds of columns take longer to compile than to compute.
@pytest.fixture(
    params=[
        pytest.param(("true", "UTC"), id="ansi", marks=pytest.mark.slow),
        pytest.param(("false", "America/New_York"), id="not ansi, New York", marks=pytest.mark.slow),
    ]
)
def _session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    names = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.codegen.factoryMode")
    before = [spark.conf.get(name) for name in names]
    for name, value in zip(names, (*request.param, "NO_CODEGEN"), strict=True):
        spark.conf.set(name, value)
    yield
    for name, value in zip(names, before, strict=True):
        spark.conf.set(name, str(value))


class Table:
    """A table with a column for each of some types, and what INSERT and fit put there."""

    def __init__(self, spark: SparkSession, directory: Path, types: Mapping[str, DataType]) -> None:
        self._spark = spark
        self._name = f"like_insert_{abs(hash(directory))}"
        self._schema = StructType([stored_field(name, kind) for name, kind in types.items()])
        columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items())
        spark.sql(f"DROP TABLE IF EXISTS {self._name}")
        spark.sql(f"CREATE TABLE {self._name} ({columns}) USING parquet LOCATION 'file://{directory}'")

    def fitted(self, df: DataFrame) -> FittedRows:
        return fit(df, self._schema, "db.t", [])

    def inserted(self, df: DataFrame) -> list[Any]:
        df.createOrReplaceTempView("given")
        try:
            self._spark.sql(f"INSERT OVERWRITE {self._name} BY NAME SELECT * FROM given")
        finally:
            self._spark.catalog.dropTempView("given")
        return texts(self._spark.table(self._name))

    def drop(self) -> None:
        self._spark.sql(f"DROP TABLE {self._name}")


def texts(df: DataFrame) -> list[Any]:
    """Return rows as Spark spells them: NaN equals NaN, -0.0 is not 0.0, and any year will do."""
    spelled = df.select(*(F.col(f"`{name}`").cast("string").alias(name) for name in df.columns))
    return sorted((tuple(row) for row in spelled.collect()), key=lambda row: int(row[0]))


def can_insert(spark: SparkSession, pair: Pair) -> bool:
    """Ask Spark's own rule of the ANSI store assignment."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    from_json = jvm.org.apache.spark.sql.types.DataType.fromJson
    given, wanted = GIVEN[pair.given].json(), plain_type(TABLE_TYPES[pair.wanted]).json()
    assign = jvm.org.apache.spark.sql.catalyst.expressions.Cast.canANSIStoreAssign
    return bool(assign(from_json(given), from_json(wanted)))


@pytest.mark.slow
def test_a_pair_that_insert_refuses_is_refused_and_what_only_insert_takes_would_lose(spark: SparkSession) -> None:
    ours = {str(pair) for pair in PAIRS if not pair.match.problems}
    inserts = {str(pair) for pair in PAIRS if can_insert(spark, pair)}
    assert ours - inserts == set()
    listed = [
        f"{given} to {wanted}"
        for pairs in REFUSED.values()
        for given, wanteds in pairs.items()
        for wanted in wanteds.split()
    ]
    assert sorted(listed) == sorted(inserts - ours)


@pytest.mark.usefixtures("_session")
def test_every_accepted_value_is_stored_as_insert_stores_it(
    spark: SparkSession, values: DataFrame, tmp_path: Path
) -> None:
    pairs = {f"p{number}": pair for number, pair in enumerate(PAIRS) if not pair.match.problems}
    types = {"n": IntegerType()} | {name: TABLE_TYPES[pair.wanted] for name, pair in pairs.items()}
    table = Table(spark, tmp_path, types)
    given = values.select("n", *(F.col(f"`{pair.given}`").alias(name) for name, pair in pairs.items()))
    limits = {limit.rule.column: limit for limit in table.fitted(given).limits}
    kept = given.select(
        *(F.when(~limits[name].violates, F.col(name)).alias(name) if name in limits else name for name in given.columns)
    )
    assert texts(table.fitted(kept).rows) == table.inserted(kept)
    table.drop()


LIMITED: Final = [pair for pair in PAIRS if pair.match.rules]


@pytest.mark.usefixtures("_session")
def test_the_values_found_bad_are_those_that_sparks_checked_casts_do_not_take(
    spark: SparkSession, values: DataFrame, tmp_path: Path
) -> None:
    pairs = {f"p{number}": pair for number, pair in enumerate(LIMITED)}
    types = {name: TABLE_TYPES[pair.wanted] for name, pair in pairs.items()}
    given = values.select(*(F.col(f"`{pair.given}`").alias(name) for name, pair in pairs.items()))
    limits = Table(spark, tmp_path, types).fitted(given).limits
    assert len(limits) == len(pairs) > 60
    found = given.select(*(F.count(F.when(limit.violates, 1)).alias(limit.rule.column) for limit in limits)).first()
    wanted = given.select(
        *(F.expr(f"count_if({_bad(name, pair)})").alias(name) for name, pair in pairs.items())
    ).first()
    assert found is not None
    assert wanted is not None
    assert found.asDict() == wanted.asDict()


def _bad(name: str, pair: Pair) -> str:
    kind = TABLE_TYPES[pair.wanted]
    if isinstance(kind, DecimalType):
        return f"{name} IS NOT NULL AND try_cast({name} AS {pair.wanted}) IS NULL"
    return f"length(rtrim(try_cast({name} AS STRING))) > {kind.jsonValue().strip('varch()')}"


MILDEST: Final = {
    Pair("decimal(10,2)", "decimal(5,2)"): ["1000.00", "-1000.00"],
    Pair("decimal(38,18)", "decimal(38,38)"): [f"{sign}1.{'0' * 18}" for sign in ("", "-")],
    Pair("bigint", "decimal(10,0)"): ["10000000000", "-10000000000"],
    Pair("tinyint", "decimal(38,38)"): ["1"],
    Pair("string", "char(3)"): ["abcd", " abc", "日本語!"],
    Pair("decimal(5,2)", "varchar(3)"): ["0.00"],
}


@pytest.mark.parametrize("pair", MILDEST, ids=str)
def test_the_first_value_past_a_limit_is_an_error_where_insert_has_one(
    pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(spark, tmp_path, {"n": IntegerType(), "p": TABLE_TYPES[pair.wanted]})
    for value in MILDEST[pair]:
        given = spark.range(1).selectExpr("CAST(id AS INT) AS n", f"CAST('{value}' AS {pair.given}) AS p")
        with pytest.raises(PySparkException):
            table.inserted(given)
        fitted = table.fitted(given)
        with pytest.raises(PySparkException) as raised:
            fitted.rows.collect()
        error = violation(raised.value, given, fitted.limits, "db.t")
        assert f"column p is {pair.wanted}, and 1 of 1 rows" in str(error)
        assert f"for example '{value}'" in str(error)
    table.drop()


# No floats: where INSERT casts a whole map, a key -0.0 stays, which any map that Spark builds has as 0.0.
NESTED: Final = [
    *(("int", "bigint"), ("decimal(20,10)", "string"), ("date", "timestamp"), ("decimal(10,2)", "decimal(5,2)")),
    *(("string", "char(3)"), ("string", "varchar(3)"), ("string", "string"), ("boolean", "string")),
]
WRAPPED: Final = {
    "array<{}>": "array(`{0}`, `{0}`)",
    "struct<a:{},b:string>": "named_struct('b', 'x', 'a', `{}`)",
    "map<string,{}>": "map('k', `{}`)",
    "map<{},int>": "IF(`{0}` IS NULL, map(), map(`{0}`, n))",
    "array<struct<a:array<{}>,b:int>>": "array(named_struct('B', n, 'a', array(`{}`)), NULL)",
    "map<string,array<map<string,struct<x:{}>>>>": "map('k', array(map('l', named_struct('X', `{}`)), NULL))",
}


@pytest.mark.usefixtures("_session")
def test_nested_values_are_stored_as_insert_stores_them(spark: SparkSession, values: DataFrame, tmp_path: Path) -> None:
    types: dict[str, DataType] = {"n": IntegerType()}
    columns = ["n"]
    for number, ((given, wanted), (kind, expression)) in enumerate(itertools.product(NESTED, WRAPPED.items())):
        types[f"p{number}"] = _parse_datatype_string(kind.format(wanted))
        columns.append(f"{expression.format(given)} AS p{number}")
    small = values.where("`string` IS NULL OR length(rtrim(`string`)) <= 3").where(
        "`decimal(10,2)` IS NULL OR abs(`decimal(10,2)`) < 1000"
    )
    table = Table(spark, tmp_path, types)
    rows = small.selectExpr(*columns)
    fitted = table.fitted(rows)
    assert len(fitted.limits) == 3 * len(WRAPPED)
    assert texts(fitted.rows) == table.inserted(rows)
    table.drop()
