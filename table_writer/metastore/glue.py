"""AWS Glue's Data Catalog: weaker calls than Hive's, each sent so that its outcome is known or said to be unknown."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Self

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
)

from table_writer.errors import (
    InvalidInputError,
    LostResponseError,
    MetastoreError,
    PartitionExistsError,
    PartitionMissingError,
    counted,
)
from table_writer.metastore import glue_objects, hive_objects, protocol
from table_writer.metastore.glue_answers import (
    ADVICE,
    BUSY,
    CHANGED,
    EXISTS,
    KEYS,
    MISSING,
    REFUSED,
    code_and_text,
    detail_of,
    values_of,
)
from table_writer.metastore.settings import GlueSettings
from table_writer.model.column_figures import ColumnFigures
from table_writer.model.process import PerProcess
from table_writer.model.table import (
    SPARK_SCHEMA,
    Column,
    Partition,
    PartitionChange,
    PartitionValues,
    Table,
    TableName,
    shown_name,
)

logger = logging.getLogger(__name__)
READ_BATCH: Final = 1_000  # Glue: partitions in one BatchGetPartition
STATISTICS_BATCH: Final = 100  # Glue: columns in one GetColumnStatistics…
READ_ATTEMPTS: Final = 5
WAIT_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)  # before what Glue has refused for load is sent again
CONNECT_SECONDS: Final = 10.0

NOT_SENT: Final = (
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
)
"""Errors before a request is sent; a proxy's is none, since a lost answer looks like one."""


