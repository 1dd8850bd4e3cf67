"""Assets of Dagster by its own `materialize`: partitions, backfills, mappings; what fails, and what is tried again."""

import runpy
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, DateType, IntegerType, StringType, TimestampNTZType, TimestampType

from table_writer import StorageError, TableWriter
from table_writer.check import not_null
from table_writer.integrations.dagster import HiveIOManager
from table_writer.integrations.dagster.partitions import joined, predicate
from tests.docs.markdown_blocks import ROOT

from .conftest import found

ASSETS = ROOT / "docs" / "how-to" / "dagster_assets.py"
COLUMNS = "id INT, amount DOUBLE, dt STRING"
DAYS = dg.DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-02-01")
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
TWICE_MORE = dg.RetryPolicy(max_retries=2)
pytestmark = pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning")  # of backfill_policy


def materialized(assets: Sequence[Any], key: str | None = None, **more: Any) -> dict[str, Any]:
    """Materialize the last asset, and return what its materialization tells."""
    options: dict[str, Any] = {"resources": {"io_manager": HiveIOManager()}, "selection": [assets[-1]], **more}
    result = dg.materialize(assets, partition_key=key, **options)
    (event, *_) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def daily(rows: Callable[[str], DataFrame], **more: Any) -> Any:
    """Return an asset mart.orders, partitioned by day, with the rows that a function makes of a key."""
    metadata = {"partition_expr": "dt", "table_writer": more.pop("options", {})}

    @dg.asset(name="orders", key_prefix="mart", partitions_def=DAYS, metadata=metadata, **more)
    def orders(context: dg.AssetExecutionContext) -> DataFrame:
        return rows(context.partition_key)

    return orders


def frame(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), COLUMNS)


def test_the_assets_of_the_documentation_are_backfilled_in_one_run_and_read_by_their_weeks(mart: SparkSession) -> None:
    source = frame(mart, *((day, 1.0, f"2024-01-0{day}") for day in (1, 2, 7, 8)))
    TableWriter(mart).create_table(source, "mart.new_orders")
    TableWriter(mart).append(source, "mart.new_orders")
    defined = runpy.run_path(str(ASSETS))
    orders, weekly = defined["orders"], defined["weekly"]
    told = materialized([orders], tags=dict(zip(RANGE, ("2024-01-01", "2024-01-08"), strict=True)))
    assert (told["rows"], told["files"] >= 1, told["version"]) == (4, True, 1)
    materialized([orders, weekly], "2024-01-01")
    assert found(mart, "mart.weekly") == [(3.0, "2024-01-01")]
    materialized([orders, weekly], "2024-01-08")
    assert found(mart, "mart.weekly") == [(1.0, "2024-01-08"), (3.0, "2024-01-01")]
    TableWriter(mart).overwrite_table(source.where("id = 8"), "mart.new_orders")
    told = materialized([orders], "2024-01-02")
    assert (told["rows"], told["dagster/partition_row_count"]) == (0, 0)
    assert [row[0] for row in found(mart, "mart.orders")] == [1, 7, 8]  # a day without rows any more is empty
    assert told["dagster/table_name"] == "mart.orders"
    assert [column.name for column in told["dagster/column_schema"].columns] == ["id", "amount", "dt"]
    assert defined["defs"].resolve_all_job_defs()


def test_a_row_outside_of_the_partition_is_refused_and_not_tried_again(mart: SparkSession) -> None:
    materialized([daily(lambda key: frame(mart, (1, 1.0, key)))], "2024-01-01")
    tries: list[str] = []

    def rows(key: str) -> DataFrame:
        tries.append(key)
        return frame(mart, (2, 2.0, key), (3, 3.0, "2024-01-02"))

    with pytest.raises(dg.Failure, match=r"does not select: dt=2024-01-02 \(1 row\)"):
        materialized([daily(rows, retry_policy=TWICE_MORE)], "2024-01-01")
    assert tries == ["2024-01-01"]
    assert found(mart, "mart.orders") == [(1, 1.0, "2024-01-01")]


