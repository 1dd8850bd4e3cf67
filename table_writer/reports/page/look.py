"""Look at a table for its page: a dry run of a vacuum reads log and metastore, then the newest entries are read.

An entry that cannot be read is named on the page, which is made from the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from table_writer.errors import InvalidInputError, counted, few
from table_writer.log.history import History
from table_writer.log.placements import Placement
from table_writer.log.records import SlotRecord
from table_writer.log.rules import claim_is_over
from table_writer.log.stored import Allowance, TooMuchError
from table_writer.model.entry import EntryPartition, Outcome
from table_writer.model.table import Partition, PartitionValues, are_small_files, shown_name
from table_writer.reports.many_report import BEHIND, FAILED, IN_DOUBT, OK
from table_writer.reports.page.facts import AtWork, CheckRuns, Generations, LeftByAge, PartitionNow, Trouble
from table_writer.reports.page.table_page import TablePage
from table_writer.reports.reports import VacuumReport, VersionSummary
from table_writer.reports.versions import partition_details, small_files_notes, summaries, vacuum_report
from table_writer.reports.write_result import verdict
from table_writer.steps.vacuum.due import Look, look_for_traces, vacuum_ages
from table_writer.steps.vacuum.sweep import Vacuum, interrupted
from table_writer.storage.object_store import many
from table_writer.table.open_table import OpenTable
from table_writer.table.present import placements_now

WORST_FIRST: Final = (FAILED, BEHIND, IN_DOUBT, OK)
SHOWN_VERSIONS: Final = 60  # in the picture of generations
SHOWN_PARTITIONS: Final = 40
DAYS: Final = (0, 1, 3, 7, 30)  # bounds of the groups by age
DAY_SECONDS: Final = 86_400
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
    states = placements_now(look.history, {*look.history.state.current, *look.partitions}, look.partitions)
    troubles = sorted(
        _troubles(opened, look, states, entries, refusal), key=lambda trouble: WORST_FIRST.index(trouble.health)
    )
    versions = summaries(history, is_whole=entries.is_whole)
    generation_versions, generations, changed_count = _generations(opened, entries.records)
    newest = entries.records[-1] if entries.records else None
    return TablePage(
        table=str(opened.table.name),
        made_at=datetime.now(UTC),
        location=str(opened.layout.root),
        version=entries.newest,
        age_seconds=newest.age_seconds if newest and newest.entry.version == entries.newest else None,
        health=troubles[0].health if troubles else OK,
        troubles=tuple(troubles),
        versions=versions,
        older_count=entries.older_count,
        partitions=_partitions(opened, look, states),
        generation_versions=generation_versions,
        generations=generations,
        changed_count=changed_count,
        left=tuple(_left_by_age(look.history, vacuum)),
        vacuum=vacuum,
        checks=_checks(versions),
        at_work=tuple(_at_work(look)),
        notes=small_files_notes(look.history, opened.table),
        damaged=entries.damaged,
    )


def _dry_run(opened: OpenTable) -> tuple[Look | None, VacuumReport | None, str]:
    """Return what a dry run of a vacuum has read, its report, and the message if it would be refused."""
    vacuum = Vacuum(opened)
    try:
        vacuumed = vacuum.run(vacuum_ages(opened), dry_run=True)
    except InvalidInputError as refused:
        return vacuum.look, None, refused.message
    return vacuum.look, vacuum_report(opened.table, opened.layout, vacuumed, dry_run=True), ""


def _newest_entries(opened: OpenTable, limit: int | None = None, newest: int | None = None) -> _NewestEntries:
    """Read the newest entries, up to the version of the look, newest first while memory lasts."""
    state = opened.log.lister.read(listed_after=0, allow_lost=True)
    versions = sorted((version for version in state.versions if newest is None or version <= newest), reverse=True)
    allowance = Allowance(opened.config.log_memory_bytes)

    def find(version: int) -> SlotRecord | InvalidInputError | None:
        try:
            return opened.log.slots.find(version, allowance)
        except InvalidInputError as error:
            return error

    read_versions = versions[:limit]
    answers = dict(zip(read_versions, many(find, read_versions), strict=True))
    errors = {version: answer for version, answer in answers.items() if isinstance(answer, InvalidInputError)}
    damaged = {
        version: error.message for version, error in errors.items() if not isinstance(error.__cause__, TooMuchError)
    }
    older_count = len(versions) - len(read_versions) + len(errors) - len(damaged)
    records = [answer for answer in answers.values() if isinstance(answer, SlotRecord)]
    return _NewestEntries(
        records=tuple(reversed(records)),
        damaged=damaged,
        lost=state.lost | state.given_up,
        newest=state.newest if newest is None else newest,
        older_count=older_count,
        is_whole=not (older_count or damaged or state.lost),
    )


def _troubles(
    opened: OpenTable, look: Look, states: States, entries: _NewestEntries, refusal: str
) -> Iterator[Trouble]:
    name, history = opened.table.name, look.history
    recover = f"table-writer recover {name}"
    for version, reason in sorted(entries.damaged.items()):
        yield Trouble(health=FAILED, message=f"version {version} cannot be read: {reason}")
    if refusal and refusal not in entries.damaged.values():
        yield Trouble(health=FAILED, message=f"a vacuum would be refused: {refusal}")
    for record in history.records.publishes_in_doubt:
        entry, waits = record.entry, not claim_is_over(record.entry, record.age_seconds)
        writer = f"{entry.writer.get('user', '?')}@{entry.writer.get('host', '?')}"
        state = "is at work, or has died" if waits else "has died, or its answer was lost"
        yield Trouble(
            health=IN_DOUBT,
            message=f"version {entry.version} is in doubt: the {entry.operation.value} of {writer} {state}",
            advice=recover,
        )
    for entry in interrupted(history):
        yield Trouble(health=IN_DOUBT, message=f"the vacuum of version {entry.version} has died", advice=recover)
    placements = (Placement.BEHIND, Placement.MISSING, Placement.MOVED)
    behind, missing, moved = (_counted_names(opened, states, placement) for placement in placements)
    if behind:
        yield Trouble(health=BEHIND, message=f"readers see older rows of {behind}", advice=recover)
    if missing:
        yield Trouble(health=OK, message=f"not in the metastore, dropped by another tool: {missing}")
    if moved and not (entries.lost or entries.damaged):
        yield Trouble(health=OK, message=f"moved by another tool: {moved}")
    elif moved:
        yield Trouble(health=OK, message=f"where the entries that are gone, or another tool, have put them: {moved}")


def _counted_names(opened: OpenTable, states: States, placement: Placement) -> str:
    """Count the partitions with this placement and name the first ones; empty if there are none."""
    matching = sorted(values for values, state in states.items() if state is placement)
    names = few(shown_name(opened.table, values) for values in matching)
    return f"{counted(len(matching), 'partition')} ({names})" if matching else ""


def _partitions(opened: OpenTable, look: Look, states: States) -> tuple[PartitionNow, ...]:
    """Describe the partitions of the metastore, and those that it lacks but the log has published."""
    held_rows = look.history.state.current_contents()
    lacking = (values for values, placement in states.items() if placement is not Placement.IN_PLACE)
    return tuple(
        _partition(opened, look, values, states.get(values), held_rows.get(values))
        for values in sorted({*look.partitions, *lacking})
    )


def _partition(
    opened: OpenTable, look: Look, values: PartitionValues, placement: Placement | None, rows: EntryPartition | None
) -> PartitionNow:
    partition: Partition | None = look.partitions.get(values)
    is_ours = placement is Placement.IN_PLACE
    placed_by = look.history.state.current.get(values) if is_ours else None
    known_rows = rows if is_ours else None
    return PartitionNow(
        name=shown_name(opened.table, values),
        location=None if partition is None else partition.location,
        version=None if placed_by is None else placed_by.version,
        age_seconds=None if placed_by is None else placed_by.age_seconds,
        rows=None if known_rows is None else known_rows.rows,
        files=None if known_rows is None else known_rows.files,
        bytes=None if known_rows is None else known_rows.bytes,
        has_small_files=known_rows is not None and are_small_files(known_rows.files, known_rows.bytes),
        state="not in the log" if placement is None else placement.name.lower().replace("_", " "),
    )


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
        details = partition_details(opened.table, opened.layout, partitions, entry)
        for partition, detail in zip(partitions, details, strict=True):
            changes[partition.values].append((entry.version, detail.change if record.outcome else IN_DOUBT))
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
            for location in history.state.left.values()
            if youngest <= location.age_seconds / DAY_SECONDS < oldest
        ]
        yield LeftByAge(
            older_than_days=youngest,
            younger_than_days=None if oldest == math.inf else int(oldest),
            locations=len(locations),
            bytes=sum(location.bytes for location in locations),
            due_bytes=sum(location.bytes for location in locations if str(location.location) in due_locations),
        )


def _checks(versions: Iterable[VersionSummary]) -> tuple[CheckRuns, ...]:
    """Return the runs of each check; those that failed last time first."""
    outcomes: dict[str, list[tuple[int, str]]] = {}
    messages: dict[str, str] = {}
    for version in sorted(versions, key=lambda summary: summary.version):
        for check in version.checks:
            outcomes.setdefault(check.name, []).append((version.version, verdict(check)))
            messages[check.name] = check.message
    runs_of_checks = (
        CheckRuns(name=name, message=messages[name], outcomes=tuple(runs)) for name, runs in outcomes.items()
    )
    return tuple(
        sorted(runs_of_checks, key=lambda check: (check.outcomes[-1][1] == "passed", -check.failed_count, check.name))
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
