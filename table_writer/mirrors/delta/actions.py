"""The actions of a commit to a Delta log, as Delta's protocol says.

Source: PROTOCOL.md of Delta Lake: "Actions", "Partition Value Serialization", "Per-file Statistics", "Schema
Serialization Format".
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from urllib.parse import quote

from table_writer.errors import InvalidInputError
from table_writer.mirrors.mirror import HANDED_OVER, TAKEN_BACK, MirrorChange, MirroredFile, MirroredTable
from table_writer.model.column_figures import ColumnFigures, from_text
from table_writer.model.column_statistics import COLLATIONS, CURRENT_DEFAULT, EXISTS_DEFAULT
from table_writer.model.hive_columns import HIVE_NAMES
from table_writer.model.location import Location
from table_writer.model.partition_value import canonical
from table_writer.model.table import NULL_PARTITION, PartitionValues
from table_writer.version import __version__

Action = dict[str, Any]
DeltaValues = tuple[str | None, ...]
APP_ID: Final = "table_writer"
LOG_ID: Final = "table_writer.log_id"  # in the configuration of the Delta table
DROPPED: Final = "dropped"  # of what a commit says of itself: the log is being deleted
OWN: Final = "tableWriter"  # in a commit's own facts
ENGINE: Final = f"table_writer/{__version__}"
WRITER_FEATURE: Final = "table_writer"  # no other writer knows it, and by protocol each refuses to commit
SAFE_IN_PATH: Final = "/=@!$&'()*+,;~"  # not ``:``, which would make a scheme of the first directory
PLAIN_TYPES: Final = (
    *("byte", "short", "integer", "long", "float", "double"),
    *("boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"),
)
LEFT_OUT: Final = frozenset({CURRENT_DEFAULT, EXISTS_DEFAULT, COLLATIONS, "parquet.field.id"})
DELTAS: Final = "delta."  # of a table that was once read as Delta's own
LARGEST_EXACT: Final = 2**53  # of the numbers that every reader of JSON reads exactly
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
STEP_OF_TIME: Final = 1_000  # microseconds: Delta's statistics of times are read to the millisecond
KEEPS_FOR_EVER: Final = "interval 36500 days"  # what goes, and when, is this library's business
LOG_RETENTION: Final = "delta.logRetentionDuration"
RETENTIONS: Final = dict.fromkeys(("delta.deletedFileRetentionDuration", LOG_RETENTION), KEEPS_FOR_EVER)


def commit_lines(actions: Iterable[Action]) -> bytes:
    """Return actions as the body of a commit."""
    return "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions).encode()


def commit_info(change: MirrorChange) -> Action:
    """Say who has committed what."""
    facts = {"version": change.version, "inDoubt": sorted(change.in_doubt), "writeId": change.write_id}
    return _own_info("WRITE", change.mode, change.created_at, facts)


def _own_info(operation: str, mode: str, moment: datetime, facts: Action) -> Action:
    """Return a commit's first action; the id makes each commit another one, whoever writes the same."""
    info = {
        "engineInfo": ENGINE,  # first: a commit that is cut off is known by it
        "timestamp": millis(moment),
        "operation": operation,
        "operationParameters": {"mode": mode},
        "txnId": str(uuid.uuid4()),
        OWN: facts,
    }
    return {"commitInfo": info}


def transaction(change: MirrorChange) -> Action:
    """Say which version of the log the mirror holds from this commit on."""
    return {"txn": {"appId": APP_ID, "version": change.version, "lastUpdated": millis(change.created_at)}}


def protocol(table: MirroredTable) -> Action:
    """Return the versions that readers and writers must know: of readers the first, as far as types allow."""
    if "timestamp_ntz" not in json.dumps(table.fields):
        return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [WRITER_FEATURE]}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["timestampNtz"],
        "writerFeatures": ["timestampNtz", WRITER_FEATURE],
    }


def metadata(table: MirroredTable, before: Mapping[str, Any] | None, created_at: datetime) -> Action:
    """Return what readers are told of the table; its id and its age stay as they were."""
    before = before or {}
    fields = [_plain_field(field, table) for field in table.fields]
    return {
        "id": before.get("id") or str(uuid.uuid4()),
        "name": table.name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False),
        "partitionColumns": list(table.partition_columns),
        "configuration": {**RETENTIONS, LOG_ID: table.log_id, **_undone(before.get("configuration") or {}, table)},
        "createdTime": before.get("createdTime") or millis(created_at),
    }


