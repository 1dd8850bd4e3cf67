"""Checks of a table's log, owner, partitions and files, and of the data that waits for a vacuum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from table_writer.doctor.findings import (
    Placements,
    error,
    misplaced_partitions,
    note,
    ok,
    publishes_in_doubt,
    readable_entries,
    warning,
)
from table_writer.doctor.subject import Subject
from table_writer.errors import InvalidInputError, counted
from table_writer.model.contents import Contents
from table_writer.model.defaults import SAFE_AGE
from table_writer.model.location import Location
from table_writer.model.table import RETENTION_PROPERTY, Partition, PartitionValues
from table_writer.model.table_kind import parameter, why_not_written
from table_writer.model.units import DAY_SECONDS
from table_writer.protocol.log.history import History
from table_writer.protocol.log.known_log import overwritten_versions, refuse_unknown_publishes, unknown_publishes
from table_writer.protocol.log.listing import CHECKPOINT_EVERY_VERSIONS, Listing
from table_writer.protocol.log.owner import Owner, found_log_id, require_in_place
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.registration import read_registrations
from table_writer.protocol.log.rules import is_covered
from table_writer.protocol.log.state import LeftLocation
from table_writer.protocol.log.stored import small_json
from table_writer.protocol.table.present import placements_now
from table_writer.protocol.table.root_markers import SINK, why_marked
from table_writer.protocol.vacuum.due import vacuum_ages
from table_writer.reports import history_facts
from table_writer.reports.health_reports import Finding
from table_writer.reports.layout import size
from table_writer.storage.object_store import ObjectInfo, many
from table_writer.storage.table_files import is_named_by_us, objects_of_each

LATE_SECONDS: Final = 2.0 * DAY_SECONDS  # a daily vacuum has run by then
MANY_ENTRIES: Final = 5_000  # every maintenance call reads all of them, with two requests each
LISTED_PARTITIONS: Final = 1_000


def owner(subject: Subject) -> Iterable[Finding]:
    opened = subject.opened
    stored = opened.store.get(opened.layout.owner_key)
    if stored is None:
        has_versions = opened.log.lister.read(listed_after=0, allow_lost=True).versions
        how = "bring it back from an older version, or let the next write do it"
        lost = warning(f"{opened.layout.owner_key} is lost", how)
        yield lost if has_versions else note(f"{subject.name} was never written by this library")
        return
    try:
        owner_found = Owner.from_json(stored.body, opened.layout.owner_key)
    except InvalidInputError as damaged:
        yield error(damaged.message, f"table-writer adopt {subject.name}")
        return
    own_owner = Owner.of(opened.table, opened.metastore.uri)
    if owner_found.identity == own_owner.identity:
        yield ok(f"the files below {opened.layout.root} are this table's")
        return
    yield error(
        f"the files below {opened.layout.root} belong to {owner_found.database}.{owner_found.name}, created at"
        f" {owner_found.created_at_seconds} (seen at {owner_found.metastore}), not to {subject.name}, created at"
        f" {own_owner.created_at_seconds}: every write is refused",
        f"if it is the same data: table-writer adopt {subject.name}. If not, move one of the two tables",
    )


def known_log(subject: Subject) -> Iterable[Finding]:
    """Compare what the metastore says of the log with the log: it may be gone, another one, or set back."""
    opened, table = subject.opened, subject.opened.table
    log_id = found_log_id(opened.store, opened.layout)
    whole = Partition(values=(), location=table.location, parameters=table.parameters)
    now = {(): whole, **(subject.partitions() if table.partition_columns else {})}
    # read after the partitions: a version that they show is claimed before they do
    newest = opened.log.lister.read(listed_after=0, allow_lost=True).newest
    unknown = unknown_publishes(now, opened.layout, log_id, newest)
    unknown = unknown or overwritten_versions(now, opened.layout, log_id, opened.log.slots.find_entry)
    try:
        refuse_unknown_publishes(opened.store, opened.layout, table, unknown, newest)
    except InvalidInputError as damage_found:
        yield error(damage_found.message, "do as it says; until then every write of such a partition is refused")
    else:
        yield ok("the metastore knows of no other log, and of no version that this one does not have")


def location(subject: Subject) -> Iterable[Finding]:
    opened = subject.opened
    try:
        require_in_place(opened.store, opened.layout, opened.table)
    except InvalidInputError as moved:
        yield error(moved.message, "do as it says: `table-writer adopt` changes nothing that is not proven")
    else:
        yield ok(f"the table is at {opened.table.location}, where its log can follow it")


def readers(subject: Subject) -> Iterable[Finding]:
    """Look for settings by which readers take other files for rows than those at the metastore's locations."""
    opened, table = subject.opened, subject.opened.table
    reason = why_not_written(table)
    findings = [error(f"{subject.name} {reason}", "every write is refused until then")] if reason else []
    findings += [
        error(f"some readers do not see what is written: {reason_marked}", "do as it says; then run doctor again")
        for reason_marked in why_marked(opened.store, opened.layout.root)
    ]
    if not reason and parameter(table, "projection.enabled") == "true":
        findings.append(
            warning(
                "Athena, and Trino where it is set so, compute where partitions are (projection.enabled): they see no"
                " row of this library's",
                "let nobody read the table by partition projection, or set projection.enabled=false",
            )
        )
    places = {values: Location.parse_any(partition.location) for values, partition in subject.partitions().items()}
    other_places = [
        (values, place)
        for values, place in sorted(places.items())
        if place is not None and place.bucket == opened.layout.root.bucket and not opened.layout.own.contains(place)
    ][:LISTED_PARTITIONS]
    names = (
        many(lambda other: opened.store.list_directories(other[1].key), other_places) if table.partition_columns else []
    )
    sinks = [values for (values, _), directories in zip(other_places, names, strict=False) if SINK in directories]
    if sinks:
        findings.append(
            warning(
                f"a stream of Spark has written {subject.names(sinks)}, with its own list of files ({SINK}): who reads"
                " that directory by its path sees what the list says, readers of the table all of its files",
                "overwrite these partitions with what they are to hold; let the stream write by for_each_batch",
            )
        )
    yield from findings or [ok("all readers look where the metastore points")]


