"""One look at a table for its page: a vacuum's dry run reads log and metastore, then the newest entries are read.

Entries that cannot be read do not keep the page from being made: it names them, and says what the others say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from table_writer.display.many_report import BEHIND, FAILED, IN_DOUBT, OK
from table_writer.display.reports import VacuumReport, VersionSummary
from table_writer.display.versions import partition_details, small_files_notes, summaries, vacuum_report
from table_writer.display.write_result import verdict
from table_writer.errors import InvalidInputError, counted, few
from table_writer.log.history import History, Placement, SlotRecord
from table_writer.log.open_table import OpenTable
from table_writer.log.present import placements_now
from table_writer.log.rules import claim_is_over
from table_writer.log.stored import Allowance, TooMuchError
from table_writer.model.entry import EntryPartition, Outcome
from table_writer.model.table import Partition, PartitionValues, are_small_files, shown_name
from table_writer.page.facts import AtWork, CheckRuns, Generations, LeftByAge, PartitionNow, Trouble
from table_writer.page.table_page import TablePage
from table_writer.storage.object_store import many
from table_writer.vacuum.due import Look, look_for_traces, vacuum_ages
from table_writer.vacuum.sweep import Vacuum, interrupted

NEWEST_VERSIONS: Final = 1_000  # two requests each
WORST_FIRST: Final = (FAILED, BEHIND, IN_DOUBT, OK)
SHOWN_VERSIONS: Final = 60  # in the picture of generations
SHOWN_PARTITIONS: Final = 40
DAYS: Final = (0, 1, 3, 7, 30)  # where ages are divided
DAY_SECONDS: Final = 86_400
States: TypeAlias = Mapping[PartitionValues, Placement | None]  # None: not in the log


@dataclass(frozen=True, slots=True)
class _Read:
    """The newest entries, as far as they could be read."""

    records: tuple[SlotRecord, ...]  # oldest first
    damaged: Mapping[int, str]  # by version, why its entry or its outcome cannot be read
    lost: frozenset[int]
    newest: int  # the version that the page is of
    older_count: int
    is_whole: bool  # nothing is left out

    def history(self, opened: OpenTable) -> History:
        return History(opened.layout, self.records, lost=self.lost | self.damaged.keys())


def look_at(opened: OpenTable, limit: int) -> TablePage:
    """Return all that is known of a table, with its newest versions."""
    look, vacuum, refusal = _dry_run(opened)
    read = _read(opened, limit, look.history.newest) if look else _read(opened)
    newest = read.history(opened)
    if look is None:  # then the entries that can be read are all there is: where partitions are, is in any of them
        traces = look_for_traces(opened.store, opened.layout)
        look = Look(traces, newest, opened.metastore.get_all_partitions(opened.table))
    states = placements_now(look.history, {*look.history.current_partitions, *look.partitions}, look.partitions)
    troubles = sorted(_troubles(opened, look, states, read, refusal), key=lambda one: WORST_FIRST.index(one.health))
    versions = summaries(newest, is_whole=read.is_whole)
    shown, generations, changed_count = _generations(opened, read.records)
    last = read.records[-1] if read.records else None
    return TablePage(
        table=str(opened.table.name),
        made_at=datetime.now(UTC),
        location=str(opened.layout.root),
        version=read.newest,
        age_seconds=last.age_seconds if last and last.entry.version == read.newest else None,
        health=troubles[0].health if troubles else OK,
        troubles=tuple(troubles),
        versions=versions,
        older_count=read.older_count,
        partitions=_partitions(opened, look, states),
        generation_versions=shown,
        generations=generations,
        changed_count=changed_count,
        left=tuple(_left(look.history, vacuum)),
        vacuum=vacuum,
        checks=_checks(versions),
        at_work=tuple(_at_work(look)),
        notes=small_files_notes(look.history, opened.table),
        damaged=read.damaged,
    )


def _dry_run(opened: OpenTable) -> tuple[Look | None, VacuumReport | None, str]:
    """Return what a vacuum has seen and would do; or why it would be refused."""
    vacuum = Vacuum(opened)
    try:
        found = vacuum.run(vacuum_ages(opened), dry_run=True)
    except InvalidInputError as refused:
        return vacuum.look, None, refused.message
    return vacuum.look, vacuum_report(opened.table, opened.layout, found, dry_run=True), ""


def _read(opened: OpenTable, limit: int | None = None, newest: int | None = None) -> _Read:
    """Read the newest entries, up to the version that the look has seen; the newest first get the memory there is."""
    state = opened.log.read_state(listed_after=0, allow_lost=True)
    there = sorted((one for one in state.versions if newest is None or one <= newest), reverse=True)
    allowance = Allowance(opened.config.log_memory_bytes)

    def find(version: int) -> SlotRecord | InvalidInputError | None:
        try:
            return opened.log.find(version, allowance)
        except InvalidInputError as error:
            return error

    chosen = there[:limit]
    found = dict(zip(chosen, many(find, chosen), strict=True))
    errors = {version: one for version, one in found.items() if isinstance(one, InvalidInputError)}
    damaged = {one: error.message for one, error in errors.items() if not isinstance(error.__cause__, TooMuchError)}
    older_count = len(there) - len(chosen) + len(errors) - len(damaged)
    records = [one for one in found.values() if isinstance(one, SlotRecord)]
    return _Read(
        records=tuple(reversed(records)),
        damaged=damaged,
        lost=state.lost | state.given_up,
        newest=state.newest if newest is None else newest,
        older_count=older_count,
        is_whole=not (older_count or damaged or state.lost),
    )


def _troubles(opened: OpenTable, look: Look, states: States, read: _Read, refusal: str) -> Iterator[Trouble]:
    name, history = opened.table.name, look.history
    recover = f"table-writer recover {name}"
    for version, why in sorted(read.damaged.items()):
        yield Trouble(health=FAILED, message=f"version {version} cannot be read: {why}")
    if refusal and refusal not in read.damaged.values():
        yield Trouble(health=FAILED, message=f"a vacuum would be refused: {refusal}")
    for record in history.publishes_in_doubt:
        entry, waits = record.entry, not claim_is_over(record.entry, record.age_seconds)
        who = f"{entry.writer.get('user', '?')}@{entry.writer.get('host', '?')}"
        doing = "is at work, or has died" if waits else "has died, or its answer was lost"
        yield Trouble(
            health=IN_DOUBT,
            message=f"version {entry.version} is in doubt: the {entry.operation.value} of {who} {doing}",
            advice=recover,
        )
    for entry in interrupted(history):
        yield Trouble(health=IN_DOUBT, message=f"the vacuum of version {entry.version} has died", advice=recover)
    wanted = (Placement.BEHIND, Placement.MISSING, Placement.MOVED)
    behind, missing, moved = (_named(opened, states, where) for where in wanted)
    if behind:
        yield Trouble(health=BEHIND, message=f"readers see older rows of {behind}", advice=recover)
    if missing:
        yield Trouble(health=OK, message=f"not in the metastore, dropped by another tool: {missing}")
    if moved and not (read.lost or read.damaged):
        yield Trouble(health=OK, message=f"moved by another tool: {moved}")
    elif moved:
        yield Trouble(health=OK, message=f"where the entries that are gone, or another tool, have put them: {moved}")


def _named(opened: OpenTable, states: States, wanted: Placement) -> str:
    """Count the partitions of this state, and name the first; empty if there is none."""
    found = sorted(values for values, state in states.items() if state is wanted)
    names = few(shown_name(opened.table, values) for values in found)
    return f"{counted(len(found), 'partition')} ({names})" if found else ""


def _partitions(opened: OpenTable, look: Look, states: States) -> tuple[PartitionNow, ...]:
    """Describe what the metastore has, and what it should have; not what the log itself has dropped."""
    held = look.history.current_contents()
    lacking = (values for values, where in states.items() if where is not Placement.IN_PLACE)
    return tuple(
        _partition(opened, look, values, states.get(values), held.get(values))
        for values in sorted({*look.partitions, *lacking})
    )


def _partition(
    opened: OpenTable, look: Look, values: PartitionValues, where: Placement | None, held: EntryPartition | None
) -> PartitionNow:
    found: Partition | None = look.partitions.get(values)
    is_ours = where is Placement.IN_PLACE
    placed = look.history.current_partitions.get(values) if is_ours else None
    known = held if is_ours else None
    return PartitionNow(
        name=shown_name(opened.table, values),
        location=None if found is None else found.location,
        version=None if placed is None else placed.version,
        age_seconds=None if placed is None else placed.age_seconds,
        rows=None if known is None else known.rows,
        files=None if known is None else known.files,
        bytes=None if known is None else known.bytes,
        has_small_files=known is not None and are_small_files(known.files, known.bytes),
        state="not in the log" if where is None else where.name.lower().replace("_", " "),
    )


def _generations(
    opened: OpenTable, records: Sequence[SlotRecord]
) -> tuple[tuple[int, ...], tuple[Generations, ...], int]:
    """Return the newest versions that changed partitions; the partitions they changed last; how many they changed."""
    changing = [one for one in records if one.outcome is not Outcome.ABANDONED and one.entry.partitions]
    changing = changing[-SHOWN_VERSIONS:]
    last: dict[PartitionValues, int] = {}
    for record in changing:
        last |= dict.fromkeys(record.entry.partition_values - record.superseded, record.entry.version)
    chosen = sorted(last, key=lambda values: (last[values], values), reverse=True)[:SHOWN_PARTITIONS]
    changes: dict[PartitionValues, list[tuple[int, str]]] = {values: [] for values in sorted(chosen)}
    for record in changing:
        entry = record.entry
        few = [one for one in entry.partitions if one.values in changes and one.values not in record.superseded]
        details = partition_details(opened.table, opened.layout, few, entry)
        for one, detail in zip(few, details, strict=True):
            changes[one.values].append((entry.version, detail.change if record.outcome else IN_DOUBT))
    generations = (Generations(name=shown_name(opened.table, one), changes=tuple(did)) for one, did in changes.items())
    return tuple(one.entry.version for one in changing), tuple(generations), len(last)


def _left(history: History, vacuum: VacuumReport | None) -> Iterator[LeftByAge]:
    """Divide what readers have left by age."""
    due = {one.location for one in vacuum.deleted} if vacuum else frozenset()
    for youngest, oldest in zip(DAYS, (*DAYS[1:], math.inf), strict=True):
        here = [one for one in history.left_locations.values() if youngest <= one.age_seconds / DAY_SECONDS < oldest]
        yield LeftByAge(
            older_than_days=youngest,
            younger_than_days=None if oldest == math.inf else int(oldest),
            locations=len(here),
            bytes=sum(one.bytes for one in here),
            due_bytes=sum(one.bytes for one in here if str(one.location) in due),
        )


def _checks(versions: Iterable[VersionSummary]) -> tuple[CheckRuns, ...]:
    """Return the runs of each check; those that failed last time first."""
    outcomes: dict[str, list[tuple[int, str]]] = {}
    messages: dict[str, str] = {}
    for version in sorted(versions, key=lambda one: one.version):
        for check in version.checks:
            outcomes.setdefault(check.name, []).append((version.version, verdict(check)))
            messages[check.name] = check.message
    found = (CheckRuns(name=name, message=messages[name], outcomes=tuple(runs)) for name, runs in outcomes.items())
    return tuple(sorted(found, key=lambda one: (one.outcomes[-1][1] == "passed", -one.failed_count, one.name)))


def _at_work(look: Look) -> Iterator[AtWork]:
    for write_id, one in sorted(look.traces.registered.items(), reverse=True):
        if write_id not in look.history.claimed_ids and not one.is_dead(DAY_SECONDS):
            yield AtWork(
                write_id=write_id,
                state="staged" if one.is_staged else "running",
                age_seconds=one.age_seconds,
                user=one.writer.get("user", "?"),
                host=one.writer.get("host", "?"),
            )
