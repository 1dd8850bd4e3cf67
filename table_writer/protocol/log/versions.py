"""Which version is meant, and which are known: by number, by a time at which readers saw it, or by its write.

Pure. What nobody can know is an error here, and never another version.
"""

from __future__ import annotations

from datetime import UTC, datetime

from table_writer.errors import InvalidInputError, counted
from table_writer.model.entry import Outcome
from table_writer.model.table import Table
from table_writer.protocol.log.history import History


def require_one_name(version: int | None, as_of: datetime | None, write_id: str | None) -> None:
    """Refuse a call that names no version, or more than one."""
    if [version, as_of, write_id].count(None) != 2:
        raise InvalidInputError("name one version: by version, as_of or write_id, one of the three")


def version_meant(
    history: History,
    table: Table,
    *,
    version: int | None = None,
    as_of: datetime | None = None,
    write_id: str | None = None,
) -> int:
    """Return the version that one of three names: its number, a time at which readers saw it, its write.

    A time means the newest version that was written up to then, by the times that the history shows: those are whole
    seconds, so a time without a fraction means the end of its second.
    """
    require_one_name(version, as_of, write_id)
    if as_of is not None:
        return _version_at(history, as_of, table)
    return version_of(history, write_id, table) if version is None else version  # type: ignore[arg-type]  # one is given


def newest_known_version(history: History) -> int:
    """Return the newest version before which nothing is in doubt: what is, may yet be published."""
    end = min((record.entry.version for record in history.records.publishes_in_doubt), default=history.newest + 1)
    return max((record.entry.version for record in history.records.published if record.entry.version < end), default=0)


def _version_at(history: History, as_of: datetime, table: Table) -> int:
    if as_of.utcoffset() is None:
        raise InvalidInputError(
            f"as_of={as_of!r} has no time zone; add one, for example tzinfo=UTC: the history shows times in UTC"
        )
    as_of = as_of if as_of.microsecond else as_of.replace(microsecond=999_999)
    written = [record for record in history.records.published if record.entry.created_at <= as_of]
    if not written:
        oldest = "it is empty"
        if history.records:
            first = history.records[0].entry
            oldest = (
                f"its oldest is version {first.version}, of {first.created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
            )
        raise InvalidInputError(
            f"the log of {table.name} has no version of {as_of.isoformat()} or before: {oldest}", table=str(table.name)
        )
    if why := _note_of_doubt(history, as_of, table):
        raise InvalidInputError(
            f"which version of {table.name} readers saw at {as_of.isoformat()} is not known: {why}",
            table=str(table.name),
        )
    found = written[-1].entry.version
    present = [record.entry.version for record in history.records]
    published = (record.entry.version for record in history.records.published)
    later = next((version for version in published if version > found), history.newest + 1)
    if not set(present).issuperset(range(found, later)):
        raise InvalidInputError(
            f"which version of {table.name} readers saw at {as_of.isoformat()} is not known: entries between version"
            f" {found} and {later} were trimmed by a vacuum, or lost. Name a version instead",
            table=str(table.name),
        )
    return found


def _note_of_doubt(history: History, as_of: datetime, table: Table) -> str:
    """Say which publish readers may or may not have seen at a time, between its claim and its recovery; or nothing."""
    claimed = {record.entry.write_id: record.entry.created_at for record in history.records}
    for record in (*history.records.publishes_in_doubt, *history.records.published):
        entry = record.entry
        if entry.created_at > as_of:
            continue
        if record.outcome is None:
            return f"version {entry.version} is in doubt: run `table-writer recover {table.name}` first"
        trimmed = history.records[-1].entry.created_at  # at the latest: the newest entry is never trimmed
        if record.recorded_by != entry.write_id and as_of < claimed.get(record.recorded_by, trimmed):
            return f"version {entry.version} was in doubt then, and was resolved later. Name a version instead"
    return ""


def version_of(history: History, write_id: str, table: Table) -> int:
    """Return the version that made readers see a write first, though other entries of it may have been refused.

    Raises ``InvalidInputError`` if readers have not seen it, as far as is known, or if no write has this name.
    """
    published = history.records.publication(write_id)
    if published is not None:
        return published.entry.version
    own = [record for record in history.records if record.entry.write_id == write_id]
    newest = own[-1] if own else None
    if newest is None:
        why = "there is no entry of it in the log"
    elif not newest.entry.meaning.shows_a_write:
        why = f"it is no write but the {newest.entry.operation.value} that is version {newest.entry.version}"
    elif newest.outcome is None:
        why = f"its version {newest.entry.version} is in doubt: run `table-writer recover {table.name}` first"
    else:
        versions = ", ".join(str(record.entry.version) for record in own)
        why = f"readers have never seen it: version {versions} of the log was abandoned"
    raise InvalidInputError(
        f"write {write_id} names no version of {table.name}: {why}. `table-writer history {table.name}` shows all; a"
        " version can be named instead",
        table=str(table.name),
        write_id=write_id,
    )


def require_version(history: History, version: int, table: Table) -> None:
    """Refuse a version that the log does not have, or that changed nothing; 0 is the state before the first."""
    by_version = history.records.by_version
    oldest = min(by_version, default=1)
    known_state = version in by_version or (version == 0 and oldest == 1)
    if not known_state:
        known = ", ".join(str(number) for number in sorted(by_version)[-5:])
        raise InvalidInputError(
            f"{table.name} has no version {version}: the log holds {counted(len(by_version), 'entry')}, the newest"
            f" {known or 'none'}; older ones may have been trimmed by a vacuum",
            table=str(table.name),
        )
    if version and by_version[version].outcome is Outcome.ABANDONED:
        older = (number for number, record in by_version.items() if record.has_changed and number < version)
        raise InvalidInputError(
            f"version {version} of {table.name} was abandoned: it changed nothing; before it readers saw version"
            f" {max(older, default=0)}",
            table=str(table.name),
        )


def require_known_version(history: History, version: int, table: Table) -> None:
    """Refuse a version of which nobody can tell what readers saw after it."""
    require_version(history, version, table)
    doubt = [record.entry.version for record in history.records.publishes_in_doubt if record.entry.version <= version]
    lost = history.lost_after(version)
    if not doubt and lost is None:
        return
    why = f"version {doubt[0]} is in doubt: run `table-writer recover {table.name}` first" if doubt else ""
    raise InvalidInputError(
        f"what readers of {table.name} saw after version {version} is not known: "
        f"{why or f'version {lost} is lost, and nobody knows which partitions it changed'}",
        table=str(table.name),
    )


def oldest_whole_version(history: History) -> int | None:
    """Return the first version since which no vacuum has deleted files of any; ``None`` if none has deleted files."""
    gone = (version for version in range(1, history.newest) if version not in history.records.by_version)
    since = max(gone, default=0)
    for record in history.records:
        if not record.entry.meaning.changes_partitions and record.outcome is not Outcome.ABANDONED:
            since = max([since, *(deletion.replaced_by or 0 for deletion in record.entry.deletes if not deletion.kept)])
    return next(
        (record.entry.version for record in history.records.published if record.entry.version >= since > 0), None
    )
