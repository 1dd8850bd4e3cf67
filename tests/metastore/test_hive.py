"""What only a real metastore can show: fields that the model does not know, statistics, Spark's own spelling, size."""

from __future__ import annotations

import copy
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.errors import MetastoreError
from table_writer.metastore.connection import Connection
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import Column, Partition, Table, TableName
from table_writer.testing import Lakehouse, MetastoreServer
from table_writer.testing.jars import find_java
from tests.metastore.conftest import FIGURES, World, thrift_table
from tests.metastore.test_contract import ALTER, change

PASSWORD = "changeit"
NOWHERE = TableName("default", "nowhere")


def create_with_foreign_fields(world: World, backdoor: Connection) -> Table:
    name = TableName("default", f"foreign_{id(world)}")
    columns, by = (Column("id", "bigint"), Column("country", "string")), (Column("dt", "string"),)
    location = f"{world.root}/{name.name}"
    native = thrift_table(
        Table(name=name, kind="EXTERNAL_TABLE", location=location, columns=columns, partition_columns=by)
    )
    native.retention = 9
    native.sd.parameters = {"foreign": "sd"}
    native.sd.sortCols = [ttypes.Order("id", 1)]
    native.sd.storedAsSubDirectories = True
    native.sd.skewedInfo = ttypes.SkewedInfo(["country"], [["de"], ["fr"]], {("de",): f"{world.root}/skewed"})
    backdoor.change("create_table", native, table=str(name))
    read = world.metastore.get_table(name)
    assert read is not None
    return read


def test_fields_that_the_model_does_not_know_survive_an_alter(hive: World, backdoor: Connection) -> None:
    table = create_with_foreign_fields(hive, backdoor)
    hive.metastore.add_partitions(table, [hive.partition("1")])
    foreign = copy.deepcopy(hive.read(table, "1").native)
    foreign.lastAccessTime = 7
    foreign.sd.parameters = {"foreign": "partition"}
    foreign.sd.numBuckets = 8
    backdoor.change("alter_partitions", table.name.database, table.name.name, [foreign], table=str(table.name))
    before: Any = hive.read(table, "1").native
    hive.metastore.alter_partitions(table, [change(hive.read(table, "1"), "b")])
    after: Any = hive.read(table, "1").native
    assert after.sd.skewedInfo.skewedColValueLocationMaps == {("de",): f"{hive.root}/skewed"}
    assert after.sd.parameters == {"foreign": "partition"}
    assert (after.lastAccessTime, after.sd.numBuckets, after.sd.sortCols) == (7, 8, [ttypes.Order("id", 1)])
    before.sd.location = f"{hive.root}/b"
    before.parameters = after.parameters
    assert after == before
    assert hive.metastore.get_table(table.name) == table


def test_an_altered_partition_takes_the_columns_and_serde_of_the_table(hive: World, backdoor: Connection) -> None:
    table = hive.table()
    hive.metastore.add_partitions(table, [hive.partition("1"), hive.partition("2")])
    evolved: Any = copy.deepcopy(table.native)
    evolved.sd.cols.append(ttypes.FieldSchema("added", "string", "new"))
    evolved.sd.serdeInfo.parameters["new option"] = "x"
    backdoor.change("alter_table", table.name.database, table.name.name, evolved, table=str(table.name))
    table = hive.metastore.get_table(table.name) or table
    hive.metastore.alter_partitions(table, [change(hive.read(table, "1"), "b")])

    def stored(value: str) -> Any:  # as the server has it: a Partition of ours keeps no columns of its own
        name = str(table.name)
        return backdoor.read("get_partition", table.name.database, table.name.name, [value], table=name)

    altered, untouched = stored("1"), stored("2")
    assert altered.sd.cols == evolved.sd.cols
    assert altered.sd.serdeInfo == evolved.sd.serdeInfo
    assert untouched.sd.cols == evolved.sd.cols[:-1]


