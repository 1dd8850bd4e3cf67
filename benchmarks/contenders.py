"""Who writes: for each, the settings its application starts with, its kind of table and its statement."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import pyspark
from pyspark.sql import DataFrame, SparkSession

from benchmarks.cases import Case
from table_writer import TableWriter
from table_writer.testing.jars import resolve_jars
from tests.comet.settings import comet_settings

Layout = Literal["task", "hash"]
DELTA: Final = ("delta", ("io.delta:delta-spark_4.1_2.13:4.4.0",), True)
ICEBERG: Final = ("iceberg", ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",), True)
# Without what it depends on: connectors to other clouds. Its mere presence turns the magic committer on.
HADOOP_CLOUD: Final = ("hadoop-cloud", ("org.apache.spark:spark-hadoop-cloud_2.13:4.1.2",), False)
JarSet = tuple[str, tuple[str, ...], bool]

_S3A_COMMITTERS: Final = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
}
_ICEBERG_CATALOG: Final = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.iceberg": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.iceberg.type": "hive",  # the metastore of all others, its address from hive.metastore.uris
    "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",  # this metastore has no tables for locks
}
_ICEBERG_NOTE: Final = "³ commits by compare and set, without the metastore's locks, which would be some calls more"


def insert_overwrite(rows: DataFrame, table: str, case: Case) -> None:
    """Replace partitions by INSERT OVERWRITE; which ones is up to partitionOverwriteMode."""
    rows.write.insertInto(table, overwrite=True)


def insert_into(rows: DataFrame, table: str, case: Case) -> None:
    """INSERT INTO: the committer's conflict mode decides what happens to rows that are there."""
    rows.write.insertInto(table)


def overwrite_v2(rows: DataFrame, table: str, case: Case) -> None:
    """Replace partitions by the second version of Spark's data sources."""
    rows.writeTo(table).overwritePartitions()


def overwrite_with_table_writer(rows: DataFrame, table: str, case: Case) -> object:
    """All of a write, metastore and log included."""
    writer = _writer(rows.sparkSession)
    return (writer.overwrite_partitions if case.partition_by else writer.overwrite_table)(rows, table)


def overwrite_by_hash(rows: DataFrame, table: str, case: Case) -> object:
    """Do so after a shuffle that brings all rows of a partition to one task."""
    return _writer(rows.sparkSession).overwrite_partitions(rows, table, distribution="hash")


@functools.cache
def _writer(spark: SparkSession) -> TableWriter:
    return TableWriter(spark)


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to overwrite."""

    name: str
    title: str
    write: Callable[[DataFrame, str, Case], Any]
    layout: Layout = "task"  # a file for each task and partition, or for each partition
    ours: bool = False
    using: str = "parquet"
    catalog: str = ""  # with a dot at its end
    properties: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    jar_sets: tuple[JarSet, ...] = ()
    plugin: Callable[[], Mapping[str, str]] = dict  # settings of one, whose jar is fetched for them
    only_partitioned: bool = False
    only_from_files: bool = False
    note: str = ""

    def jars(self) -> tuple[Path, ...]:
        """Return the jars it needs beside those of S3A."""
        return tuple(
            path for name, these, all_of in self.jar_sets for path in resolve_jars(name, these, transitive=all_of)
        )

    def table(self, name: str) -> str:
        """Return a table's full name, as its statements have it."""
        return f"{self.catalog}default.{name}_by_{self.name.replace('-', '_')}"

    def create_statement(self, case: Case, table: str, location: str) -> str:
        """Return the statement that makes its table for a case."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in self.properties.items())
        extra = f"TBLPROPERTIES ({properties})" if properties else ""
        return (
            f"CREATE TABLE {table} ({case.columns}) USING {self.using} {case.partition_clause}"
            f" LOCATION '{location}' {extra}"
        ).strip()


CONTENDERS: Final = {
    contender.name: contender
    for contender in (
        Contender(
            name="spark-v1",
            title="Spark, FileOutputCommitter v1",
            write=insert_overwrite,
            settings={"spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1"},
        ),
        Contender(
            name="spark-v2",
            title="Spark, FileOutputCommitter v2",
            write=insert_overwrite,
            settings={"spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2"},
        ),
        Contender(
            name="s3a-magic",
            title="S3A magic ¹",
            write=insert_overwrite,
            settings={
                **_S3A_COMMITTERS,
                "spark.hadoop.fs.s3a.committer.name": "magic",
                "spark.hadoop.fs.s3a.committer.magic.enabled": "true",
                "spark.sql.sources.partitionOverwriteMode": "static",
            },
            jar_sets=(HADOOP_CLOUD,),
            note="¹ refuses dynamic overwrite: measured in static mode, which first empties the whole table",
        ),
        Contender(
            name="s3a-partitioned",
            title="S3A partitioned, replace ²",
            write=insert_into,
            settings={
                **_S3A_COMMITTERS,
                "spark.hadoop.fs.s3a.committer.name": "partitioned",
                "spark.hadoop.fs.s3a.committer.staging.conflict-mode": "replace",
            },
            jar_sets=(HADOOP_CLOUD,),
            only_partitioned=True,
            note="² INSERT INTO: it replaces the files of the partitions that get rows",
        ),
        Contender(
            name="delta",
            title="Delta 4.4, dynamic overwrite",
            write=insert_overwrite,
            using="delta",
            settings={
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            },
            jar_sets=(DELTA,),
        ),
        Contender(
            name="iceberg",
            title="Iceberg 1.12, none + fanout ³",
            write=overwrite_v2,
            using="iceberg",
            catalog="iceberg.",
            properties={"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"},
            settings=_ICEBERG_CATALOG,
            note=_ICEBERG_NOTE,
            jar_sets=(ICEBERG,),
        ),
        Contender(name="table-writer", title="table_writer", write=overwrite_with_table_writer, ours=True),
        Contender(
            name="table-writer-comet",
            title="table_writer under Comet 1.2 ⁴",
            write=overwrite_with_table_writer,
            ours=True,
            plugin=comet_settings,
            only_from_files=True,
            note="⁴ a native engine: it runs queries over files, and hands their batches to Python as they are",
        ),
        Contender(
            name="iceberg-hash",
            title="Iceberg 1.12, its default (hash) ³",
            write=overwrite_v2,
            layout="hash",
            using="iceberg",
            catalog="iceberg.",
            settings=_ICEBERG_CATALOG,
            note=_ICEBERG_NOTE,
            jar_sets=(ICEBERG,),
            only_partitioned=True,
        ),
        Contender(
            name="table-writer-hash",
            title="table_writer, hash",
            write=overwrite_by_hash,
            layout="hash",
            ours=True,
            only_partitioned=True,
        ),
    )
}
ON_REQUEST: Final = ("spark-v1",)  # twice as slow as v2 on S3, which nobody would choose
PAIR: Final = ("spark-v2", "table-writer")  # who writes the other shapes of data, unless asked for more


def check_spark() -> None:
    """Refuse a Spark for which the peers have no release."""
    if not pyspark.__version__.startswith("4.1."):
        raise SystemExit(
            f"the benchmark needs Spark 4.1, the newest that every peer is released for; this is {pyspark.__version__}:"
            " `make bench` makes an environment that has it"
        )


def chosen(names: Sequence[str]) -> list[Contender]:
    """Return contenders by name, in the table's order."""
    return [contender for contender in CONTENDERS.values() if contender.name in names]
