"""Checks of the partitions: where the metastore points, and whether the files there are still ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from table_writer.display.reports import Finding
from table_writer.doctor.patient import Patient, error, note, ok, warning
from table_writer.log.history import History, Placement
from table_writer.model.location import Location
from table_writer.model.table import PartitionValues
from table_writer.storage.object_store import ObjectInfo

__all__ = ["LISTED_PARTITIONS", "files", "forgotten", "placement"]

LISTED_PARTITIONS: Final = 1_000
LIST_THREADS: Final = 16


def placement(patient: Patient) -> Iterable[Finding]:
    """Compare where the metastore points with where the log has put each partition."""
    by_placement = _placed(patient)
    if by_placement[Placement.BEHIND] or by_placement[Placement.MOVED]:
        patient.look_again()  # somebody may have published between the two looks
        by_placement = _placed(patient)
    behind, moved, missing = (by_placement[one] for one in (Placement.BEHIND, Placement.MOVED, Placement.MISSING))
    if behind:
        yield error(
            "partition locations",
            f"{len(behind):,} partition(s) show older rows than were published, since a call was applied late or the"
            f" metastore was set back: {patient.names(behind)}",
            f"table-writer recover {patient.name}",
        )
    if moved:
        yield note(
            "partition locations",
            f"{len(moved):,} partition(s) were moved by another tool and are left alone: {patient.names(moved)}",
            "the next overwrite takes them over; rollback refuses them until then",
        )
    if missing:
        yield note(
            "partition locations",
            f"{len(missing):,} published partition(s) are not in the metastore: {patient.names(missing)}",
            f"if nobody dropped them on purpose: table-writer restore {patient.name}",
        )
    if not (behind or moved or missing):
        others = len(patient.partitions().keys() - patient.history().current.keys())
        placed = len(by_placement[Placement.IN_PLACE])
        yield ok(
            "partition locations",
            f"{placed:,} partition(s) are where the log has put them; {others:,} were never written by this library",
        )


def forgotten(patient: Patient) -> Iterable[Finding]:
    """Look for partitions that lie in this library's directory and that the log knows nothing of."""
    layout, now = patient.services.layout, patient.partitions()
    claimed = patient.services.log.read_history().claimed_ids  # read after the partitions: claims come first
    ids = {values: layout.write_id_of(Location.parse(partition.location)) for values, partition in now.items()}
    unknown = sorted(values for values, write_id in ids.items() if write_id and write_id not in claimed)
    if unknown:
        yield error(
            "forgotten partitions",
            f"readers look at {len(unknown):,} partition(s) below {layout.own} that the log knows nothing of, as if"
            f" its files were deleted by hand: {patient.names(unknown)}. A vacuum may take them for a dead write's",
            f"do not vacuum {patient.name}; put the log back, or overwrite these partitions with what they hold now",
        )
    else:
        yield ok("forgotten partitions", "the log knows all partitions below this library's directory")


def _placed(patient: Patient) -> dict[Placement, list[PartitionValues]]:
    history, now = patient.history(), patient.partitions()
    unsettled = {values for record in history.publishes_in_doubt for values in record.entry.partition_values}
    by_placement: dict[Placement, list[PartitionValues]] = {one: [] for one in Placement}
    for values in sorted(history.current.keys() - unsettled):
        location = now[values].location if values in now else None
        by_placement[history.placement(values, location)].append(values)
    return by_placement


@dataclass(frozen=True, slots=True)
class _Listed:
    values: PartitionValues
    foreign: int  # files whose name has not the write_id
    lost: int  # files of ours that are gone
    changed: bool  # same count, other bytes


def files(patient: Patient) -> Iterable[Finding]:
    """List the newest partitions of ours, and compare the files there with those that were published."""
    history = patient.history()
    ours = [values for values in _placed(patient)[Placement.IN_PLACE] if _is_ours(history, values)]
    newest = sorted(ours, key=lambda values: history.current[values].version, reverse=True)[:LISTED_PARTITIONS]
    with ThreadPoolExecutor(LIST_THREADS, thread_name_prefix="doctor-list") as pool:
        listed = list(pool.map(lambda values: _look(patient, history, values), newest))
    findings = [*_mixed(patient, listed), *_lost(patient, listed)]
    if len(newest) < len(ours):
        findings.append(
            note("partition files", f"only the {len(newest):,} newest of {len(ours):,} partitions were listed")
        )
    return findings or [
        ok("partition files", f"{len(newest):,} partition(s) hold exactly the files that were published")
    ]


def _mixed(patient: Patient, listed: Iterable[_Listed]) -> Iterator[Finding]:
    mixed = sorted(one.values for one in listed if one.foreign or (one.changed and not one.lost))
    if mixed:
        yield warning(
            "partition files",
            f"another tool has written into {len(mixed):,} partition(s) of this library: {patient.names(mixed)}. The"
            " next overwrite replaces its rows, and a rollback to this state is refused",
            "find the tool (INSERT INTO or INSERT OVERWRITE of Spark or Hive) and let it write by table_writer; to make"
            f" these rows safe, overwrite the partitions with what they hold now. {patient.name} stays readable",
        )


def _lost(patient: Patient, listed: Iterable[_Listed]) -> Iterator[Finding]:
    lost = sorted(one.values for one in listed if one.lost and not one.foreign)
    if lost:
        yield error(
            "partition files",
            f"files that readers need are gone from {len(lost):,} partition(s): {patient.names(lost)}",
            f"table-writer history {patient.name}, then table-writer rollback {patient.name} --to-version N to one"
            " whose files are still there, or write them again; look for a lifecycle expiration or a TRUNCATE",
        )


def _is_ours(history: History, values: PartitionValues) -> bool:
    location = history.current[values].partition.new_location
    return location is not None and history.layout.write_id_of(Location.parse(location)) is not None


def _look(patient: Patient, history: History, values: PartitionValues) -> _Listed:
    location = Location.parse(str(history.current[values].partition.new_location))
    write_id = str(history.layout.write_id_of(location))
    found: list[ObjectInfo] = list(patient.services.store.list(location.key))
    known = None if history.layout.is_placeholder(location) else history.described(values, location)
    is_whole = known is not None and (len(found), sum(one.size_bytes for one in found)) == (known.files, known.bytes)
    named = [
        one for one in found if is_whole or write_id in one.key.removeprefix(location.key)
    ]  # copies keep their names
    expected = known.files if known else 0
    differs = known is not None and sum(one.size_bytes for one in named) != known.bytes
    foreign = len(found) - len(named)
    return _Listed(values, foreign, lost=max(0, expected - len(named)), changed=differs or len(named) > expected)
