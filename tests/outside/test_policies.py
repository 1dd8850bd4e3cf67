"""Each call works with the policies of the page on permissions, before a server that refuses what they do not allow.

Seen by a user: with the policies of the page a merge was refused, since it copies files that another tool wrote below
``dt=…/``, and so was each write of a table with mirrors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.s3_operations import parse_request
from table_writer import Maintenance, TableWriter, TableWriterConfig, TableWriterError
from table_writer.storage.s3.permissions import ACTIONS
from table_writer.storage.s3.settings import S3Overrides
from table_writer.testing import Lakehouse
from tests.outside.s3_proxy import Asked, Forward, Told, refusal, s3_proxy
from tests.policies import Policy, allows, moved, policy_of, together

WRITER = together([policy_of("The driver of a write"), policy_of("Executors")])
MAINTENANCE = policy_of("Maintenance")
MIRRORS = policy_of("Mirrors")
IN_PLACE = policy_of("Appends in place")
DELETED_KEY = re.compile(rb"<Key>([^<]+)</Key>")


def needed(asked: Asked) -> list[tuple[str, str, str]]:
    """Return what IAM asks of a request: actions, each with its resource and prefix."""
    headers = {name.lower(): text for name, text in asked.headers.items()}
    request = parse_request(asked.method, asked.path, headers)
    action = ACTIONS.get(request.operation, f"s3:{request.operation}")
    resource = request.path.strip("/")
    bucket = resource.partition("/")[0]
    if request.operation == "DeleteObjects":
        return [(action, f"{bucket}/{unquote(key.decode())}", "") for key in DELETED_KEY.findall(asked.body)]
    copied = [("s3:GetObject", request.copied_from.strip("/"), "")] if request.copied_from else []
    return [(action, resource, asked.query.get("prefix", "")), *copied]


@contextmanager
def guarded(lakehouse: Lakehouse, policy: Policy, table: str) -> Iterator[str]:
    """Run a server that refuses whatever a policy does not allow for a table; yields its address."""
    bucket = lakehouse.s3_server.bucket
    root = f"{lakehouse.warehouse}/{table.replace('.', '.db/')}/".partition(f"{bucket}/")[2]
    here = moved(policy, bucket, root)

    def as_iam(asked: Asked, forward: Forward) -> Told:
        denied = [one for one in needed(asked) if not allows(here, one[0], one[1], prefix=one[2])]
        return refusal(403, "AccessDenied", str(denied)) if denied else forward(asked)

    with s3_proxy(lakehouse.s3_server.endpoint_url, as_iam) as proxy:
        yield proxy.url


def config(url: str, **options: Any) -> TableWriterConfig:
    return TableWriterConfig(s3=S3Overrides(endpoint_url=url, max_attempts=1), progress="off", **options)


@pytest.fixture
def orders(make_table: Callable[..., str], spark: SparkSession) -> str:
    """Return a table with partitions that Spark itself has written, below ``dt=…/``."""
    table = make_table("CREATE TABLE {name} (id INT, amount INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 10, 'd1'), (2, 20, 'd1'), (3, 30, 'd2'), (9, 90, 'd3')")
    return table


@pytest.fixture
def rows(spark: SparkSession) -> Callable[..., DataFrame]:
    return lambda *values: spark.createDataFrame(list(values), "id INT, amount INT, dt STRING")


def content(spark: SparkSession, table: str) -> set[tuple[Any, ...]]:
    spark.catalog.refreshTable(table)
    return {tuple(row) for row in spark.table(table).collect()}


def test_every_kind_of_write_works_with_the_policies_of_driver_and_executors(
    lakehouse: Lakehouse, spark: SparkSession, orders: str, rows: Callable[..., DataFrame]
) -> None:
    with guarded(lakehouse, WRITER, orders) as url:
        writer = TableWriter(spark, config=config(url))
        writer.append(rows((4, 40, "d2")), orders)  # copies what Spark wrote
        writer.merge(rows((1, 11, "d1"), (5, 50, "d1")), orders, on=["id", "dt"])
        writer.overwrite_partitions(rows((3, 31, "d2")), orders)
        writer.create_partitions(rows((7, 70, "d4")), orders)
        writer.stage(rows((8, 80, "d4")), orders, mode="append").publish()
        writer.append(rows((8, 80, "d4")), orders, carry="in_place")
        writer.deduplicate(orders, on=["id", "dt"], keep=["amount"])
        writer.update_where(orders, {"amount": "91"}, "id = 9")
        writer.delete_where(orders, "id = 2", purge=True)
        writer.compact(orders)
        assert content(spark, orders) == {
            (1, 11, "d1"),
            (5, 50, "d1"),
            (3, 31, "d2"),
            (7, 70, "d4"),
            (8, 80, "d4"),
            (9, 91, "d3"),
        }
        writer.overwrite_table(rows((1, 1, "d1")), orders)
        assert content(spark, orders) == {(1, 1, "d1")}


def test_maintenance_works_with_its_policy(
    lakehouse: Lakehouse, spark: SparkSession, orders: str, rows: Callable[..., DataFrame]
) -> None:
    TableWriter(spark, config=TableWriterConfig(progress="off")).append(rows((4, 40, "d2")), orders)
    TableWriter(spark, config=TableWriterConfig(progress="off")).overwrite_partitions(rows((1, 1, "d1")), orders)
    with guarded(lakehouse, MAINTENANCE, orders) as url:
        keeper = Maintenance(lakehouse.metastore_uri, config=config(url, hadoop=lakehouse.s3_server.hadoop_settings()))
        keeper.rollback(orders, version=1)
        keeper.recover(orders)
        keeper.restore(orders)
        keeper.history(orders)
        report = keeper.vacuum(orders)
        assert report.failures == ()
        assert not [
            finding
            for finding in keeper.doctor(orders).findings
            if finding.check == "permissions" and finding.status != "ok"
        ]
        keeper.close()
    assert (2, 20, "d1") in content(spark, orders)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_mirrors_need_what_the_page_adds_for_them(
    kind: Any, lakehouse: Lakehouse, spark: SparkSession, orders: str, rows: Callable[..., DataFrame]
) -> None:
    with guarded(lakehouse, WRITER, orders) as url:
        writer = TableWriter(spark, config=config(url, mirrors=[kind]))
        result = writer.append(rows((4, 40, "d2")), orders)
        assert any("s3:PutObject" in note for note in result.notes), result.notes
    with guarded(lakehouse, together([WRITER, MIRRORS]), orders) as url:
        result = TableWriter(spark, config=config(url, mirrors=[kind])).append(rows((5, 50, "d2")), orders)
        assert not any("s3:" in note for note in result.notes), result.notes
    with guarded(lakehouse, together([MAINTENANCE, MIRRORS]), orders) as url:
        keeper = Maintenance(lakehouse.metastore_uri, config=config(url, hadoop=lakehouse.s3_server.hadoop_settings()))
        assert keeper.mirror(orders, as_=kind, check=True).healthy
        keeper.vacuum(orders)
        keeper.mirror(orders, as_=kind, drop=True)
        keeper.close()


def test_an_append_in_place_to_what_another_tool_wrote_needs_what_the_page_adds_for_it(
    lakehouse: Lakehouse, spark: SparkSession, orders: str, rows: Callable[..., DataFrame]
) -> None:
    soon = {"publish_timeout_seconds": 20.0, "metastore_timeout_seconds": 5.0}  # the next append waits for the claim
    with guarded(lakehouse, WRITER, orders) as url, pytest.raises(TableWriterError, match="s3:PutObject"):
        TableWriter(spark, config=config(url, **soon)).append(rows((4, 40, "d2")), orders, carry="in_place")
    with guarded(lakehouse, together([WRITER, IN_PLACE]), orders) as url:
        TableWriter(spark, config=config(url)).append(rows((4, 40, "d2")), orders, carry="in_place")
    assert (4, 40, "d2") in content(spark, orders)
