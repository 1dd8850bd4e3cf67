"""Which rows must be where, by the log alone: what appends bring along, what nobody else may bring, keys.

As in :mod:`tests.protocol.invariants`, nothing here asks the product.
"""

from __future__ import annotations

from table_writer.model.entry import Operation, Outcome

from .state import INDEX, PARTITIONS, Change, Log, Metastore, Slot, World, rows_at, rows_of


def rows_are_wrong(world: World) -> str:
    """(i) Readers see the rows of all appends since the last overwrite, each once, and the overwrite's.

    Another tool's row is there if its location was yet to be listed; else it may have come too late.
    """
    for values, code in zip(PARTITIONS, world.metastore, strict=True):
        place = rows_at(code)
        if values in world.touched or place is None or rows_by_log(world, values, world.log.newest) is None:
            continue
        found = rows_of(world, place)
        wanted, allowed = rows_written(world, place, late=False), rows_written(world, place, late=True)
        if not {*wanted} <= {*found} <= {*allowed}:
            return f"{values} has the rows {', '.join(found)}; by the log they are {', '.join(wanted)}: rows are wrong"
    return ""


def rows_by_log(world: World, values: str, version: int, *, late: bool = False) -> tuple[str, ...] | None:
    """Which rows a partition has after a version, ``None`` if no entry up to it names the partition."""
    for slot in reversed(world.log.slots[:version]):
        for name, _, new in slot.changes if slot.ended is Outcome.PUBLISHED else ():
            if name == values:
                return rows_written(world, new, late=late) if new else ()
    return None


def rows_written(world: World, place: str, *, late: bool) -> tuple[str, ...]:
    """Which rows a location was published with, and got since; ``late``: with those that an append may have missed."""
    added = {one.row for one in world.inserts if one.place == place}
    if place.startswith("@"):
        return tuple(sorted(added))
    for version, slot in enumerate(world.log.slots, 1):
        named = [change for change in slot.changes if change[2] == place]
        if named and slot.operation is Operation.WRITE and slot.ended is not Outcome.ABANDONED:
            before = rows_before(world, version, slot, named[0], late=late) if slot.appends else set()
            return tuple(sorted({f"{slot.write_id}/{named[0][0]}", *added, *before}))
    return tuple(sorted({place, *added}))


def rows_before(world: World, version: int, slot: Slot, change: Change, *, late: bool) -> set[str]:
    """Which rows an append finds."""
    values, old, _ = change
    before = rows_by_log(world, values, version - 1, late=late)
    if before is None:
        before = rows_written(world, old, late=late) if old else ()
    there = {one.row: slot.write_id in one.seen_by for one in world.inserts if one.place == old}
    return {row for row in before if late or there.get(row, True)} | {row for row in there if late or there[row]}


def shown_twice(world: World) -> str:
    """(m) A row that another tool adds to a partition shows in no other."""
    for one in world.inserts:
        for values, code in zip(PARTITIONS, world.metastore, strict=True):
            if values != one.values and code == one.place:
                return f"what was inserted into {one.values} shows in {values}"
    return ""


def insert_is_dropped(before: World, after: World) -> str:
    """(n) No partition is dropped, or emptied again, that another tool has added rows to, before that was listed."""
    for one in before.inserts:
        was, now = before.metastore[INDEX[one.values]], after.metastore[INDEX[one.values]]
        if was == one.place and was.startswith("@") and rows_at(now) is None and was != now and "drop" in one.seen_by:
            return f"{one.values} is dropped with what was inserted there"
    return ""


def not_alone(world: World) -> str:
    """(j) What replaces a set of partitions leaves no rows but its own there; what creates one finds none there."""
    for version, slot in enumerate(world.log.slots, 1):
        if slot.ended is not Outcome.PUBLISHED:
            continue
        for values, _, _ in slot.changes if slot.creates else ():
            if rows_by_log(world, values, version - 1) and values not in world.touched:
                return f"version {version} creates {values}, which had rows: they are lost"
        newer = any(later.ended is Outcome.PUBLISHED and later.changes for later in world.log.slots[version:])
        for values in slot.replaces if not newer else ():
            place = rows_at(world.metastore[INDEX[values]])
            if place and place not in {new for _, _, new in slot.changes} and values not in world.touched:
                return f"version {version} replaces all of {', '.join(slot.replaces)}, and {values} is at {place}"
    return ""


def created_over(log: Log, before: Metastore, after: Metastore) -> str:
    """(k) Whoever creates a partition replaces no rows of another tool that was faster."""
    created = {new for slot in log.slots if slot.creates for _, _, new in slot.changes}
    for values, then, now in zip(PARTITIONS, before, after, strict=True):
        if then != now and then and then.startswith(("x:", "dt=")) and now in created:
            return f"{values} goes from {then} to {now}, which shall only be created"
    return ""


def done_twice(log: Log) -> str:
    """(l) Of the writes with one key, at most one is part of the table's history."""
    ids = {write_id for values in PARTITIONS for write_id in lineage(log, values, log.newest)}
    keys: dict[str, Slot] = {}
    for slot in log.slots:
        if slot.key and slot.write_id in ids:
            other = keys.setdefault(slot.key, slot)
            if other is not slot:
                return f"{other.write_id} and {slot.write_id} have the same key, and both were published: twice"
    return ""


def was_repeated(log: Log, key: str, since: int) -> bool:
    """Whether the rows of a key were part of the table's history at some time since a version."""
    with_key = {slot.write_id for slot in log.slots if slot.key == key}
    return any(
        with_key & lineage(log, values, version) for values in PARTITIONS for version in range(since, log.newest + 1)
    )


def lineage(log: Log, values: str, version: int) -> frozenset[str]:
    """Return the writes that have made a partition what it is after a version; a rollback forgets what it undoes."""
    ids: frozenset[str] = frozenset()
    for slot in log.slots[:version]:
        if slot.ended is not Outcome.PUBLISHED or values not in {name for name, _, _ in slot.changes}:
            continue
        if slot.operation is Operation.WRITE:
            ids |= {slot.write_id}
        elif slot.rollback_to is not None:
            ids = lineage(log, values, slot.rollback_to)
    return ids