@pytest.mark.parametrize("check", [{"not_null": "id"}, f"{__name__}.CHECKS"], ids=["by name", "by path"])
def test_a_failed_check_ends_the_run_and_readers_keep_their_rows(mart: SparkSession, check: Any) -> None:
    orders = daily(lambda key: frame(mart, (None if key.endswith("02") else 1, 1.0, key)), options={"checks": [check]})
    materialized([orders], "2024-01-01")
    with pytest.raises(dg.Failure, match=r"not_null\(id\): 1 of 1 row has no id"):
        materialized([orders], "2024-01-02")
    assert found(mart, "mart.orders") == [(1, 1.0, "2024-01-01")]


CHECKS = [not_null("id")]


def test_a_conflict_is_tried_again_with_rows_that_are_computed_again(mart: SparkSession) -> None:
    writer, tries = TableWriter(mart), []
    materialized([daily(lambda key: frame(mart, (1, 1.0, key)))], "2024-01-01")

    def rows(key: str) -> DataFrame:
        rows = writer.read("mart.orders").where(f"dt = '{key}'").selectExpr("id + 1 AS id", "amount", "dt")
        tries.append(key)
        if len(tries) == 1:
            writer.overwrite_partitions(frame(mart, (10, 1.0, key)), "mart.orders")  # somebody else is faster
        return rows

    materialized([daily(rows, retry_policy=TWICE_MORE)], "2024-01-01")
    assert len(tries) == 2
    assert found(mart, "mart.orders") == [(11, 1.0, "2024-01-01")]


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

    @dg.asset(key_prefix="mart", retry_policy=TWICE_MORE, metadata={"table_writer": {"mode": "append"}})
    def log() -> DataFrame:
        return frame(mart, (1, 1.0, "a"))

    materialized([log])
    assert [result.repeated for result in tries] == [False, True]
    materialized([log])
    assert len(found(mart, "mart.log")) == 2


def test_multi_partitions_are_the_crossings_of_their_keys(mart: SparkSession) -> None:
    countries = dg.StaticPartitionsDefinition(["de", "o'fr"])
    both = dg.MultiPartitionsDefinition({"day": DAYS, "country": countries})

    @dg.asset(key_prefix="mart", partitions_def=both, metadata={"partition_expr": {"day": "d", "country": "c"}})
    def sales(context: dg.AssetExecutionContext) -> DataFrame:
        parts = context.partition_key.keys_by_dimension
        row = (1, date.fromisoformat(parts["day"]), parts["country"])
        return mart.createDataFrame([row], "n INT, d DATE, c STRING")

    @dg.asset(key_prefix="mart", partitions_def=countries, metadata={"partition_expr": "c"})
    def per_country(sales: DataFrame) -> DataFrame:
        return sales

    for day in ("2024-01-01", "2024-01-02"):
        for country in countries.get_partition_keys():
            materialized([sales], dg.MultiPartitionKey({"day": day, "country": country}))
    assert mart.table("mart.sales").count() == 4
    materialized([sales, per_country], "o'fr")
    assert found(mart, "mart.per_country") == [(1, date(2024, 1, day), "o'fr") for day in (1, 2)]


def test_an_input_has_the_partitions_that_the_mapping_says_and_the_columns_that_are_asked(mart: SparkSession) -> None:
    orders = daily(lambda key: frame(mart, (1, 1.0, key)))
    for key in ("2024-01-01", "2024-01-02", "2024-01-03"):
        materialized([orders], key)
    mapping = dg.TimeWindowPartitionMapping(start_offset=-1)
    ins = {"orders": dg.AssetIn(("mart", "orders"), partition_mapping=mapping, metadata={"columns": ["dt"]})}
    loaded: dict[str, list[Any]] = {}

    @dg.asset(key_prefix="mart", partitions_def=DAYS, ins=ins, metadata={"partition_expr": "dt"})
    def twice(context: dg.AssetExecutionContext, orders):  # no type: it is loaded as a DataFrame
        loaded[context.partition_key] = sorted(tuple(row) for row in orders.collect())
        return frame(mart, (1, 1.0, context.partition_key))

    materialized([orders, twice], "2024-01-03")
    assert loaded["2024-01-03"] == [("2024-01-02",), ("2024-01-03",)]


