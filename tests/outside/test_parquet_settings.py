"""Settings of a session, or of a table, that change what is in a Parquet file.

A session asks for encryption, Bloom filters, other pages or ids of columns, as Spark's own writer takes them, and a
writer of one's own passes them over without a word (NVIDIA/cudf-spark#6472, apache/spark#39665). What becomes of each
is one table: compared here with the jars, which know all names, with files that Spark writes, and with the page, whose
table ``python -m tests.outside.test_parquet_settings`` prints.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import InvalidInputError, TableWriter
from table_writer.jobs.plan.file_options import file_options
from table_writer.jobs.plan.parquet_settings import (
    NOTHING_IN_A_FILE,
    SETTINGS,
    FileSettings,
    Outcome,
    ParquetSetting,
    setting_named,
)
from table_writer.jobs.upload.parquet import ParquetFile
from table_writer.model.table import Column, Table, TableName
from table_writer.spark import open_gateway
from table_writer.testing import Lakehouse
from tests.cells import first_fast
from tests.docs.markdown_blocks import ROOT

PAGE = ROOT / "docs" / "reference" / "parquet-settings.md"
JARS = Path(pyspark.__file__).parent / "jars"
NAME = re.compile(rb"\x01(..)((?:spark\.sql\.)?(?:legacy\.)?parquet\.[A-Za-z0-9_.\-]+)", re.DOTALL)
ID = {"parquet.field.id": 7}
TABLE = Table(
    name=TableName("mart", "orders"),
    kind="MANAGED_TABLE",
    location="s3a://lake/orders",
    columns=(Column("id", "bigint"),),
    partition_columns=(),
    serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    parameters={"spark.sql.sources.provider": "parquet"},
)
FACTORY = {
    "parquet.crypto.factory.class": "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory",
    "parquet.encryption.kms.client.class": "org.example.NoSuchKms",
}
KEY = {"parquet.encryption.uniform.key": "hush"}


def names_in_jars() -> Iterator[str]:
    """Yield the constants of Parquet's Java and of Spark's configuration that read as settings of Parquet."""
    for pattern, classes in {"parquet-hadoop-[0-9]*": ".class", "spark-catalyst_*": "/SQLConf$.class"}.items():
        (jar,) = JARS.glob(pattern)
        with zipfile.ZipFile(jar) as file:
            for entry in file.namelist():
                if entry.endswith(classes) and "/shaded/" not in entry:
                    yield from (
                        found[2][: int.from_bytes(found[1], "big")].decode()
                        for found in NAME.finditer(file.read(entry))
                    )


def test_every_setting_that_the_jars_know_is_in_the_table() -> None:
    names = set(names_in_jars())
    assert {"parquet.page.size", "parquet.encryption.footer.key", "spark.sql.parquet.writeLegacyFormat"} < names
    assert {name for name in names if setting_named(name) is None} == set()


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Three thousand rows in one task: few and many different values, a decimal, a moment."""
    plain = spark.range(3_000).selectExpr(
        *("id", "id % 50 AS few", "CAST(id AS STRING) AS text", "CAST(id AS DECIMAL(10,2)) AS price"),
        *("timestamp_seconds(id) AS at", "named_struct('x', id) AS inside"),
    )
    return plain.select(plain["id"].alias("id", metadata=ID), *plain.columns[1:]).coalesce(1)


def write_ours(rows: DataFrame, file: Path) -> tuple[str, ...]:
    """Write rows as the planner would have a worker do it; returns the notes."""
    spark = rows.sparkSession
    settings = FileSettings(TABLE, open_gateway(spark).file_settings())
    options = file_options(
        TABLE, lambda name, default: spark.conf.get(name, default) or default, settings, rows.schema.json(), "4.3.0"
    )
    table = rows.toArrow()
    with file.open("wb") as sink:
        encoder = ParquetFile(sink, table, options)
        encoder.write(table)
        encoder.close()
    return settings.notes()


def facts(spark: SparkSession, file: Path) -> dict[str, Any]:
    """Return what two readers say of a file: pyarrow of its footer, Java's of its pages."""
    metadata = pq.read_metadata(file)
    first = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    java: Any = spark.sparkContext._jvm
    path = java.org.apache.hadoop.fs.Path(f"file://{file}")
    reader = java.org.apache.parquet.hadoop.ParquetFileReader.open(
        java.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
            path, spark.sparkContext._jsc.hadoopConfiguration()
        )
    )
    chunk = reader.getFooter().getBlocks().get(0).getColumns().get(2)
    pages = reader.readOffsetIndex(chunk).getPageCount()
    schema = str(reader.getFooter().getFileMetaData().getSchema())
    has_bloom_filter = chunk.getBloomFilterOffset() >= 0
    offset = chunk.getFirstDataPageOffset()
    reader.close()
    stream = java.java.io.ByteArrayInputStream(file.read_bytes()[offset:])
    header = java.org.apache.parquet.format.Util.readPageHeader(stream)
    return {
        "groups": [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)],
        "columns": schema.replace("required ", "optional ").splitlines()[1:],  # as Spark has them in a table
        "codecs": {column.compression for column in first},
        "dictionary": first[1].has_dictionary_page,  # of few values
        "statistics": [bool(column.is_stats_set) for column in first if column.physical_type != "INT96"],
        "several pages": pages > 1,
        "page": (str(header.getType()), bool(header.isSetCrc())),
        "Bloom filter": has_bloom_filter,
    }


