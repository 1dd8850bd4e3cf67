"""What the commits of a Delta log come to: the files that its readers read, and which version of ours that is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from table_writer.mirrors.delta.actions import (
    APP_ID,
    DROPPED,
    ENGINE,
    LOG_ID,
    OWN,
    Action,
    DeltaValues,
    add,
    commit_info,
    delta_values,
    metadata,
    protocol,
    remove,
    transaction,
)
from table_writer.mirrors.fitting import names_in_fields
from table_writer.mirrors.mirror import (
    HANDED_OVER,
    IN_OTHER_PARTITION,
    OTHER_ROW_COUNT,
    OTHER_SIZE,
    TAKEN_BACK,
    MirrorChange,
    MirroredTable,
    noted_version,
)
from table_writer.model.location import Location
from table_writer.storage.footers import Names, other_spellings

FileKey = tuple[str, str]  # the path as it is spelled, and the deletion vector that belongs to it
OWN_ENGINE: Final = ENGINE.partition("/")[0] + "/"
NOTHING: Final = -1
ONE_OF_A_KIND: Final = frozenset({"commitInfo", "protocol", "metaData"})


class Checkpoint(NamedTuple):
    """The newest checkpoint of a log, and the one that readers are sent to."""

    number: int = NOTHING
    size: int = 0  # in actions
    pointer: int = NOTHING


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A Delta table after one of its commits."""

    root: Location
    own_version: int = NOTHING
    version: int = 0
    in_doubt: frozenset[int] = frozenset()
    files: Mapping[DeltaValues, Mapping[FileKey, Action]] = field(default_factory=dict, repr=False)
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    others: Mapping[str, Action] = field(default_factory=dict)  # transactions of other writers
    is_ours: bool = False
    is_dropped: bool = False  # its newest commit says that the log is being deleted
    foreign: tuple[int, ...] = ()  # commits of other writers since our last one
    retold: frozenset[FileKey] = frozenset()  # files of which another writer has the last word: its statistics too
    damage: str = ""
    checkpoint: Checkpoint = field(default_factory=Checkpoint)  # the newest
    transaction: str = ""  # the id that the newest commit has
    anchor: tuple[int, str] = (NOTHING, "")  # of the newest commit when the log was read: in another log it is another

    @property
    def log_id(self) -> str:
        """Return the id of the log that it follows."""
        return str(self._configuration.get(LOG_ID, ""))

    @property
    def handed_over(self) -> int:
        """Return the version of the log by which it went on without this library; 0 if it is a mirror."""
        return noted_version(self._configuration, HANDED_OVER)

    @property
    def taken_back(self) -> int:
        """Return the newest version of the log by which it became a mirror again; 0 if there is none."""
        return noted_version(self._configuration, TAKEN_BACK)

    @property
    def _configuration(self) -> Mapping[str, Any]:
        return self.metadata.get("configuration") or {}

    @property
    def own_facts(self) -> Action:
        """Return what a commit says of itself that changes no file."""
        return {"version": self.version, "inDoubt": sorted(self.in_doubt), "writeId": ""}

    @property
    def file_count(self) -> int:
        """Return how many files its readers read."""
        return sum(map(len, self.files.values()))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Return the keys of the files that its readers read."""
        return frozenset(self._key_of(path) for files in self.files.values() for path, _ in files)

    def _key_of(self, path: str) -> str:
        decoded = unquote(path)
        return decoded if "://" in path else f"{self.root.key}{decoded}"

    def after(self, number: int, actions: Iterable[Action]) -> Snapshot:
        """Return what readers find after one more commit."""
        found = list(actions)
        newest = {kind: fact for action in found for kind, fact in action.items() if kind in ONE_OF_A_KIND}
        metadata = newest.get("metaData", self.metadata)
        transactions = {str(action["txn"].get("appId")): action["txn"] for action in found if action.get("txn")}
        own = transactions.pop(APP_ID, None)
        info = newest.get("commitInfo", {})
        facts = info.get(OWN) if str(info.get("engineInfo", "")).startswith(OWN_ENGINE) else None
        is_own = isinstance(facts, Mapping)
        files = self._files_after(found, metadata)
        told = frozenset(_file_key(action["add"]) for action in found if action.get("add"))
        return replace(
            self,
            own_version=number,
            version=self.version if own is None else int(own["version"]),
            in_doubt=frozenset(map(int, facts.get("inDoubt", ()))) if isinstance(facts, Mapping) else self.in_doubt,
            files={values: kept for values, kept in files.items() if kept},
            protocol=newest.get("protocol", self.protocol),
            metadata=metadata,
            others={**self.others, **transactions},
            is_ours=is_own or self.is_ours,
            is_dropped=isinstance(facts, Mapping) and bool(facts.get(DROPPED)),
            foreign=() if is_own else (*self.foreign, number),
            transaction=str(info.get("txnId", "")),
            retold=self.retold - told if is_own else self.retold | told,
        )

    def _files_after(self, actions: Sequence[Action], metadata: Action) -> dict[DeltaValues, Mapping[FileKey, Action]]:
        """Return the files that readers read."""
        files, names = dict(self.files), metadata.get("partitionColumns", ())
        taken: dict[DeltaValues, set[FileKey]] = {}
        for found in (action["remove"] for action in actions if action.get("remove")):
            taken.setdefault(_values_of(found, names), set()).add(_file_key(found))
        is_told = taken.keys() <= files.keys()  # another writer's action may not say of which partition a file is
        for values in taken if is_told else files:
            gone = taken[values] if is_told else set().union(*taken.values())
            files[values] = {key: found for key, found in files[values].items() if key not in gone}
        shown: dict[DeltaValues, dict[FileKey, Action]] = {}
        for found in (action["add"] for action in actions if action.get("add")):
            shown.setdefault(_values_of(found, names), {})[_file_key(found)] = found
        return {**files, **{values: {**files.get(values, {}), **adds} for values, adds in shown.items()}}

    def differing(self, change: MirrorChange) -> dict[str, str]:
        """Say of files that the mirror names, too, what it says otherwise of them."""
        held = {
            self._key_of(path): (values, found)
            for values, files in self.files.items()
            for (path, _), found in files.items()
        }
        differences: dict[str, str] = {}
        for hive_values, files in change.partitions.items():
            values = delta_values(hive_values, change.table)
            for file in files:
                action = add(file, values, change, self.root)
                in_values, before = held.get(self._key_of(action["path"]), (values, action))
                if why := IN_OTHER_PARTITION if in_values != values else _why_differs(before, action):
                    differences[file.key] = why
        return differences

    def respells(self, table: MirroredTable) -> bool:
        """Return whether columns are spelled otherwise than when its files were taken up."""
        return any(other_spellings(names_in_fields(table.fields), self.names))

    @property
    def names(self) -> Names:
        """Return the names of its columns, and of those inside them."""
        return names_in_fields(json.loads(self.metadata.get("schemaString", "{}")).get("fields", ()))

    def changed(self, change: MirrorChange) -> tuple[Action, ...]:
        """Return the actions that make a change of this; none if there is nothing to change."""
        table = change.table
        actions: list[Action] = []
        wanted_protocol = protocol(table)
        wanted_metadata = metadata(table, self.metadata, change.created_at)
        if self.protocol != wanted_protocol:
            actions.append({"protocol": wanted_protocol})
        if self.metadata != wanted_metadata:
            actions.append({"metaData": wanted_metadata})
        actions += self._changed_files(change)
        is_held = change.version <= self.version and change.in_doubt == self.in_doubt
        if not actions and is_held and not self.damage:
            return ()
        return (commit_info(change), transaction(change), *actions)

    def _changed_files(self, change: MirrorChange) -> Iterator[Action]:
        wanted: dict[DeltaValues, dict[FileKey, Action]] = {}
        copies: set[FileKey] = set()
        for hive_values, files in change.partitions.items():
            values = delta_values(hive_values, change.table)
            adds = wanted.setdefault(values, {})
            for file in files:
                found = add(file, values, change, self.root)
                adds[_file_key(found)] = found
                copies |= {_file_key(found)} if file.is_copy else set()
        replaced = self.files.keys() | wanted.keys() if change.is_whole else wanted.keys()
        taken = {
            key for values in replaced for key in self.files.get(values, {}).keys() - wanted.get(values, {}).keys()
        }
        for values in replaced:
            before, after = self.files.get(values, {}), wanted.get(values, {})
            gone = {key: found for key, found in before.items() if key not in after}
            added = {  # no commit may take a path and add it
                key: found for key, found in after.items() if key not in taken and not self._holds(before, key, found)
            }
            kept = _same_files(gone, {key: found for key, found in added.items() if key in copies})
            is_new = {key: change.changes_rows and key not in kept for key in gone | added}
            yield from ({"remove": remove(found, changes_rows=is_new[key])} for key, found in gone.items())
            yield from ({"add": {**found, "dataChange": is_new[key]}} for key, found in added.items())
        for hive_values, files in change.added.items():
            grown = delta_values(hive_values, change.table)
            present = {**self.files.get(grown, {}), **wanted.get(grown, {})}
            shown = (add(file, grown, change, self.root) for file in files)
            yield from ({"add": added} for added in shown if not self._holds(present, _file_key(added), added))

    def _holds(self, present: Mapping[FileKey, Action], key: FileKey, wanted: Action) -> bool:
        return key not in self.retold and key in present and not _why_differs(present[key], wanted)

    def actions(self) -> Iterator[Action]:
        """Yield what a checkpoint holds; removed files would be there for Delta's VACUUM, which is kept out."""
        yield {"protocol": self.protocol}
        yield {"metaData": self.metadata}
        yield {"txn": {"appId": APP_ID, "version": self.version}}
        yield from ({"txn": found} for found in self.others.values())
        yield from ({"add": found} for files in self.files.values() for found in files.values())


