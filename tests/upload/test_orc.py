"""Our ORC files against those that Spark writes of the same rows: the same for Spark's readers and for Hive's."""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.table import Column as TableColumn
from table_writer.model.table import Table, TableName
from table_writer.model.upload_spec import OrcOptions, UploadSpec
from table_writer.plan.file_options import file_options
from table_writer.storage import LocalSettings, open_store
from table_writer.upload import orc as orc_module
from table_writer.upload import orc_stripe
from table_writer.upload.job import Uploader
from tests.upload.rows_of_all_types import COLUMNS, LOCAL_TIMESTAMPS, TIMESTAMPS, table

READERS = {
    "vectorized": {"spark.sql.orc.impl": "native", "spark.sql.orc.enableVectorizedReader": "true"},
    "row by row": {"spark.sql.orc.impl": "native", "spark.sql.orc.enableVectorizedReader": "false"},
    "hive": {"spark.sql.orc.impl": "hive"},
}


def write_ours(rows: DataFrame, directory: Path, **changes: Any) -> Path:
    options = {name: changes.pop(name) for name in ("compression", "time_zone") if name in changes}
    spec = UploadSpec(
        write_id="w1",
        key_prefix=f"{str(directory).lstrip('/')}/w1/",
        store=LocalSettings(),
        data_columns=tuple(rows.columns),
        partition_columns=(),
        file_options=OrcOptions(spark_version=rows.sparkSession.version, **options),
        **changes,
    )
    store = open_store(spec.store)
    for message in Uploader().upload(rows, spec):
        for upload in message.uploads:
            store.complete_upload(upload.key, upload.upload_id, upload.parts)
    return directory / "w1"


def write_sparks(rows: DataFrame, directory: Path) -> Path:
    rows.write.orc(f"file://{directory}/spark")
    return directory / "spark"


@pytest.fixture
def spark(lakehouse) -> Iterator[SparkSession]:
    """A session whose settings, and whose Java's time zone, a test may change."""
    session = lakehouse.spark
    zones = session.sparkContext._jvm.java.util.TimeZone
    zone_before = zones.getDefault()
    names = ("spark.sql.session.timeZone", "spark.sql.orc.compression.codec", *READERS["vectorized"])
    before = {name: session.conf.get(name) for name in names}
    yield session
    zones.setDefault(zone_before)
    for name, value in before.items():
        session.conf.set(name, value)


def run_java_in(spark: SparkSession, zone: str) -> None:
    zones = spark.sparkContext._jvm.java.util.TimeZone
    zones.setDefault(zones.getTimeZone(zone))


def texts(rows: DataFrame) -> list[str]:
    """Rows as text made by Spark: Python cannot hold every moment, and compares NaN and -0.0 its own way."""
    moments = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"  # by default to_json drops what is below a millisecond
    formats = {"timestampFormat": f"{moments}XXX", "timestampNTZFormat": moments}
    values = [F.to_json(F.struct(F.col(f"`{name}`").alias(name)), formats).alias(name) for name in rows.columns]
    values += [F.hex(F.col(f"`{name}`")).alias(f"{name} bytes") for name, kind in rows.dtypes if kind == "binary"]
    return sorted(map(str, rows.select(*values).collect()))


def read(spark: SparkSession, directory: Path, rows: DataFrame, reader: str) -> DataFrame:
    for name, value in READERS[reader].items():
        spark.conf.set(name, value)
    return spark.read.schema(rows.schema).orc(f"file://{directory}")


def assert_same_for_every_reader(spark: SparkSession, rows: DataFrame, ours: Path, sparks: Path) -> None:
    for reader in READERS:
        if reader == "hive" and "timestamp_ntz" in str(rows.dtypes):
            continue  # Hive's reader does not know it, in Spark's files either
        assert texts(read(spark, ours, rows, reader)) == texts(read(spark, sparks, rows, reader)), reader
    assert spark.read.orc(f"file://{ours}").schema == spark.read.orc(f"file://{sparks}").schema == rows.schema


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.slow
def test_a_column_reads_as_sparks_own(spark, tmp_path, name):
    rows = table(spark, {name: COLUMNS[name]})
    assert_same_for_every_reader(spark, rows, write_ours(rows, tmp_path), write_sparks(rows, tmp_path))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "codec", ["none", "zstd", *(pytest.param(codec, marks=SLOW) for codec in ("snappy", "zlib", "lz4"))]
)
def test_a_table_of_all_types_reads_as_sparks_own_in_every_codec(spark, tmp_path, codec):
    spark.conf.set("spark.sql.orc.compression.codec", codec)
    rows = table(spark, COLUMNS | TIMESTAMPS)
    ours, sparks = write_ours(rows, tmp_path, compression=codec), write_sparks(rows, tmp_path)
    (our_name,) = (file.name for file in ours.glob("*.orc"))
    (sparks_name,) = (file.name for file in sparks.glob("*.orc"))
    assert our_name.split(".")[1:] == sparks_name.split(".")[1:]
    assert_same_for_every_reader(spark, rows, ours, sparks)


