"""The certificate of an erasure, by the log and by what is left in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from table_writer.errors import InvalidInputError
from table_writer.log.history import History
from table_writer.model.entry import LogEntry, Operation, Outcome
from table_writer.model.location import Location
from table_writer.reports.erasure_report import ErasedObject, ErasureReport
from table_writer.storage.object_store import ObjectStore, many
from table_writer.storage.s3 import S3Store, bucket_versioning
from table_writer.table.open_table import OpenTable


def erasure_report(opened: OpenTable, write_id: str | None) -> ErasureReport:
    """Look whether the objects of an erasure are gone; by default of the newest one.

    Raises ``InvalidInputError`` if the log has no such erasure.
    """
    history = opened.log.read_history()
    records = [record for record in history.records if record.entry.erasure and record.outcome is not Outcome.ABANDONED]
    wanted = write_id or next((record.entry.erasing_id for record in reversed(records)), "")
    entries = [record.entry for record in records if wanted in {record.entry.write_id, record.entry.erasing_id}]
    if not entries:
        raise InvalidInputError(
            f"the log of {opened.table.name} has no erasure{f' by write {write_id}' if write_id else ''}:"
            " delete_where(…, purge=True) makes one, and a vacuum trims it with the history, so keep its certificate",
            table=str(opened.table.name),
        )
    newest, facts = entries[-1], [entry.erasure for entry in entries if entry.erasure]
    keys = dict.fromkeys(key for erasure in facts for key in erasure.keys)
    present = _present_keys(opened.store, entries)
    return ErasureReport(
        table=str(opened.table.name),
        write_id=newest.erasing_id,
        version=newest.version,
        predicate_sha256=facts[-1].predicate_sha256,
        deleted_rows=max((rows for erasure in facts if (rows := erasure.deleted_rows) is not None), default=None),
        requested_at=newest.created_at,
        requested_by=f"{newest.writer.get('user', '?')}@{newest.writer.get('host', '?')}",
        vacuumed_at=max((entry.created_at for entry in _vacuums(history, entries)), default=None),
        objects=tuple(ErasedObject(key=key, state="due" if key in present else "deleted") for key in keys),
        remarks=tuple(
            dict.fromkeys(
                (
                    *(remark for erasure in facts for remark in erasure.remarks),
                    *_remarks_on_store(opened.store),
                    *_remarks_on_log(opened, history),
                )
            )
        ),
    )


def _locations(entries: Iterable[LogEntry]) -> dict[str, Location]:
    named = (deleted for entry in entries for deleted in entry.deletes if not deleted.kept)
    return {deleted.location: Location.parse(deleted.location) for deleted in named}


def _present_keys(store: ObjectStore, entries: Sequence[LogEntry]) -> frozenset[str]:
    """List what lies where the erasure has found objects."""
    locations = list(_locations(entries).values())
    listed = many(lambda location: [found.key for found in store.list(location.key)], locations)
    return frozenset(key for keys in listed for key in keys)


def _vacuums(history: History, entries: Sequence[LogEntry]) -> list[LogEntry]:
    """Return the vacuums that have deleted what the erasure names."""
    places = {location.place for location in _locations(entries).values()}
    done = (
        record.entry for record in history.records if record.outcome is Outcome.PUBLISHED and not record.entry.erasure
    )
    vacuums = (entry for entry in done if entry.operation is Operation.VACUUM and entry.version > entries[0].version)
    return [entry for entry in vacuums if any(location.place in places for location in _locations([entry]).values())]


def _remarks_on_store(store: ObjectStore) -> tuple[str, ...]:
    """Say what the store may keep of objects that are deleted."""
    if not isinstance(store, S3Store):
        return ("what the store keeps of deleted objects (versions, soft delete) is not known",)
    state = bucket_versioning(store)
    if state == "Unversioned":
        return ()
    if state is None:
        return (f"whether bucket {store.bucket} keeps versions of deleted objects cannot be read",)
    return (f"versioning of bucket {store.bucket} is {state.lower()}: versions of deleted objects stay",)


def _remarks_on_log(opened: OpenTable, history: History) -> tuple[str, ...]:
    """Say which values of rows the log may hold."""
    kept = ["names of partitions"] if opened.table.partition_columns else []
    if history.fold is not None or any(record.entry.has_figures for record in history.records):
        kept.append("the least and the greatest numbers and times of columns, by partition")
    return (f"the log keeps {' and '.join(kept)}, until a vacuum trims it",) if kept else ()
