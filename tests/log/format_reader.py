"""Reads the log of a table from its stored objects. Written from the page "The log format" alone, by a stranger to it.

Locations in the result are in one normal form: a place below the table's root is relative to it and ends with "/", the
root itself is "". Any other place is a whole URI that ends with "/", with the schemes s3a and s3n written as s3.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

_KIN = frozenset({"vacuum", "discard", "erase", "handover", "take back"})  # they change no partition
_CHANGES = frozenset({"write", "compact", "recover", "undo", "rollback", "restore"})
_DATA, _EMPTY = "_table_writer/data/", "_table_writer/empty/"
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(/?)(.*)", re.DOTALL)

Values = tuple[str, ...]


# Of one partition: its values, its old and new location, and where the entry's own files are (an append's source).
class _Part(NamedTuple):
    values: Values
    old: str | None
    new: str | None
    made: str | None


@dataclass(frozen=True)
class Log:
    """What the log of a table says."""

    versions: dict[int, tuple[str, str | None]]  # version -> (operation, outcome or None while in doubt)
    shown: dict[Values, str | None]  # every partition ever published -> where readers look, None if it was dropped
    left: dict[str, int]  # locations that readers have left and no vacuum has deleted -> the version that left them
    in_doubt: frozenset[int]
    going: frozenset[str]  # locations that a vacuum in doubt may be deleting at this moment


def read_log(objects: Mapping[str, bytes], root: str) -> Log:
    """Read the log from the objects below `_table_writer/`. Raises ValueError where the log is not sound."""
    entries = _numbered(objects, r"log/(\d{20})\.json")
    outcomes = _numbered(objects, r"log/(\d{20})\.done")
    trimmed = max(_numbered(objects, r"log/trimmed-(\d{20})"), default=0)
    lost = set(_numbered(objects, r"log/lost-(\d{20})"))
    for version in range(trimmed + 1, max([0, *entries, *outcomes]) + 1):
        if version not in entries and version not in lost:
            raise ValueError(f"entry {version} is missing, and neither trimmed nor lost: the log is damaged")

    ids = _ids(objects)
    read: dict[int, dict[str, Any]] = {}
    ended: dict[int, dict[str, Any]] = {}
    for version, key in sorted(entries.items()):
        entry = read[version] = _json(objects[key], key)
        if version in outcomes:
            ended[version] = _json(objects[outcomes[version]], outcomes[version])
        _check(entry, ended.get(version), version, ids)

    state = _State(root)
    begin = 0  # the version of the newest fold that counts
    for version, key in sorted(_numbered(objects, r"log/folded-(\d{20})").items()):
        folded = _fold(objects[key]) if version in ended else None
        names = (version, read[version]["write_id"]) if folded else ()
        if folded and (folded.get("version"), folded.get("write_id")) == names and folded.get("log_id") in ids:
            state, begin = _State(root), version
            state.begin_with(folded)

    going: set[str] = set()
    for version, entry in read.items():
        if version not in ended:
            going.update(state.place(one["location"]) for one in _deletions(entry))
        elif version > begin:
            state.add(version, entry, ended[version])
    versions = {version: (entry["operation"], ended.get(version, {}).get("outcome")) for version, entry in read.items()}
    return Log(versions, state.shown, state.left, frozenset(read.keys() - ended.keys()), frozenset(going))


def normal(location: str, root: str) -> str:
    """The normal form of any location."""
    return _State(root).place(location) or ""


@dataclass
class _State:
    """What the versions read so far come to."""

    root: str
    shown: dict[Values, str | None] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    put: dict[tuple[Values, str | None], int] = field(default_factory=dict)  # who has put a partition somewhere
    deleted: dict[str, int] = field(default_factory=dict)  # location -> the vacuum that deleted it

    def place(self, location: str | None) -> str | None:
        """The normal form of a stored location."""
        place, root = _whole(location or ""), _whole(self.root)
        return None if location is None else place.removeprefix(root)

    def begin_with(self, folded: Mapping[str, Any]) -> None:
        """Take over the facts of a fold."""
        for one in folded.get("current", ()):
            self._show(self._part(one["partition"]), one["version"])
        self.left = {self.place(one["location"]): one["left_by"] for one in folded.get("left", ())}
        self.deleted = {self.place(location): version for location, version in folded.get("deleted", ())}

    def add(self, version: int, entry: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
        """Go on by one entry that has ended."""
        published, operation, body = outcome["outcome"] == "published", entry["operation"], entry["body"]
        parts = [self._part(one) for one in body.get("partitions", ())]
        replaced = [self.place(one["location"]) for one in body.get("replaced", ())]
        own = _directories(entry["write_id"])
        if operation not in _KIN and published:
            superseded = {tuple(values) for values in outcome.get("superseded", ())}
            changed = [one for one in parts if one.values not in superseded]
            self._leave_before(version, changed)
            old, ours = {one.old for one in changed}, own + _directories(body.get("recovered_write_id"))
            whole = len(changed) == len(parts)
            self.left |= {one: version for one in replaced if whole or one in old or one.startswith(ours)}
            for part in changed:
                self._show(part, version)
            others = operation in {"write", "compact", "recover", "undo"}
            made = [one.made for one in parts if one.values in superseded and one.made is not None]
            self.left |= {one: version for one in made if others or one.startswith(own)}
        elif operation not in _KIN:
            whole, old = operation in {"write", "compact"}, {one.old for one in parts}
            made = [one.made for one in parts if one.made is not None]
            made = [one for one in made if one.startswith(own[0]) != whole] + [own[0]] * whole
            self.left |= dict.fromkeys(made, version)
            self.left |= {one: version for one in replaced if one.startswith((_DATA, _EMPTY)) and one not in old}
        elif published:
            for one in _deletions(entry):
                place, by = self.place(one["location"]), one.get("replaced_by")
                if by is None or self.left.get(place) == by:
                    self.left.pop(place, None)
                    self.deleted[place] = version

    def _leave_before(self, version: int, changed: list[_Part]) -> None:
        """Leave where the partitions were, but nothing that was deleted since a partition was put there."""
        for part in changed:
            for place in {self.shown.get(part.values), part.old} - {None, part.new}:
                gone = self.deleted.get(place, 0) > self.put.get((part.values, place), 0)
                if place.startswith(_DATA) and not gone:
                    self.left[place] = version

    def _show(self, part: _Part, version: int) -> None:
        """Let readers look at the partition's new location, which is left no more, nor is its write's directory."""
        self.shown[part.values], self.put[part.values, part.new] = part.new, version
        around = re.match(re.escape(_DATA) + "[^/]+/", part.new or "")
        for place in (part.new, around and around[0]):
            self.left.pop(place, None)

    def _part(self, stored: Mapping[str, Any]) -> _Part:
        old, new = self.place(stored.get("old_location")), self.place(stored.get("new_location"))
        made = self.place(stored.get("source")) or (new if new != old else None)
        return _Part(tuple(stored.get("values", ())), old, new, made)


def _whole(location: str) -> str:
    """A location with its scheme in one form and with "/" at its end; a relative one stays relative."""
    if match := _URI.fullmatch(location):
        scheme = match[1].lower()
        location = ("s3" if scheme in {"s3a", "s3n"} else scheme) + "://" + ("" if match[2] else "/") + match[3]
    return location if location.endswith("/") or not location else location + "/"


def _directories(write_id: str | None) -> tuple[str, ...]:
    """The directories of a write, that of its data first."""
    return (f"{_DATA}{write_id}/", f"{_EMPTY}{write_id}/") if write_id else ()


def _deletions(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What an entry of a vacuum or its kin deletes now."""
    return [one for one in entry["body"].get("deletes", ()) if not one.get("kept") and entry["operation"] in _KIN]


