"""Checks of Spark's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from table_writer.config import TableWriterConfig
from table_writer.model.location import Location
from tests.doctor.conftest import of_check, status_of, with_hadoop
from tests.publish.world import World

ABORT = "spark.hadoop.fs.s3a.committer.abort.pending.uploads"
MAGIC = {"spark.hadoop.fs.s3a.committer.name": "magic"}
FACTORY = {
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
}
PURGE = {"spark.hadoop.fs.s3a.multipart.purge": "true"}
COMET = {
    "spark.plugins": "org.apache.spark.CometPlugin",
    "spark.comet.exec.pyarrowUDF.enabled": "true",
    "spark.memory.offHeap.enabled": "true",
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
}
MIB = 1024**2


@pytest.mark.parametrize(
    ("check", "conf", "status"),
    [
        ("abort.pending.uploads", {}, "ok"),
        ("abort.pending.uploads", {ABORT: "false", **MAGIC}, "ok"),
        ("abort.pending.uploads", {ABORT: "true"}, "error"),
        ("abort.pending.uploads", {ABORT: "TRUE", **MAGIC}, "error"),
        ("abort.pending.uploads", {ABORT.replace("s3a.", "s3a.bucket.lake."): "true"}, "error"),
        ("abort.pending.uploads", {ABORT: "true", ABORT.replace("s3a.", "s3a.bucket.lake."): "false"}, "ok"),
        ("abort.pending.uploads", MAGIC, "warning"),
        ("abort.pending.uploads", FACTORY, "ok"),  # Hadoop's own default, whose committer is the classic one
        ("multipart.purge", {}, "ok"),
        ("multipart.purge", PURGE, "error"),
        ("multipart.purge", {**PURGE, "spark.hadoop.fs.s3a.multipart.purge.age": "48h"}, "error"),
        ("multipart.purge", {**PURGE, "spark.hadoop.fs.s3a.multipart.purge.age": "30d"}, "warning"),
        ("manageFilesourcePartitions", {}, "ok"),
        ("manageFilesourcePartitions", {"spark.sql.hive.manageFilesourcePartitions": "false"}, "error"),
        ("speculation", {"spark.speculation": "true"}, "ok"),
        ("multipart.size", {}, "ok"),
        ("multipart.size", {"spark.hadoop.fs.s3a.multipart.size": "64M"}, "ok"),
        ("multipart.size", {"spark.hadoop.fs.s3a.multipart.size": "1M"}, "error"),
        ("pandas.udf.buffer.size", {}, "ok"),
        ("pandas.udf.buffer.size", {"spark.sql.execution.pandas.udf.buffer.size": "64k"}, "ok"),
        ("pandas.udf.buffer.size", {"spark.sql.execution.pandas.udf.buffer.size": "4194304"}, "warning"),
        ("pandas.udf.buffer.size", {"spark.sql.execution.pandas.udf.buffer.size": "4mb"}, "warning"),
        ("unix domain socket", {"spark.python.unix.domain.socket.enabled": "true"}, "ok"),
        ("unix domain socket", {}, "note"),
        ("Comet", COMET, "ok"),
        ("Comet", {**COMET, "spark.plugins": "a.B, org.apache.spark.CometPlugin"}, "ok"),
        ("Comet", {**COMET, "spark.comet.exec.pyarrowUDF.enabled": "false"}, "warning"),
        ("Comet", {**COMET, "spark.memory.offHeap.enabled": "false"}, "warning"),
        ("Comet", {**COMET, "spark.comet.enabled": "false"}, "warning"),
        ("Comet", {**COMET, "spark.comet.exec.enabled": "False"}, "warning"),
        ("Comet", {**COMET, "spark.shuffle.manager": "sort"}, "warning"),
        ("Comet", {**COMET, "spark.shuffle.manager": "sort", "spark.comet.exec.shuffle.enabled": "false"}, "ok"),
        ("socket timeout", {}, "ok"),
        ("socket timeout", {"spark.hadoop.hive.metastore.client.socket.timeout": "600s"}, "note"),
    ],
)
def test_each_setting_is_judged(world: World, check: str, conf: Mapping[str, str], status: str) -> None:
    assert status_of(with_hadoop(world.services(), {}), check, conf) == status


@pytest.mark.parametrize(
    ("server", "client", "status"),
    [("2.3.10", "2.3.10", "ok"), ("4.0.1", "4.0.1", "ok"), ("4.0.1", "2.3.10", "warning")],
)
def test_a_client_that_can_do_nothing_with_the_metastore_is_named(
    world: World, server: str, client: str, status: str
) -> None:
    services = world.services()
    world.metastore.version = server
    opened = replace(services, session=replace(services.session, hive_client=client))
    [finding] = of_check(opened, "hive client", {})
    assert finding.status == status
    assert ("spark.sql.hive.metastore.version=4.0.1" in finding.advice) is (status == "warning")


JAR = {"spark.jars": "/opt/spark-hadoop-cloud_2.13-4.1.2.jar"}
PROTOCOL = {"spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"}


@pytest.mark.parametrize(
    ("provider", "conf", "statuses"),
    [
        ("parquet", {}, ["ok"]),
        ("orc", {}, ["note"]),
        ("csv", JAR, ["ok"]),
        ("orc", PROTOCOL, ["ok"]),
        ("orc", {**JAR, "spark.hadoop.fs.s3a.committer.magic.enabled": "false"}, ["note"]),
    ],
)
def test_renames_are_told_of_where_spark_itself_writes_the_table(
    world: World, provider: str, conf: Mapping[str, str], statuses: list[str]
) -> None:
    services = with_hadoop(world.services(), {})
    table = replace(services.table, parameters={**services.table.parameters, "spark.sql.sources.provider": provider})
    layout = replace(services.layout, root=Location.parse("s3a://lake/mart/orders"))
    found = of_check(replace(services, table=table, layout=layout), "committer", conf)
    assert [one.status for one in found] == statuses
    assert all("so S3 copies each file twice" in one.message for one in found if one.status == "note")


def test_a_setting_that_cannot_be_read_is_an_error_and_no_crash(world: World) -> None:
    conf = {**PURGE, "spark.hadoop.fs.s3a.multipart.purge.age": "soon"}
    assert status_of(world.services(), "multipart.purge", conf) == "error"


def test_hadoops_own_default_of_aborting_uploads_is_no_error(world: World) -> None:
    """A session's Hadoop settings hold every default, ``abort.pending.uploads=true`` among them."""
    services = with_hadoop(world.services(), {"fs.s3a.committer.abort.pending.uploads": "true"})
    assert status_of(services, "abort.pending.uploads", {}) == "ok"


