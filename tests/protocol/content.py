"""Which rows must be where, by the log alone: what appends bring along, what nobody else may bring, keys.

As in :mod:`tests.protocol.invariants`, nothing here asks the product.
"""

from __future__ import annotations

from table_writer.model.entry import Operation, Outcome

from .state import INDEX, PARTITIONS, Log, Metastore, Slot, World, rows_at, rows_of


def rows_are_wrong(world: World) -> str:
    """(i) Readers see the rows of all appends since the last overwrite, each once, and the overwrite's."""
    for values, code in zip(PARTITIONS, world.metastore, strict=True):
        place = rows_at(code)
        wanted = rows_by_log(world.log, values, world.log.newest)
        if values in world.touched or wanted is None or place is None:
            continue
        found = rows_of(world, place)
        if found != wanted:
            return f"{values} has the rows {', '.join(found)}; by the log they are {', '.join(wanted)}: rows are wrong"
    return ""


def rows_by_log(log: Log, values: str, version: int) -> tuple[str, ...] | None:
    """Which rows a partition has after a version, ``None`` if no entry up to it names the partition."""
    for slot in reversed(log.slots[:version]):
        for name, _, new in slot.changes if slot.outcome is Outcome.PUBLISHED else ():
            if name == values:
                place = rows_at(new)
                return rows_written(log, place) if place else ()
    return None


def rows_written(log: Log, place: str) -> tuple[str, ...]:
    """Which rows a location was published with."""
    write_id, _, values = place.partition("/")
    appends = any(slot.appends for slot in log.slots if slot.write_id == write_id)
    for version, slot in enumerate(log.slots, 1):
        named = place in {rows_at(new) for _, _, new in slot.changes}
        if appends and named and slot.outcome is not Outcome.ABANDONED:
            before = rows_by_log(log, values, version - 1)
            if before is None:
                old = rows_at(next(old for name, old, _ in slot.changes if name == values))
                before = rows_written(log, old) if old else ()
            return tuple(sorted((place, *before)))
    return (place,)


def not_alone(world: World) -> str:
    """(j) What replaces a set of partitions leaves no rows but its own there; what creates one finds none there."""
    for version, slot in enumerate(world.log.slots, 1):
        if slot.outcome is not Outcome.PUBLISHED:
            continue
        for values, _, _ in slot.changes if slot.creates else ():
            if rows_by_log(world.log, values, version - 1) and values not in world.touched:
                return f"version {version} creates {values}, which had rows: they are lost"
        newer = any(later.outcome is Outcome.PUBLISHED and later.changes for later in world.log.slots[version:])
        for values in slot.replaces if not newer else ():
            place = rows_at(world.metastore[INDEX[values]])
            if place and not place.startswith(f"{slot.write_id}/") and values not in world.touched:
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
        if slot.outcome is not Outcome.PUBLISHED or values not in {name for name, _, _ in slot.changes}:
            continue
        if slot.operation is Operation.WRITE:
            ids |= {slot.write_id}
        elif slot.rollback_to is not None:
            ids = lineage(log, values, slot.rollback_to)
    return ids
