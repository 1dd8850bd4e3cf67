"""Which rows must be where, by the log alone: what appends bring along, what nobody else may bring, keys.

As in :mod:`tests.protocol.invariants`, nothing here asks the product.
"""

from __future__ import annotations

from collections.abc import Iterator

from table_writer.model.entry import Operation, Outcome

from .state import INDEX, PARTITIONS, Added, Change, Log, Metastore, Slot, World, added_to, place_of, rows_at, rows_of


def rows_are_wrong(world: World) -> str:
    """(i) Readers see the rows of all appends since the last overwrite, each once, and the overwrite's.

    Another tool's row is there if its location was yet to be listed; else it may have come too late.
    """
    for values, code in zip(PARTITIONS, world.metastore, strict=True):
        place = rows_at(code)
        wanted, allowed = (rows_by_log(world, values, world.log.newest, late=late) for late in (False, True))
        if values in world.touched or place is None or wanted is None or allowed is None:
            continue
        found = rows_of(world, place)
        if not {*wanted} <= {*found} <= {*allowed}:
            return f"{values} has the rows {', '.join(found)}; by the log they are {', '.join(wanted)}: rows are wrong"
    return ""


def rows_by_log(world: World, values: str, version: int, *, late: bool = False) -> tuple[str, ...] | None:
    """Which rows a partition has after a version, ``None`` if no entry up to it names the partition."""
    for number in range(version, 0, -1):
        slot = world.log.slots[number - 1]
        for name, _, new in slot.changes if slot.ended is Outcome.PUBLISHED else ():
            if name == values and values not in slot.superseded:
                one = added_to(slot.added, values)
                before = rows_by_log(world, values, number - 1, late=late) if one and new else None
                if one and new and before is not None:
                    others = {insert.row for insert in world.inserts if insert.place == new}
                    return tuple(sorted({*before, *one.rows, *others}))
                return rows_written(world, new, version, late=late) if new else ()
    return None


def rows_written(world: World, place: str, version: int, *, late: bool) -> tuple[str, ...]:
    """Which rows a location was published with, and got up to a version, and what others have added.

    ``late``: with those that an append may have missed.
    """
    added = {one.row for one in world.inserts if one.place == place}
    for number, slot, one in additions(world.log, place):
        is_part = slot.ended is Outcome.PUBLISHED and one.values not in slot.superseded
        if number <= version and is_part and slot.operation is Operation.WRITE:
            added |= {*one.rows} if slot.write_id in lineage(world.log, one.values, version) else set()
    if place.startswith("@"):
        return tuple(sorted(added))
    for number, slot in enumerate(world.log.slots, 1):
        named = [one for one in slot.changes if one[2] == place and added_to(slot.added, one[0]) is None]
        if named and slot.operation is Operation.ROLLBACK and place.startswith(f"{slot.write_id}/"):
            then = rows_then(world, named[0][0], slot.rollback_to or 0, late=late)
            others = () if late else {one.row for one in world.inserts}  # may have come after the copies
            return tuple(sorted({*added, *then} - {*others} | added))
        if named and slot.operation is Operation.RESTORE and place.startswith(f"{slot.write_id}/"):
            return tuple(sorted({*added, *rows_then(world, named[0][0], number - 1, late=late)}))
        if named and slot.operation is Operation.WRITE and slot.ended is not Outcome.ABANDONED:
            before = rows_before(world, number, slot, named[0], late=late) if slot.appends else set()
            return tuple(sorted({*slot.rows(named[0][0]), *added, *before}))
    return tuple(sorted({place, *added}))


def rows_then(world: World, values: str, version: int, *, late: bool) -> tuple[str, ...]:
    """Which rows a partition had after a version; before the first entry what that entry has found."""
    known = rows_by_log(world, values, version, late=late)
    if known is not None:
        return known
    found = (old for slot in world.log.slots[version:] for name, old, _ in slot.changes if name == values)
    first = next(found, None)
    return rows_written(world, first, version, late=late) if first else ()


def additions(log: Log, place: str) -> Iterator[tuple[int, Slot, Added]]:
    """Which entries have added to a location, or were to do so."""
    for number, slot in enumerate(log.slots, 1):
        for values, _, new in slot.changes:
            one = added_to(slot.added, values)
            if one and new == place:
                yield number, slot, one


def other_rows_are_seen(world: World) -> str:
    """(o) Where files are added in place, readers see all that was published, and nothing that was abandoned.

    Of what is in doubt they may see any file, each whole. A partition that another tool had taken away may show a part
    of what was abandoned for that, once somebody points it back: but not a restore.
    """
    for values, code in zip(PARTITIONS, world.metastore, strict=True):
        place = rows_at(code)
        found = rows_of(world, place) if place else ()
        for number, slot, one in additions(world.log, place) if place else ():
            if slot.ended is Outcome.PUBLISHED and one.values not in slot.superseded and {*one.rows} - {*found}:
                return f"{values} is at {code} without the rows that version {number} has added in place"
            published = {
                row
                for _, other, same in additions(world.log, place or "")
                if other.ended is not Outcome.ABANDONED and same.values not in other.superseded
                for row in same.rows
            }
            if (
                slot.ended is Outcome.ABANDONED
                and not is_back(world, values, place)
                and {*one.rows} & {*found} - published
            ):
                return f"{values} is at {code} with rows of version {number}, which was abandoned"
    return ""


def is_back(world: World, values: str, place: str | None) -> bool:
    """Whether another tool had moved a partition, and no restore has put it where it is."""
    restored = (slot for slot in world.log.slots if slot.operation is Operation.RESTORE)
    return values in world.touched and all(
        (name, new) != (values, place) for one in restored for name, _, new in one.changes
    )


def rows_before(world: World, version: int, slot: Slot, change: Change, *, late: bool) -> set[str]:
    """Which rows an append finds."""
    values, old, _ = change
    before = rows_by_log(world, values, version - 1, late=late)
    if before is None:
        before = rows_written(world, old, version - 1, late=late) if old else ()
    there = {one.row: slot.write_id in one.seen_by for one in world.inserts if one.place == old}
    return {row for row in before if late or there.get(row, True)} | {row for row in there if late or there[row]}


def shown_twice(world: World) -> str:
    """(m) A row that another tool adds to a partition shows in no other."""
    for one in world.inserts:
        for values, code in zip(PARTITIONS, world.metastore, strict=True):
            if values != one.values and place_of(code) == one.place:
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