def test_the_config_says_how_large_parts_are(world: World) -> None:
    services = world.services(TableWriterConfig(part_size_bytes=8 * MIB))
    assert status_of(services, "multipart.size", {"spark.hadoop.fs.s3a.multipart.size": "1M"}) == "ok"


@pytest.mark.parametrize("version", ["4.1.2", "3.5.3"])
def test_unix_sockets_are_recommended_only_where_they_were_measured_to_help(world: World, version: str) -> None:
    assert of_check(with_hadoop(world.services(), {}, version), "unix domain socket", {}) == []


YARN = {"spark.master": "yarn", "spark.executor.cores": "4"}  # 4 × (548 + 200) MiB


@pytest.mark.parametrize(
    ("conf", "status"),
    [
        ({"spark.master": "local[8]"}, "ok"),
        (YARN, "warning"),
        ({**YARN, "spark.executor.memoryOverhead": "2992"}, "ok"),
        ({**YARN, "spark.executor.memoryOverhead": "2991m"}, "warning"),
        ({**YARN, "spark.executor.memoryOverhead": "3g"}, "ok"),
        ({**YARN, "spark.executor.memory": "20g"}, "warning"),
        ({**YARN, "spark.executor.memory": "30g"}, "ok"),
        ({**YARN, "spark.executor.memory": "20g", "spark.executor.memoryOverheadFactor": "0.2"}, "ok"),
        ({**YARN, "spark.master": "k8s://api", "spark.executor.memory": "8g"}, "ok"),
        ({**YARN, "spark.executor.memoryOverhead": "9g", "spark.executor.pyspark.memory": "1g"}, "warning"),
        ({**YARN, "spark.executor.pyspark.memory": "9g"}, "warning"),  # addresses, not memory
        ({**YARN, "spark.executor.pyspark.memory": "10g"}, "ok"),
        ({**YARN, "spark.task.cpus": "4", "spark.executor.memoryOverhead": "748m"}, "ok"),
        ({"spark.master": "yarn", "spark.executor.memoryOverhead": "748m"}, "ok"),  # one core by default
        ({"spark.master": "spark://host:7077"}, "note"),
        ({}, "note"),
        ({"spark.master": "spark://host:7077", "spark.executor.cores": "1"}, "warning"),
    ],
)
def test_the_room_of_python_workers_is_compared_with_the_formula(
    world: World, conf: Mapping[str, str], status: str
) -> None:
    assert status_of(world.services(), "executor memory", conf) == status


