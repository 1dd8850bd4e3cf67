"""Findings, and those of log and metastore that the doctor, the page and the list of tables have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from table_writer.errors import InvalidInputError, counted
from table_writer.mirrors import follow as mirrors
from table_writer.model.table import PartitionValues, Table, TableName, shown_name
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.rules import claim_is_over
from table_writer.protocol.log.stored import Allowance
from table_writer.protocol.log.table_log import TableLog
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.vacuum.due import Look, vacuum_ages
from table_writer.protocol.vacuum.remover import VacuumResult
from table_writer.protocol.vacuum.sweep import Vacuum
from table_writer.reports.health_reports import BEHIND, IN_DOUBT, Finding
from table_writer.storage.object_store import many

SHOWN_NAMES: Final = 10
WORST_FIRST: Final = ("error", "warning", "note", "ok")
Placements = Mapping[PartitionValues, Placement | None]
"""Where partitions are, compared with the log; ``None``: not in the log."""


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which a report shows them."""
    return tuple(sorted(findings, key=lambda finding: WORST_FIRST.index(finding.status)))


def ok(message: str) -> Finding:
    """Return a finding that asks for nothing; the examination adds the check's name to each."""
    return Finding(check="", status="ok", message=message)


def note(message: str, advice: str = "") -> Finding:
    """Return a finding that is worth knowing."""
    return Finding(check="", status="note", message=message, advice=advice)


def warning(message: str, advice: str) -> Finding:
    """Return a finding that should be changed."""
    return Finding(check="", status="warning", message=message, advice=advice)


def error(message: str, advice: str = "") -> Finding:
    """Return a finding that breaks writes, loses data, or already has."""
    return Finding(check="", status="error", message=message, advice=advice)


def dry_run_of_vacuum(opened: OpenTable, *, force: bool = False) -> tuple[Look, VacuumResult]:
    """Return what a vacuum looks at, and what it would do now; without ``force`` it may refuse the table's own age."""
    vacuum = Vacuum(opened, mirrors)
    vacuumed = vacuum.run(vacuum_ages(opened, force=force), dry_run=True)
    if vacuum.look is None:
        raise TypeError("a vacuum always looks")
    return vacuum.look, vacuumed


def publishes_in_doubt(history: History, name: TableName) -> Iterator[Finding]:
    """Name each publish in doubt, and each vacuum whose process has died; a publish may be at work.

    An erasure is in doubt on purpose until a vacuum has deleted what it names.
    """
    for record in (other for other in history.records.in_doubt if not other.entry.meaning.erases):
        entry, is_over = record.entry, claim_is_over(record.entry, record.age_seconds)
        writer = f"{entry.writer.get('user', '?')}@{entry.writer.get('host', '?')}"
        doubt = f"version {entry.version} is in doubt: the {entry.operation.value} of {writer}"
        hours = f"{record.age_seconds / 3600:.1f} h ago, write_id {entry.write_id}"
        if is_over:
            finding = warning(f"{doubt} ({hours}) has died, or its answer was lost", f"table-writer recover {name}")
        elif entry.meaning.changes_partitions:
            finding = note(f"{doubt} ({hours}) is at work, or has died", f"table-writer recover {name}")
        else:
            continue
        yield replace(finding, health=IN_DOUBT)


def misplaced_partitions(opened: OpenTable, placements: Placements, *, whole_log: bool = True) -> Iterator[Finding]:
    """Name the partitions that are not where the log has put them; without all of the log it may know too little."""
    behind, moved, missing = (
        sorted(values for values, where in placements.items() if where is placement)
        for placement in (Placement.BEHIND, Placement.MOVED, Placement.MISSING)
    )
    name = opened.table.name
    if behind:
        finding = error(
            f"readers see older rows than were published in {counted(len(behind), 'partition')}, since a call was"
            f" applied late or the metastore was set back: {names_of(opened.table, behind)}",
            f"table-writer recover {name}",
        )
        yield replace(finding, health=BEHIND)
    if moved:
        movers = "another tool has" if whole_log else "entries that are gone, or another tool, have"
        yield note(
            f"{movers} moved {counted(len(moved), 'partition')}, left alone here: {names_of(opened.table, moved)}",
            "the next overwrite takes them over; rollback refuses them until then",
        )
    if missing:
        yield note(
            f"the metastore lacks {counted(len(missing), 'published partition')}: {names_of(opened.table, missing)}",
            f"if nobody dropped them on purpose: table-writer restore {name}",
        )


def names_of(table: Table, values: Sequence[PartitionValues]) -> str:
    """Name partitions, the first ones of many."""
    names = ", ".join(shown_name(table, partition_values) for partition_values in values[:SHOWN_NAMES])
    hidden = len(values) - SHOWN_NAMES
    return f"{names} and {hidden:,} more" if hidden > 0 else names


def readable_entries(
    log: TableLog, versions: Iterable[int], allowance: Allowance | None = None
) -> tuple[list[SlotRecord], dict[int, InvalidInputError]]:
    """Return the entries that can be read, oldest first, and by version why others cannot; newest are read first."""

    def read(version: int) -> SlotRecord | InvalidInputError | None:
        try:
            return log.slots.find(version, allowance)
        except InvalidInputError as unreadable:
            return unreadable

    newest_first = sorted(versions, reverse=True)
    answers = dict(zip(newest_first, many(read, newest_first), strict=True))
    records = [answers[version] for version in reversed(newest_first)]
    errors = {version: answer for version, answer in answers.items() if isinstance(answer, InvalidInputError)}
    return [record for record in records if isinstance(record, SlotRecord)], errors
