"""A log whose first entries a vacuum has folded says the same, whatever has happened by then, and since.

Asked in every state, of every version up to which a fold may stand for the entries.
"""

from __future__ import annotations

from collections.abc import Iterable

from table_writer.log.fold import Oldest
from table_writer.log.history import History
from table_writer.model.location import Location

from .rules import Rules
from .state import LAYOUT, Log


def folded_says_otherwise(log: Log, rules: Rules) -> str:
    """(j) Whoever reads a fold and the entries after it decides as whoever reads all of them."""
    if any(slot.gone or slot.lost for slot in log.slots):
        return ""  # the fold knows what is lost
    whole = log.history
    for version in rules.folds(whole):
        after = rules.with_fold(whole, whole.up_to(version).folded("", _oldest(whole, version)))
        problem = "" if rules.counts_twice(after) else _otherwise(whole, after, rules)
        if problem:
            return f"with versions up to {version} folded {problem}"
    return ""


def _otherwise(whole: History, after: History, rules: Rules) -> str:
    for what, one, other in zip(SAID, _said(whole), _said(after), strict=True):
        if one != other:
            return f"the log says something else: {what} {other} instead of {one}"
    dead = _used_ids(after) - after.claimed_ids
    if dead or not after.claimed_ids <= whole.claimed_ids:
        return f"the log says something else: {sorted(dead)} look dead"
    first = after.fold.version if after.fold else 0
    trimmed, allowed = after.trimmable(0, _oldest(whole, first)), whole.trimmable(0)
    before = whole.up_to(first).trimmable(0)  # a vacuum may have trimmed these when it folded
    stays = {first, *(one.entry.version for one in whole.records if one.entry.rollback_to is not None)}
    vacuums = [one.entry for one in whole.records if one.entry.deletes]
    left = {str(one.location) for one in (after.fold.left if after.fold else ())}
    stays |= {one.version for one in vacuums if left & {deleted.location for deleted in one.deletes}}
    stays |= {one.version for one in vacuums if stays & {deleted.replaced_by for deleted in one.deletes}}
    if not (trimmed <= allowed | before and allowed <= trimmed | stays):
        return f"the log says something else: versions {sorted(trimmed)} may be trimmed instead of {sorted(allowed)}"
    return _placed_otherwise(whole, after, rules)


SAID = ("partitions", "left", "in use", "deleted", "held", "in doubt", "newest")


def _said(history: History) -> tuple[object, ...]:
    return (
        history.current,
        history.left,
        history.in_use(),
        {place for place in history.left if history.deleted.get(place)},
        history.held_now(),
        [one.entry.version for one in history.in_doubt],
        history.newest,
    )


def _placed_otherwise(whole: History, after: History, rules: Rules) -> str:
    places = set(_places(whole))
    for values in whole.current:
        for place in (*sorted(places), None):
            here = {} if place is None else {values: place}
            wanted, found = whole.placement(values, place), after.placement(values, place)
            if found is not wanted and not rules.needs_entries(after, here):
                return f"{values} at {place} seems to be {found.name}, and is {wanted.name}: it looks elsewhere"
    return ""


def _places(history: History) -> Iterable[str]:
    """Where partitions have been, by whatever entry, and the placeholders of all of them."""
    for record in history.records:
        for one in record.entry.partitions:
            yield from (location for location in (one.old_location, one.new_location) if location is not None)
            yield str(LAYOUT.empty(record.entry.write_id, one.values))


def _used_ids(history: History) -> set[str]:
    locations = [left.location for left in history.left.values()]
    locations += [Location(*place) for place in history.in_use()]
    return {write_id for one in locations if (write_id := LAYOUT.write_id_of(one)) is not None}


def _oldest(whole: History, version: int) -> Oldest:
    """What a listing shows of the entries up to a version that ended some time ago."""
    ended = {one.entry.version for one in whole.records if one.entry.version <= version and one.outcome_age_seconds > 0}
    last = max(ended, default=0)
    return Oldest(frozenset(ended), frozenset(one.entry.version for one in whole.records if one.entry.version <= last))