def in_doubt(subject: Subject) -> Iterable[Finding]:
    history = subject.history()
    yield from publishes_in_doubt(history, subject.opened.table.name)
    count = len(history.records)
    if count > MANY_ENTRIES:
        yield warning(
            f"the log holds {count:,} entries, which every maintenance call reads",
            f"table-writer vacuum {subject.name} trims it; to keep less, set table_writer.history_retention (hours)",
        )
    elif not history.records.publishes_in_doubt:
        yield ok(f"entries: {count:,}, none in doubt")


def checkpoint(subject: Subject) -> Iterable[Finding]:
    """Compare the checkpoint with the log: one that is far behind costs every plan time."""
    opened = subject.opened
    planned_state = opened.log.lister.read()
    # read after the checkpoint, which may have been renewed since
    listed_state = opened.log.lister.read(listed_after=0)
    if (
        planned_state.checkpoint - planned_state.listed_after > 2 * CHECKPOINT_EVERY_VERSIONS
        or len(planned_state.in_doubt) > CHECKPOINT_EVERY_VERSIONS
    ):
        yield warning(
            f"every plan lists {counted(len(planned_state.versions), 'entry')}, since {opened.layout.checkpoint_key}"
            " is old",
            f"allow s3:PutObject on it; the next write makes it anew. Entries in doubt hold it back: table-writer"
            f" recover {subject.name}",
        )
    else:
        yield ok(f"a plan lists {len(planned_state.versions):,} of {counted(len(listed_state.versions), 'entry')}")


def properties(subject: Subject) -> Iterable[Finding]:
    """Look for table properties that this library would have to obey, and does not understand."""
    try:
        subject.opened.require_properties()
    except InvalidInputError as refusal:
        change = f"ALTER TABLE {subject.opened.table.name.sql} SET TBLPROPERTIES (…), or UNSET TBLPROPERTIES (…)"
        yield error(f"{refusal.message}: every write and vacuum is refused", change)
    else:
        yield ok("all that begin with table_writer. are understood")


