"""Writers with and without Spark append to one table at once, and one is killed: no acknowledged row is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse

APPENDS = """
import json, sys
import pyarrow as pa
from table_writer import ArrowWriter, ConflictError, TableWriterConfig

uri, hadoop, table, first, count = json.loads(sys.argv[1])
config = TableWriterConfig(hadoop=hadoop, publish_timeout_seconds=25, metastore_timeout_seconds=10, progress="off")
writer = ArrowWriter(uri, config=config)
for number in range(first, first + count):
    rows = pa.table({"id": [number, number], "dt": [f"d{number % 2}", "both"]})
    print("begins", number, flush=True)
    writer.append(rows, table)
    print("published", number, flush=True)
"""


def begun(lakehouse: Lakehouse, settings: TableWriterConfig, table: str, first: int, count: int) -> Any:
    """Start a process that appends, and tells what it has published."""
    given = json.dumps([lakehouse.metastore_uri, dict(settings.hadoop), table, first, count])
    command = [sys.executable, "-c", textwrap.dedent(APPENDS), given]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def numbers(told: str, what: str) -> set[int]:
    return {int(line.split()[1]) for line in told.splitlines() if line.startswith(what)}


def test_both_kinds_append_at_once_and_one_is_killed(
    lakehouse: Lakehouse,
    settings: TableWriterConfig,
    writer: TableWriter,
    spark: SparkSession,
    make_table: Callable[..., str],
    listed: Callable[..., list[tuple[Any, ...]]],
    keeper: Maintenance,
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)", "shared")
    by_spark = set()
    with begun(lakehouse, settings, table, 100, 6) as steady, begun(lakehouse, settings, table, 200, 1000) as killed:
        told_by_killed = [killed.stdout.readline() for _ in range(5)]  # in the middle of its third append
        killed.send_signal(signal.SIGKILL)
        for number in range(3):
            rows = spark.createDataFrame([(number, f"d{number % 2}"), (number, "both")], "id BIGINT, dt STRING")
            writer.append(rows, table)
            by_spark.add(number)
        told, _ = steady.communicate(timeout=120)
        rest, _ = killed.communicate(timeout=30)
    assert steady.returncode == 0
    told_by_killed.append(rest)
    keeper.recover(table)
    acknowledged = by_spark | numbers(told, "published") | numbers("".join(told_by_killed), "published")
    begun_ones = by_spark | numbers(told, "begins") | numbers("".join(told_by_killed), "begins")
    seen = listed(table)
    assert len(seen) == len(set(seen)), "no row is there twice"
    ids = {row[0] for row in seen}
    assert acknowledged <= ids <= begun_ones
    assert all((number, "both") in seen and (number, f"d{number % 2}") in seen for number in ids), "whole appends"
    assert len(acknowledged) >= 11


WITHOUT_PYSPARK = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import pyarrow as pa
from table_writer import ArrowWriter, Maintenance, TableWriterConfig

uri, hadoop, table = json.loads(sys.argv[1])
config = TableWriterConfig(hadoop=hadoop, progress="off")
rows = pa.table({"id": [1, 2], "dt": ["d1", "d2"]})
with ArrowWriter(uri, config=config) as writer:
    writer.append(rows, table)
    print(writer.plan(rows, table).ok, writer.overwrite_partitions(rows.slice(1), table).version)
    print(Maintenance(uri, config=config).publish(table, writer.stage(rows, table).summary.write_id).rows)
"""


def test_a_write_needs_no_pyspark(
    lakehouse: Lakehouse,
    settings: TableWriterConfig,
    make_table: Callable[..., str],
    listed: Callable[..., list[tuple[Any, ...]]],
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)", "alone")
    given = json.dumps([lakehouse.metastore_uri, dict(settings.hadoop), table])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK, given], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["True", "2", "2"], done.stderr
    assert listed(table) == [(1, "d1"), (2, "d2")]