def test_memory_advice_names_the_setting_and_its_value(world: World) -> None:
    (finding,) = of_check(world.services(), "executor memory", YARN)
    assert finding.advice == "set spark.executor.memoryOverhead=2992m, or lower buffer_bytes in TableWriterConfig"
    smaller = world.services(TableWriterConfig(buffer_bytes=32 * MIB, upload_threads=2))
    (finding,) = of_check(smaller, "executor memory", {**YARN, "spark.executor.memoryOverhead": "2288m"})
    assert finding.status == "ok", finding


def test_without_comet_nothing_is_said_of_it_and_with_it_all_that_is_missing(world: World) -> None:
    opened = with_hadoop(world.services(), {})
    assert of_check(opened, "Comet", {"spark.comet.exec.pyarrowUDF.enabled": "true"}) == []
    (finding,) = of_check(opened, "Comet", {"spark.plugins": "org.apache.spark.CometPlugin"})
    missing = ", ".join(f"{name}={COMET[name]}" for name in list(COMET)[1:])
    assert finding.advice == f"set {missing} when the session starts"


CODEC = "spark.sql.parquet.compression.codec"
LEVEL = "parquet.compression.codec.zstd.level"


@pytest.mark.parametrize(
    ("versions", "conf", "parameters", "status"),
    [
        (24, {CODEC: "zstd"}, {}, "note"),
        (24, {CODEC: "snappy"}, {"parquet.compression": "ZSTD"}, "note"),
        (23, {CODEC: "zstd"}, {}, "ok"),
        (24, {}, {}, "ok"),
        (24, {CODEC: "zstd"}, {"parquet.compression": "snappy"}, "ok"),
        (24, {CODEC: "zstd"}, {LEVEL: "3"}, "ok"),
        (24, {CODEC: "zstd", f"spark.hadoop.{LEVEL}": "1"}, {}, "ok"),
    ],
)
def test_a_lower_level_is_advised_for_a_table_that_is_written_all_day(
    versions: int, conf: Mapping[str, str], parameters: Mapping[str, str], status: str
) -> None:
    world = World()
    table = world.table
    world.metastore.create_table(
        replace(
            table,
            serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
            parameters={**table.parameters, **parameters},
        )
    )
    for number in range(versions):
        world.write({"d1": frozenset({number})})
    (finding,) = of_check(with_hadoop(world.services(), {}), "compression", conf)
    assert finding.status == status
    if status == "note":
        assert finding.advice.endswith(f"ALTER TABLE {table.name.sql} SET TBLPROPERTIES ('{LEVEL}' = '1')")