def retention(subject: Subject) -> Iterable[Finding]:
    opened = subject.opened
    configured = opened.config.retention
    hours = opened.retention.total_seconds() / 3600
    by_table = opened.hours_property(RETENTION_PROPERTY) is not None
    of_config = f"{configured.total_seconds() / 3600:g} h"
    source = (
        f"by the table property; the config says {of_config}" if by_table else "by the config: the table says nothing"
    )
    says = f"replaced data stays for {hours:g} h, {source}"
    if opened.retention >= SAFE_AGE:
        yield ok(says)
        return
    set_it = f"ALTER TABLE {opened.table.name.sql} SET TBLPROPERTIES ('{RETENTION_PROPERTY}' = '72')"
    yield warning(
        f"{says}. That is under 24 h: queries that run longer lose their files, and vacuum refuses it unless forced",
        set_it if by_table else f"set retention=timedelta(days=3) in TableWriterConfig, or {set_it}",
    )


def waiting(subject: Subject) -> Iterable[Finding]:
    look, vacuumed = subject.vacuumed()
    ages, left_locations = vacuum_ages(subject.opened, force=True), look.history.state.left_locations.values()
    due = [found.left for found in vacuumed.locations]
    late_count = sum(left.age_seconds >= ages.of_replaced(left) + LATE_SECONDS for left in due)
    says = (
        f"waiting: {counted(len(left_locations), 'location')} with at least {_size_of(left_locations)}, {len(due):,}"
        f" of them with {_size_of(due)} to be deleted now"
    )
    if late_count:
        yield warning(
            f"{says}, {late_count:,} of them for more than two days: no vacuum runs, or it fails",
            f"schedule this daily: table-writer vacuum {subject.name}",
        )
    else:
        yield ok(says)


def _size_of(locations: Iterable[LeftLocation]) -> str:
    return size(sum(location.bytes for location in locations))


def dead_writes(subject: Subject) -> Iterable[Finding]:
    look, vacuumed = subject.vacuumed()
    traces, writes = look.traces, vacuumed.dead_writes
    if writes or vacuumed.leftover_uploads or vacuumed.stale_registrations:
        stored = size(sum(found.size_bytes for write in writes for found in write.objects))
        aborted = sum(len(write.uploads) for write in writes) + len(vacuumed.leftover_uploads)
        yield warning(
            f"left by {counted(len(writes), 'dead write')}: files with {stored}; of no use any more:"
            f" {counted(aborted, 'pending upload')} and {counted(len(vacuumed.stale_registrations), 'registration')}",
            f"table-writer vacuum {subject.name}, or for uploads alone: table-writer uploads --abort {subject.name}",
        )
    else:
        staged_count = sum(registration.is_staged for registration in traces.registered.values())
        running_count = len(traces.registered) - staged_count
        uploads = counted(sum(map(len, traces.uploads.values())), "upload")
        yield ok(f"none; {counted(running_count, 'write')} running, {staged_count:,} staged, {uploads} pending")
    foreign_count = sum(traces.write_id_of(found, look.history) is None for found in traces.elsewhere)
    if foreign_count:
        yield note(
            f"this library leaves {counted(foreign_count, 'pending upload')} of other tools below"
            f" {subject.opened.layout.root}",
            f"table-writer uploads {subject.name} lists them; a lifecycle rule aborts them",
        )


def erasures(subject: Subject) -> Iterable[Finding]:
    """Look for rows that are to be erased, and lie there until a vacuum."""
    entries = [record.entry for record in subject.history().records.in_doubt if record.entry.meaning.erases]
    for entry in entries:
        yield warning(
            f"rows {entry.erased} are still in files that no vacuum has deleted since",
            f"table-writer vacuum {subject.name}, then table-writer erasure {subject.name}",
        )
    if not entries:
        yield ok("none waits for a vacuum")


def placement(subject: Subject) -> Iterable[Finding]:
    if any(where in {Placement.BEHIND, Placement.MOVED} for where in _placements(subject).values()):
        subject.forget()  # somebody may have published while log and partitions were read
    placements = _placements(subject)
    findings = list(misplaced_partitions(subject.opened, placements))
    unwritten_count = len(subject.partitions().keys() - placements.keys())
    in_place_count = sum(where is Placement.IN_PLACE for where in placements.values())
    yield from findings or [
        ok(
            f"where the log has put them: {counted(in_place_count, 'partition')}; never written by this library:"
            f" {unwritten_count:,}"
        )
    ]


