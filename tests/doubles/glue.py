"""A strict AWS Glue in memory: botocore serialises and checks every request, and this answers in place of the network.

It differs from moto where AWS does: a stale ``VersionId`` is refused, more than 100 partitions a call are, and each
entry of a batch is applied or refused by itself.
"""

# ruff: noqa: N802, N803  # methods and arguments have Glue's names
from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import boto3
from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.config import Config

from table_writer.metastore.glue import Clients, GlueMetastore
from table_writer.metastore.settings import GlueSettings
from table_writer.model.table import Partition, PartitionValues, Table, TableName
from table_writer.testing.late import Late

SESSION: Final = boto3.Session("x", "x", region_name="us-east-1")  # reads botocore's description of Glue once
MISSING: Final = ("EntityNotFoundException", "it is not there")
EXISTS: Final = ("AlreadyExistsException", "it is there")
CALLS: Final = {
    "BatchCreatePartition": "add_partitions",
    "BatchGetPartition": "get_partitions",
    "BatchUpdatePartition": "alter_partitions",
    "CreateTable": "create_table",
    "DeletePartition": "drop_partition",
    "DeleteTable": "drop_table",
    "GetDatabases": "get_databases",
    "GetPartitions": "get_partition_names",
    "GetTable": "get_table",
    "GetTables": "get_tables",
    "UpdateTable": "alter_partitions",
}
"""What the protocol calls each operation: faults are given by these names."""


class RefusedError(Exception):
    """Glue refuses a whole call, or one entry of it."""

    def __init__(self, code: str, text: str = "", status: int = 400) -> None:
        super().__init__(code)
        self.code, self.text, self.status = code, text, status


@dataclass
class StoredTable:
    """A table with its partitions; ``fields`` are those of ``TableInput``."""

    fields: dict[str, Any]
    created_at: float
    version: int = 0
    partitions: dict[PartitionValues, dict[str, Any]] = field(default_factory=dict)
    archived: int = 0