def _undone(configuration: Mapping[str, Any], table: MirroredTable) -> dict[str, Any]:
    """Return the version of this log that has taken the table back: a handover before it may yet be at work."""
    is_of_this_log = configuration.get(LOG_ID) == table.log_id
    return {TAKEN_BACK: configuration[TAKEN_BACK]} if is_of_this_log and TAKEN_BACK in configuration else {}


def handover(before: Action, table: Action, version: int, facts: Action) -> tuple[Action, ...]:
    """Return the actions by which others may write, ``before`` being the protocol.

    Files that leave the table stay, since readers of the Hive table need them, until somebody sets another retention.
    """
    features = [name for name in before.get("writerFeatures", ()) if name != WRITER_FEATURE]
    opened = {**before, "writerFeatures": features} if features else {"minReaderVersion": 1, "minWriterVersion": 2}
    kept = {name: text for name, text in table["configuration"].items() if name != LOG_RETENTION}
    return (
        _own_info("HANDOVER", "", datetime.now(UTC), facts),
        {"protocol": opened},
        {"metaData": {**table, "configuration": {**kept, HANDED_OVER: str(version)}}},
    )


def dropping(facts: Action) -> tuple[Action, ...]:
    """Return the actions of a commit after which the log is deleted: whoever commits next finds its number taken."""
    return (_own_info("DROP", "", datetime.now(UTC), {**facts, DROPPED: True}),)


def taking_back(before: Action, table: Action, version: int, facts: Action) -> tuple[Action, ...]:
    """Return the actions that keep others out again."""
    features = [*(name for name in before.get("writerFeatures", ()) if name != WRITER_FEATURE), WRITER_FEATURE]
    kept = {name: text for name, text in table["configuration"].items() if name != HANDED_OVER}
    return (
        _own_info("HANDOVER", "undo", datetime.now(UTC), facts),
        {"protocol": {**before, "minWriterVersion": 7, "writerFeatures": features}},
        {"metaData": {**table, "configuration": {**kept, **RETENTIONS, TAKEN_BACK: str(version)}}},
    )


def _plain_field(field: Mapping[str, Any], table: MirroredTable) -> Action:
    """Return a column without what takes a feature of Delta's: defaults, collations, and lengths inside of others.

    Nor has it ids, by which readers would look for it in files that have none.
    """
    try:
        kind = _plain_type(field["type"])
    except ValueError as error:
        column = f"column {field['name']} of {table.name}"
        raise InvalidInputError(f"{column} cannot be mirrored: Delta has no type {error}", table=table.name) from error
    metadata = {
        name: said
        for name, said in field.get("metadata", {}).items()
        if name not in LEFT_OUT and not name.startswith(DELTAS)
    }
    return {"name": field["name"], "type": kind, "nullable": True, "metadata": metadata}


def _plain_type(kind: Any) -> Any:
    """Return a type as Delta has it; ``ValueError`` for one that it does not have."""
    if isinstance(kind, str):
        if kind.startswith(("char(", "varchar(", "string collate ")):
            return "string"
        if kind not in PLAIN_TYPES and not kind.startswith("decimal("):
            raise ValueError(kind)
        return kind
    if kind["type"] == "struct":
        fields = [
            {"name": field["name"], "type": _plain_type(field["type"]), "nullable": True, "metadata": {}}
            for field in kind["fields"]
        ]
        return {"type": "struct", "fields": fields}
    if kind["type"] == "udt":
        return _plain_type(kind["sqlType"])
    return {name: _plain_type(inner) if name.endswith("Type") else inner for name, inner in kind.items()}


def millis(moment: datetime) -> int:
    """Return a time as Delta has it."""
    return int(moment.timestamp() * 1000)


def path_of(key: str, root: Location) -> str:
    """Return a file's path: below the root relative to it, else a full URI."""
    if key.startswith(root.key):
        return quote(key.removeprefix(root.key), safe=SAFE_IN_PATH)
    return f"{root.scheme}://{root.bucket}/{quote(key, safe=SAFE_IN_PATH)}"


