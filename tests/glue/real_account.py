"""Tries the library on a real AWS account: what Glue answers is what the double in ``tests/doubles/glue.py`` assumes.

::

    python -m tests.glue.real_account --bucket my-scratch-bucket --region eu-west-1

It makes the database ``table_writer_trial`` and the prefix ``table_writer_trial/`` of the bucket, and removes both at
its end, also after a failure; neither may exist before. No Spark is needed. Credentials are those that the AWS SDK
finds. ``--endpoint`` sends everything elsewhere, to moto for one.

It costs less than a cent: about 300 requests to Glue (of which a million a month are free), 500 to S3, and 300 objects
of a few bytes for two minutes.

The policy that it needs, for account 123456789012::

    {"Version": "2012-10-17", "Statement": [
      {"Effect": "Allow",
       "Action": ["glue:CreateDatabase", "glue:DeleteDatabase", "glue:GetDatabase", "glue:GetDatabases",
                  "glue:CreateTable", "glue:DeleteTable", "glue:GetTable", "glue:GetTables", "glue:UpdateTable",
                  "glue:GetPartitions", "glue:BatchGetPartition", "glue:BatchCreatePartition",
                  "glue:BatchUpdatePartition", "glue:DeletePartition"],
       "Resource": ["arn:aws:glue:eu-west-1:123456789012:catalog",
                    "arn:aws:glue:eu-west-1:123456789012:database/table_writer_trial",
                    "arn:aws:glue:eu-west-1:123456789012:table/table_writer_trial/*"]},
      {"Effect": "Allow", "Action": ["glue:GetTables"],
       "Resource": ["arn:aws:glue:eu-west-1:123456789012:database/*", "arn:aws:glue:eu-west-1:123456789012:table/*/*"]},
      {"Effect": "Allow",
       "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
       "Resource": "arn:aws:s3:::my-scratch-bucket/table_writer_trial/*"},
      {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:ListBucketMultipartUploads"],
       "Resource": "arn:aws:s3:::my-scratch-bucket"}]}
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from table_writer import S3Overrides
from table_writer.errors import MetastoreError, PartitionExistsError
from table_writer.metastore.glue import GlueMetastore, make_clients
from table_writer.metastore.settings import GlueSettings
from table_writer.model.location import Location
from table_writer.model.table import Column, PartitionChange, Table, TableName
from table_writer.model.write_mode import WriteMode
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import open_store
from tests.doubles.glue import table_input
from tests.publish.world import Rows, TableWorld

DATABASE: Final = "table_writer_trial"
MANY: Final = 250
SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
PROVIDER: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


@dataclass(frozen=True)
class Account:
    """A bucket and a catalog to try things in."""

    bucket: str
    settings: GlueSettings
    endpoint: str = ""

    @property
    def glue(self) -> Any:
        return make_clients(self.settings).changes

    def world(self, name: str, *partition_columns: str) -> TableWorld:
        """Make a table, and return what writes it."""
        root = f"s3://{self.bucket}/{DATABASE}/{name}/"
        table = Table(
            name=TableName(DATABASE, name),
            kind="EXTERNAL_TABLE",
            location=root,
            columns=(Column("id", "bigint"),),
            partition_columns=tuple(Column(one, "string") for one in partition_columns),
            serde=SERDE,
        )
        self.glue.create_table(DatabaseName=DATABASE, TableInput=table_input(table))
        s3 = S3Overrides(endpoint_url=self.endpoint or None, region=self.settings.region)
        hadoop = {"fs.s3a.aws.credentials.provider": PROVIDER, "fs.s3a.path.style.access": str(bool(self.endpoint))}
        store = open_store(settings_for(Location.parse(root), hadoop, s3))
        return TableWorld(store, GlueMetastore(self.settings), table.name, root)


def stale_version(account: Account) -> None:
    """Refuse to move an unpartitioned table that was changed since it was read."""
    world = account.world("stale")
    read = world.metastore.get_partitions(world.table, [()])[()]
    change = PartitionChange(partition=read, location=f"{world.root}a/", set_parameters={})
    world.metastore.alter_partitions(world.table, [change])
    try:
        world.metastore.alter_partitions(world.table, [replace(change, location=f"{world.root}b/")])
    except MetastoreError as error:
        if "somebody else changed table" in error.message:
            return
        raise
    raise AssertionError("a stale VersionId was accepted")


def too_many(account: Account) -> None:
    """Refuse 101 partitions in one call."""
    world = account.world("many_at_once", "dt")
    storage = {"Location": world.root, "Columns": [{"Name": "id", "Type": "bigint"}]}
    entries = [{"Values": [str(number)], "StorageDescriptor": storage} for number in range(101)]
    try:
        account.glue.batch_create_partition(
            DatabaseName=DATABASE, TableName=world.name.name, PartitionInputList=entries
        )
    except account.glue.exceptions.ClientError:
        return
    raise AssertionError("101 partitions were accepted in one call")


def written_and_read_at_once(account: Account) -> None:
    """Switch 250 partitions, and read each of them where it was put, at once."""
    world = account.world("many", "dt")
    for number in (1, 2):
        began = time.monotonic()
        world.write({f"d{day:03}": frozenset({number}) for day in range(MANY)})
        print(f"    {MANY} partitions written and switched in {time.monotonic() - began:.1f} s")
        assert len(world.partitions()) == MANY
        newest = world.history().records[-1].entry.write_id
        assert all(newest in one.location for one in world.partitions().values()), "an old location was read"


def others_partition(account: Account) -> None:
    """Tell what another tool has created from what we have."""
    world = account.world("others", "dt")
    world.written_by_another_tool("d1", frozenset({1}))
    plan = world.plan(WriteMode.CREATE_PARTITIONS)
    try:
        world.write({"d1": frozenset({2})}, plan=plan)
    except PartitionExistsError:
        assert world.rows() == {"d1": frozenset({1})}
        return
    raise AssertionError("a partition was created twice")


def operations(account: Account) -> None:
    """Write in all modes, roll back, restore, recover and vacuum."""
    world, name = account.world("modes", "dt"), f"{DATABASE}.modes"
    old: Rows = {"d1": frozenset({1}), "d2": frozenset({2})}
    world.write(old)
    world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {"d1": frozenset({1, 3}), "d2": frozenset({2})}
    world.write({"d3": frozenset({4})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert world.rows() == {"d3": frozenset({4})}
    world.keeper.rollback(name, version=1)
    assert world.rows() == old
    world.metastore.drop_partition(world.table, ("d2",))
    world.keeper.restore(name)
    assert world.rows() == old
    world.vacuum()
    assert world.rows() == old
    assert world.keeper.recover(name).settled == {}


TRIALS: Final[tuple[Callable[[Account], None], ...]] = (
    stale_version,
    too_many,
    written_and_read_at_once,
    others_partition,
    operations,
)


def main(arguments: list[str]) -> int:
    """Run all trials; returns how many have failed."""
    parser = ArgumentParser(prog="tests.glue.real_account")
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--region", required=True)
    parser.add_argument("--endpoint", default="")
    given = parser.parse_args(arguments)
    settings = GlueSettings(region=given.region, endpoint_url=given.endpoint)
    account = Account(given.bucket, settings, given.endpoint)
    account.glue.create_database(DatabaseInput={"Name": DATABASE})
    failed = 0
    try:
        for trial in TRIALS:
            try:
                trial(account)
                print(f"ok      {trial.__name__}: {(trial.__doc__ or '').strip()}", flush=True)
            except Exception as error:  # noqa: BLE001  # the other trials are worth running
                failed += 1
                print(f"FAILED  {trial.__name__}: {type(error).__name__}: {error}", flush=True)
    finally:
        store = account.world("cleaned").store
        for page in iter(lambda: list(store.list(f"{DATABASE}/"))[:1000], []):
            store.delete([found.key for found in page])
        for found in GlueMetastore(settings).get_tables(DATABASE):
            account.glue.delete_table(DatabaseName=DATABASE, Name=found.name.name)
        account.glue.delete_database(Name=DATABASE)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