Entries = Mapping[PartitionValues, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Change:
    """A changing request; each of its entries is applied, or refused, by itself."""

    operation: str
    table: Table
    entries: Entries
    arguments: Callable[[Iterable[Mapping[str, Any]]], Mapping[str, Any]]  # of the entries that are sent
    busy: frozenset[str] = BUSY | CHANGED  # answers after which an entry is sent again


@dataclass(frozen=True, slots=True)
class Clients:
    """A client that repeats what changes nothing, and one that never repeats a request by itself."""

    reads: Any
    changes: Any


def make_clients(settings: GlueSettings) -> Clients:
    """Make both with the credentials that the AWS SDK finds."""
    connect_seconds = min(CONNECT_SECONDS, settings.timeout_seconds / 2)

    def client(attempts: int) -> Any:
        config = Config(
            connect_timeout=connect_seconds,
            read_timeout=settings.timeout_seconds - connect_seconds,
            retries={"mode": "standard", "total_max_attempts": attempts},
            user_agent_extra="table_writer",
        )
        return session.client("glue", endpoint_url=settings.endpoint_url or None, config=config)

    try:
        session = boto3.Session(profile_name=settings.profile or None, region_name=settings.region or None)
        return Clients(client(READ_ATTEMPTS), client(1))
    except (BotoCoreError, ValueError) as error:
        raise InvalidInputError(
            f"no client for AWS Glue: {error}. Set AWS_REGION, or region and profile of GlueSettings"
        ) from error


class _CutShortError(BotoCoreError):
    fmt = "the answer was cut short, or is no answer of Glue's"


class GlueMetastore:
    """The :class:`~table_writer.metastore.protocol.Metastore` over AWS Glue's Data Catalog.

    An unpartitioned table is switched by one ``UpdateTable`` that Glue refuses if the table was changed since it was
    read (``VersionId``). Partitions are changed 100 a call; each switches whole, and a call may apply some of them.

    A request that changes something is sent again only where Glue says that it was refused for load, and only what was
    refused. No answer, or one that does not say that nothing was changed, is a ``LostResponseError``.
    """

    def __init__(
        self,
        settings: GlueSettings,
        *,
        connect: Callable[[GlueSettings], Clients] = make_clients,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._gate: ContextVar[Callable[[], None]] = ContextVar("before_send", default=protocol.nothing)
        self._counts: Counter[str] = Counter()
        self._locks = PerProcess(threading.Lock)
        self._clients = PerProcess(lambda: self._with_hooks(connect(settings)))
        self._common = {"CatalogId": settings.catalog_id} if settings.catalog_id else {}

    def __repr__(self) -> str:
        return f"GlueMetastore({self._settings!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def uri(self) -> str:
        return self._settings.uri

    def close(self) -> None:
        for clients in self._clients.own_values():
            clients.reads.close()
            clients.changes.close()

    def server_version(self) -> str:
        return ""

    def stated_version(self) -> str:
        return ""

    def why_immovable(self, table: Table) -> str:  # noqa: ARG002  # Glue looks at no location
        return ""

    def why_types_stay(self) -> str:
        return ""

    def replicated_as(self, table: Table) -> str:  # noqa: ARG002  # Hive replicates what its own metastore holds
        return ""

    def try_values(self, table: Table, location: str, values: Sequence[str]) -> None:
        name = protocol.scratch_name(table)
        storage = {**glue_objects.raw_of(table)["StorageDescriptor"], "Location": location.rstrip("/")}
        made = {"Name": name.name, "TableType": "EXTERNAL_TABLE", "StorageDescriptor": storage}
        made |= {"PartitionKeys": [{"Name": "value", "Type": "string"}]}
        scratch = replace(table, name=name, partition_columns=(Column("value", "string"),), native=made)
        self._change_once("create_table", scratch, {"DatabaseName": name.database, "TableInput": made})
        try:
            scratch = protocol.require_there(name, self.get_table(name), self.uri)
            self.add_partitions(scratch, [Partition(values=(value,), location=location) for value in values])
        finally:
            self._change_once("delete_table", scratch, {"DatabaseName": name.database, "Name": name.name})

    def _change_once(self, operation: str, table: Table, arguments: Mapping[str, Any]) -> None:
        whole: Entries = {hive_objects.WHOLE_TABLE: {}}
        change = _Change(operation=operation, table=table, entries=whole, arguments=lambda _: arguments)
        self._carry_out(change, protocol.nothing, Counter())

    def why_partial(self, table: Table) -> str:  # noqa: ARG002  # of no table it is known
        return f"AWS Glue ({self.uri}) shows a role what it may see, and says nothing of the rest"

    def why_unproven(self, table: Table) -> str:
        is_registered = glue_objects.raw_of(table).get("IsRegisteredWithLakeFormation", False)
        if not is_registered or SPARK_SCHEMA in table.shown_names:  # which is not shown beside columns that are hidden
            return ""
        return "it is registered with Lake Formation, which shows a role its own columns only"

    def switches_at_once(self, table: Table) -> bool:
        return not table.partition_columns

    def call_counts(self) -> Mapping[str, int]:
        with self._locks.get():
            return dict(self._counts)

    def get_table(self, name: TableName) -> Table | None:
        answer = self._read("get_table", table=str(name), DatabaseName=name.database, Name=name.name)
        if answer is None:
            return None
        raw, catalog_id = answer["Table"], self._settings.catalog_id
        target = raw.get("TargetTable")
        named = f"{raw.get('DatabaseName')}.{raw['Name']} of catalog {raw.get('CatalogId')}"
        is_elsewhere = catalog_id and raw.get("CatalogId", catalog_id) != catalog_id
        of = glue_objects.shown_target(target) if target else named if is_elsewhere else ""
        return protocol.require_named(name, glue_objects.table_from(raw), self.uri, of)

    def add_table(self, table: Table) -> bool:
        if self.get_table(table.name) is not None:
            return False
        made = glue_objects.new_table(table)
        try:
            self._change_once("create_table", table, {"DatabaseName": table.name.database, "TableInput": made})
        except PartitionExistsError:  # somebody made it between the two requests
            return False
        return True

    def remove_table(self, name: TableName) -> None:
        table = self.get_table(name)
        if table is not None:
            self._change_once("delete_table", table, {"DatabaseName": name.database, "Name": name.name})

    def get_databases(self) -> Sequence[str]:
        return [database["Name"] for database in self._pages("get_databases", "DatabaseList", table="")]

    def get_tables(self, database: str) -> Iterator[Table]:
        pages = self._pages("get_tables", "TableList", table=f"{database}.*", DatabaseName=database)
        yield from map(glue_objects.table_from, pages)

    def get_partition_names(self, name: TableName) -> Sequence[PartitionValues]:
        table = protocol.require_there(name, self.get_table(name), self.uri)
        if not table.partition_columns:
            return [hive_objects.WHOLE_TABLE]
        named = {"DatabaseName": name.database, "TableName": name.name, "ExcludeColumnSchema": True}
        pages = self._pages("get_partitions", "Partitions", table=str(name), **named)
        return [tuple(glue_objects.require_of(table, entry)["Values"]) for entry in pages]

    def get_partitions(self, table: Table, values: Sequence[PartitionValues]) -> Mapping[PartitionValues, Partition]:
        protocol.validate_values(table, values)
        if not values:
            return {}
        if not table.partition_columns:
            now = protocol.require_same(table, self.get_table(table.name), self.uri)
            return {(): Partition(values=(), location=now.location, parameters=now.parameters, native=now.native)}
        described = replace(table, native=glue_objects.thrift_table(glue_objects.raw_of(table)))
        found = {
            tuple(entry["Values"]): glue_objects.partition_from(glue_objects.require_of(table, entry), table, described)
            for entry in self._partitions(table, values)
        }
        protocol.require_asked(table, values, found, self.uri)
        if not found:
            protocol.require_same(table, self.get_table(table.name), self.uri)
        return found

    def get_all_partitions(self, table: Table) -> Mapping[PartitionValues, Partition]:
        return protocol.read_all(self, table)

    def add_partitions(
        self, table: Table, partitions: Sequence[Partition], *, before_send: Callable[[], None] = protocol.nothing
    ) -> None:
        """Add 100 a call; what was added before a refusal stays."""
        protocol.validate_additions(table, partitions)
        self._carry_out_all(
            table,
            "batch_create_partition",
            {partition.values: glue_objects.new_input(table, partition) for partition in partitions},
            lambda some: {**glue_objects.table_arguments(table), "PartitionInputList": list(some)},
            before_send,
        )
        protocol.require_kept(self, table, partitions, partial(self._drop_added, table, before_send))

    def _drop_added(self, table: Table, before_send: Callable[[], None], values: Sequence[PartitionValues]) -> None:
        for partition in values:
            self.drop_partition(table, partition, before_send=before_send)

    def alter_partitions(
        self, table: Table, changes: Sequence[PartitionChange], *, before_send: Callable[[], None] = protocol.nothing
    ) -> None:
        """Apply 100 a call; of an unpartitioned table the one, by ``UpdateTable`` with compare-and-set."""
        protocol.validate_changes(table, changes)
        if table.partition_columns:
            self._carry_out_all(
                table,
                "batch_update_partition",
                {change.partition.values: glue_objects.changed_input(table, change) for change in changes},
                lambda some: {
                    **glue_objects.table_arguments(table),
                    "Entries": [{"PartitionValueList": entry["Values"], "PartitionInput": entry} for entry in some],
                },
                before_send,
            )
        else:
            for change in changes:
                self._alter_whole_table(table, change, before_send)
        if self._settings.column_statistics == "delete":
            self._forget_statistics(table, [change.partition.values for change in changes], before_send)

    def drop_partition(
        self, table: Table, values: PartitionValues, *, before_send: Callable[[], None] = protocol.nothing
    ) -> None:
        protocol.validate_drops(table, [values])
        drop = _Change(
            operation="delete_partition",
            table=table,
            entries={values: {}},
            arguments=lambda _: {**glue_objects.table_arguments(table), "PartitionValues": list(values)},
        )
        try:
            self._carry_out(drop, before_send, Counter())
        except PartitionMissingError:
            logger.debug("%s of %s was dropped already", values, table.name)

    def keeps_statistics(self, table: Table) -> bool:  # noqa: ARG002  # none of them
        """Return ``False``: Glue takes them one partition and 100 columns a call, and bills each call."""
        return False

    def differing_statistics(
        self,
        table: Table,  # noqa: ARG002
        expected: Mapping[PartitionValues, Mapping[str, ColumnFigures]],  # noqa: ARG002
    ) -> Sequence[PartitionValues]:
        """Return none: an alter deletes those of what it moves, where the settings say so."""
        return ()

    def set_statistics(
        self,
        table: Table,  # noqa: ARG002
        figures: Mapping[PartitionValues, Mapping[str, ColumnFigures]],  # noqa: ARG002
        *,
        before_send: Callable[[], None] = protocol.nothing,
    ) -> None:
        before_send()

    def drop_statistics(
        self, table: Table, values: Sequence[PartitionValues], *, before_send: Callable[[], None] = protocol.nothing
    ) -> None:
        self._forget_statistics(table, values, before_send)

    def _alter_whole_table(self, table: Table, change: PartitionChange, before_send: Callable[[], None]) -> None:
        moved, fields, name = glue_objects.moved_table(change), self._table_fields(), table.name
        update = _Change(
            operation="update_table",
            table=table,
            entries={hive_objects.WHOLE_TABLE: {}},
            arguments=lambda _: {
                "DatabaseName": name.database,
                "TableInput": {field: moved[field] for field in fields & moved.keys()},
                "VersionId": moved.get("VersionId", ""),  # without one, botocore refuses to send
                "SkipArchive": self._settings.skip_archive,
            },
            busy=BUSY,
        )
        self._carry_out(update, before_send, Counter())

    def _table_fields(self) -> frozenset[str]:
        """Return the fields of a table that may be sent back: an answer has more."""
        model = self._clients.get().changes.meta.service_model.operation_model("UpdateTable")
        return frozenset(model.input_shape.members["TableInput"].members)

    def _carry_out_all(
        self,
        table: Table,
        operation: str,
        entries: Entries,
        arguments: Callable[[Iterable[Mapping[str, Any]]], Mapping[str, Any]],
        before_send: Callable[[], None],
    ) -> None:
        """Send all batches, one after another, until one is refused.

        Before each but the first, and after a partition was found missing, the table is read again: it may have been
        dropped and made anew. A refusal after which nothing is certain, because others were applied or a request was
        sent again, is a lost answer to the caller.
        """
        applied: Counter[str] = Counter()
        left = iter(entries.items())
        try:
            while batch := dict(itertools.islice(left, self._settings.change_batch)):
                if applied.total():
                    protocol.require_same(table, self.get_table(table.name), self.uri)
                change = _Change(operation=operation, table=table, entries=batch, arguments=arguments)
                self._carry_out(change, before_send, applied)
        except LostResponseError:
            raise
        except MetastoreError as error:
            if isinstance(error, PartitionMissingError):
                protocol.require_same(table, self.get_table(table.name), self.uri)
            if not applied.total():
                raise
            raise LostResponseError(
                f"{applied['entries']} of {counted(len(entries), 'partition')} of {table.name} are changed, of the"
                f" others it is not known: {error.message}",
                table=str(table.name),
            ) from error

    def _carry_out(self, change: _Change, before_send: Callable[[], None], applied: Counter[str]) -> None:
        """Send a change, and again what was refused for load, for as long as ``before_send`` allows it."""
        left = dict(change.entries)
        for wait in (*WAIT_SECONDS, None):
            refused = self._send(change, left, before_send)
            applied["entries"] += len(left) - len(refused)
            left = {values: left[values] for values in left if values in refused}
            final = {values: answer for values, answer in refused.items() if answer[0] not in change.busy}
            if final or (left and wait is None):
                raise self._refusal(change, final or refused)
            if not left or wait is None:
                return
            logger.info("%s of %s: %d entries sent again in %g s", change.operation, change.table.name, len(left), wait)
            applied["sent again"] += 1  # an answer that is not true, and nobody could tell
            self._sleep(wait)

    def _send(
        self, change: _Change, entries: Entries, before_send: Callable[[], None]
    ) -> dict[PartitionValues, tuple[str, str]]:
        """Send a request once; returns, by partition, what was refused for certain, with code and text."""
        what = f"{change.operation} to {self.uri}"
        gate = self._gate.set(before_send)
        try:
            send = getattr(self._clients.get().changes, change.operation)
            answer = send(**self._common, **change.arguments(entries.values()))
        except NOT_SENT as error:
            raise MetastoreError(
                f"{what} could not be sent: {error}; nothing was changed by it, retry", table=str(change.table.name)
            ) from error
        except ClientError as error:
            said = code_and_text(error)
            if change.operation.startswith("batch_") and said[0] == MISSING:  # of an entry it says so in the answer
                protocol.require_there(change.table.name, None, self.uri)
            refused = dict.fromkeys(entries, said)
        except BotoCoreError as error:
            raise _lost_response(f"{what} got no answer: {error}", change.table) from error
        else:
            refused = {values_of(error): detail_of(error) for error in answer.get("Errors", ())}
        finally:
            self._gate.reset(gate)
        unclear = next((text for text in refused.values() if text[0] not in REFUSED), None)
        if unclear or not refused.keys() <= entries.keys():
            code, text = unclear or ("an error", f"of partitions that were not sent: {sorted(refused)[:3]}")
            raise _lost_response(
                f"{what} was answered with {code}: {text}, which does not say what was changed", change.table
            )
        return refused

    def _refusal(self, change: _Change, refused: Mapping[PartitionValues, tuple[str, str]]) -> MetastoreError:
        """Return the error for what Glue will not do."""
        values, (code, text) = min(refused.items())
        table = str(change.table.name)
        name = f"partition {shown_name(change.table, values)} of {table}" if values else table
        if change.operation == "update_table" and code in CHANGED:
            return hive_objects.table_was_changed(change.table.name, self.uri)
        if code == EXISTS:
            return PartitionExistsError(f"{name} exists; plan again", table=table)
        if code == MISSING and values:
            return PartitionMissingError(f"{name} does not exist; plan again", table=table)
        advice = ADVICE.get(code, "look the code up in AWS's documentation")
        return MetastoreError(f"{self.uri} refused {change.operation} of {name}: {code}: {text}; {advice}", table=table)

    def _forget_statistics(
        self, table: Table, values: Sequence[PartitionValues], before_send: Callable[[], None]
    ) -> None:
        """Delete Glue's column statistics of what was just switched. Readers have switched: a failure is a log line."""
        suffix = "partition" if table.partition_columns else "table"
        columns = [column.name for column in table.columns]
        try:
            for partition, first in itertools.product(values, range(0, len(columns), STATISTICS_BATCH)):
                of = {
                    **glue_objects.table_arguments(table),
                    **({"PartitionValues": list(partition)} if partition else {}),
                }
                asked = {**of, "ColumnNames": columns[first : first + STATISTICS_BATCH]}
                known = self._read(f"get_column_statistics_for_{suffix}", table=str(table.name), **asked)
                for found in (known or {}).get("ColumnStatisticsList", ()):
                    arguments = {**of, "ColumnName": found["ColumnName"]}
                    delete = _Change(
                        operation=f"delete_column_statistics_for_{suffix}",
                        table=table,
                        entries={partition: arguments},
                        arguments=lambda some: next(iter(some)),
                    )
                    self._carry_out(delete, before_send, Counter())
        except MetastoreError as error:
            logger.warning("column statistics of %s in Glue are still those of replaced rows: %s", table.name, error)

    def _partitions(self, table: Table, values: Sequence[PartitionValues]) -> Iterator[dict[str, Any]]:
        """Read partitions by value, 1,000 a call, and again those that an answer leaves out for its size."""
        asked = [{"Values": list(partition)} for partition in values]
        while asked:
            keys, asked = asked[:READ_BATCH], asked[READ_BATCH:]
            answer = self._read(
                "batch_get_partition",
                table=str(table.name),
                **glue_objects.table_arguments(table),
                PartitionsToGet=keys,
            )
            if answer is None:
                protocol.require_there(table.name, None, self.uri)
                return
            found, left = answer.get("Partitions", []), answer.get("UnprocessedKeys", [])
            if len(left) >= len(keys):
                raise MetastoreError(
                    f"{self.uri} returns none of {counted(len(left), 'partition')} of {table.name}; run it again",
                    table=str(table.name),
                )
            yield from found
            asked = [*left, *asked]

    def _pages(self, operation: str, field: str, *, table: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        """Read all pages of a list; nothing where there is no such database or table."""
        answer = self._read(operation, table=table, **arguments) or {}
        while True:
            yield from answer.get(field, ())
            if not answer.get("NextToken"):
                return
            page = self._read(operation, table=table, **arguments, NextToken=answer["NextToken"])
            if page is None:
                raise MetastoreError(
                    f"{table} was dropped at {self.uri} while it was listed; run it again", table=table
                )
            answer = page

    def _read(self, operation: str, *, table: str, **arguments: Any) -> dict[str, Any] | None:
        """Call what changes nothing; ``None`` where there is no such thing."""
        try:
            answer: dict[str, Any] = getattr(self._clients.get().reads, operation)(**self._common, **arguments)
        except ClientError as error:
            code, text = code_and_text(error)
            if code == MISSING:
                return None
            said = f"{code}: {text}; {ADVICE.get(code, 'retry')}"
        except BotoCoreError as error:
            said = f"{error}; check the region, the endpoint and the AWS credentials: {KEYS}"
        else:
            return answer
        raise MetastoreError(f"{operation} of {table or 'the catalog'} at {self.uri} failed: {said}", table=table)

    def _with_hooks(self, clients: Clients) -> Clients:
        """Count requests, and let ``before_send`` refuse one when credentials and signing are behind it."""

        def before_send(event_name: str, **_: object) -> None:
            self._gate.get()()
            with self._locks.get():
                self._counts[event_name.rpartition(".")[2]] += 1

        for client in (clients.reads, clients.changes):
            client.meta.events.register_first("before-send.glue", before_send)
            client.meta.events.register_first("response-received.glue", partial(_require_whole, client))
        return clients


def _require_whole(client: Any, event_name: str, response_dict: Mapping[str, Any] | None, **_: object) -> None:
    """Refuse an answer that was cut short, or is a proxy's: botocore takes what it cannot read for an empty one."""
    if response_dict is None or response_dict["status_code"] >= HTTPStatus.MULTIPLE_CHOICES:
        return
    body, length = response_dict["body"], response_dict["headers"].get("content-length")
    shape = client.meta.service_model.operation_model(event_name.rpartition(".")[2]).output_shape
    try:
        is_whole = (length is None or int(length) == len(body)) and (
            isinstance(json.loads(body), dict) if body or shape.members else True
        )
    except ValueError:
        is_whole = False
    if not is_whole:
        raise _CutShortError


def _lost_response(what: str, table: Table) -> LostResponseError:
    return LostResponseError(f"{what}; whether it took effect is not known", table=str(table.name))
