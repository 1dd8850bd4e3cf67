"""Every parameter of every public call, with values of every kind: used, or refused by name; nothing of ours leaks.

The calls and their parameters are found, not listed: a new one is covered, or fails here until its annotation is known.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, ForwardRef, Self, get_args, get_type_hints

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import table_writer
from table_writer import (
    ArrowWriter,
    CompactOptions,
    GlueSettings,
    InvalidInputError,
    Maintenance,
    NewTable,
    RowOptions,
    S3Overrides,
    StagedWrite,
    TableWriter,
    TableWriterConfig,
    TableWriterError,
    WriteOptions,
    check,
    read_arrow,
)
from table_writer.jobs.batches import batch_writer
from table_writer.jobs.session_services import SessionServices
from table_writer.protocol.table.services import Services
from table_writer.testing.embedded import lakehouse
from tests.publish.world import TABLE, World

T: Final = str(TABLE)


class Frame(DataFrame):
    """A DataFrame without Spark."""

    def __new__(cls, *_: object) -> Self:
        return object.__new__(cls)

    def __init__(self) -> None: ...

    def __repr__(self) -> str:
        return "Frame"


SESSION: Final = object.__new__(SparkSession)
SCHEMA: Final = StructType([StructField("id", LongType())])
NAN: Final = math.nan

VALUES: Final[Mapping[str, Any]] = {
    "None": None,
    "int": 5,
    "huge": 10**400,
    "float": 1.5,
    "nan": NAN,
    "inf": math.inf,
    "bool": True,
    "text": "x",
    "surrogate": "\ud800",
    "bytes": b"x",
    "list": [],
    "list of None": [None],
    "list of texts": ["x"],
    "dict": {},
    "dict of ints": {"x": 5},
    "object": object(),
    "timedelta": timedelta(days=2),
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "longest timedelta": timedelta.max,
    "function": len,
    "session": SESSION,
    "schema": SCHEMA,
    "frame": Frame(),
}
LISTS: Final = frozenset({"list", "list of texts"})
RIGHT: Final[Mapping[str, frozenset[str]]] = {  # by annotation, what may be used; a new annotation needs a line here
    "bool": frozenset({"bool"}),
    "bool | None": frozenset({"bool", "None"}),
    "bool | str | None": frozenset({"bool", "text", "None"}),
    "int": frozenset({"int"}),
    "int | None": frozenset({"int", "None"}),
    "float": frozenset({"int", "float"}),
    "float | None": frozenset({"int", "float", "None"}),
    "str": frozenset({"text"}),
    "str | None": frozenset({"text", "None"}),
    "str | ProgressListener": frozenset({"text", "function"}),
    "str | Collection[str]": frozenset({"text"}) | LISTS,
    "str | Collection[str] | None": frozenset({"text", "None"}) | LISTS,
    "str | Path | None": frozenset({"text", "None"}),
    "Severity": frozenset(),
    "SchemaChoice": frozenset(),
    "MergeSchema": frozenset(),
    "ArrowSchema": frozenset(),
    "Engine": frozenset(),
    "Carry": frozenset(),
    "Distribution": frozenset(),
    "ColumnStatisticsChoice": frozenset(),
    "MarkSuccess | None": frozenset({"bool", "None"}),
    "Renames": frozenset(),
    "EmptyAction": frozenset(),
    "Storage": frozenset(),
    "S3ServerName": frozenset(),
    "HiveVersion": frozenset(),
    "timedelta": frozenset({"timedelta", "longest timedelta"}),
    "timedelta | None": frozenset({"timedelta", "longest timedelta", "None"}),
    "datetime | None": frozenset({"datetime", "None"}),
    "Collection[str] | None": frozenset({"None"}) | LISTS,
    "Sequence[str]": LISTS,
    "tuple[str, ...] | None": frozenset({"None"}) | LISTS,
    "Sequence[object]": LISTS | {"list of None"},
    "Sequence[EventListener]": frozenset({"list"}),
    "Collection[object]": LISTS | {"list of None"},
    "Partitions": LISTS | {"text", "dict", "dict of ints"},
    "Partitions | None": LISTS | {"text", "dict", "dict of ints", "None"},
    "Mapping[str, str]": frozenset({"dict"}),
    "Mapping[str, str] | None": frozenset({"dict", "None"}),
    "object": frozenset(VALUES),
    "Any": frozenset(VALUES),
    "DataFrame": frozenset({"frame"}),
    "DataFrame | None": frozenset({"frame"}),  # None for changes of rows alone
    "DataFrame | StructType": frozenset({"frame", "schema"}),
    "StructType | str": frozenset({"schema", "text"}),
    "Callable[[DataFrame], Any]": frozenset({"function"}),
    "Callable[[DataFrame], DataFrame]": frozenset({"function"}),
    "Matched": frozenset(),
    "Missing": frozenset(),
    "str | Column": frozenset({"text"}),
    "Sequence[str | Column]": LISTS,
    "Mapping[str, str | Column]": frozenset({"dict"}),
    "Mapping[str, str | Column] | None": frozenset({"dict", "None"}),
    "SparkSession": frozenset({"session"}),
    "SparkSession | Mapping[str, str] | None": frozenset({"session", "dict", "None"}),
    "S3Overrides": frozenset(),
    "GlueSettings": frozenset(),
    "MetastoreKind | None": frozenset({"None"}),
    "StaleStatistics": frozenset(),
    "NewTable | None": frozenset({"None"}),
    "TableWriterConfig | None": frozenset({"None"}),
    "Services | None": frozenset({"None"}),
    "SessionServices | None": frozenset({"None"}),
    "Steps": frozenset(),
    "OpenTable": frozenset(),
    "FoundStaged": frozenset(),
}
GOOD: Final[Mapping[str, Any]] = {  # for the parameters beside the one that is wrong
    "df": Frame(),
    "rows": Frame(),
    "batch": Frame(),
    "schema": SCHEMA,
    "table": T,
    "location": "hdfs://lake/proof",  # of no store that is known: nothing is begun there
    "write_id": "w1",
    "version": 1,
    "from_version": 0,
    "to_version": 1,
    "as_": "delta",
    "mode": "append",
    "query_name": "orders",
    "batch_id": 1,
    "spark": SESSION,
    "column": "id",
    "columns": "id",
    "values": [1],
    "pattern": "x",
    "sql": "id > 0",
    "statement": "DELETE FROM mart.orders",
    "within": timedelta(1),
    "names": ["dt=1"],
    "expected": "id BIGINT",
    "function": len,
    "change": len,
    "updates": Frame(),
    "on": ["id"],
    "predicate": "id > 0",
    "set": {"id": "1"},
    "where": "id > 0",
    "keep": ["id"],
}


class ReachedError(TableWriterError):
    """The call has begun: its arguments were used."""


class Reached:
    """Stands for all that a call would begin with."""

    def __getattr__(self, _: str) -> Reached:
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        raise ReachedError("reached")


class NoServices(SessionServices):
    def __init__(self) -> None:
        self.services: Any = Reached()


def writer_without_spark() -> TableWriter:
    writer = TableWriter(SESSION, services=NoServices())
    writer._steps = writer._services = writer._spark = Reached()
    return writer


def arrow_without_store() -> ArrowWriter:
    writer = ArrowWriter(services=NoServices())
    writer._steps = writer._services = Reached()  # type: ignore[assignment]
    return writer


def staged_without_spark() -> StagedWrite:
    staged = object.__new__(StagedWrite)
    staged._is_over = True
    staged._staged = Reached()
    return staged


def methods(kind: type, make: Callable[[], object]) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            yield f"{kind.__name__}.{name}", lambda *given, _name=name, **named: getattr(make(), _name)(*given, **named)
            assert hasattr(member, "__wrapped__"), f"{kind.__name__}.{name} checks no argument"


def batch(*given: object, **named: object) -> None:
    batch_writer(Reached(), T, "append", "orders", {})(*given, **named)  # type: ignore[arg-type]


CONSTRUCTORS: Final = (
    ArrowWriter,
    TableWriter,
    Maintenance,
    TableWriterConfig,
    WriteOptions,
    CompactOptions,
    RowOptions,
    NewTable,
    S3Overrides,
    GlueSettings,
)
CHECKS: Final = [getattr(check, name) for name in check.__all__ if name != "Check"]
CALLS: Final[dict[str, Callable[..., Any]]] = {
    **{kind.__name__: kind for kind in CONSTRUCTORS},
    **dict(methods(TableWriter, writer_without_spark)),
    **dict(methods(Maintenance, lambda: World().keeper)),
    **dict(methods(StagedWrite, staged_without_spark)),
    **dict(methods(ArrowWriter, arrow_without_store)),
    **{function.__name__: function for function in CHECKS},
    "lakehouse": lakehouse,
    "read_arrow": read_arrow,
    "for_each_batch's function": batch,
}
RESULTS: Final = {
    "CheckResult",
    "CompactReport",
    "ColumnStatistics",
    "PartitionResult",
    "PlanReport",
    "RowsPlan",
    "RowsResult",
    "StagedFile",
    "WriteResult",
}


def target(name: str) -> Callable[..., Any]:
    """Return the function whose signature a call has."""
    owner, _, method = name.partition(".")
    kinds = {kind.__name__: kind for kind in (*CONSTRUCTORS, StagedWrite)}
    if name.startswith("for_each_batch's"):
        return batch_writer(Reached(), T, "append", "orders", {})  # type: ignore[arg-type]
    if owner in kinds:
        return getattr(kinds[owner], method or "__init__")
    return CALLS[name]


def parameters(name: str) -> dict[str, str]:
    """Return the annotation of each parameter, as it is written; keywords of a TypedDict are parameters too."""
    found: dict[str, str] = {}
    function = target(name)
    for one in inspect.signature(function).parameters.values():
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            described = get_args(get_type_hints(function)[one.name])[0]
            for key, hint in described.__annotations__.items():
                found[key] = hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint
        elif one.name != "self":
            found[one.name] = str(one.annotation)
    return found


def needed(name: str) -> list[str]:
    every = inspect.signature(target(name)).parameters.values()
    return [one.name for one in every if one.default is inspect.Parameter.empty and one.name in parameters(name)]


def call(name: str, parameter: str, value: object) -> object:
    """Make a call with one value, all others being right."""
    several = [
        one.name for one in inspect.signature(target(name)).parameters.values() if one.kind is one.VAR_POSITIONAL
    ]
    named = {one: GOOD[one] for one in needed(name) if one != parameter and one not in several}
    if parameter in several:
        return CALLS[name](value, **named)
    return CALLS[name](*(["id"] if several == ["columns"] else []), **named, **{parameter: value})


EVERY_PARAMETER: Final = [(name, parameter) for name in CALLS for parameter in parameters(name)]


@pytest.mark.parametrize(("name", "parameter"), EVERY_PARAMETER, ids=[f"{one}-{two}" for one, two in EVERY_PARAMETER])
def test_a_value_is_used_or_refused_by_the_name_of_its_parameter(name: str, parameter: str) -> None:
    right = RIGHT[parameters(name)[parameter]]
    starts = name in {
        "lakehouse",
        "TableWriter",
        "Maintenance.erase_many",
    }  # a right value would start a Spark, or look for one
    for kind, value in VALUES.items():
        attempt = partial(call, name, parameter, value)
        if kind not in right:
            with pytest.raises(InvalidInputError) as refused:
                attempt()
            assert parameter in refused.value.message, kind
            assert "expected" in refused.value.message, kind
        elif not starts:
            with suppress(TableWriterError):  # what it says of a range, or of a table that is not there
                attempt()


@pytest.mark.parametrize("name", CALLS)
def test_a_parameter_that_there_is_not_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(InvalidInputError, match="has no parameter no_such") as refused:
        CALLS[name](no_such=1)
    for parameter in set(parameters(name)) - {"columns", "checks"}:
        assert parameter in refused.value.message


@pytest.mark.parametrize("name", [name for name in CALLS if needed(name)])
def test_a_parameter_that_is_missing_is_named(name: str) -> None:
    required = [one for one in needed(name) if one not in {"columns", "checks"}] or ["columns"]
    if name != "StagedWrite.check":
        with pytest.raises(InvalidInputError, match=required[0]):
            CALLS[name]()


def test_more_values_than_parameters_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="history takes table by position"):
        World().keeper.history(T, 3)  # type: ignore[misc]
    with pytest.raises(InvalidInputError, match="TableWriterConfig takes nothing by position"):
        TableWriterConfig("thrift://a:1")  # type: ignore[misc]


def test_every_public_name_is_called_here_or_is_a_result_or_an_error() -> None:
    errors = {name for name in table_writer.__all__ if name.endswith("Error")}
    covered = {name.partition(".")[0] for name in CALLS}
    assert set(table_writer.__all__) == errors | RESULTS | (covered & set(table_writer.__all__)) | {"__version__"}


def test_a_near_name_is_proposed() -> None:
    with pytest.raises(InvalidInputError, match="did you mean checks"):
        writer_without_spark().append(Frame(), T, check=[])  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError, match=r"append has no parameter mode\. It takes df, table, where"):
        writer_without_spark().append(Frame(), T, mode="append")  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError, match="did you mean retention"):
        TableWriterConfig(retentoin=timedelta(1))  # type: ignore[call-arg]


def test_a_message_is_in_the_words_of_the_caller() -> None:
    said: dict[str, Callable[[], object]] = {
        "older_than=24: expected a timedelta, for example timedelta(hours=24), or None": lambda: World().keeper.vacuum(
            T,
            older_than=24,  # type: ignore[arg-type]
        ),
        "partitions[0]=None: expected a text": lambda: World().keeper.rollback(T, version=1, partitions=[None]),  # type: ignore[list-item]
        "metastore_uris='thrift://a:1': expected a list of texts, or None: write metastore_uris=['thrift://a:1']": (
            lambda: TableWriterConfig(metastore_uris="thrift://a:1")  # type: ignore[arg-type]
        ),
        "df: expected a pyspark DataFrame, which spark.createDataFrame(...) makes, got a list": lambda: (
            writer_without_spark().append([1], T)  # type: ignore[arg-type]
        ),
        "TableWriter needs spark: a pyspark SparkSession": TableWriter,  # type: ignore[call-arg]
    }
    for message, attempt in said.items():
        with pytest.raises(InvalidInputError) as refused:
            attempt()
        assert refused.value.message == message


def test_secrets_and_logins_are_not_repeated() -> None:
    attempts: list[Callable[[], object]] = [
        lambda: TableWriterConfig(hadoop={"fs.s3a.secret.key": b"hush"}),  # type: ignore[dict-item]
        lambda: TableWriterConfig(hadoop="hush"),  # type: ignore[arg-type]
        lambda: TableWriterConfig(metastore_uris="thrift://me:hush@a:1"),  # type: ignore[arg-type]
        lambda: S3Overrides(secret_key=["hush"]),  # type: ignore[arg-type]
        lambda: Maintenance(["thrift://me:hush@a:1"]),  # type: ignore[arg-type]
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInputError) as refused:
            attempt()
        assert "hush" not in refused.value.message


def test_a_right_config_and_services_are_used() -> None:
    services = World().all_services()
    assert isinstance(services, Services)
    assert Maintenance(services=services).history(T).versions == ()
    assert TableWriterConfig(metastore_uris=["thrift://a:1"]).metastore_uris == ("thrift://a:1",)  # type: ignore[arg-type]
