"""Files of a table's format at a location that Spark's catalog does not know: written and read back.

PySpark has no public way to write a Hive SerDe or buckets anywhere but into a table of the catalog. Spark's own
commands have, so this file assembles them: the same classes that ``INSERT`` ends in, in every Spark since 3.4.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StringType, StructField, StructType

from table_writer.errors import InvalidInputError, MetastoreError
from table_writer.model.table import NULL_PARTITION, PartitionValues, Table, name_in
from table_writer.model.upload_spec import PROTECTING
from table_writer.model.write import WritePlan
from table_writer.spark.gateway import ALL_OR_NOTHING, native_provider, provider_of
from table_writer.spark.sql import fetched, grouped, quoted, spark_sentence, why_not_encrypted

logger = logging.getLogger(__name__)
SOURCES: Final = "org.apache.spark.sql.execution.datasources"
COMPRESSION: Final = "mapreduce.output.fileoutputformat.compress"  # and .codec, .type: what Hive's writers look at
HIVE_3_BUCKETS: Final = "2"  # the table parameter bucketing_version of tables that Hive 3 has made
PROTOCOL_SETTING: Final = "spark.sql.sources.commitProtocolClass"
PROTOCOL: Final = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
ARTIFACT: Final = "org.apache.spark:spark-hadoop-cloud"
SPARK_WITH_OBSERVERS: Final = 4
LAST_PUBLISHED: Final = (4, 1, 2)  # there is none for Spark 4.2 and 4.3, and this one works with them
CLASSIC: Final[Mapping[str, str]] = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}

MAGIC: Final[Mapping[str, str]] = {
    **CLASSIC,
    "fs.s3a.committer.name": "magic",
    "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "fs.s3a.committer.abort.pending.uploads": "true",  # below the write's own location there are no others
}
"""Hadoop's settings for one job."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Format:
    """A table's file format, as Spark writes and reads it."""

    writer: Any  # Spark's FileFormat
    options: Mapping[str, str] = field(repr=False)
    read: Callable[[Collection[PartitionValues]], DataFrame]