@dataclass
class Answers:
    """What reads are answered with: filtered, redirected, old. Nothing of it is the truth, and changes go there."""

    hidden_columns: frozenset[str] = frozenset()
    """As of Lake Formation: not shown, and Spark's own schema neither."""
    hidden_partitions: frozenset[PartitionValues] = frozenset()
    hidden_tables: frozenset[TableName] = frozenset()
    links: dict[TableName, tuple[str, TableName]] = field(default_factory=dict)
    """Resource links: which catalog's table is answered for a name."""
    keeps_link_names: bool = False
    """Whether an answer keeps the link's own names, with its ``TargetTable``, or has the target's."""
    is_registered: bool = False  # with Lake Formation
    keeps_past: bool = False  # from now on, so that answers can be old
    past: list[dict[TableName, StoredTable]] = field(default_factory=list)
    age: Callable[[str], int] = lambda _: 0
    """By how many changes an answer to an operation is old."""

    def shown(self, operation: str, arguments: dict[str, Any], read: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """Read, and leave out what the role does not see."""
        asked = TableName(arguments.get("DatabaseName", ""), arguments.get("TableName", arguments.get("Name", "")))
        if asked in self.hidden_tables:
            raise RefusedError(*MISSING)
        catalog, target = self.links.get(asked, ("", asked))
        renamed = {"DatabaseName": target.database}
        renamed |= {key: target.name for key in ("TableName", "Name") if key in arguments}
        answer = read(**(arguments | (renamed if asked in self.links else {})))
        if "Table" in answer:
            answer["Table"] = self._table(answer["Table"], catalog, asked, target)
        for table in answer.get("TableList", ()):
            table.update(self._table(table, "", asked, asked))
        if "TableList" in answer:
            names = {name.name for name in self.hidden_tables if name.database == asked.database}
            answer["TableList"] = [one for one in answer["TableList"] if one["Name"] not in names]
        if "Partitions" in answer:
            hidden = self.hidden_partitions
            answer["Partitions"] = [one for one in answer["Partitions"] if tuple(one["Values"]) not in hidden]
        return answer

    def _table(self, table: dict[str, Any], catalog: str, asked: TableName, target: TableName) -> dict[str, Any]:
        table = {
            **table,
            "IsRegisteredWithLakeFormation": self.is_registered,
            "StorageDescriptor": dict(table["StorageDescriptor"]),
        }
        if self.hidden_columns:
            columns = table["StorageDescriptor"].get("Columns", [])
            table["StorageDescriptor"]["Columns"] = [one for one in columns if one["Name"] not in self.hidden_columns]
            given = table.get("Parameters", {})
            table["Parameters"] = {k: v for k, v in given.items() if not k.startswith("spark.sql.sources.schema")}
        if catalog:
            table["CatalogId"] = catalog
        if catalog and self.keeps_link_names:
            named = {"CatalogId": catalog, "DatabaseName": target.database, "Name": target.name}
            table |= {"DatabaseName": asked.database, "Name": asked.name, "TargetTable": named}
        return table


class GlueServer:
    """What Glue keeps, and how it answers.

    Attributes
    ----------
    on_call
        Called as ``on_call(operation, phase)``, ``"before"`` and ``"after"`` each request; what it raises ends it. A
        :class:`~table_writer.testing.late.Late` before it keeps it in :attr:`pending`.
    refuse_entry
        Asked about each entry of a changing batch: returns a code to refuse it with, or nothing.
    answers
        What a role is shown, and how old it is: changes nothing of what is kept.
    """

    def __init__(self) -> None:
        self.tables: dict[TableName, StoredTable] = {}
        self.on_call: Callable[[str, str], None] | None = None
        self.refuse_entry: Callable[[PartitionValues], str | None] = lambda _: None
        self.pending: list[Callable[[], object]] = []
        self.answers = Answers()
        self.column_statistics: set[tuple[PartitionValues, str]] = set()
        """Of which partitions, and which of their columns, there are some."""
        self._lock = threading.RLock()

    def connect(self, _: GlueSettings) -> Clients:
        """Make clients whose requests come here; handed to ``GlueMetastore`` in place of ``make_clients``."""
        return Clients(self._client(3), self._client(1))

    def _client(self, attempts: int) -> Any:
        client = SESSION.client("glue", config=Config(retries={"total_max_attempts": attempts, "mode": "standard"}))
        client.meta.events.register_last("before-send.glue", self._answer)
        return client

    def table(self, database: str, name: str) -> StoredTable:
        found = self.tables.get(TableName(database, name))
        if found is None:
            raise RefusedError(*MISSING)
        return found

    def _answer(self, request: Any, event_name: str, **_: object) -> AWSResponse:
        operation = event_name.rpartition(".")[2]
        arguments = json.loads(request.body)
        try:
            self._tell(operation, "before")
        except Late as late:
            self.pending.append(partial(getattr(self, operation), **arguments))
            raise late.error or RuntimeError("a client that never repeats a request") from None
        try:
            with self._lock:
                status, body = 200, self._answered(operation, arguments)
        except RefusedError as refused:
            status, body = refused.status, {"__type": refused.code, "message": refused.text}
        self._tell(operation, "after")
        raw = json.dumps(body).encode()
        return AWSResponse(request.url, status, HeadersDict({"x-amzn-RequestId": "1"}), _Raw(raw))  # type: ignore[arg-type]

    def _answered(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Change what is kept, or read it as the role is shown it, or as it was."""
        if operation.startswith(("Get", "BatchGet")):
            with self._as_it_was(operation):
                return self.answers.shown(operation, arguments, getattr(self, operation))
        if self.answers.keeps_past:
            self.answers.past.append(deepcopy(self.tables))
        done: dict[str, Any] = getattr(self, operation)(**arguments)
        return done

    @contextmanager
    def _as_it_was(self, operation: str) -> Any:
        now, age = self.tables, self.answers.age(operation)
        past = self.answers.past
        self.tables = past[max(0, len(past) - age)] if age and past else now
        try:
            yield
        finally:
            self.tables = now

    def _tell(self, operation: str, phase: str) -> None:
        if self.on_call is not None:
            self.on_call(operation, phase)

    def GetDatabases(self, **_: Any) -> dict[str, Any]:
        return {"DatabaseList": [{"Name": one} for one in sorted({name.database for name in self.tables})]}

    def GetTables(self, DatabaseName: str, **_: Any) -> dict[str, Any]:
        names = [name for name in self.tables if name.database == DatabaseName]
        if not names:
            raise RefusedError(*MISSING)
        return {"TableList": [self.GetTable(name.database, name.name)["Table"] for name in names]}

    def GetTable(self, DatabaseName: str, Name: str, **_: Any) -> dict[str, Any]:
        found = self.table(DatabaseName, Name)
        more = {"DatabaseName": DatabaseName, "CreateTime": found.created_at, "UpdateTime": found.created_at}
        more |= {"VersionId": str(found.version), "CatalogId": "123456789012", "IsRegisteredWithLakeFormation": False}
        return {"Table": {**deepcopy(found.fields), **more, "CreatedBy": "somebody"}}

    def CreateTable(self, DatabaseName: str, TableInput: dict[str, Any], **_: Any) -> dict[str, Any]:
        name = TableName(DatabaseName, TableInput["Name"])
        if name in self.tables:
            raise RefusedError(*EXISTS)
        self.tables[name] = StoredTable(deepcopy(TableInput), datetime.now(UTC).timestamp())
        return {}

    def DeleteTable(self, DatabaseName: str, Name: str, **_: Any) -> dict[str, Any]:
        self.table(DatabaseName, Name)
        del self.tables[TableName(DatabaseName, Name)]
        return {}

    def UpdateTable(
        self,
        DatabaseName: str,
        TableInput: dict[str, Any],
        VersionId: str | None = None,
        SkipArchive: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        found = self.table(DatabaseName, TableInput["Name"])
        if VersionId is not None and VersionId != str(found.version):
            raise RefusedError(
                "ConcurrentModificationException", "Update table failed due to concurrent modifications."
            )
        found.fields, found.version = deepcopy(TableInput), found.version + 1
        found.archived += not SkipArchive
        return {}

    def GetPartitions(self, DatabaseName: str, TableName: str, NextToken: str = "0", **_: Any) -> dict[str, Any]:
        found = sorted(self.table(DatabaseName, TableName).partitions.items())
        begin, size = int(NextToken), 100
        page = [{"Values": list(values), **stored} for values, stored in found[begin : begin + size]]
        more = {"NextToken": str(begin + size)} if begin + size < len(found) else {}
        return {"Partitions": page, **more}

    def BatchGetPartition(
        self, DatabaseName: str, TableName: str, PartitionsToGet: list[dict[str, Any]], **_: Any
    ) -> dict[str, Any]:
        _at_most(1_000, PartitionsToGet)
        stored = self.table(DatabaseName, TableName).partitions
        asked = [tuple(one["Values"]) for one in PartitionsToGet]
        now, later = asked[:500], asked[500:]  # an answer has a largest size
        found = [{"Values": list(one), **deepcopy(stored[one])} for one in now if one in stored]
        return {"Partitions": found, "UnprocessedKeys": [{"Values": list(one)} for one in later]}

    def BatchCreatePartition(
        self, DatabaseName: str, TableName: str, PartitionInputList: list[dict[str, Any]], **_: Any
    ) -> dict[str, Any]:
        _at_most(100, PartitionInputList)
        stored = self.table(DatabaseName, TableName).partitions
        errors = []
        for one in PartitionInputList:
            values = tuple(one["Values"])
            code = self.refuse_entry(values) or (EXISTS[0] if values in stored else None)
            if code:
                errors.append({"PartitionValues": list(values), "ErrorDetail": {"ErrorCode": code}})
            else:
                stored[values] = _kept(one)
        return {"Errors": errors}

    def BatchUpdatePartition(
        self, DatabaseName: str, TableName: str, Entries: list[dict[str, Any]], **_: Any
    ) -> dict[str, Any]:
        _at_most(100, Entries)
        stored = self.table(DatabaseName, TableName).partitions
        errors = []
        for one in Entries:
            values = tuple(one["PartitionValueList"])
            code = self.refuse_entry(values) or (None if values in stored else MISSING[0])
            if code:
                errors.append({"PartitionValueList": list(values), "ErrorDetail": {"ErrorCode": code}})
            else:
                stored[values] = _kept(one["PartitionInput"])
        return {"Errors": errors}

    def DeletePartition(
        self, DatabaseName: str, TableName: str, PartitionValues: list[str], **_: Any
    ) -> dict[str, Any]:
        if self.table(DatabaseName, TableName).partitions.pop(tuple(PartitionValues), None) is None:
            raise RefusedError(*MISSING)
        return {}

    def GetColumnStatisticsForPartition(
        self, ColumnNames: list[str], PartitionValues: tuple[str, ...] = (), **_: Any
    ) -> dict[str, Any]:
        _at_most(100, ColumnNames)
        known = [name for name in ColumnNames if (tuple(PartitionValues), name) in self.column_statistics]
        return {"ColumnStatisticsList": [{"ColumnName": name} for name in known]}

    def DeleteColumnStatisticsForPartition(
        self, ColumnName: str, PartitionValues: tuple[str, ...] = (), **_: Any
    ) -> dict[str, Any]:
        self.column_statistics.remove((tuple(PartitionValues), ColumnName))
        return {}

    GetColumnStatisticsForTable = GetColumnStatisticsForPartition
    DeleteColumnStatisticsForTable = DeleteColumnStatisticsForPartition


def _at_most(most: int, entries: list[Any]) -> None:
    if len(entries) > most:
        raise RefusedError("ValidationException", f"Member must have length less than or equal to {most}")


def _kept(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"CreationTime": datetime.now(UTC).timestamp(), **{k: v for k, v in one.items() if k != "Values"}}


class _Raw:
    """The stream that botocore reads an answer from."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: object) -> list[bytes]:
        return [self._body]


class GlueDouble(GlueMetastore):
    """The product's gateway over :class:`GlueServer`, with what tests do to a metastore beside it.

    ``on_call`` takes the protocol's names of calls; ``before``, nothing has changed. It is called for each request.
    """

    _hook: Callable[[str, str], None] | None = None

    def __init__(self, *, change_batch: int = 100, catalog_id: str = "") -> None:
        self.server = GlueServer()
        self.waited: list[float] = []
        settings = GlueSettings(region="us-east-1", change_batch=change_batch, catalog_id=catalog_id)
        super().__init__(settings, connect=self.server.connect, sleep=self.waited.append)

    @property
    def on_call(self) -> Callable[[str, str], None] | None:
        return self._hook

    @on_call.setter
    def on_call(self, hook: Callable[[str, str], None] | None) -> None:
        self._hook = hook
        self.server.on_call = hook and (lambda operation, phase: hook(CALLS[operation], phase))

    @contextmanager
    def unwatched(self) -> Any:
        """Let no hook see what is done inside."""
        hook, self.server.on_call = self.server.on_call, None
        try:
            yield
        finally:
            self.server.on_call = hook

    def create_table(self, table: Table) -> Table:
        """Create or replace a table, keeping its partitions, and return it as a read would."""
        known = self.server.tables.get(table.name)
        created = table.created_at_seconds or datetime.now(UTC).timestamp()
        stored = StoredTable(table_input(table), float(created), partitions=known.partitions if known else {})
        self.server.tables[table.name] = stored
        with self.unwatched():
            found = self.get_table(table.name)
        assert found is not None
        return found

    def drop_table(self, name: TableName) -> None:
        del self.server.tables[name]

    def put_partition(self, name: TableName, partition: Partition) -> None:
        """Add or replace a partition, as another tool would."""
        stored = self.server.tables[name]
        storage = {**stored.fields["StorageDescriptor"], "Location": partition.location}
        stored.partitions[partition.values] = {"StorageDescriptor": storage, "Parameters": dict(partition.parameters)}


def table_input(table: Table) -> dict[str, Any]:
    """Spell a table for ``CreateTable``."""
    storage = {
        "Columns": [{"Name": one.name, "Type": one.type, "Comment": one.comment} for one in table.columns],
        "Location": table.location.rstrip("/"),
        "InputFormat": table.input_format,
        "OutputFormat": table.output_format,
        "BucketColumns": list(table.bucket_columns),
        "SerdeInfo": {"SerializationLibrary": table.serde or "x", "Parameters": dict(table.serde_parameters)},
    }
    return {
        "Name": table.name.name,
        "TableType": table.kind,
        "StorageDescriptor": storage,
        "PartitionKeys": [{"Name": one.name, "Type": one.type} for one in table.partition_columns],
        "Parameters": dict(table.parameters),
    }
