"""The rows of an older version, as a DataFrame over files that the catalog does not know any more.

Spark prunes partitions before it lists files only through a ``FileIndex``, which is an interface of the JVM. A proxy in
Python would be called from Spark's own threads, so the class is Java, compiled by the compiler of Spark's own generated
code. It lists when a query is planned, and refuses a partition that does not hold its files, however they went.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache, reduce
from importlib import resources
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StringType, StructField

from table_writer.errors import InvalidInputError, MetastoreError
from table_writer.model.table import NULL_PARTITION, PastPartition, Table
from table_writer.protocol.table.past import ADVICE, CHANGED
from table_writer.spark.files import SOURCES, native_options, native_writer, with_fields
from table_writer.spark.gateway import ALL_OR_NOTHING, native_provider
from table_writer.spark.sql import SPARK_ERRORS, quoted, spark_sentence

FORGIVING: Final = ("spark.files.ignoreMissingFiles", "spark.files.ignoreCorruptFiles")
ONE_FILE: Final = "__table_writer_file"  # a partition column for tables without any: each file is its own partition
METADATA: Final = "_metadata"  # the hidden column of a relation of files
SOURCE: Final = "TableWriterPast.java"
PAST_FILES, PAST_ROWS = "TableWriterPast$Files", "TableWriterPast$Rows"  # its classes


class PastRows:
    """Reads one table's older rows."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self._spark = spark
        self._table = table
        self._session: Any = spark._jsparkSession  # noqa: SLF001  # PySpark has no public way to any of this
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # the same
        self._java: Any = spark.sparkContext._jvm  # noqa: SLF001  # the same
        catalyst = self._package("org.apache.spark.sql.catalyst")
        identifier = catalyst.TableIdentifier(table.name.name, self._option(table.name.database))
        try:
            self._table_metadata = self._session.sessionState().catalog().getTableMetadata(identifier)
        except SPARK_ERRORS as error:
            raise MetastoreError(
                f"Spark cannot read the description of {table.name}: {spark_sentence(error)}", table=str(table.name)
            ) from error

    def read(
        self, subject: str, partitions: Sequence[PastPartition], *, whole: bool = False, file_column: str = ""
    ) -> DataFrame:
        """Return the rows, with data columns first, then partition columns: one relation, however many partitions.

        ``whole`` says that there were no other partitions then: one that comes later changes what the query would read.
        """
        if schema := next((partition.schema for partition in partitions if partition.schema), ""):
            then = self._java.org.apache.spark.sql.types.DataType.fromJson(schema)
            self._table_metadata = with_fields(self._table_metadata, schema=(3, then))
        table, described = self._table, self._table_metadata
        sizes = [partition.bytes for partition in partitions]
        usual = self._session.sessionState().conf().defaultSizeInBytes()  # Spark's own for what nobody knows
        size = usual if None in sizes else sum(size_bytes for size_bytes in sizes if size_bytes is not None)
        provider = native_provider(table)
        try:
            thread = self._java.java.lang.Thread.currentThread()
            classes = _compiled_classes(
                self._gateway, thread.getContextClassLoader(), self._session.getClass().getName()
            )
            index = self._new(
                classes.loadClass(PAST_FILES),
                self._session,
                described,
                self._as_json(partitions),
                subject,
                f"{CHANGED}. {ADVICE}",
                size,
                whole,
            )
            if provider is None:
                self._require_strict()
                relation = self._new(
                    classes.loadClass(PAST_ROWS), self._session, index, self._by_file(), described.schema()
                )
            else:
                relation = self._native(provider, index)
            rows = DataFrame(self._session.baseRelationToDataFrame(relation), self._spark)
        except SPARK_ERRORS as error:
            raise InvalidInputError(
                f"Spark cannot read {table.name}: {spark_sentence(error)}", table=str(table.name)
            ) from error
        if not provider:
            return self._with_nulls(rows)
        has_paths = file_column and METADATA not in map(str.lower, rows.columns)
        return rows.select("*", F.col(f"{METADATA}.file_path").alias(file_column)) if has_paths else rows

    def _with_nulls(self, rows: DataFrame) -> DataFrame:
        """Return null where Hive's reader says how the directory of null is named: partitions are chosen by null."""
        names = {column.name.lower() for column in self._table.partition_columns}

        def with_nulls(field: StructField) -> Column | str:
            if field.name.lower() not in names or not isinstance(field.dataType, StringType):
                return quoted(field.name)
            column = F.col(quoted(field.name))
            # a CHAR stays one
            return F.when(column != NULL_PARTITION, column).alias(field.name, metadata=field.metadata)

        return rows.select(*map(with_nulls, rows.schema))

    def _native(self, provider: str, index: Any) -> Any:
        file_format = native_writer(self._spark, provider)
        if file_format is None:
            raise InvalidInputError(f"{provider} does not keep files: {self._table.name} has no older rows to read")
        options = {**native_options(self._table, provider, self._table_metadata), **ALL_OR_NOTHING}
        return self._package(SOURCES).HadoopFsRelation(
            index,
            self._table_metadata.partitionSchema(),
            self._table_metadata.dataSchema(),
            self._option(None),  # buckets: their number is that of today
            file_format,
            self._java.PythonUtils.toScalaMap(options),
            self._session,
        )

    def _as_json(self, partitions: Sequence[PastPartition]) -> str:
        names = list(self._table_metadata.partitionSchema().fieldNames())
        return json.dumps(
            [
                {
                    "spec": dict(zip(names, partition.values, strict=True)),
                    "name": partition.name,
                    "location": partition.location,
                    "files": partition.files,
                    "bytes": partition.bytes,
                    "only": None if partition.only is None else sorted(partition.only),
                    "without": sorted(partition.without),
                    "until": partition.written_until and int(partition.written_until.timestamp() * 1000),
                }
                for partition in partitions
            ]
        )

    def _require_strict(self) -> None:
        """Refuse settings of the context, which cannot be set otherwise for one read."""
        settings: Any = self._spark.sparkContext._jsc.getConf()  # noqa: SLF001  # PySpark copies all of them
        for name in FORGIVING:
            if settings.get(name, "false").lower() == "true":
                raise InvalidInputError(
                    f"{name}=true lets Hive's reader pass over files that a vacuum deletes meanwhile: start Spark"
                    f" without it to read an older version of {self._table.name}",
                    table=str(self._table.name),
                )

    def _by_file(self) -> Any:
        """Return the relation that the table's SerDe reads, of which each file is a partition."""
        described = self._table_metadata
        if not self._table.partition_columns:
            schema, names = described.schema().add(ONE_FILE, "string"), self._java.PythonUtils.toSeq([ONE_FILE])
            described = with_fields(described, schema=(3, schema), partitionColumnNames=(5, names))
        return self._package("org.apache.spark.sql.execution.command").DDLUtils.readHiveTable(described)

    def _new(self, kind: Any, *values: Any) -> Any:
        array = self._gateway.new_array(self._java.java.lang.Object, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return kind.getConstructors()[0].newInstance(array)

    def _package(self, name: str) -> Any:
        return reduce(getattr, name.split("."), self._java)

    def _option(self, value: Any) -> Any:
        return self._java.scala.Option.apply(value)


@lru_cache(maxsize=1)  # compiling takes 0.4 s
def _compiled_classes(gateway: Any, parent: Any, session: str) -> Any:
    """Return the class loader of the source, which is written for Spark 4 and Scala 2.13, for one JVM."""
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    source = resources.files("table_writer.spark").joinpath(SOURCE).read_text(encoding="utf-8")
    source = source.replace("import org.apache.spark.sql.classic.SparkSession;", f"import {session};")
    if gateway.jvm.scala.util.Properties.versionNumberString().startswith("2.12"):
        source = source.replace("import scala.collection.immutable.Seq;", "import scala.collection.Seq;")
    compiler.cook(source)
    return compiler.getClassLoader()
