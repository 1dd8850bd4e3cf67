"""How explorations look to people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .explorer import Explored
from .requests import (
    Claim,
    Copy,
    Delete,
    HasData,
    ListFiles,
    ListStale,
    PutRegistration,
    ReadLog,
    ReadMetastore,
    ReadRegistration,
    Rebuild,
    RecordOutcome,
    RemoveRegistration,
    Send,
    Upload,
    Verify,
)
from .state import PARTITIONS, Call, Change, Slot, World


def trace_text(found: Explored) -> str:
    """Tell what happened, one step a line, and how the world looks at the end."""
    if not found.problem:
        return f"{found.title}: nothing found in {found.states:,} states"
    lines = [f"{found.title}: {found.problem}"]
    shown = None
    for number, ((who, what, came), world) in enumerate(found.trace, 1):
        line = f"{number:4d}. {who:10s} {_request(what)}"
        if came:
            line += f" [{came}]"
        if shown is not None and shown != world.metastore:
            line += f"  -> readers at {_metastore(world)}"
        shown = world.metastore
        lines.append(line)
    if found.trace:
        lines += _world(found.trace[-1][1])
    return "\n".join(lines)


def table(all_found: list[Explored]) -> str:
    """Make the figures for the documentation."""
    rows = [("scenario", "states", "transitions", "seconds", "violations")]
    rows += [
        (
            one.title + ("" if one.complete else " (not all)"),
            f"{one.states:,}",
            f"{one.transitions:,}",
            f"{one.seconds:.1f}",
            one.problem or "0",
        )
        for one in all_found
    ]
    total = ("in all", f"{sum(o.states for o in all_found):,}", f"{sum(o.transitions for o in all_found):,}")
    rows.append((*total, f"{sum(o.seconds for o in all_found):.1f}", str(sum(bool(o.problem) for o in all_found))))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---|--:|--:|--:|---|", *lines[1:]])


def _world(world: World) -> list[str]:
    lines = [f"      metastore: {_metastore(world)}", f"      data: {' '.join(sorted(world.data)) or 'none'}"]
    lines += [f"      at {code} are the rows {', '.join(rows) or 'of nobody'}" for code, rows in world.rows]
    for version, slot in enumerate(world.log.slots, 1):
        outcome = slot.outcome.value if slot.outcome else "in doubt"
        outcome += " (the entry is lost)" if slot.gone else f" (was {slot.lost.value})" if slot.lost else ""
        lines.append(
            f"      v{version} {_slot(slot)}: {outcome} {f'by {slot.recorded_by}' if slot.recorded_by else ''}"
        )
    return lines


_WORDS: Final[dict[type, Callable[[Any], str]]] = {
    ReadLog: lambda _: "reads the log",
    ReadMetastore: lambda what: f"reads {', '.join(what.partitions)} in the metastore",
    ListStale: lambda _: "lists the data of dead writes",
    HasData: lambda what: f"looks whether {', '.join(what.codes)} have their data",
    ListFiles: lambda what: f"lists {', '.join(what.codes)}",
    Copy: lambda what: "copies " + ", ".join(f"{source} to {target}" for target, source, _ in what.copies),
    Upload: lambda what: f"uploads {', '.join(what.codes)}",
    Claim: lambda what: f"claims v{what.version}: {_slot(what.slot)}",
    Rebuild: lambda what: f"finds out that v{what.version} was {what.outcome.value}",
    RecordOutcome: lambda what: f"records v{what.version} {what.outcome.value}",
    Send: lambda what: _call(what.call),
    Delete: lambda what: f"deletes {' '.join(what.rows) or 'all'} at {', '.join(what.codes)}",
    ReadRegistration: lambda what: f"looks whether {what.write_id} is staged",
    RemoveRegistration: lambda what: f"removes the registration of {what.write_id}",
    PutRegistration: lambda what: f"says that {what.write_id} is {'staged' if what.is_staged else 'running'}",
    Verify: lambda what: "notes that no call of before v" + ", v".join(map(str, sorted(what.versions))) + " comes late",
    str: str,
    int: lambda version: f"v{version}:" if version else "",
    tuple: lambda call: _call(call),  # noqa: PLW0108  # defined below
    type(None): lambda _: "",
}


def _request(what: object) -> str:
    return _WORDS[type(what)](what)


def _call(call: Call) -> str:
    return f"{call[0].upper()} " + ", ".join(f"{values} at {code}" if code else values for values, code in call[1])


def _slot(slot: Slot) -> str:
    by = f" by {slot.by}" if slot.by else ""
    what = f"{slot.operation.name} {slot.write_id}{by}" + (f" with key {slot.key}" if slot.key else "")
    if slot.recovers:
        what += f" of v{slot.recovers}"
    changes = [_change(change) for change in slot.changes]
    changes += [f"deletes {code}" for code, _ in slot.deletes]
    changes += [f"does not use {code}" for code in slot.unused]
    return f"{what} (base {slot.base}; {', '.join(changes)})"


def _change(change: Change) -> str:
    values, old, new = change
    return f"{values}: {old or 'none'} to {new or 'none'}"


def _metastore(world: World) -> str:
    return ", ".join(f"{values}: {code or 'none'}" for values, code in zip(PARTITIONS, world.metastore, strict=True))
