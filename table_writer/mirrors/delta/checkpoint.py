"""Checkpoints of a Delta log: a snapshot's actions as Parquet, one a row."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from table_writer.mirrors.delta.actions import Action

TEXTS: Final = pa.map_(pa.string(), pa.string())
SCHEMA: Final = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "tags": TEXTS,
                "stats": pa.string(),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": pa.list_(pa.string()),
                "writerFeatures": pa.list_(pa.string()),
            }
        ),
    }
)


def checkpoint_bytes(actions: Iterable[Action]) -> bytes:
    """Return actions as a checkpoint."""
    rows = [{kind: _with_entries(found) for kind, found in action.items()} for action in actions]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, compression="snappy")
    return sink.getvalue()


def actions_in(body: bytes) -> list[Action]:
    """Return the actions of a checkpoint; what pyarrow raises if it is none."""
    rows = pq.read_table(io.BytesIO(body)).to_pylist(maps_as_pydicts="strict")
    return [
        {kind: {name: fact for name, fact in found.items() if fact is not None}}
        for row in rows
        for kind, found in row.items()
        if found is not None
    ]


def _with_entries(found: Action) -> Action:
    """Return an action with its maps as pyarrow takes them."""
    return {name: _as_entries(fact) for name, fact in found.items()}


def _as_entries(fact: Any) -> Any:
    if not isinstance(fact, dict):
        return fact
    is_format = "provider" in fact and "options" in fact
    return {**fact, "options": list(fact["options"].items())} if is_format else list(fact.items())