def test_local_timestamps_read_as_sparks_own(spark, tmp_path):
    rows = table(spark, LOCAL_TIMESTAMPS | TIMESTAMPS)
    assert_same_for_every_reader(spark, rows, write_ours(rows, tmp_path), write_sparks(rows, tmp_path))


NEW_YORK_MOMENTS = [
    *(datetime(2024, 11, 3, 4, 30, tzinfo=UTC) + timedelta(minutes=30 * step) for step in range(6)),  # an hour twice
    *(datetime(2024, 3, 10, 6, 30, tzinfo=UTC) + timedelta(minutes=30 * step) for step in range(4)),  # an hour never
    *(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=step * 1800 - 0.5) for step in range(-12, 12)),
    *(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=step) for step in (-1, -999, -1000, -1001, -999_001)),
    *(datetime(2015, 1, 1, tzinfo=UTC) + timedelta(seconds=step * 3600 - 0.25) for step in range(-6, 7)),
    datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    None,
]


@pytest.mark.parametrize(
    "zone", ["UTC", "America/New_York", *(pytest.param(zone, marks=SLOW) for zone in ("Asia/Kolkata", "Pacific/Apia"))]
)
@pytest.mark.parametrize(
    "reading_zone", [pytest.param("UTC", marks=SLOW), "America/New_York", pytest.param("Europe/Berlin", marks=SLOW)]
)
def test_moments_read_as_sparks_own_wherever_java_and_the_session_are(spark, tmp_path, zone, reading_zone):
    columns = {"moment": ("timestamp", NEW_YORK_MOMENTS), "moments": ("array<timestamp>", [NEW_YORK_MOMENTS, [], None])}
    run_java_in(spark, zone)
    rows = table(spark, columns)
    ours, sparks = write_ours(rows, tmp_path, time_zone=zone), write_sparks(rows, tmp_path)
    run_java_in(spark, reading_zone)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert_same_for_every_reader(spark, rows, ours, sparks)


def test_old_moments_are_refused_where_java_is_not_in_utc(spark, tmp_path):
    rows = table(spark, {"moment": TIMESTAMPS["timestamp"]})
    with pytest.raises(InvalidInputError, match=r"'moment'.*before 1900.*Duser.timezone=UTC.*engine=\"spark\""):
        write_ours(rows, tmp_path, time_zone="Europe/Berlin")


EMOJI = {"emoji": ("string", ["\uff21", "😀", "a"])}  # UTF-16, which Java compares, has the first two the other way
FILTERED = {
    name: column
    for name, column in (COLUMNS | TIMESTAMPS | EMOJI).items()
    if not column[0].startswith(("array", "map", "struct"))
}
COMPARISONS = (Column.__eq__, Column.__lt__, Column.__ge__)
LOST_IN_JAVA = timedelta(seconds=1)  # before 1970: Java's own ORC writer cannot tell its fractions from those after it


def count_of_each(rows: DataFrame, conditions: list[Column]) -> list[int]:
    """How many rows each condition finds, each by a scan of its own, in one job."""
    scans = [rows.where(condition).select(F.lit(number).alias("n")) for number, condition in enumerate(conditions)]
    counts = dict(functools.reduce(DataFrame.unionAll, scans).groupBy("n").count().collect())
    return [counts.get(number, 0) for number in range(len(conditions))]