def forgotten_partitions(subject: Subject) -> Iterable[Finding]:
    """Look for partitions in this library's directory that the log does not know."""
    layout, partitions = subject.opened.layout, subject.partitions()
    claimed_ids = subject.opened.log.read_history().claimed_ids  # read after the partitions: claims come first
    ids = {values: layout.write_id_of(Location.parse(partition.location)) for values, partition in partitions.items()}
    unknown_values = sorted(values for values, write_id in ids.items() if write_id and write_id not in claimed_ids)
    if unknown_values:
        yield error(
            f"readers look at {counted(len(unknown_values), 'partition')} below {layout.own} that the log knows"
            f" nothing of, as if its files were deleted by hand: {subject.names(unknown_values)}. A vacuum may take"
            " them for a dead write's",
            f"do not vacuum {subject.name}; put the log back, or overwrite these partitions with what they hold now",
        )
    else:
        yield ok("the log knows all partitions below this library's directory")


def _placements(subject: Subject) -> Placements:
    history = subject.history()
    return {values: where for values, where in placements_now(history, subject.partitions()).items() if where}


def files(subject: Subject) -> Iterable[Finding]:
    """List the newest partitions of ours, and compare the files there with those that were published."""
    history, placements = subject.history(), _placements(subject)
    doubtful_values = {
        values for record in history.records.publishes_in_doubt for values in record.entry.partition_values
    }
    own_values = []
    for values in sorted((placements.keys() & history.state.current_partitions.keys()) - doubtful_values):
        location = history.state.current_partitions[values].partition.new_location
        is_ours = location is not None and history.layout.write_id_of(Location.parse(location)) is not None
        if is_ours and placements[values] is Placement.IN_PLACE:
            own_values.append(values)
    newest_first = sorted(own_values, key=lambda values: history.state.current_partitions[values].version, reverse=True)
    newest_values = newest_first[:LISTED_PARTITIONS]
    places = {values: _place(history, values) for values in newest_values}
    listed = objects_of_each(subject.opened.store, subject.opened.layout, places.values())
    troubles = [_trouble(history, values, place, listed[place]) for values, place in places.items()]
    mixed_values, lost_values = (
        sorted(values for values, found in zip(newest_values, troubles, strict=True) if found == kind)
        for kind in ("mixed", "lost")
    )
    if mixed_values:
        yield warning(
            f"another tool has written into {counted(len(mixed_values), 'partition')} of this library:"
            f" {subject.names(mixed_values)}. The next overwrite replaces its rows, and a rollback to this state is"
            " refused",
            "find the tool (INSERT INTO or INSERT OVERWRITE of Spark or Hive) and let it write by table_writer; to make"
            f" these rows safe, overwrite the partitions with what they hold now. {subject.name} stays readable",
        )
    if lost_values:
        yield error(
            f"files that readers need are gone from {counted(len(lost_values), 'partition')}:"
            f" {subject.names(lost_values)}",
            f"table-writer history {subject.name}, then table-writer rollback {subject.name} --version N to one"
            " whose files are still there, or write them again; look for a lifecycle expiration or a TRUNCATE",
        )
    if len(newest_values) < len(own_values):
        yield note(f"only the {len(newest_values):,} newest of {counted(len(own_values), 'partition')} were listed")
    elif not (mixed_values or lost_values):
        yield ok(f"exactly the files that were published: {counted(len(newest_values), 'partition')}")


def small_files(subject: Subject) -> Iterable[Finding]:
    """Name the partitions with many small files, by the metastore's figures, without a listing."""
    figures: dict[PartitionValues, tuple[int, int]] = {}
    for values, partition in sorted(subject.partitions().items()):
        count, size_bytes = (partition.parameters.get(name, "") for name in ("numFiles", "totalSize"))
        if count.isdecimal() and size_bytes.isdecimal():
            figures[values] = (int(count), int(size_bytes))
    notes = history_facts.small_files(subject.opened.table, figures)
    fine = ok("no partition of many small files, as far as the metastore knows their number")
    return map(note, notes) if notes else [fine]


def _place(history: History, values: PartitionValues) -> Location:
    return Location.parse(str(history.state.current_partitions[values].partition.new_location))


def _trouble(history: History, values: PartitionValues, location: Location, objects: Sequence[ObjectInfo]) -> str:
    """Compare one partition's files: ``"mixed"`` with another tool's, ``"lost"`` where files of ours are gone."""
    described = None if history.layout.is_placeholder(location) else history.past.content_at(values, location)
    expected = described.contents if described else None
    if Contents.of(objects) == expected:
        return ""  # that holds for copies too, which keep their names
    own_objects = [file for file in objects if is_named_by_us(file.key, location, history.layout)]
    if len(own_objects) < len(objects):
        return "mixed"
    if expected is None:
        return "mixed" if own_objects else ""
    if len(own_objects) < expected.files:
        return "lost"
    return "mixed"  # more files than were published, or other bytes


