"""The stored form of a state, which is called a fold then: a vacuum writes it, and nobody has to read older entries.

The entries stay the truth: a fold that is lost, damaged, of another format or of another log is passed over, and all
entries are read again. So are they where a question is about what it leaves out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import msgspec

from table_writer.model.entry import EntryPartition, below_root, lengthened, shortened
from table_writer.model.location import Location, Place
from table_writer.model.write import TableLayout
from table_writer.protocol.log.known_keys import KnownKeys
from table_writer.protocol.log.state import CurrentPartition, LeftLocation, TableState

FOLD_FORMAT: Final = 1  # another one for every change of what is stored: older folds are passed over then


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    sha256: str  # the checksum of ``folded``
    folded: msgspec.Raw


class _Folded(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a state by their stored names; what maps places is stored as pairs, with locations."""

    version: int
    log_id: str
    write_id: str
    current: tuple[CurrentPartition, ...]
    left: tuple[LeftLocation, ...]
    deleted: tuple[tuple[str, int], ...]
    contents: tuple[EntryPartition, ...]
    named: tuple[tuple[str, tuple[int, ...]], ...]
    grown: tuple[str, ...]
    vacuums: tuple[tuple[int, tuple[int, ...]], ...]
    batches: dict[str, int]
    keys: dict[str, int]
    rollbacks: tuple[tuple[int, int], ...]


msgspec.json.Decoder(_Stored)  # prepared here: msgspec 0.22 crashes when two threads prepare it at once


def fold_to_json(state: TableState) -> bytes:
    """Serialise a state for storage below the table's root, with a checksum."""
    folded = _Folded(
        version=state.version,
        log_id=state.log_id,
        write_id=state.write_id,
        current=tuple(state.current_partitions.values()),
        left=tuple(state.left_locations.values()),
        deleted=tuple((_text(place), version) for place, version in state.deleted_places.items()),
        contents=tuple(state.contents.values()),
        named=tuple((_text(place), versions) for place, versions in state.versions_by_place.items()),
        grown=tuple(map(_text, state.grown_places)),
        vacuums=tuple((version, tuple(sorted(by))) for version, by in state.vacuums.items()),
        batches=state.keys.newest_batches,
        keys=state.keys.published,
        rollbacks=tuple(state.keys.rollbacks.items()),
    )
    fields, root = msgspec.to_builtins(folded), state.layout.root
    for left_location in fields["left"]:
        left_location["location"] = str(Location(**left_location["location"]))
    _change_locations(fields, partial(shortened, root=root), partial(below_root, root=root))
    body = msgspec.json.encode(fields)
    return msgspec.json.encode(_Stored(format=FOLD_FORMAT, sha256=_digest(body), folded=msgspec.Raw(body)))


def fold_from_json(data: bytes, *, layout: TableLayout, older_seconds: float) -> TableState:
    """Read what was stored so long ago; ``ValueError`` if it is damaged, or of another format."""
    stored = msgspec.json.decode(data, type=_Stored)
    if stored.format != FOLD_FORMAT:
        raise ValueError(f"it has format {stored.format}")
    if stored.sha256 != _digest(bytes(stored.folded)):
        raise ValueError("its checksum is of other bytes")
    fields, root = msgspec.json.decode(stored.folded), layout.root
    _change_locations(fields, partial(lengthened, root=root), lambda path: f"{root.key}{path}")
    for left_location in fields["left"]:
        left_location["location"] = asdict(Location.parse(left_location["location"]))
    for item in (*fields["current"], *fields["left"]):
        item["age_seconds"] += older_seconds
    folded = msgspec.convert(fields, _Folded)
    return TableState(
        layout=layout,
        version=folded.version,
        log_id=folded.log_id,
        write_id=folded.write_id,
        current_partitions={current.partition.values: current for current in folded.current},
        left_locations={left.location.place: left for left in folded.left},
        deleted_places={_place(location): version for location, version in folded.deleted},
        contents={_place(str(content.new_location)): content for content in folded.contents},
        versions_by_place={_place(location): versions for location, versions in folded.named},
        grown_places=set(map(_place, folded.grown)),
        vacuums={version: frozenset(by) for version, by in folded.vacuums},
        keys=KnownKeys(published=folded.keys, older_batches=folded.batches, rollbacks=dict(folded.rollbacks)),
    )


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _text(place: Place) -> str:
    return str(Location(*place))


def _place(location: str) -> Place:
    return Location.parse(location).place


def _change_locations(fields: dict[str, Any], change: Callable[[str], str], change_key: Callable[[str], str]) -> None:
    """Change every location and key: on the store they are relative to the table's root."""
    for partition in (*(current["partition"] for current in fields["current"]), *fields["contents"]):
        for name in ("old_location", "new_location", "source"):
            if partition[name] is not None:
                partition[name] = change(partition[name])
    for left_location in fields["left"]:
        left_location["location"] = change(left_location["location"])
        for listed in left_location["objects"]:
            listed["path"] = change_key(listed["path"])
    for name in ("deleted", "named"):
        fields[name] = [(change(location), rest) for location, rest in fields[name]]
    fields["grown"] = [change(location) for location in fields["grown"]]