class ClassicFiles:
    """Implements :class:`~table_writer.spark.gateway.SparkFiles` with Py4J."""

    def __init__(self, spark: SparkSession, plan: WritePlan, schema: StructType) -> None:
        self._spark = spark
        self._plan = plan
        self._names = [column.name for column in plan.table.partition_columns]
        data = schema.fields[: len(schema) - len(self._names)]
        # Directories are text, and named as the metastore spells its columns: that is where the publish looks.
        self._stored_schema = StructType([*data, *(StructField(name, StringType()) for name in self._names)])
        self._java: Any = spark.sparkContext._jvm  # noqa: SLF001  # PySpark's only way to Spark's own commands
        self._session: Any = spark._jsparkSession  # noqa: SLF001
        _refuse(plan)
        described = self._table_metadata()
        with _refusals(plan, (PySparkException, Py4JError)):
            self._catalog_table = self._metadata_of_write(described)
            provider = native_provider(plan.table)
            self._format = self._hive_format() if provider is None else self._native_format(provider)

    @property
    def description(self) -> str:
        return native_provider(self._plan.table) or self._plan.table.serde

    def write(self, rows: DataFrame, *, magic: bool) -> int:
        observed = Observation()
        session = for_magic(self._spark) if magic else self._spark
        # Analyzed: a name in the plan stands for what it stood for when the DataFrame was made.
        moved = self._dataframe(rows._jdf.queryExecution().analyzed(), session)  # noqa: SLF001
        counted = moved.observe(observed, F.count(F.lit(1)).alias("rows"))
        named = counted.toDF(*self._stored_schema.names)
        query = named._jdf.queryExecution().analyzed()  # noqa: SLF001
        command = self._package(SOURCES).InsertIntoHadoopFsRelationCommand(
            self._path(str(self._plan.data_location)),
            self._map({}),
            False,
            query.output().takeRight(len(self._names)),
            self._catalog_table.bucketSpec(),
            self._format.writer,
            self._map({**self._format.options, **(MAGIC if magic else CLASSIC)}),
            query,
            self._java.org.apache.spark.sql.SaveMode.Append,
            self._option(None),  # the catalog's table: Spark would add partitions to it
            self._option(None),
            self._sequence(self._stored_schema.names),
        )
        with _refusals(self._plan, (AnalysisException, UnsupportedOperationException)), _encryption_errors(self._plan):
            self._dataframe(command, session)
        return int(observed.get["rows"])

    def read(self, partitions: Collection[PartitionValues]) -> DataFrame:
        frame = self._format.read(partitions)
        return frame.select(*map(quoted, self._stored_schema.names))

    def count(self, partitions: Collection[PartitionValues]) -> dict[PartitionValues, int]:
        counts = grouped(self.read(partitions), {name: _column(name) for name in self._names}, F.count(F.lit(1)))
        return {
            tuple(NULL_PARTITION if value is None else value for value in row[:-1]): row[-1] for row in fetched(counts)
        }

    def _table_metadata(self) -> Any:
        name = self._plan.table.name
        identifier = self._java.org.apache.spark.sql.catalyst.TableIdentifier(name.name, self._option(name.database))
        try:
            return self._session.sessionState().catalog().getTableMetadata(identifier)
        except (PySparkException, Py4JError) as error:
            raise MetastoreError(
                f"Spark cannot read the description of {name}: {spark_sentence(error)} Nothing was written.",
                table=str(name),
                write_id=self._plan.write_id,
            ) from error

    def _metadata_of_write(self, described: Any) -> Any:
        """Return Spark's description of the table with this write's columns and location; the catalog keeps its own."""
        location = self._option(self._path(str(self._plan.data_location)).toUri())
        schema = self._java.org.apache.spark.sql.types.DataType.fromJson(self._stored_schema.json())
        names = self._sequence(self._names)
        return with_fields(
            described,
            storage=(2, with_fields(described.storage(), locationUri=(0, location))),
            schema=(3, schema),
            partitionColumnNames=(5, names),
        )

    def _native_format(self, provider: str) -> _Format:
        """Spark's own file formats: those of ``USING``, and of Hive tables those that Spark converts anyway."""
        found = native_writer(self._spark, provider)
        if found is None:
            raise _refusal(self._plan, f"{provider} does not keep files.")
        options = native_options(self._plan.table, provider, self._catalog_table)
        if provider_of(self._plan.table) == "hive":
            options |= self._hive_buckets()

        def read(_: Collection[PartitionValues]) -> DataFrame:
            reader = (
                self._spark.read.format(provider).options(**{**options, **ALL_OR_NOTHING}).schema(self._stored_schema)
            )
            return reader.load(str(self._plan.data_location))

        return _Format(writer=found, options=options, read=read)

    def _hive_format(self) -> _Format:
        """All other Hive tables: the output format and the SerDe that the table names."""
        hive = self._java.org.apache.hadoop.hive.ql
        client = self._java.org.apache.spark.sql.hive.client.HiveClientImpl
        table = client.toHiveTable(self._catalog_table, self._option(None))
        description = hive.plan.TableDesc(
            table.getInputFormatClass(), table.getOutputFormatClass(), table.getMetadata()
        )
        sink = hive.plan.FileSinkDesc(self._path(str(self._plan.data_location)), description, False)
        conf = self._session.sessionState().newHadoopConf()
        self._require_serializer(description, conf)
        self._insert().setupHadoopConfForCompression(sink, conf, self._session)
        names = (COMPRESSION, f"{COMPRESSION}.codec", f"{COMPRESSION}.type")
        options = {name: conf.get(name) for name in names if conf.get(name) is not None}
        writer = self._java.org.apache.spark.sql.hive.execution.HiveFileFormat(sink)
        return _Format(writer=writer, options=options | self._hive_buckets(), read=self._read_hive)

    def _read_hive(self, partitions: Collection[PartitionValues]) -> DataFrame:
        catalog = self._java.org.apache.spark.sql.catalyst.catalog
        storage = self._catalog_table.storage()

        def described(values: PartitionValues) -> Any:
            location = self._path(str(self._plan.data_location.child(name_in(self._plan.table, values))))
            spec = self._map(dict(zip(self._names, values, strict=True)))
            moved = with_fields(storage, locationUri=(0, self._option(location.toUri())))
            return catalog.CatalogTablePartition(spec, moved, self._map({}), 0, 0, self._option(None))

        known = list(map(described, partitions))
        relation = self._java.org.apache.spark.sql.execution.command.DDLUtils.readHiveTable(self._catalog_table)
        found = with_fields(relation, prunedPartitions=(4, self._option(self._sequence(known))))
        # Hive's scan takes filters on partition columns for its own, and applies none to partitions that it is given:
        # so Spark is told of rows, of which it knows no more.
        scan: Any = self._dataframe(found, self._spark)._jdf  # noqa: SLF001  # the same
        rows = self._session.internalCreateDataFrame(scan.queryExecution().toRdd(), scan.schema(), False)
        return DataFrame(rows, self._spark)

    def _require_serializer(self, description: Any, conf: Any) -> None:
        """Refuse SerDes that only read, and those whose own schema is not the table's: they drop columns in silence.

        PySpark turns Java's UnsupportedOperationException, which is how a SerDe says that it only reads, into its own.
        """
        serde = description.getDeserializer(conf)
        inspector = serde.getObjectInspector()
        fields, columns = inspector.getAllStructFieldRefs().size(), len(self._stored_schema) - len(self._names)
        if fields != columns:
            raise _refusal(
                self._plan,
                f"{self._plan.table.serde} has a schema of its own (a table property, as avro.schema.literal) with"
                f" {fields} columns, these rows have {columns}: change that property first.",
            )
        try:
            serde.serialize(self._java.java.util.ArrayList([None] * columns), inspector)
        except Py4JJavaError as error:  # PySpark has no name for it: a SerDe may refuse nulls, and writes no such row
            logger.debug("write_id=%s %s refuses a row of nulls: %s", self._plan.write_id, serde, spark_sentence(error))

    def _hive_buckets(self) -> dict[str, str]:
        """Bucket numbers by Hive's hash, as Spark's INSERT into Hive tables computes them."""
        return _dict(self._insert().getOptionsWithHiveBucketWrite(self._catalog_table.bucketSpec()))

    def _insert(self) -> Any:
        return getattr(getattr(self._java.org.apache.spark.sql.hive.execution, "InsertIntoHiveTable$"), "MODULE$")

    def _dataframe(self, logical_plan: Any, spark: SparkSession) -> DataFrame:
        """Make a DataFrame of a plan; a command runs at once. The class has moved in Spark 4."""
        dataset = self._package(self._session.emptyDataFrame().getClass().getName())
        return DataFrame(dataset.ofRows(spark._jsparkSession, logical_plan), spark)  # noqa: SLF001

    def _package(self, name: str) -> Any:
        return reduce(getattr, name.split("."), self._java)

    def _path(self, location: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(location)

    def _option(self, value: Any) -> Any:
        return self._java.scala.Option.apply(value)

    def _sequence(self, values: Collection[Any]) -> Any:
        return self._java.PythonUtils.toSeq(list(values))

    def _map(self, values: Mapping[str, str]) -> Any:
        return self._java.PythonUtils.toScalaMap(dict(values))


def _refuse(plan: WritePlan) -> None:
    """Refuse what Spark would write without a word, and others could not read."""
    table = plan.table
    if provider_of(table) != "hive":
        return
    version = table.parameters.get("bucketing_version", "")
    if table.bucket_columns and version == HIVE_3_BUCKETS:
        raise _refusal(plan, f"Hive 3 made its buckets (bucketing_version={version}), whose hash Spark does not know.")


@contextmanager
def _refusals(plan: WritePlan, kinds: tuple[type[Exception], ...]) -> Iterator[None]:
    """Translate what Spark says of a table's format and types before anything is written."""
    try:
        yield
    except kinds as error:
        raise _refusal(plan, spark_sentence(error)) from error


@contextmanager
def _encryption_errors(plan: WritePlan) -> Iterator[None]:
    """Say what failed where it was the encryption of a file, which fails in the first task."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        why = why_not_encrypted(error)
        if not why:
            raise
        raise InvalidInputError(
            f"Spark could not encrypt the files of {plan.table.name}: {why}. Nothing was published. Look at"
            " parquet.encryption.* and parquet.crypto.* of the session and the table; Spark's log has the whole error",
            table=str(plan.table.name),
            write_id=plan.write_id,
        ) from error


def _refusal(plan: WritePlan, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"Spark cannot write {plan.table.name}: {why} Nothing was written.",
        table=str(plan.table.name),
        write_id=plan.write_id,
    )


def native_writer(spark: SparkSession, provider: str) -> Any:
    """Return Spark's ``FileFormat`` of a data source, ``None`` if it keeps no files."""
    context = spark.sparkContext
    conf = spark._jsparkSession.sessionState().conf()  # noqa: SLF001  # PySpark has no public way to it
    sources: Any = reduce(getattr, SOURCES.split("."), context._jvm)  # noqa: SLF001  # the same
    found = sources.DataSource.lookupDataSource(provider, conf).newInstance()
    if is_instance_of(context._gateway, found, f"{SOURCES}.v2.FileDataSourceV2"):  # noqa: SLF001  # the same
        found = found.fallbackFileFormat().newInstance()
    return found if is_instance_of(context._gateway, found, f"{SOURCES}.FileFormat") else None  # noqa: SLF001


def native_options(table: Table, provider: str, described: Any) -> dict[str, str]:
    """Return the options with which Spark reads and writes a table's files, as far as the table names them."""
    options = _dict(described.storage().properties())
    said = {name: value for name, value in table.parameters.items() if name.startswith(f"{provider}.")}
    if provider_of(table) != "hive":  # whose properties Spark passes over; but not where they say what is secret
        said = {name: value for name, value in said.items() if name.lower().startswith(PROTECTING)}
    return said | options


def _dict(scala_map: Any) -> dict[str, str]:
    names, values = scala_map.keys().toSeq(), scala_map.values().toSeq()
    return {names.apply(index): values.apply(index) for index in range(scala_map.size())}


def _column(name: str) -> Column:
    return F.col(quoted(name))


def with_fields(product: Any, **changes: tuple[int, Any]) -> Any:
    """Copy a Scala case class with other fields, each given with its position: Python cannot name Scala's arguments."""
    fields = [product.productElement(index) for index in range(product.productArity())]
    for index, value in changes.values():
        fields[index] = value
    return product.copy(*fields)


def missing_jar(spark: SparkSession) -> str:
    """Return the Maven coordinate of the jar that the magic committer needs; empty where the session has it."""
    java: Any = spark.sparkContext._jvm  # noqa: SLF001  # PySpark has no public way to its class path
    if java.org.apache.spark.util.Utils.classIsLoadable(PROTOCOL):
        return ""
    return jar_for(spark.version, java.scala.util.Properties.versionNumberString())


def jar_for(spark_version: str, scala_version: str) -> str:
    """Return the Maven coordinate of the jar for a version of Spark."""
    version = min(tuple(map(int, re.findall(r"\d+", spark_version)[:3])), LAST_PUBLISHED)
    scala = ".".join(scala_version.split(".")[:2])
    return f"{ARTIFACT}_{scala}:{'.'.join(map(str, version))}"


def for_magic(spark: SparkSession) -> SparkSession:
    """Copy a session with all its settings, and let the copy write through S3A's committers; the original does not.

    Listeners of queries are copied with it. The user's own observations wait for a job of the original session from
    Spark 4 on, so both have one manager of them: else they would wait for ever.
    """
    original: Any = spark._jsparkSession  # noqa: SLF001  # PySpark has no public way to copy a session
    java = original.cloneSession()
    if int(spark.version.partition(".")[0]) >= SPARK_WITH_OBSERVERS:
        observers = java.getClass().getDeclaredField("observationManager")
        observers.setAccessible(True)  # Java knows no names
        observers.set(java, original.observationManager())
    copied = SparkSession(spark.sparkContext, java)
    copied.conf.set(PROTOCOL_SETTING, PROTOCOL)
    return copied