def test_our_figures_survive_add_and_alter_and_no_others_appear(hive: World, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("what a listing would count")
    table = hive.table()
    hive.metastore.add_partitions(table, [hive.partition("1"), hive.partition("2", parameters={"numFiles": "7"})])
    assert hive.read(table, "1").parameters.items() >= FIGURES.items()
    assert hive.read(table, "2").parameters["numFiles"] == "1", "without totalSize Hive lists: docs of add_partitions"
    hive.metastore.alter_partitions(table, [change(hive.read(table, "1"), "b", numFiles="8", totalSize="800")])
    assert hive.read(table, "1").parameters.items() >= {**FIGURES, "numFiles": "8", "totalSize": "800"}.items()


@pytest.mark.parametrize(
    "definition",
    [
        "(id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)",
        "(id BIGINT, dt STRING) USING parquet OPTIONS (compression 'zstd') PARTITIONED BY (dt)",
        "(id BIGINT) PARTITIONED BY (dt STRING) STORED AS PARQUET",
    ],
)
def test_partitions_are_spelled_as_by_spark(lakehouse: Lakehouse, lakehouse_database: str, definition: str) -> None:
    name = TableName(lakehouse_database, "spelled")
    lakehouse.spark.sql(f"CREATE TABLE {name} {definition}")
    lakehouse.spark.sql(f"ALTER TABLE {name} ADD PARTITION (dt='theirs')")
    metastore = HiveMetastore(MetastoreSettings(uris=(lakehouse.metastore_uri,)))
    table = metastore.get_table(name)
    assert table is not None
    metastore.add_partitions(table, [Partition(values=("ours",), location=f"{table.location}dt=ours/")])
    read = metastore.get_partitions(table, [("ours",), ("theirs",)])
    ours: Any = read["ours",].native
    theirs: Any = read["theirs",].native
    assert ours.sd.location == theirs.sd.location.replace("theirs", "ours")
    assert ours.parameters.keys() == theirs.parameters.keys()
    ours.sd.location = theirs.sd.location
    assert ours.sd == theirs.sd


def test_tables_that_need_two_calls_are_all_returned(metastore_server: MetastoreServer, backdoor: Connection) -> None:
    database = "many_tables"
    location = "file:/tmp/table_writer_many_tables"
    backdoor.change("create_database", ttypes.Database(database, None, location, {}), table=database)
    for number in range(101):
        name = TableName(database, f"t{number}")
        view = Table(name=name, kind="VIRTUAL_VIEW", location="", columns=(Column("a", "int"),), partition_columns=())
        backdoor.change("create_table", thrift_table(view), table=str(name))
    metastore = HiveMetastore(MetastoreSettings(uris=(metastore_server.uri,)))
    assert {table.name.name for table in metastore.get_tables(database)} == {f"t{number}" for number in range(101)}
    assert metastore.call_counts() == {"get_all_tables": 1, "get_table_objects_by_name_req": 2}


@pytest.mark.slow
def test_five_thousand_partitions_of_a_hundred_columns_pass(hive: World) -> None:
    columns = tuple(Column(f"a_column_of_a_wide_table_{number}", "string", "with a comment") for number in range(100))
    table = hive.table(columns=columns, bucket_columns=())
    values = [(f"{number:05}",) for number in range(5_000)]
    hive.metastore.add_partitions(table, [hive.partition(*one) for one in values])
    read = hive.metastore.get_partitions(table, values)
    hive.metastore.alter_partitions(table, [change(partition, "b") for partition in read.values()])
    counts = hive.metastore.call_counts()
    assert (counts["add_partitions_req"], counts["get_partitions_by_names"], counts[ALTER]) == (1, 20, 1)
    assert set(hive.locations(table).values()) == {"b"}


def make_key(directory: Path, name: str) -> tuple[Path, Path]:
    """Make a self-signed key for 127.0.0.1; return Java's keystore and the certificate in PEM."""
    keystore, certificate = directory / f"{name}.jks", directory / f"{name}.pem"
    keytool = [str(Path(find_java()).with_name("keytool")), "-keystore", str(keystore), "-storepass", PASSWORD]
    key = ["-genkeypair", "-alias", name, "-keyalg", "RSA", "-dname", "CN=test", "-ext", "san=ip:127.0.0.1"]
    export = ["-exportcert", "-alias", name, "-rfc", "-file", str(certificate)]
    for options in ([*key, "-storetype", "JKS"], export):
        subprocess.run([*keytool, *options], check=True, capture_output=True)
    return keystore, certificate


def test_a_metastore_with_tls_is_reached_and_verified(tmp_path: Path) -> None:
    keystore, certificate = make_key(tmp_path, "metastore")
    _, foreign_certificate = make_key(tmp_path, "foreign")
    settings = {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(keystore),
        "hive.metastore.keystore.password": PASSWORD,
    }
    server = MetastoreServer(settings=settings)
    try:
        server.launch()
        trusting = MetastoreSettings(uris=(server.uri,), user="etl", tls=True, ca_file=str(certificate))
        metastore = HiveMetastore(trusting)
        wait_until_reachable(metastore)
        for _ in range(3):
            assert metastore.get_table(NOWHERE) is None
        assert metastore.call_counts() == {"set_ugi": 1, "get_table_req": 4}, (
            "a quiet connection was taken for a stale one"
        )
        with pytest.raises(MetastoreError, match="CERTIFICATE_VERIFY_FAILED"):
            HiveMetastore(replace(trusting, ca_file=str(foreign_certificate))).get_table(NOWHERE)
    finally:
        server.stop()


def wait_until_reachable(metastore: HiveMetastore) -> None:
    for _ in range(600):
        try:
            metastore.get_table(NOWHERE)
        except MetastoreError:
            time.sleep(0.2)
        else:
            return
    pytest.fail("the metastore with TLS did not start")
