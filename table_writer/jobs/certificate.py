"""The certificate of an erasure, by the log and by what is left in the store.

``PLACES`` lists every place that holds values of rows: what it holds of erased ones is gone, or is named with when it
goes. A new place where this library puts values belongs there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Final

from table_writer.errors import InvalidInputError, counted, few
from table_writer.mirrors.follow import KINDS
from table_writer.model.entry import Erasure, LogEntry, Outcome
from table_writer.model.location import Location, Place
from table_writer.model.table import HISTORY_PROPERTY
from table_writer.protocol.log.history import History
from table_writer.protocol.log.trimming import Trimming
from table_writer.protocol.operations.statistics import SPARK_PREFIX
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.root_markers import DELTA_LOG, ICEBERG_MIRROR
from table_writer.protocol.vacuum.due import HISTORY_RETENTION, Traces, look_for_traces
from table_writer.reports.erasure_report import ErasedObject, ErasureReport
from table_writer.storage.bucket_rules import TellsRules
from table_writer.storage.object_store import ObjectStore, many
from table_writer.storage.table_files import files_at

# whose names and bodies say no values
MARKS: Final = (
    *("closed", "dropped", "id", "last-word", "lost", "mirrored", "opened"),
    *("recovered", "reopened", "rolled-back", "trimmed"),
)
METADATA: Final = {"delta": (DELTA_LOG, "commits and checkpoints"), "iceberg": (ICEBERG_MIRROR, "manifests")}


class Fate(enum.Enum):
    """The fate of values that a vacuum has not deleted as a part of the erasure."""

    LEFT = "it may hold whole rows, and nothing that was asked for deletes it"
    LATER = "it holds single values, and goes later, or never; the text says when"
    UNKNOWN = "nobody can tell from here"


Finding = tuple[Fate, str]


def left(text: str) -> Finding:
    """Return what may hold whole rows and stays."""
    return Fate.LEFT, text


def later(text: str) -> Finding:
    """Return what holds single values, with when it goes."""
    return Fate.LATER, text


def unknown(text: str) -> Finding:
    """Return what nobody can tell from here."""
    return Fate.UNKNOWN, text


@dataclass(frozen=True)
class Erased:
    """One erasure as the log has it, repeated calls included, and the table now."""

    opened: OpenTable
    traces: Traces  # looked for before the log was read: who has left some and is not running has claimed by then
    history: History
    entries: Sequence[LogEntry]  # of the erasure, by their versions

    @property
    def facts(self) -> list[Erasure]:
        """The descriptions that the entries have."""
        return [entry.erasure for entry in self.entries if entry.erasure is not None]

    @property
    def newest(self) -> LogEntry:
        """The entry that was claimed last."""
        return self.entries[-1]

    @cached_property
    def places(self) -> frozenset[Place]:
        """The places that it names: what goes, and what may hold such rows and does not go."""
        own = {entry.version for entry in self.entries}
        named = (record.erased_places for record in self.history.records if record.entry.version in own)
        kept = (Location.parse_any(text) for erasure in self.facts for text, _ in erasure.kept)
        return frozenset(location.place for location in kept if location is not None).union(*named)

    def around(self, text: str) -> frozenset[Place]:
        """Return what has to be named for a location to be erased."""
        location = Location.parse_any(text)
        return frozenset() if location is None else self.opened.layout.places_around(location)

    @cached_property
    def history_retention(self) -> timedelta:
        """For how long an entry stays that nothing depends on."""
        return self.opened.hours_property(HISTORY_PROPERTY) or HISTORY_RETENTION


@dataclass(frozen=True, kw_only=True)
class ValuePlace:
    """A place that holds values of rows.

    ``below`` says which directories of a table's root, this library's own being ``""``.
    """

    name: str
    below: tuple[str, ...] = ()
    findings: Callable[[Erased], Iterator[Finding]]


class NoErasureError(InvalidInputError):
    """The log has no erasure, or none by that write or of that predicate, or has it no more."""


def erasure_report(opened: OpenTable, write_id: str | None = None, predicate_sha256: str = "") -> ErasureReport:
    """Look whether the objects of an erasure are gone; by default of the newest one.

    Raises ``NoErasureError`` if the log has no such erasure.
    """
    traces = look_for_traces(opened.store, opened.layout)
    history = opened.log.read_history()
    records = [
        record
        for record in history.records
        if record.entry.meaning.erases
        and record.outcome is not Outcome.ABANDONED
        and predicate_sha256 in {"", record.entry.erasure and record.entry.erasure.predicate_sha256}
    ]
    wanted = write_id or next((record.entry.erasing_id for record in reversed(records)), "")
    entries = [record.entry for record in records if wanted in {record.entry.write_id, record.entry.erasing_id}]
    if not entries:
        by = f" by write {write_id}" if write_id else " of that predicate" if predicate_sha256 else ""
        raise NoErasureError(
            f"the log of {opened.table.name} has no erasure{by}:"
            " delete_where(…, purge=True) makes one, and a vacuum trims it with the history, so keep its certificate",
            table=str(opened.table.name),
        )
    erased = Erased(opened, traces, history, entries)
    newest, facts = entries[-1], erased.facts
    keys = dict.fromkeys(key for erasure in facts for key in erasure.keys)
    present = _present_keys(opened.store, entries)
    findings = [finding for place in PLACES for finding in place.findings(erased)]
    texts = {fate: tuple(dict.fromkeys(text for of, text in findings if of is fate)) for fate in Fate}
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
        remarks=texts[Fate.LEFT],
        later=texts[Fate.LATER],
        unknown=texts[Fate.UNKNOWN],
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
        record.entry
        for record in history.records
        if record.outcome is Outcome.PUBLISHED and not record.entry.meaning.erases
    )
    vacuums = (entry for entry in done if not entry.meaning.changes_partitions and entry.version > entries[0].version)
    return [entry for entry in vacuums if any(location.place in places for location in _locations([entry]).values())]


def _in_files(erased: Erased) -> Iterator[Finding]:
    """Name the files that may hold such rows, do not go with the erasure, and are there still."""
    opened = erased.opened
    for erasure in erased.facts:
        for text, why in erasure.kept:
            location = Location.parse_any(text)
            is_in_reach = location is not None and location.place[:2] == opened.layout.root.place[:2]
            if location is None or not is_in_reach or any(files_at(opened.store, opened.layout, location)):
                yield left(f"{text}: {why}")
        yield from map(unknown, erasure.unknown)


def _in_writes(erased: Erased) -> Iterator[Finding]:
    """Name the writes that may hold such rows, or have brought them, and that the erasure could not look through.

    Those are planned before it was claimed: a plan of before may not have seen the delete. Versions that came before it
    were looked through. A compaction gives up what others have changed, so it has brought no older rows.
    """
    history, claimed = erased.history, erased.newest.version
    later_records = [record for record in history.records if record.entry.version > claimed]
    given_up: set[str] = set()
    for record in later_records:
        entry = record.entry
        if record.outcome is Outcome.PUBLISHED:
            yield from map(left, _brought_by(erased, entry))
        elif entry.meaning.has_own_files and entry.base_version < claimed:
            given_up.add(entry.write_id)
    traces = erased.traces
    for write_id in sorted(traces.unclaimed_ids(history) | (given_up & traces.seen_ids)):
        registered = traces.registered.get(write_id)
        if registered is None and write_id not in traces.uploads and not _has_files(erased.opened, write_id):
            continue
        if write_id in given_up or registered is None or registered.base_version < claimed:
            yield left(f"write {write_id} is not published, and its files were not looked through")


def _has_files(opened: OpenTable, write_id: str) -> bool:
    """Return whether files are left of a write: SeaweedFS lists directories of which nothing is left."""
    return any(opened.store.list(opened.layout.data(write_id).key))


def _brought_by(erased: Erased, entry: LogEntry) -> Iterator[str]:
    """Say how a version may have brought such rows that came after the erasure."""
    if entry.meaning.brings_rows and entry.base_version < erased.newest.version:
        yield (
            f"write {entry.write_id} was planned before the erasure and published after it, as version"
            f" {entry.version}: if it may have brought such rows, delete them again"
        )
    elif carried := [text for text in _carried_from(entry) if erased.around(text) & erased.places]:
        yield (
            f"version {entry.version} has taken over what readers saw at {few(carried)}, which may hold such rows:"
            " another tool or a late call had pointed them back there. Delete the rows again"
        )


def _carried_from(entry: LogEntry) -> list[str]:
    """Return where an entry has taken rows from that its partitions keep; a recovery takes none itself."""
    keeps = entry.meaning.has_own_files and (entry.keeps_rows or entry.is_compaction or entry.depends_on_rows)
    return [partition.old_location for partition in entry.partitions if keeps and partition.old_location]


def _in_log(erased: Erased) -> Iterator[Finding]:
    """Say which single values the log holds, and which of its entries stay longer than others."""
    history, newest = erased.history, erased.newest.version
    old = [record.entry for record in history.records if record.entry.version <= newest and record.entry.partitions]
    names = ["names of partitions"] if erased.opened.table.partition_columns else []
    figures = ["the least and the greatest numbers and times of columns, by partition"]
    kept = names + (figures if any(entry.has_figures for entry in old) else [])
    if any(entry.words.where or entry.tags for entry in old):
        kept.append("what callers have said: predicates, and tags")
    if not kept or not old:
        return
    hours = erased.history_retention.total_seconds() / 3600
    yield later(
        f"the log keeps {' and '.join(kept)}: an entry goes with a vacuum once it is {hours:,.0f} hours old and nothing"
        " depends on it"
    )
    needed = Trimming(history).needed()
    staying = [entry.version for entry in old if entry.version in needed]
    current = (partition for partition in history.state.current_partitions.values() if partition.version <= newest)
    dropped = [partition for partition in current if partition.partition.new_location is None]
    if staying:
        yield later(
            f"on version {few(staying)} something depends now: it is the newest of a partition or of a stream, or what"
            " it has replaced is not deleted yet"
        )
    if names and dropped:
        yield later(
            f"of {counted(len(dropped), 'partition')} without rows the log keeps the name for as long as it is there"
        )


def _in_folds(erased: Erased) -> Iterator[Finding]:
    """Say when folds from before the erasure go."""
    older = sorted(version for version in erased.opened.log.marks.listed("folded") if version < erased.newest.version)
    if older:
        yield later(
            f"the log's fold of version {few(older)} holds the same of what was there then: it goes once the log was"
            " folded twice more, each time after 100 versions"
        )


def _in_mirrors(erased: Erased) -> Iterator[Finding]:
    """Say what the metadata of mirrors holds of files that are deleted, and when it goes."""
    opened, hours = erased.opened, erased.history_retention.total_seconds() / 3600
    for kind in KINDS:
        directory, files = METADATA[kind]
        if not any(opened.store.list(opened.layout.root.child(directory).key)):
            continue
        goes = (
            f"a vacuum deletes those that are {hours:,.0f} hours old and that no reader of the mirror needs"
            if kind in opened.followed_mirrors
            else f"it was dropped, so they stay until `table-writer mirror {opened.table.name} --as {kind} --drop`"
        )
        yield later(
            f"{directory}/ has bounds of columns and values of partitions, of files that are gone, in {files}: {goes}"
        )


def _in_store(erased: Erased) -> Iterator[Finding]:
    """Say what the store may keep of objects that are deleted."""
    store = erased.opened.store
    if not isinstance(store, TellsRules):
        yield unknown("what the store keeps of deleted objects (versions, soft delete)")
        return
    rules = store.rules()
    state = rules.versioning()
    if state is None:
        yield unknown(f"whether bucket {rules.bucket} keeps versions of deleted objects: that cannot be read")
    elif state != "Unversioned":
        yield left(f"versioning of bucket {rules.bucket} is {state.lower()}: versions of deleted objects stay")


def _in_metastore(erased: Erased) -> Iterator[Finding]:
    """Say what the metastore holds: a switch gives partitions the figures of what readers see from then on."""
    table = erased.opened.table
    if table.partition_columns and any(name.startswith(SPARK_PREFIX) for name in table.parameters):
        yield later(
            f"properties {SPARK_PREFIX}… of the table have bounds of its columns, as ANALYZE TABLE has found them: they"
            " stay until it is run again"
        )
    yield unknown("the metastore's backups, and its log of notifications: figures and names of older partitions")


def _elsewhere(_: Erased) -> Iterator[Finding]:
    """Say what this library has told others, who may have kept it."""
    yield unknown(
        "what jobs have printed, logged or saved: a failed check shows example rows, Spark's event log the predicate"
    )


PLACES: Final = (
    ValuePlace(name="files of rows, also of other tools", below=("data/",), findings=_in_files),
    ValuePlace(
        name="writes that are running or staged, or that died",
        below=("staged/", "writes/", "turns/"),
        findings=_in_writes,
    ),
    ValuePlace(
        name="the log, and the names of placeholders",
        below=(*(f"log/{name}" for name in ("0", *MARKS)), "empty/", "names/", "owner.json", "checkpoint.json"),
        findings=_in_log,
    ),
    ValuePlace(name="folds of the log", below=("log/folded",), findings=_in_folds),
    ValuePlace(name="mirrors", below=(f"../{DELTA_LOG}/", f"../{ICEBERG_MIRROR}/"), findings=_in_mirrors),
    ValuePlace(name="the store's own memory", findings=_in_store),
    ValuePlace(name="the metastore", findings=_in_metastore),
    ValuePlace(name="reports, events and logs of jobs", findings=_elsewhere),
)
"""Every place that holds values of rows, in the order in which a certificate speaks of them."""