def delta_values(values: PartitionValues, table: MirroredTable) -> DeltaValues:
    """Return a partition's values as Delta writes them: a text of each type, or null.

    Times keep the text that their clock showed, as in Hive.
    """
    fields = table.fields[len(table.fields) - len(values) :]
    return tuple(_delta_value(text, field) for text, field in zip(values, fields, strict=True))


def _delta_value(text: str, field: Mapping[str, Any]) -> str | None:
    kind = str(field["type"])
    if text in {NULL_PARTITION, ""}:
        return None
    hive = HIVE_NAMES.get(kind, kind)
    if hive == "string":
        return text
    (known,) = canonical((text,), (hive,))
    if known == NULL_PARTITION:
        return None
    if kind.startswith("decimal"):
        scale = int(kind.rstrip(")").partition(",")[2] or 0)
        return format(Decimal(text.strip()).quantize(Decimal(1).scaleb(-scale)), "f")
    return text if kind in {"float", "double"} else known


def add(file: MirroredFile, values: DeltaValues, change: MirrorChange, root: Location) -> Action:
    """Return the action that shows readers a file; ``dataChange`` is right unless a copy of it is taken away."""
    stats = statistics(file, change.table)
    return {
        "path": path_of(file.key, root),
        "partitionValues": dict(zip(change.table.partition_columns, values, strict=True)),
        "size": file.size_bytes,
        "modificationTime": millis(change.created_at),
        "dataChange": change.changes_rows,
        **({"stats": stats} if stats else {}),
    }


def remove(added: Mapping[str, Any], *, changes_rows: bool) -> Action:
    """Return the action that takes a file from readers."""
    vector = {"deletionVector": added["deletionVector"]} if added.get("deletionVector") else {}
    return {
        "path": added["path"],
        "deletionTimestamp": millis(datetime.now(UTC)),
        "dataChange": changes_rows,
        "extendedFileMetadata": True,
        "partitionValues": added.get("partitionValues") or {},
        "size": added.get("size", 0),
        **vector,
    }


def statistics(file: MirroredFile, table: MirroredTable) -> str:
    """Return what is known exactly of a file's rows, as JSON; empty where nothing is."""
    if file.rows is None:
        return ""
    figures = {name.lower(): found for name, found in from_text(file.figures).items()}
    known = {
        field["name"]: (field, figures[field["name"].lower()])
        for field in table.fields
        if field["name"].lower() in figures and figures[field["name"].lower()].rows == file.rows
    }
    bounds = {name: _bounds(field, found) for name, (field, found) in known.items()}
    facts: Action = {"numRecords": file.rows}
    if known:
        facts["minValues"] = {name: both[0] for name, both in bounds.items() if both}
        facts["maxValues"] = {name: both[1] for name, both in bounds.items() if both}
        facts["nullCount"] = {name: found.nulls for name, (_, found) in known.items()}
    return json.dumps(facts, separators=(",", ":"))


def _bounds(field: Mapping[str, Any], figures: ColumnFigures) -> tuple[Any, Any] | None:
    """Return the least and the greatest value as Delta's statistics have them; none where they would not be exact."""
    if figures.low is None or figures.high is None:
        return None
    try:
        low, high = (_bound(str(field["type"]), bound) for bound in (figures.low, figures.high))
    except (ValueError, OverflowError, InvalidOperation, TypeError):
        return None
    return None if low is None or high is None else (low, high)


def _bound(kind: str, bound: float | str) -> Any:
    if kind in {"byte", "short", "integer", "long"}:
        return int(bound)
    if kind in {"float", "double"}:
        return float(bound) if math.isfinite(float(bound)) else None
    if kind.startswith("decimal"):
        number = Decimal(str(bound))
        return int(number) if number == number.to_integral_value() and abs(number) < LARGEST_EXACT else None
    if kind == "date":
        return (date(1970, 1, 1) + timedelta(days=int(bound))).isoformat()
    if kind == "timestamp" and int(bound) % STEP_OF_TIME == 0:
        moment = EPOCH + timedelta(microseconds=int(bound))
        return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"  # four digits a year, always
    return None