def damage(subject: Subject) -> Iterable[Finding]:
    state = subject.opened.log.lister.read(listed_after=0, allow_lost=True)
    findings = [
        *_of_identity(subject, state),
        *_of_checkpoint(subject, state),
        *_of_entries(subject, state),
        *_of_registrations(subject),
    ]
    yield from findings or [ok("nothing is lost, and all of it can be read")]


def _of_identity(subject: Subject, state: Listing) -> Iterable[Finding]:
    opened = subject.opened
    stored, key = opened.store.get(opened.layout.owner_key), opened.layout.owner_key
    if stored is None:
        return  # the check of the owner says so, if it is lost
    try:
        log_id = Owner.from_json(stored.body, key).log_id
    except InvalidInputError:
        return  # the check of the owner says so
    if log_id and not state.ids:
        mark = f"{opened.layout.log_prefix}id-{log_id}"
        yield warning(f"the mark {mark} is lost", "nothing: the next write, or call, puts it back")
    elif log_id and log_id not in state.ids:
        yield error(
            f"{opened.layout.log_prefix} is the log {', '.join(sorted(state.ids))}, and {key} names {log_id}",
            f"bring the log back from older versions of the objects; or table-writer recover {subject.name}, whose"
            " refusal says how to begin a new one",
        )


def _of_checkpoint(subject: Subject, state: Listing) -> Iterable[Finding]:
    key = subject.opened.layout.checkpoint_key
    stored = subject.opened.store.get(key)
    try:
        fields = {"version": 0} if stored is None else small_json(stored.body)
        is_readable = int(fields["version"]) >= 0 and fields.get("log_id", "") in {"", *state.ids}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        is_readable = False
    if not is_readable:
        yield warning(f"{key} cannot be read, or is of another log: every plan lists the whole log", f"delete {key}")


def _of_entries(subject: Subject, state: Listing) -> Iterable[Finding]:
    log = subject.opened.log
    recover = f"table-writer recover {subject.name}"
    if state.lost:
        advice = f"bring them back from older versions of the objects; or {recover} --accept-loss"
        yield error(log.lister.lost_message(state.lost), advice)

    records, errors = readable_entries(log, state.versions)
    for unreadable in errors.values():
        yield error(unreadable.message, "bring it back from an older version; or do what the message says")
    history = History(subject.opened.layout, records)
    recent = log.read_recent(allow_lost=True)
    fold = f"{subject.opened.layout.log_prefix}folded-{recent.fold.version if recent.fold else 0:020}"
    for record in history.records.publishes_in_doubt:
        if is_covered(history, record.entry):
            key = subject.opened.layout.outcome_key(record.entry.version)
            is_folded = recent.fold is not None and record.entry.version <= recent.fold.version
            yield warning(
                f"{key} is lost; newer entries tell how that version ended",
                f"delete {fold}, which knows it, then {recover}" if is_folded else recover,
            )
    newest_version = min(recent.newest, history.newest)  # other writers may publish meanwhile
    is_compared = recent.fold is not None and recent.fold.version <= newest_version
    readings = (
        [reading.up_to(newest_version).state.facts() for reading in (recent, history)] if is_compared else [(), ()]
    )
    if readings[0] != readings[1]:
        yield error(
            f"{fold} does not say what the entries say: recover and vacuum go by it",
            f"delete it, then run {recover}; the next vacuum makes it again. Please report it",
        )


def _of_registrations(subject: Subject) -> Iterable[Finding]:
    layout = subject.opened.layout
    for write_id, registration in sorted(read_registrations(subject.opened.store, layout).items()):
        if registration.is_staged:
            try:
                registration.record(layout)
            except InvalidInputError as unreadable:
                yield error(unreadable.message, f"table-writer discard {subject.name} {write_id}")
        elif not registration.writer:
            yield warning(
                f"{registration.key} cannot be read: only its age tells whether the write is alive",
                "nothing: its writer, if it is alive, puts it again; if not, a vacuum deletes it",
            )
