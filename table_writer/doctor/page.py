"""Look at a table for its page: a dry run of a vacuum reads log and metastore, then the newest entries are read.

An entry that cannot be read is named on the page, which is made from the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

from table_writer.doctor.findings import error, misplaced_partitions, publishes_in_doubt, readable_entries
from table_writer.errors import InvalidInputError
from table_writer.jobs.vacuum_results import vacuum_report
from table_writer.mirrors import follow as mirrors
from table_writer.model.entry import Outcome
from table_writer.model.partition_facts import PartitionNow
from table_writer.model.table import PartitionValues, shown_name
from table_writer.model.units import DAY_SECONDS
from table_writer.protocol.log.changes import change_of
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.stored import Allowance, TooMuchError
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.present import placements_now
from table_writer.protocol.vacuum.due import Look, look_for_traces, vacuum_ages
from table_writer.protocol.vacuum.sweep import Vacuum
from table_writer.reports.health_reports import FAILED, HEALTHS, IN_DOUBT, Finding
from table_writer.reports.history_facts import small_files_notes, summaries
from table_writer.reports.page.facts import AtWork, Generations, LeftByAge
from table_writer.reports.page.table_page import TablePage
from table_writer.reports.vacuum_reports import VacuumReport

SHOWN_VERSIONS: Final = 60  # in the picture of generations
SHOWN_PARTITIONS: Final = 40
DAYS: Final = (0, 1, 3, 7, 30)  # bounds of the groups by age
States: TypeAlias = Mapping[PartitionValues, Placement | None]  # None: not in the log


@dataclass(frozen=True, slots=True)
class _NewestEntries:
    """The newest entries that could be read, and what is known of the others."""

    records: tuple[SlotRecord, ...]  # oldest first
    damaged: Mapping[int, str]  # by version, the reason why its entry or outcome cannot be read
    lost: frozenset[int]
    newest: int  # the version that the page shows
    older_count: int
    is_whole: bool  # no version is left out

    def history(self, opened: OpenTable) -> History:
        return History(opened.layout, self.records, lost=self.lost | self.damaged.keys())


def look_at(opened: OpenTable, limit: int) -> TablePage:
    """Return the page of a table, with its newest versions."""
    look, vacuum, refusal = _dry_run(opened)
    entries = _newest_entries(opened, limit, look.history.newest) if look else _newest_entries(opened)
    history = entries.history(opened)
    if look is None:  # then only the entries that can be read say where partitions are
        traces = look_for_traces(opened.store, opened.layout)
        look = Look(traces, history, opened.metastore.get_all_partitions(opened.table))
    states = placements_now(look.history, look.partitions, look.partitions)
    troubles = sorted(
        _troubles(opened, look, states, entries, refusal), key=lambda trouble: HEALTHS.index(trouble.health)
    )
    generation_versions, generations, changed_count = _generations(opened, entries.records)
    newest = entries.records[-1] if entries.records else None
    return TablePage(
        table=str(opened.table.name),
        made_at=datetime.now(UTC),
        location=str(opened.layout.root),
        version=entries.newest,
        age_seconds=newest.age_seconds if newest and newest.entry.version == entries.newest else None,
        troubles=tuple(troubles),
        versions=summaries(history, is_whole=entries.is_whole),
        older_count=entries.older_count,
        partitions=_partitions(opened, look, states),
        generation_versions=generation_versions,
        generations=generations,
        changed_count=changed_count,
        left=tuple(_left_by_age(look.history, vacuum)),
        vacuum=vacuum,
        at_work=tuple(_at_work(look)),
        notes=small_files_notes(look.history, opened.table),
        damaged=entries.damaged,
    )


def _dry_run(opened: OpenTable) -> tuple[Look | None, VacuumReport | None, str]:
    """Return what a dry run of a vacuum has read, its report, and the message if it would be refused."""
    vacuum = Vacuum(opened, mirrors)
    try:
        vacuumed = vacuum.run(vacuum_ages(opened), dry_run=True)
    except InvalidInputError as refused:
        return vacuum.look, None, refused.message
    return vacuum.look, vacuum_report(opened, vacuumed, dry_run=True), ""


def _newest_entries(opened: OpenTable, limit: int | None = None, newest: int | None = None) -> _NewestEntries:
    """Read the newest entries, up to the version of the look, newest first while memory lasts."""
    state = opened.log.lister.read(listed_after=0, allow_lost=True)
    versions = sorted((version for version in state.versions if newest is None or version <= newest), reverse=True)
    read_versions = versions[:limit]
    records, errors = readable_entries(opened.log, read_versions, Allowance(opened.config.log_memory_bytes))
    damaged = {
        version: error.message for version, error in errors.items() if not isinstance(error.__cause__, TooMuchError)
    }
    older_count = len(versions) - len(read_versions) + len(errors) - len(damaged)
    return _NewestEntries(
        records=tuple(records),
        damaged=damaged,
        lost=state.lost | state.accepted_losses,
        newest=state.newest if newest is None else newest,
        older_count=older_count,
        is_whole=not (older_count or damaged or state.lost),
    )


def _troubles(
    opened: OpenTable, look: Look, states: States, entries: _NewestEntries, refusal: str
) -> Iterator[Finding]:
    for version, reason in sorted(entries.damaged.items()):
        yield replace(error(f"version {version} cannot be read: {reason}"), health=FAILED)
    if refusal and refusal not in entries.damaged.values():
        yield replace(error(f"a vacuum would be refused: {refusal}"), health=FAILED)
    yield from publishes_in_doubt(look.history, opened.table.name)
    yield from misplaced_partitions(opened, states, whole_log=not (entries.lost or entries.damaged))


def _partitions(opened: OpenTable, look: Look, states: States) -> tuple[PartitionNow, ...]:
    """Describe the partitions of the metastore, and those that it lacks but the log has published."""
    held_rows = look.history.state.current_contents()
    lacking = (values for values, placement in states.items() if placement is not Placement.IN_PLACE)

    def partition_now(values: PartitionValues) -> PartitionNow:
        partition, placement = look.partitions.get(values), states.get(values)
        is_ours = placement is Placement.IN_PLACE  # else the log knows nothing of what readers find
        placed_by = look.history.state.current_partitions.get(values) if is_ours else None
        held = held_rows.get(values) if is_ours else None
        return PartitionNow(
            name=shown_name(opened.table, values),
            location=partition.location if partition else None,
            version=placed_by.version if placed_by else None,
            age_seconds=placed_by.age_seconds if placed_by else None,
            rows=held.rows if held else None,
            files=held.files if held else None,
            bytes=held.bytes if held else None,
            state="not in the log" if placement is None else placement.name.lower().replace("_", " "),
        )

    return tuple(map(partition_now, sorted({*look.partitions, *lacking})))


def _generations(
    opened: OpenTable, records: Sequence[SlotRecord]
) -> tuple[tuple[int, ...], tuple[Generations, ...], int]:
    """Return the newest versions that changed partitions, the generations of those they changed last, and the count."""
    changing_records = [
        record for record in records if record.outcome is not Outcome.ABANDONED and record.entry.partitions
    ]
    changing_records = changing_records[-SHOWN_VERSIONS:]
    last_version: dict[PartitionValues, int] = {}
    for record in changing_records:
        last_version |= dict.fromkeys(record.entry.partition_values - record.superseded, record.entry.version)
    newest_first = sorted(last_version, key=lambda values: (last_version[values], values), reverse=True)
    changes: dict[PartitionValues, list[tuple[int, str]]]
    changes = {values: [] for values in sorted(newest_first[:SHOWN_PARTITIONS])}
    for record in changing_records:
        entry = record.entry
        partitions = [
            partition
            for partition in entry.partitions
            if partition.values in changes and partition.values not in record.superseded
        ]
        for partition in partitions:
            change = change_of(partition, opened.layout, entry) if record.outcome else IN_DOUBT
            changes[partition.values].append((entry.version, change))
    generations = (
        Generations(name=shown_name(opened.table, values), changes=tuple(did)) for values, did in changes.items()
    )
    return tuple(record.entry.version for record in changing_records), tuple(generations), len(last_version)


def _left_by_age(history: History, vacuum: VacuumReport | None) -> Iterator[LeftByAge]:
    """Group the locations that readers have left by age."""
    due_locations = {path.location for path in vacuum.deleted} if vacuum else frozenset()
    for youngest, oldest in zip(DAYS, (*DAYS[1:], math.inf), strict=True):
        locations = [
            location
            for location in history.state.left_locations.values()
            if youngest <= location.age_seconds / DAY_SECONDS < oldest
        ]
        yield LeftByAge(
            older_than_days=youngest,
            younger_than_days=None if oldest == math.inf else int(oldest),
            locations=len(locations),
            bytes=sum(location.bytes for location in locations),
            due_bytes=sum(location.bytes for location in locations if str(location.location) in due_locations),
        )


def _at_work(look: Look) -> Iterator[AtWork]:
    for write_id, registration in sorted(look.traces.registered.items(), reverse=True):
        if write_id not in look.history.claimed_ids and not registration.is_dead(DAY_SECONDS):
            yield AtWork(
                write_id=write_id,
                state="staged" if registration.is_staged else "running",
                age_seconds=registration.age_seconds,
                user=registration.writer.get("user", "?"),
                host=registration.writer.get("host", "?"),
            )