def test_an_asset_that_reads_its_own_day_before_begins_with_nothing(mart: SparkSession) -> None:
    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)

    @dg.asset(
        key_prefix="mart",
        partitions_def=DAYS,
        metadata={"partition_expr": "dt"},
        ins={"total": dg.AssetIn(("mart", "total"), partition_mapping=before)},
    )
    def total(context: dg.AssetExecutionContext, total: DataFrame) -> DataFrame:
        amount = sum(row["amount"] for row in total.collect())
        return frame(mart, (1, amount + 1.0, context.partition_key))

    for key in ("2024-01-01", "2024-01-02"):
        materialized([total], key)
    assert [row[1] for row in found(mart, "mart.total")] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("key_prefix", "metadata", "manager", "table"),
    [
        (["lake", "mart"], {}, HiveIOManager(), "mart.whole"),
        (["other"], {}, HiveIOManager(schema="mart"), "mart.whole"),
        (None, {"schema": "mart"}, HiveIOManager(schema="another"), "mart.whole"),
    ],
    ids=str,
)
def test_the_database_is_of_the_metadata_else_of_the_manager_else_of_the_key(
    mart: SparkSession, key_prefix: list[str] | None, metadata: dict[str, Any], manager: HiveIOManager, table: str
) -> None:
    @dg.asset(key_prefix=key_prefix, metadata=metadata)
    def whole() -> DataFrame:
        return frame(mart, (1, 1.0, "a"))

    told = materialized([whole], resources={"io_manager": manager})
    assert (told["dagster/table_name"], told["dagster/row_count"]) == (table, 1)
    assert told["dagster/uri"].startswith("s3a://")
    assert "write_id" in told["report"]
    assert found(mart, table) == [(1, 1.0, "a")]


def test_a_merge_changes_rows_by_key(mart: SparkSession) -> None:
    rows = [(1, 1.0, "a"), (2, 2.0, "a")]

    @dg.asset(key_prefix="mart", metadata={"table_writer": {"mode": "merge", "on": ["id"], "partition_by": ["dt"]}})
    def merged() -> DataFrame:
        return frame(mart, *rows)

    materialized([merged])
    rows[:] = [(2, 20.0, "b"), (3, 3.0, "b")]
    materialized([merged])
    assert found(mart, "mart.merged") == [(1, 1.0, "a"), *rows]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mod": "merge"}, r"has no mod; did you mean mode\?"),
        ({"mode": "upsert"}, "expected one of overwrite, append, merge"),
        ({"mode": "append"}, "would add its rows again"),
        ({"schema": "evolv"}, "expected one of strict"),
        ({"checks": ["no.such"]}, "names nothing that can be imported"),
        ({"checks": [{"notnull": "id"}]}, r"no check is called notnull; did you mean not_null\?"),
    ],
    ids=str,
)
def test_metadata_that_nobody_reads_is_refused(mart: SparkSession, options: dict[str, Any], message: str) -> None:
    with pytest.raises(dg.Failure, match=message):
        materialized([daily(lambda key: frame(mart, (1, 1.0, key)), options=options)], "2024-01-01")
    with pytest.raises(ValueError, match="schem"):
        HiveIOManager(schem="mart")


def test_a_partitioned_asset_says_its_columns_and_returns_a_dataframe(mart: SparkSession) -> None:
    @dg.asset(key_prefix="mart", partitions_def=DAYS)
    def silent() -> DataFrame:
        return frame(mart, (1, 1.0, "a"))

    with pytest.raises(dg.Failure, match="say by which column of the table"):
        materialized([silent], "2024-01-01")

    @dg.asset(key_prefix="mart")
    def number():
        return 1

    with pytest.raises(dg.Failure, match=r"returned a builtins\.int: expected a Spark DataFrame"):
        materialized([number])


MONTHS = dg.MonthlyPartitionsDefinition(start_date="2024-01-01")
HOURS = dg.HourlyPartitionsDefinition(start_date="2024-01-01-00:00", timezone="Europe/Berlin")
GERMAN = dg.DailyPartitionsDefinition(start_date="01.01.2024", fmt="%d.%m.%Y")
STATIC = dg.StaticPartitionsDefinition(["1", "it's"])
TWICE: Final = ((1, 0), (2, 0), (2, 1), (3, 0))  # hours of the clock, and whether it has shown them before
CROSSED = dg.MultiPartitionsDefinition({"a": STATIC, "b": DAYS})