def _numbered(objects: Mapping[str, bytes], pattern: str) -> dict[int, str]:
    return {int(match[1]): key for key in objects if (match := re.fullmatch(pattern, key, re.ASCII))}


def _json(body: bytes, key: str) -> dict[str, Any]:
    """The JSON object in a body."""
    result = json.loads(_text(body))
    if not isinstance(result, dict):
        raise ValueError(f"{key} is no JSON object")  # noqa: TRY004  # all that is wrong with a log is one error
    return result


def _text(body: bytes) -> str:
    """A body, which may be compressed, as text."""
    try:
        return (gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body).decode()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"a body is damaged: {error}") from error


def _ids(objects: Mapping[str, bytes]) -> frozenset[str]:
    """The ids that the log has had, by its marks; that of owner.json where there is none."""
    owner = _json(objects.get("owner.json", b'{"format": 1}'), "owner.json")
    if owner.get("format") != 1:
        raise ValueError(f"owner.json has the unknown format {owner.get('format')}")
    marked = frozenset(key.removeprefix("log/id-") for key in objects if key.startswith("log/id-"))
    return marked or frozenset({owner.get("log_id", "")})


def _check(entry: Mapping[str, Any], outcome: Mapping[str, Any] | None, version: int, ids: frozenset[str]) -> None:
    if entry.get("format") != 1:
        raise ValueError(f"entry {version} has the unknown format {entry.get('format')}")
    if entry.get("must_understand"):
        raise ValueError(f"entry {version} has words that this reader does not know: {entry['must_understand']}")
    if entry.get("log_id", "") not in ids or entry.get("version") != version:
        raise ValueError(f"entry {version} was copied here: {entry.get('log_id')}, version {entry.get('version')}")
    if entry.get("operation") not in _CHANGES | _KIN or not {"write_id", "body"} <= entry.keys():
        raise ValueError(f"entry {version} lacks fields of its header, or is of an unknown operation")
    if outcome is not None and (outcome.get("of") != entry["write_id"] or outcome.get("version") != version):
        raise ValueError(f"the outcome of entry {version} is of another: {outcome.get('of')}")
    if outcome is not None and outcome.get("outcome") not in {"published", "abandoned"}:
        raise ValueError(f"entry {version} has an unknown outcome: {outcome.get('outcome')}")


def _fold(body: bytes) -> dict[str, Any] | None:
    """The facts of a fold, or None if it is damaged or in an unknown format."""
    try:
        text = _text(body)
        fold = json.loads(text)
        start = re.search(r'"folded"\s*:\s*', text)
        end = json.JSONDecoder().raw_decode(text, start.end())[1] if start else 0
        stored = text[start.end() : end] if start else ""
        return fold["folded"] if (fold["format"], fold["sha256"]) == (1, sha256(stored.encode()).hexdigest()) else None
    except (ValueError, KeyError, TypeError):
        return None
