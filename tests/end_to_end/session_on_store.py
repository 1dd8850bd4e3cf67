"""A Spark application of its own on another store: a table, writes, Spark's own reads; prints what they saw as JSON.

On Azurite Hadoop's connector is in the mode for accounts without a hierarchical namespace, which speaks to the Blob
service; Azurite has no other.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import input_file_name

from table_writer import Maintenance, TableWriter, TableWriterConfig, read_arrow
from table_writer.model.location import Location
from table_writer.storage.azure.store import ABORTED, AzureStore
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import open_store
from table_writer.testing.jars import resolve_jars, s3a_jars
from table_writer.testing.servers import MetastoreServer
from tests.azurite import AzuriteServer
from tests.fake_gcs import FakeGcsServer
from tests.seaweedfs import SeaweedServer

CONNECTOR: Final = ("org.apache.hadoop:hadoop-azure:3.5.0",)  # of the Hadoop that Spark 4.3 carries
GOOGLES_CONNECTOR: Final = ("com.google.cloud.bigdataoss:gcs-connector:4.0.4:jar:shaded",)  # Hadoop's has one address
EXCLUDES: Final = ("org.apache.hadoop:hadoop-common", "org.slf4j:*", "org.apache.httpcomponents:*", "commons-logging:*")
BLOB_SERVICE: Final = {
    "fs.azure.fns.account.service.type": "BLOB",
    "fs.azure.account.hns.enabled": "false",
    "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",  # the other one wants TLS
}
JSON_API: Final = {
    "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "fs.gs.client.type": "HTTP_API_CLIENT",  # the other one speaks gRPC
    "fs.gs.project.id": "lakehouse",
    "fs.gs.block.size": "67108864",  # Hadoop 3.5's defaults, "64m" and so on, are for its own connector
    "fs.gs.rewrite.max.chunk.size": "536870912",
    "fs.gs.outputstream.buffer.size": "8388608",
    "fs.gs.inputstream.inplace.seek.limit": "8388608",
    "fs.gs.inputstream.min.range.request.size": "2097152",
}
OF_CONNECTORS: Final[Mapping[str, Mapping[str, str]]] = {"azurite": BLOB_SERVICE, "gcs": JSON_API, "seaweedfs": {}}
STORES: Final[Mapping[str, type[AzuriteServer | FakeGcsServer | SeaweedServer]]] = {
    "azurite": AzuriteServer,
    "gcs": FakeGcsServer,
    "seaweedfs": SeaweedServer,
}
TABLE: Final = "orders"
COLUMNS: Final = "id INT, amount DOUBLE, dt STRING"


def main(kind: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = jars_for(kind)
    with STORES[kind]() as server:
        hadoop = {**server.hadoop_settings(), **OF_CONNECTORS[kind]}
        with MetastoreServer(settings=hadoop, jars=jars) as metastore:
            spark = session(hadoop, jars, metastore.uri)
            try:
                found = run(spark, str(server.location("mart/orders")), metastore.uri, hadoop)
                if isinstance(server, AzuriteServer):
                    found |= mirrored(spark, server, metastore.uri, hadoop)
                print(json.dumps(found))
            finally:
                spark._jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # while there is a server to say goodbye to
                spark.stop()


def jars_for(kind: str) -> tuple[Path, ...]:
    if kind == "azurite":
        return resolve_jars("azure", CONNECTOR, excludes=EXCLUDES)
    return resolve_jars("gcs", GOOGLES_CONNECTOR, transitive=False) if kind == "gcs" else s3a_jars()


def session(hadoop: Mapping[str, str], jars: tuple[Path, ...], metastore_uri: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": ",".join(map(str, jars)),
        "spark.hadoop.hive.metastore.uris": metastore_uri,
        **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(spark: SparkSession, location: str, metastore_uri: str, hadoop: dict[str, str]) -> dict[str, object]:
    spark.sql(f"CREATE TABLE {TABLE} ({COLUMNS}) USING parquet PARTITIONED BY (dt) LOCATION '{location}'")
    writer = TableWriter(spark)

    def rows(*given: tuple[int, float, str]) -> DataFrame:
        return spark.createDataFrame(list(given), COLUMNS)

    def seen() -> list[tuple[object, ...]]:
        spark.sql(f"REFRESH TABLE {TABLE}")
        return [tuple(row) for row in spark.table(TABLE).orderBy("dt", "id").collect()]

    found: dict[str, object] = {}
    writer.overwrite_partitions(rows((1, 9.5, "d1"), (2, 20.0, "d=2 %ü")), TABLE)
    found["first"] = seen()
    writer.overwrite_partitions(rows((3, 1.0, "d=2 %ü")), TABLE)
    found["overwritten"] = seen()
    writer.append(rows((4, 2.0, "d1")), TABLE)
    found["appended"] = seen()
    writer.append(rows((5, 3.0, "d1")), TABLE, carry="in_place")
    found["appended in place"] = seen()
    found["beside the mark of an abort"] = with_a_mark(spark, location, hadoop, seen)
    report = writer.compact(TABLE, where="dt = 'd1'", min_files=2)
    found["compacted"] = [len(report.partitions), seen()]
    keeper = Maintenance(metastore_uri, config=TableWriterConfig(hadoop=hadoop, progress="off"))
    keeper.rollback(f"default.{TABLE}", version=2)
    found["rolled back"] = seen()
    vacuumed = keeper.vacuum(f"default.{TABLE}", older_than=timedelta(0), force=True)
    found["vacuumed"] = [len(vacuumed.deleted) > 0, list(vacuumed.failures)]
    found["after the vacuum"] = seen()
    dataset = read_arrow(f"default.{TABLE}", metastore_uri=metastore_uri, config=TableWriterConfig(hadoop=hadoop))
    as_arrow = dataset.to_table(columns=["id", "amount", "dt"]).sort_by([("dt", "ascending"), ("id", "ascending")])
    found["as arrow"] = [list(row.values()) for row in as_arrow.to_pylist()]
    certified = keeper.certify(f"{location.partition('/mart/')[0]}/proof", races=20, kills=2).proofs
    found["not held"] = [
        f"{proof.promise}: {proof.message}" for proof in certified if proof.state in ("broken", "failed")
    ]
    findings = writer.doctor(TABLE).findings
    found["wrong"] = [f"{one.check}: {one.message}" for one in findings if one.status not in ("ok", "note")]
    return found


def mirrored(
    spark: SparkSession, server: AzuriteServer, metastore_uri: str, hadoop: dict[str, str]
) -> dict[str, object]:
    """Return what delta-rs reads of a mirror there, in its own way to the store."""
    Maintenance(metastore_uri, config=TableWriterConfig(hadoop=hadoop)).mirror(f"default.{TABLE}", as_="delta")
    writer = TableWriter(spark, config=TableWriterConfig(mirrors=["delta"]))
    writer.append(spark.table(TABLE).where("id = 1"), TABLE)
    access = {"account_name": server.account, "account_key": server.key, "endpoint": server.account_url}
    options = {**{f"azure_storage_{name}": value for name, value in access.items()}, "azure_allow_http": "true"}
    delta = DeltaTable(f"az://{server.container}/mart/orders", storage_options=options)
    rows = pa.table(QueryBuilder().register("t", delta).execute("SELECT id, amount, dt FROM t")).to_pylist()
    spark.sql(f"REFRESH TABLE {TABLE}")
    return {
        "in the mirror": sorted(map(str, (list(row.values()) for row in rows))),
        "in the table": sorted(map(str, (list(row) for row in spark.table(TABLE).collect()))),
    }


def with_a_mark(spark: SparkSession, location: str, hadoop: dict[str, str], seen: Callable[[], object]) -> object:
    """Read while an abort on Azure has its empty file in the directory of a live partition, as after a crash."""
    store = open_store(settings_for(Location.parse(location), hadoop))
    if not isinstance(store, AzureStore):
        return seen()
    live = next(row[0] for row in spark.table(TABLE).where("dt = 'd1'").select(input_file_name()).collect())
    blob = store.client.get_blob_client(f"{Location.parse(live.rpartition('/')[0]).key}part-00009-late.parquet")
    blob.commit_block_list([], metadata={ABORTED: "1"})
    try:
        return seen()
    finally:
        blob.delete_blob()


if __name__ == "__main__":
    main(sys.argv[1])
