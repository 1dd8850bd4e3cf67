"""Checks of the table's own files: whose they are, what is in doubt, what waits for a vacuum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from table_writer.display.render import size
from table_writer.display.reports import Finding
from table_writer.doctor.patient import Patient, error, note, ok, warning
from table_writer.errors import InvalidInputError
from table_writer.log.moved import require_in_place
from table_writer.log.owner import Owner
from table_writer.log.rules import claim_is_over
from table_writer.log.table_log import HINT_EVERY_VERSIONS
from table_writer.model.table import RETENTION_PROPERTY
from table_writer.retention import SAFE_AGE
from table_writer.vacuum.dead_writes import look_for_traces
from table_writer.vacuum.due import Ages, due, in_use

__all__ = ["dead_writes", "in_doubt", "location", "owner", "properties", "retention", "settled_hint", "waiting"]

LATE_SECONDS: Final = 2 * 86_400.0  # a vacuum that runs daily has been there by then
MANY_ENTRIES: Final = 5_000  # read in whole by every maintenance call, two requests an entry


def owner(patient: Patient) -> Iterable[Finding]:
    """Compare ``owner.json`` with the table."""
    services = patient.services
    stored = services.store.get(services.layout.owner_key)
    if stored is None:
        yield note("owner", f"{patient.name} was never written by this library")
        return
    try:
        found = Owner.from_json(stored.body, services.layout.owner_key)
    except InvalidInputError as damaged:
        yield error("owner", damaged.message, f"table-writer adopt {patient.name}")
        return
    expected = Owner.of(services.table, services.metastore.uri)
    if found.identity == expected.identity:
        yield ok("owner", f"the files below {services.layout.root} are this table's")
        return
    yield error(
        "owner",
        f"the files below {services.layout.root} belong to {found.database}.{found.name}, created at"
        f" {found.created_at_seconds} (seen at {found.metastore}), not to {patient.name}, created at"
        f" {expected.created_at_seconds}: every write is refused",
        f"if it is the same data: table-writer adopt {patient.name}. If not, move one of the two tables",
    )


def location(patient: Patient) -> Iterable[Finding]:
    """Look whether another tool has renamed or moved the table away from its log."""
    services = patient.services
    try:
        require_in_place(services.store, services.layout, services.table)
    except InvalidInputError as moved:
        yield error("location", moved.message, "do as it says: `table-writer adopt` changes nothing that is not proven")
    else:
        yield ok("location", f"the table is at {services.table.location}, where its log can follow it")


def in_doubt(patient: Patient) -> Iterable[Finding]:
    """Count the entries, and those without an outcome."""
    history = patient.history()
    dead = [record for record in history.in_doubt if claim_is_over(record.entry, record.age_seconds)]
    running = len(history.in_doubt) - len(dead)
    for record in dead:
        yield warning(
            "log",
            f"version {record.entry.version} ({record.entry.mode}, write_id {record.entry.write_id}) has been in doubt"
            f" for {record.age_seconds / 3600:.1f} h, and its claim is over",
            f"table-writer recover {patient.name}",
        )
    if running:
        yield note("log", f"entries that are being published right now: {running}")
    count = len(history.records)
    if count > MANY_ENTRIES:
        yield warning(
            "log",
            f"the log holds {count:,} entries, which every maintenance call reads",
            f"table-writer vacuum {patient.name} trims it; to keep less, set table_writer.history_retention (hours)",
        )
    elif not history.in_doubt:
        yield ok("log", f"entries: {count:,}, none in doubt")


def settled_hint(patient: Patient) -> Iterable[Finding]:
    """Compare the hint with the log: one that is far behind costs time; one that is ahead is no hint to anybody."""
    services = patient.services
    hinted = services.log.read_state()
    listed = services.log.read_state(listed_after=0)  # after the hint: it may have been renewed since the log was read
    if hinted.settled - hinted.listed_after > 2 * HINT_EVERY_VERSIONS or len(hinted.in_doubt) > HINT_EVERY_VERSIONS:
        yield warning(
            "settled hint",
            f"every plan lists {len(hinted.versions):,} entries, since {services.layout.settled_key} is old",
            f"allow s3:PutObject on it; the next write makes it anew. Entries in doubt hold it back: table-writer"
            f" recover {patient.name}",
        )
    else:
        yield ok("settled hint", f"a plan lists {len(hinted.versions):,} of {len(listed.versions):,} entries")


def properties(patient: Patient) -> Iterable[Finding]:
    """Look for table properties that this library would have to obey, and does not understand."""
    try:
        patient.services.require_properties()
    except InvalidInputError as refusal:
        change = f"ALTER TABLE {patient.name} SET TBLPROPERTIES (…), or UNSET TBLPROPERTIES (…)"
        yield error("table properties", f"{refusal.message}: every write and vacuum is refused", change)
    else:
        yield ok("table properties", "all that begin with table_writer. are understood")


def retention(patient: Patient) -> Iterable[Finding]:
    """Say how long replaced data stays, and who says so."""
    services = patient.services
    usual = services.config.retention
    hours = services.retention.total_seconds() / 3600
    by_table = services.hours_property(RETENTION_PROPERTY) is not None
    of_config = f"{usual.total_seconds() / 3600:g} h"
    source = (
        f"by the table property; the config says {of_config}" if by_table else "by the config: the table says nothing"
    )
    says = f"replaced data stays for {hours:g} h, {source}"
    if services.retention >= SAFE_AGE:
        yield ok("retention", says)
        return
    set_it = f"ALTER TABLE {patient.name} SET TBLPROPERTIES ('{RETENTION_PROPERTY}' = '72')"
    yield warning(
        "retention",
        f"{says}. That is under 24 h: queries that run longer lose their files, and vacuum refuses it unless forced",
        set_it if by_table else f"set retention=timedelta(days=3) in TableWriterConfig, or {set_it}",
    )


def waiting(patient: Patient) -> Iterable[Finding]:
    """Count what readers have left, and what of it a vacuum should have deleted."""
    services, history = patient.services, patient.history()
    of_table = services.hours_property(RETENTION_PROPERTY)
    asked = None if of_table is None else of_table.total_seconds()
    usual = services.retention.total_seconds()
    used = in_use(history, patient.partitions().values())
    ages = Ages(replaced_seconds=asked, usual_seconds=usual, dead_write_seconds=usual)
    ready = due(history, used, ages).locations
    longest = max((usual, *(one.retention_seconds or 0 for one in ready)))
    late = due(history, used, replace(ages, replaced_seconds=longest + LATE_SECONDS)).locations
    everything = size(sum(one.bytes for one in history.left.values()))
    says = (
        f"{len(history.left):,} location(s) with at least {everything} wait, {len(ready):,} of them with"
        f" {size(sum(one.bytes for one in ready))} may be deleted now"
    )
    if late:
        yield warning(
            "data to vacuum",
            f"{says}, {len(late):,} of them for more than two days: no vacuum runs, or it fails",
            f"schedule this daily: table-writer vacuum {patient.name}",
        )
    else:
        yield ok("data to vacuum", says)


def dead_writes(patient: Patient) -> Iterable[Finding]:
    """Look for what dead writes have left: registrations, files, pending uploads."""
    services = patient.services
    traces = look_for_traces(services.store, services.layout)
    history = services.log.read_history()  # after the traces, as a vacuum does
    seconds = services.retention.total_seconds()
    used = in_use(history, patient.partitions().values())
    dead = traces.dead_writes(services.store, history, used, seconds)
    leftover = traces.leftover_uploads(history)
    stale = traces.stale_registrations(history, seconds)
    foreign = sum(traces.write_id_of(found) is None for found in services.store.list_uploads(services.layout.root.key))
    uploads = sum(map(len, traces.uploads.values()))
    gone = {key for write in dead for key in write.registered} | set(stale)
    left = [one for one in traces.registered.values() if one.key not in gone]
    staged = sum(one.is_staged for one in left)
    if dead or leftover or stale:
        stored = size(sum(found.size_bytes for write in dead for found in write.objects))
        aborted = sum(len(write.uploads) for write in dead) + len(leftover)
        yield warning(
            "dead writes",
            f"{len(dead):,} dead write(s) have left files with {stored}; {aborted:,} pending upload(s) and"
            f" {len(stale):,} registration(s) are of no use any more",
            f"table-writer vacuum {patient.name}, or for uploads alone: table-writer uploads --abort {patient.name}",
        )
    else:
        running = len(left) - staged
        yield ok("dead writes", f"none; {running:,} write(s) running, {staged:,} staged, {uploads:,} upload(s) pending")
    if foreign:
        yield note(
            "dead writes",
            f"{foreign:,} pending upload(s) of other tools lie below {services.layout.root}; this library leaves them",
            f"table-writer uploads {patient.name} lists them; a lifecycle rule aborts them",
        )
