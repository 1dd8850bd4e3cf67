"""Name what this library keeps of a table, and what becomes of it without the library. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.model.table import PREFIX
from table_writer.model.write import TableLayout
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.root_markers import DELTA_LOG, ICEBERG_MIRROR, is_own_delta_log, is_own_iceberg_mirror
from table_writer.reports.leave_report import DELETE, LOOK, STAYS, VACUUM, Holding, LeaveReport
from table_writer.storage.proof import PROBES

LIVE: Final = "rows that readers see"
OLD: Final = "rows that no reader sees: replaced, staged, or of writes that died"
DROPPED: Final = "rows of a partition that another tool has dropped; restore adds it again"
KINDS: Final[Mapping[str, tuple[str, str]]] = {  # by the directory, or the file, below the library's own
    "log": ("the log: who published what, when", DELETE),
    "owner.json": ("whose files these are", DELETE),
    "checkpoint.json": ("where the log is read from", DELETE),
    "names": ("names of writes that callers have given", DELETE),
    "empty": ("rows of another tool, in partitions that were empty; a vacuum takes the replaced ones", LOOK),
    "writes": ("registrations of writes at work", VACUUM),
    "staged": ("records of staged writes", VACUUM),
    "turns": ("turns of calls that have lost an attempt", VACUUM),
}
MIRRORS: Final = {  # by the directory: what it is, and what tells whether it is this library's
    DELTA_LOG: ("the Delta mirror", is_own_delta_log),
    ICEBERG_MIRROR: ("the Iceberg mirror", is_own_iceberg_mirror),
}
PROBE: Final = ("what a trial of the store has left, since its process died", DELETE)
OTHER: Final = ("what this library has not put there", LOOK)
FATES: Final = (STAYS, LOOK, VACUUM, DELETE)


def _directories(key: str) -> Iterator[str]:
    """Yield the directories that a key is in, the nearest first."""
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key


def _kind(
    layout: TableLayout, key: str, live_keys: Collection[str], dropped: Mapping[str, str]
) -> tuple[str, str, str]:
    """Return what an object of the library's directory is, what becomes of it, and the place that is named for it."""
    directory, _, _ = key.removeprefix(layout.own.key).partition("/")
    above = {f"{name}/" for name in _directories(key)}
    shared = str(layout.own.child(directory)).rstrip("/")
    if not above.isdisjoint(live_keys):
        return LIVE, STAYS, shared
    if lost := above & dropped.keys():
        return DROPPED, DELETE, dropped[lost.pop()]
    if directory == "data":
        return OLD, VACUUM, shared
    return *KINDS.get(directory, PROBE if directory.startswith(PROBES) else OTHER), shared


def look_at_holdings(opened: OpenTable) -> LeaveReport:
    """List what lies in the library's directory, and tell what readers need of it."""
    layout, store = opened.layout, opened.store
    closed_for = opened.log.lister.read().closed_for
    if closed_for:
        raise InvalidInputError(
            f"{opened.table.name} goes on as a table of {closed_for}, whose files these are now: nothing of it can go",
            table=str(opened.table.name),
        )
    current = opened.log.read_history().state.current_partitions  # first: a write may publish meanwhile
    now = opened.metastore.get_all_partitions(opened.table)
    found = (Location.parse_any(partition.location) for partition in now.values())
    inside = [location for location in found if location is not None and layout.own.contains(location)]
    live_keys = {location.key for location in inside}
    gone = [placed.partition.new_location for values, placed in current.items() if values not in now]
    dropped = {Location.parse(location).key: location for location in gone if location is not None}
    objects, sizes = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    for info in store.list(layout.own.key):
        kind = _kind(layout, info.key, live_keys, dropped)
        objects[kind] += 1
        sizes[kind] += info.size_bytes
    for directory, (what, is_own) in MIRRORS.items():
        place = layout.root.child(directory)
        fate = DELETE if is_own(store, layout.root) else LOOK
        for info in store.list(place.key):
            kind = (what, fate, str(place))
            objects[kind] += 1
            sizes[kind] += info.size_bytes
    holdings = [
        Holding(what=what, location=place, fate=fate, objects=count, bytes=sizes[what, fate, place])
        for (what, fate, place), count in objects.items()
    ]
    in_doubt = (record.entry.version for record in opened.log.read_recent().records.publishes_in_doubt)
    return LeaveReport(
        table=str(opened.table.name),
        holdings=tuple(sorted(holdings, key=lambda holding: (FATES.index(holding.fate), holding.what))),
        partitions=len(inside),
        elsewhere=len(now) - len(inside),
        placeholders=sum(layout.is_placeholder(location) for location in inside),
        staged=sum(1 for info in store.list(layout.all_staged.key) if info.key.endswith(".json")),
        pending_uploads=sum(1 for _ in store.list_uploads(layout.root.key)),
        in_doubt=tuple(sorted(in_doubt)),
        recovered=tuple(sorted(opened.log.marks.listed("recovered"))),
        properties=tuple(sorted(name for name in opened.table.parameters if name.startswith(PREFIX))),
    )