def is_kept(value: Any) -> bool:
    """Whether files of any time zone hold the value exactly."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return not isinstance(value, datetime) or (value.year >= 1900 and not epoch - LOST_IN_JAVA < value < epoch)


QUICKLY = {"double", "date", "timestamp", "emoji"}  # the others as well, but not on every run


@pytest.mark.parametrize("name", [name if name in QUICKLY else pytest.param(name, marks=SLOW) for name in FILTERED])
@pytest.mark.parametrize("zone", ["UTC", pytest.param("America/New_York", marks=pytest.mark.slow)])
def test_filters_find_what_they_find_without_a_file(spark, tmp_path, name, zone):
    kind, values = FILTERED[name]
    kept = [value for value in values if is_kept(value)]
    run_java_in(spark, zone)
    rows = table(spark, {name: (kind, kept)}).sort(name).coalesce(1)
    known = [value for value in kept if value is not None]
    asked = [
        F.lit(value.isoformat() if isinstance(value, date) else value).cast(kind) for value in known[:3] + known[-1:]
    ]
    conditions = [compare(F.col(name), value) for value in asked for compare in COMPARISONS]
    conditions += [F.col(name).isNull(), F.col(name).isNotNull()]
    back = read(spark, write_ours(rows, tmp_path, time_zone=zone), rows, "vectorized")
    assert count_of_each(back, conditions) == count_of_each(rows.cache(), conditions)


def test_files_of_many_stripes_read_as_they_were_written(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(orc_module, "STRIPE_BYTES", 20_000)
    moments = "timestamp_micros(id * 7919000 - 86400000000000) AS moment"
    rows = spark.range(0, 25_000, 1, 1).selectExpr(
        "id", moments, "CAST(id / 3 AS decimal(20,5)) AS price", "id % 7 = 0 AS flag", "repeat('x', id % 50) AS name"
    )
    tables = [rows.toArrow(), rows.limit(0).toArrow()]
    path = tmp_path / "many.orc"
    with path.open("wb") as sink:
        file = orc_module.OrcFile(sink, tables[0], OrcOptions(compression="zlib", spark_version="4.3.0"))
        for given in (*tables, tables[0].slice(100, 12_345)):
            file.write(given)
        assert file.close()[0] == 37_345
    back = read(spark, path, rows, "vectorized")
    assert texts(back) == texts(rows.unionAll(rows.where("id BETWEEN 100 AND 12444")))
    for condition in ("id = 24999", "moment >= '1969-12-31'", "price = 8333", "name = 'xx'", "flag", "id IS NULL"):
        wanted = rows.where(condition).count() + rows.where("id BETWEEN 100 AND 12444").where(condition).count()
        assert back.where(condition).count() == wanted, condition


def test_a_file_without_rows_is_read_as_empty(spark, tmp_path):
    rows = table(spark, COLUMNS | TIMESTAMPS)
    path = tmp_path / "none.orc"
    with path.open("wb") as sink:
        assert orc_module.OrcFile(sink, rows.toArrow(), OrcOptions()).close() == (0, 0)
    for reader in READERS:
        assert read(spark, path, rows, reader).count() == 0


def test_odd_column_names_are_kept(spark, tmp_path):
    rows = spark.sql("SELECT 1 AS `a.b`, named_struct('x:y', 2, 'z z', 3) AS `s<t>`, 'v' AS `ä, \\'q\\' 😀`").coalesce(
        1
    )
    ours, sparks = write_ours(rows, tmp_path), write_sparks(rows, tmp_path)
    for reader in ("vectorized", "row by row"):  # Hive's fails on such names, in Spark's files too
        assert texts(read(spark, ours, rows, reader)) == texts(read(spark, sparks, rows, reader))
    assert spark.read.orc(f"file://{ours}").schema == spark.read.orc(f"file://{sparks}").schema


def encoded(*tables: Any, codec: str = "zstd") -> Any:
    """Return a file of ours as Arrow reads it."""
    sink = io.BytesIO()
    file = orc_module.OrcFile(sink, tables[0], OrcOptions(compression=codec))
    for rows in tables:
        file.write(rows)
    file.close()
    return orc.ORCFile(pa.BufferReader(sink.getvalue())).read()


INNER = pa.struct([pa.field("moment", pa.timestamp("us")), pa.field("amount", pa.decimal128(20, 2))])
OUTER = pa.struct([pa.field("inner", INNER), pa.field("inners", pa.list_(INNER))])
AWARE_INNER = pa.struct([pa.field("moment", pa.timestamp("us", tz="UTC")), INNER[1]])
AWARE_OUTER = pa.struct([pa.field("inner", AWARE_INNER), pa.field("inners", pa.list_(AWARE_INNER))])


def structs_with_nulls_at(levels: tuple[str, ...]) -> Any:
    """One row for each level, which is null there and holds values below all the same."""

    def nulls(level: str) -> Any:
        return pa.array([level == given for given in levels])

    count = len(levels)
    moments = pa.array([datetime(2024, 1, 1 + day) for day in range(count)], pa.timestamp("us"))  # noqa: DTZ001
    moments = pa.array(
        [None if level == "value" else moments[row].as_py() for row, level in enumerate(levels)], INNER[0].type
    )
    amounts = pa.array([Decimal(row) / 4 for row in range(count)], INNER[1].type)
    inner = pa.StructArray.from_arrays([moments, amounts], fields=list(INNER), mask=nulls("inner"))
    lists = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), inner, mask=nulls("list"))
    return pa.StructArray.from_arrays([inner, lists.cast(OUTER[1].type)], fields=list(OUTER), mask=nulls("outer"))


@pytest.mark.parametrize(
    "levels", list(itertools.product(("outer", "inner", "list", "value", "none"), repeat=3)), ids="-".join
)
def test_values_below_nulls_and_around_slices_stay_out(levels):
    structs = structs_with_nulls_at(levels)
    rows = pa.table(
        {
            "outer": structs.cast(AWARE_OUTER),
            "outers": pa.ListArray.from_arrays([0, 2, 2, 3], structs).cast(pa.list_(AWARE_OUTER)),
        }
    )
    wanted = [*structs.to_pylist(), *structs.to_pylist()[1:]]
    back = encoded(rows, rows.slice(1), codec="none")
    assert back.column("outer").to_pylist() == wanted
    lists = [structs.to_pylist()[:2], [], structs.to_pylist()[2:]]
    assert back.column("outers").to_pylist() == [*lists, *lists[1:]]


def test_moments_that_are_all_null_or_in_empty_lists_are_written():
    moment = pa.timestamp("us", tz="UTC")
    given = {"moment": pa.nulls(3, moment), "moments": pa.array([[], None, [None]], pa.list_(moment))}
    assert encoded(pa.table(given)).to_pydict() == {name: column.to_pylist() for name, column in given.items()}


@pytest.mark.parametrize(
    ("name", "known"), [("KNOWN_STREAMS", {0}), ("KNOWN_ENCODINGS", {0}), ("WRITER_VERSION", 5), ("LONG", 3)]
)
def test_what_another_arrow_might_write_is_refused(monkeypatch, name, known):
    monkeypatch.setattr(orc_stripe, name, known)
    rows = pa.table({"moment": pa.array([1, None, 3], pa.timestamp("us", tz="UTC"))})
    with pytest.raises(InvalidInputError, match=r"pyarrow .* not known here \(.*engine=\"spark\""):
        encoded(rows)


@pytest.mark.parametrize(
    "key", ["orc.encrypt", "orc.mask", "Parquet.Encryption.footer.key", "parquet.crypto.factory.class"]
)
@pytest.mark.parametrize("place", ["parameters", "serde_parameters"])
def test_a_table_whose_files_are_to_be_protected_is_refused(key, place):
    table = Table(
        name=TableName("mart", "orders"),
        kind="MANAGED_TABLE",
        location="s3a://lake/orders",
        columns=(TableColumn("id", "bigint"),),
        partition_columns=(),
        serde="org.apache.hadoop.hive.ql.io.orc.OrcSerde",
        **{"parameters": {}, "serde_parameters": {}, place: {key: "x"}},
    )
    with pytest.raises(InvalidInputError, match=rf"{key.lower()}.*not encrypted.*engine=\"spark\""):
        file_options(table, {}.get, "{}", "4.3.0", time_zone="UTC")


@pytest.mark.parametrize("kind", [pa.struct([pa.field("z`", pa.int64())])])
def test_a_name_that_java_cannot_read_is_refused(store, spec, upload, kind):
    given = [pa.record_batch({"id": pa.nulls(1, kind), "name": ["a"], "dt": ["x"]})]
    with pytest.raises(InvalidInputError, match=r"column 'z`' ends in a backquote.*rename"):
        upload(given, spec(file_options=OrcOptions()))


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.null(), pa.time64("us"), pa.list_(pa.null())])
def test_a_type_that_only_spark_can_write_is_named(store, spec, upload, kind):
    given = [pa.record_batch({"id": pa.nulls(3, kind), "name": ["a", "b", "c"], "dt": ["x"] * 3})]
    with pytest.raises(InvalidInputError, match=r"column 'id' has type .*engine=\"spark\""):
        upload(given, spec(file_options=OrcOptions()))


def test_dates_before_the_first_year_are_refused(store, spec, upload):
    given = [pa.record_batch({"id": pa.array([-800_000], pa.date32()), "name": ["a"], "dt": ["x"]})]
    with pytest.raises(InvalidInputError, match=r"'id' has a date before the year 1.*engine=\"spark\""):
        upload(given, spec(file_options=OrcOptions()))


def test_a_file_that_lacks_rows_is_an_error(store, spec, upload, monkeypatch):
    monkeypatch.setattr(orc_module, "stripes", lambda *_: iter(()))
    given = [pa.record_batch({"id": [1, 2], "name": ["a", "b"], "dt": ["x", "x"]})]
    with pytest.raises(StorageError, match="got 2 rows and hold 0; run the write again"):
        upload(given, spec(file_options=OrcOptions()))
