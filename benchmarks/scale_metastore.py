"""What one changing call of many partitions takes on a real metastore: the server's time, and what the client adds."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hmsclient.genthrift.hive_metastore import ttypes

from benchmarks.scale_world import PARTITION_COLUMNS, partition
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table, TableName

COLUMNS = 100
FIGURES = {"numFiles": "20", "numRows": "1000000", "totalSize": "123456789", "rawDataSize": "987654321"}
TIMEOUT_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Call:
    """Wall time of a call, and the processor time of this process in it: waiting for the server costs none."""

    seconds: float
    client_seconds: float
    calls: int


def measure(uri: str, directory: Path, partitions: int) -> dict[str, Call]:
    """Add, read and alter so many partitions of a new table of 100 columns."""
    metastore = HiveMetastore(MetastoreSettings(uris=(uri,), timeout_seconds=TIMEOUT_SECONDS))
    table = _create(metastore, f"scale_{partitions}", directory)
    values = [partition(number) for number in range(partitions)]
    found: dict[str, Call] = {}

    def timed(name: str, action: Callable[[], object]) -> object:
        calls, began, used = sum(metastore.call_counts().values()), time.perf_counter(), time.process_time()
        answer = action()
        found[name] = Call(
            seconds=time.perf_counter() - began,
            client_seconds=time.process_time() - used,
            calls=sum(metastore.call_counts().values()) - calls,
        )
        return answer

    added = [Partition(values=one, location=f"{table.location}empty/", parameters=FIGURES) for one in values]
    timed("add", lambda: metastore.add_partitions(table, added))
    now: dict[PartitionValues, Partition] = {}
    timed("read", lambda: now.update(metastore.get_partitions(table, values)))
    changes = [_moved(table, one) for one in now.values()]
    timed("alter", lambda: metastore.alter_partitions(table, changes))
    assert len(changes) == partitions
    metastore.close()
    return found


def _moved(table: Table, known: Partition) -> PartitionChange:
    return PartitionChange(
        partition=known,
        location=f"{table.location}_table_writer/data/w2/{'/'.join(known.values)}/",
        set_parameters={**FIGURES, "table_writer.version": "2", "table_writer.write_id": "w2"},
        removed_parameters=frozenset(),
    )


def _create(metastore: HiveMetastore, name: str, directory: Path) -> Table:
    location = directory / name
    (location / "empty").mkdir(parents=True)
    formats = "org.apache.hadoop.hive.ql.io.parquet"
    storage = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(f"column_{number}", "bigint", "") for number in range(COLUMNS)],
        location=f"file://{location}",
        inputFormat=f"{formats}.MapredParquetInputFormat",
        outputFormat=f"{formats}.MapredParquetOutputFormat",
        serdeInfo=ttypes.SerDeInfo(
            serializationLib=f"{formats}.serde.ParquetHiveSerDe", parameters={"serialization.format": "1"}
        ),
        parameters={},
        bucketCols=[],
        sortCols=[],
        numBuckets=-1,
    )
    native = ttypes.Table(
        tableName=name,
        dbName="default",
        owner="benchmark",
        sd=storage,
        partitionKeys=[ttypes.FieldSchema(column, "string", "") for column in PARTITION_COLUMNS],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
    metastore._connection.change("create_table", native, table=name)
    table = metastore.get_table(TableName("default", name))
    assert table is not None
    return table


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