@pytest.mark.parametrize(
    ("settings", "differ"),
    [
        ({}, set()),
        ({"spark.sql.parquet.compression.codec": "gzip"}, set()),
        ({"parquet.page.size": "2000", "parquet.page.size.row.check.min": "10"}, set()),
        ({"parquet.block.row.count.limit": "1000"}, set()),
        ({"parquet.enable.dictionary": "false", "parquet.page.write-checksum.enabled": "false"}, set()),
        ({"parquet.enable.dictionary#few": "false", "parquet.column.statistics.enabled#text": "false"}, set()),
        ({"parquet.dictionary.page.size": "64", "parquet.column.statistics.enabled": "false"}, set()),
        ({"parquet.writer.version": "PARQUET_2_0"}, set()),
        ({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}, set()),
        ({"spark.sql.parquet.writeLegacyFormat": "true", "spark.sql.parquet.fieldId.write.enabled": "false"}, set()),
        ({"parquet.bloom.filter.enabled#text": "true"}, {"Bloom filter"}),
    ],
    ids=str,
)
def test_a_file_is_as_sparks_own_but_for_what_the_note_says(
    spark: SparkSession, rows: DataFrame, tmp_path: Path, settings: Mapping[str, str], differ: set[str]
) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        rows.write.parquet(f"file://{tmp_path}/spark")
        notes = write_ours(rows, tmp_path / "ours.parquet")
    finally:
        for name in settings:
            spark.conf.unset(name)
    (file,) = (tmp_path / "spark").glob("*.parquet")
    ours, sparks = facts(spark, tmp_path / "ours.parquet"), facts(spark, file)
    assert {name: fact for name, fact in ours.items() if name not in differ} == {
        name: fact for name, fact in sparks.items() if name not in differ
    }
    assert {name for name in ours if ours[name] != sparks[name]} == differ
    noted = {name.partition("#")[0] for name in settings} & {
        one.name for one in SETTINGS if one.outcome is Outcome.NOTE
    }
    assert all(any(name in note for note in notes) for name in noted)
    assert bool(notes) is bool(noted)


def ddl(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())


WAYS: Mapping[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "the session": ("USING parquet", {}, FACTORY | KEY),
    "hadoopConfiguration": ("USING parquet", FACTORY | KEY, {}),
    "OPTIONS": (f"USING parquet OPTIONS ({ddl(FACTORY | KEY)})", {}, {}),
    "TBLPROPERTIES": (f"USING parquet TBLPROPERTIES ({ddl(KEY)})", {}, FACTORY),
    "a table of Hive's": (f"STORED AS PARQUET TBLPROPERTIES ({ddl(KEY)})", {}, FACTORY),
}


@pytest.mark.parametrize("way", first_fast(WAYS, 2))
def test_encryption_is_done_or_refused_whoever_asks_for_it(
    spark: SparkSession, lakehouse: Lakehouse, lakehouse_database: str, way: str
) -> None:
    table = f"{lakehouse_database}.cards"
    clause, hadoop, session = WAYS[way]
    spark.sql(f"CREATE TABLE {table} (card STRING) {clause}")
    writer = TableWriter(spark)  # before they are set
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in hadoop.items():
        configuration.set(name, value)
    for name, value in session.items():
        spark.conf.set(name, value)
    try:
        frame = spark.createDataFrame([("4111-1111-1111-1111",)], "card STRING")
        with pytest.raises(
            InvalidInputError, match=r"could not encrypt the files of .*org\.example\.NoSuchKms"
        ) as raised:
            writer.append(frame, table)  # so the settings have reached Spark's own writer
        with pytest.raises(InvalidInputError, match="engine='arrow' encrypts nothing"):
            writer.append(frame, table, engine="arrow")
    finally:
        for name in hadoop:
            configuration.unset(name)
        for name in session:
            spark.conf.unset(name)
    assert "hush" not in str(raised.value)
    objects = lakehouse.s3.list_objects_v2(Bucket=lakehouse.bucket).get("Contents", [])
    assert not [entry["Key"] for entry in objects if "/cards/" in entry["Key"] and entry["Key"].endswith(".parquet")]


def _shown(setting: ParquetSetting) -> str:
    return f"`{setting.name}{'*' if setting.name.endswith('.') else ''}{'[#column]' * setting.per_column}`"


def markdown() -> str:
    """Return the table of the documentation; settings of which the same is said share a line."""
    lines = ["| setting | what it sets | what Arrow does |", "|---|---|---|"]
    told = [setting for setting in SETTINGS if setting.outcome is not Outcome.NOTHING]
    for (meaning, outcome), group in groupby(told, key=lambda setting: (setting.meaning, setting.outcome)):
        names = map(_shown, group)
        lines.append(f"| {', '.join(names)} | {meaning} | {outcome.value} |")
    meanings = "; ".join(NOTHING_IN_A_FILE)
    lines.append(f"| {sum(map(len, NOTHING_IN_A_FILE.values()))} others | {meanings} | {Outcome.NOTHING.value} |")
    return "\n".join(lines)


def test_the_page_shows_the_table() -> None:
    assert markdown() in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    print(markdown())