@pytest.mark.parametrize(
    ("keys", "definition", "kind", "expected"),
    [
        (["2024-01-01"], DAYS, StringType(), "c >= '2024-01-01' AND c < '2024-01-02'"),
        (["2024-01-02", "2024-01-01"], DAYS, DateType(), "c >= DATE'2024-01-01' AND c < DATE'2024-01-03'"),
        (
            ["2024-01-01", "2024-01-03"],
            DAYS,
            DateType(),
            "(c >= DATE'2024-01-01' AND c < DATE'2024-01-02') OR (c >= DATE'2024-01-03' AND c < DATE'2024-01-04')",
        ),
        (["2024-02-01"], MONTHS, StringType(), "c >= '2024-02-01' AND c < '2024-03-01'"),
        (
            ["2024-01-01-07:00"],
            HOURS,
            TimestampType(),
            "c >= TIMESTAMP_LTZ'2024-01-01 07:00:00+0100' AND c < TIMESTAMP_LTZ'2024-01-01 08:00:00+0100'",
        ),
        (
            ["2024-01-01-07:00"],
            HOURS,
            TimestampNTZType(),
            "c >= TIMESTAMP_NTZ'2024-01-01 07:00:00' AND c < TIMESTAMP_NTZ'2024-01-01 08:00:00'",
        ),
        (["02.01.2024"], GERMAN, StringType(), "c IN ('02.01.2024')"),
        (["1"], STATIC, IntegerType(), "c IN (CAST('1' AS int))"),
        (["it's"], STATIC, StringType(), r"c IN ('it\'s')"),
        (["1|2024-01-01"], CROSSED, StringType(), "(a IN ('1')) AND (b >= '2024-01-01' AND b < '2024-01-02')"),
        (
            ["1|2024-01-01", "it's|2024-01-02"],
            CROSSED,
            StringType(),
            " OR ".join(
                f"((a IN ({key})) AND (b >= '2024-01-0{day}' AND b < '2024-01-0{day + 1}'))"
                for key, day in (("'1'", 1), (r"'it\'s'", 2))
            ),
        ),
    ],
    ids=str,
)
def test_a_predicate_is_of_the_type_that_the_column_has(
    keys: list[str], definition: dg.PartitionsDefinition[Any], kind: DataType, expected: str
) -> None:
    crossed = isinstance(definition, dg.MultiPartitionsDefinition)
    expressions: Mapping[str, str] = {"a": "a", "b": "b"} if crossed else {"": "c"}
    assert predicate(keys, definition, expressions, lambda _: kind) == expected


def test_windows_of_an_hour_that_comes_twice_are_joined_by_their_moments() -> None:
    """Of one zone Python compares what clocks show, and takes the end of the first for the beginning of the second."""
    zone = ZoneInfo("Europe/Berlin")
    one, two, again, three = (datetime(2024, 10, 27, hour, fold=fold, tzinfo=zone) for hour, fold in TWICE)
    assert list(map(len, (joined([(one, two), (again, three)]), joined([(one, two), (two, again)])))) == [2, 1]


@pytest.mark.parametrize(
    ("definition", "expression", "value", "keys"),
    [
        (MONTHS, "to_date(m, 'yyyy-MM')", "'2024-02'", ("2024-02-01", "2024-01-01")),
        (HOURS, "m", "TIMESTAMP'2024-02-01 00:00:00+0100'", ("2024-02-01-00:00", "2024-02-01-01:00")),
        (dg.StaticPartitionsDefinition(["7", "8"]), "m", "8L", ("8", "7")),
    ],
    ids=str,
)
def test_a_second_run_replaces_its_partition_and_no_other_whatever_its_column_is(
    mart: SparkSession, definition: dg.PartitionsDefinition[Any], expression: str, value: str, keys: tuple[str, str]
) -> None:
    numbers = iter(range(9))
    metadata = {"partition_expr": expression, "table_writer": {"partition_by": ["m"]}}

    @dg.asset(key_prefix="mart", partitions_def=definition, metadata=metadata)
    def typed() -> DataFrame:
        return mart.sql(f"SELECT {next(numbers)} AS n, {value} AS m")

    for _ in range(2):
        materialized([typed], keys[0])
    assert [row["n"] for row in mart.table("mart.typed").collect()] == [1]
    with pytest.raises(dg.Failure, match="does not select"):
        materialized([typed], keys[1])


def test_the_file_of_the_documentation_is_one_that_dagster_validates() -> None:
    defined = runpy.run_path(str(ASSETS))["defs"]
    dg.Definitions.validate_loadable(defined)