def _file_key(action: Mapping[str, Any]) -> FileKey:
    vector = action.get("deletionVector") or {}
    return str(action["path"]), f"{vector.get('pathOrInlineDv', '')}@{vector.get('offset', '')}" if vector else ""


def _same_files(gone: Mapping[FileKey, Action], copies: Mapping[FileKey, Action]) -> set[FileKey]:
    """Return which files are taken away here and shown there, by name and size: a stream need not read them again."""
    by_name = {(key[0].rpartition("/")[2], found.get("size")): key for key, found in gone.items() if not key[1]}
    pairs = [(by_name.get((key[0].rpartition("/")[2], found["size"])), key) for key, found in copies.items()]
    return {key for before, after in pairs if before is not None for key in (before, after)}


def _values_of(action: Mapping[str, Any], names: Iterable[str]) -> DeltaValues:
    values = action.get("partitionValues") or {}
    return tuple(values.get(name) or None for name in names)


def _why_differs(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say how an action of the same file differs; empty where nothing is known to."""
    if (before.get("partitionValues") or {}).keys() != wanted["partitionValues"].keys():
        return IN_OTHER_PARTITION  # of a column that is spelled otherwise now
    if before.get("size") != wanted["size"]:
        return OTHER_SIZE
    counts = {_row_count(before), _row_count(wanted)} - {None}
    return OTHER_ROW_COUNT if len(counts) > 1 else ""


def _row_count(action: Mapping[str, Any]) -> Any:
    try:
        return json.loads(action.get("stats") or "{}").get("numRecords")
    except (ValueError, AttributeError, RecursionError):
        return "unreadable"
