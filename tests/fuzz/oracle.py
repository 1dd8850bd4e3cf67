"""What readers must see: a dict of rows per partition, kept by looking at each change of the metastore from outside.

An entry takes effect on a partition the first time a call points readers where the entry wants them. From then on the
dict has its rows, whatever becomes of its caller. A later call of an older entry has come late: readers may see older
rows, whole ones, until somebody puts that right, and nothing else may be built on them.

An append in place moves no partition: its rows come file by file, as copies arrive. Each file is an effect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.table import Column, PartitionValues
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.marks import LATE_CALL_SECONDS
from table_writer.storage.object_store import visible_files
from tests.publish.world import World, plain, value_of

Ids = frozenset[int]
NONE: Ids = frozenset()


@dataclass(frozen=True)
class Written:
    """A write as its caller knows it."""

    mode: WriteMode
    rows: Mapping[str, Ids]
    planned_at: int  # how many effects had been seen when it was planned
    key: str = ""


@dataclass(frozen=True)
class Effect:
    """An entry took effect on a partition."""

    original: LogEntry
    version: int  # of the entry whose call did it: its own, or that of a recovery
    value: str
    before: str | None  # where the partition was
    where: str | None


@dataclass
class Oracle:
    """Collects in ``wrong`` whatever must not be."""

    world: World
    tell: Callable[[str], object]
    writes: dict[str, Written] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    """Versions whose caller was told that nothing was published."""
    withdrawn: set[str] = field(default_factory=set)
    """Writes whose caller was told that they are discarded."""
    told: set[str] = field(default_factory=set)
    """Writes whose caller was told that they are published."""
    shown: dict[str, set[int]] = field(default_factory=dict)
    """All rows that readers of a partition have ever seen."""
    soft: set[int] = field(default_factory=set)
    """Rows that another tool inserted while others were at work: they may be lost, as documented."""
    wild: set[str] = field(default_factory=set)
    """Partitions that another tool moved or dropped while others were at work: whoever comes last wins."""
    unclear: set[str] = field(default_factory=set)
    """Those of them of which the next recover decides whose change it was."""
    once_wild: set[str] = field(default_factory=set)
    """All that ever were wild."""
    has_restored: bool = False
    """Whether a restore has begun: it takes what is not there for lost."""
    stale: set[str] = field(default_factory=set)
    """Partitions that a late call has put back: readers may see older rows until that is corrected."""
    expected: dict[str, Ids] = field(default_factory=dict)
    current: dict[str, str | None] = field(default_factory=dict)
    content: dict[tuple[str, str | None], Ids] = field(default_factory=dict)
    arrived: dict[tuple[int, str], Ids] = field(default_factory=dict)
    """Rows of appends in place that have come to where readers look, by version and partition."""
    left: dict[str, tuple[float, frozenset[str]]] = field(default_factory=dict)
    """Where readers were, since when they are not, and the files that queries may still read there."""
    _added: list[tuple[int, str, str, Ids]] = field(default_factory=list)
    _applied: dict[str, int] = field(default_factory=dict)
    _published: set[str] = field(default_factory=set)
    """Writes of which an entry was not abandoned: a vacuum may have trimmed it, and left one that was."""
    _seen: dict[str, str] = field(default_factory=dict)
    _voided: frozenset[str] = frozenset()
    _voided_after: dict[int, frozenset[str]] = field(default_factory=dict)
    is_forced: bool = False
    """Whether a vacuum deletes what readers have just left, as it was told to."""
    columns: dict[int, set[tuple[Column, ...]]] = field(default_factory=dict)
    """The columns of an unpartitioned table with which a row was written, or another tool has shown it."""
    planned_before: set[str] = field(default_factory=set)
    """Writes that were planned in a log that is deleted by now: what was published since, nobody can tell them."""

    def __post_init__(self) -> None:
        """Take in where readers of an unpartitioned table look before anybody has written to it."""
        self._seen = self.locations()
        self.current.update(self._seen)

    def blame(self, text: str) -> None:
        """Note what must not be."""
        self.wrong.append(text)
        self.tell(f"!! {text}")

    # What is there

    def entry(self, version: int) -> LogEntry | None:
        """Read an entry, past all hooks."""
        layout = self.world.layout
        stored = self.world.store._objects.get(layout.entry_key(version))
        return LogEntry.from_json(plain(stored[0]), root=layout.root, version=version) if stored else None

    def newest(self) -> int:
        """Return the newest version of the log."""
        layout = self.world.layout
        keys = [key for key in self.world.store._objects if key.startswith(layout.log_prefix) and key.endswith(".json")]
        return max((int(key.removeprefix(layout.log_prefix).removesuffix(".json")) for key in keys), default=0)

    def locations(self) -> dict[str, str]:
        """Return where partitions are."""
        return {value: Location.parse(one).key for value, one in self.world.located().items()}

    def rows_at(self, key: str) -> list[int]:
        """Return what readers of a directory see."""
        store = self.world.store
        return [one for info in visible_files(store, key) for one in json.loads(store._objects[info.key][0])]

    def _where(self, key: str | None) -> str | None:
        """Return a location; none at all is as good as a placeholder."""
        return None if key is None or key.startswith(self.world.layout.all_placeholders.key) else key

    # What happens

    def observe(self, version: int, *, late: bool) -> None:
        """Take in what a call of the metastore has changed, and for which entry it was sent."""
        self._require_own_columns()
        now = self.locations()
        entry = self.entry(version)
        moved = [value for value in sorted(now.keys() | self._seen.keys()) if now.get(value) != self._seen.get(value)]
        for value in moved:
            self._require_created(value, now.get(value), entry)
            if value not in self.wild:
                self._moved(value, now.get(value), entry, late=late)
            elif late:
                self.unclear.add(value)
        self._seen = now
        if entry is not None and not late and self.world.metastore.switches_at_once(self.world.table):
            self._require_at_once(moved, entry)

    def _require_created(self, value: str, key: str | None, entry: LogEntry | None) -> None:
        """A creation adds: what is there is never moved for it, whoever has added it."""
        written = self.writes.get(entry.write_id) if entry and entry.operation is Operation.WRITE else None
        before = self._where(self._seen.get(value))
        if written and written.mode.facts.only_creates and before is not None and key is not None:
            self.blame(f"a creation has moved {value} from {before} to {key}")

    def _require_at_once(self, moved: Collection[str], entry: LogEntry) -> None:
        """All partitions of an entry switch in one call, but those that another tool had moved."""
        targets = {value_of(one.values): self._target(one) for one in entry.partitions if not one.added}
        if not any(value in targets and self._where(self._seen.get(value)) == targets[value] for value in moved):
            return
        open_ends = self.once_wild | self.stale
        open_ends |= {v for v, at in self._seen.items() if self._where(at) is None and self.rows_at(at)}  # inserted
        behind = [v for v, where in targets.items() if self._where(self._seen.get(v)) != where and v not in open_ends]
        if behind:
            self.blame(f"readers see version {entry.version} in {moved}, and not in {behind}")

    def _moved(self, value: str, key: str | None, entry: LogEntry | None, *, late: bool) -> None:
        named = next((one for one in entry.partitions if value_of(one.values) == value), None) if entry else None
        if entry is None or named is None:
            if self._where(key) is None and self._where(self._seen.get(value)) is None:
                return  # to prove that a partition is not there, it is added without rows
            self.blame(f"{value} was moved to {key} for an entry that does not name it: {entry and entry.version}")
            return
        where, applied = self._where(key), self._applied.get(value, 0)
        if late and where is not None and self._came_late(value, where, entry):
            return
        if where is None and self._target(named) is not None:  # a placeholder before the switch
            self.stale |= {value} if late else set()
        elif where == self.current.get(value) and (where is not None or entry.version <= applied):
            self._applied[value] = max(applied, entry.version)
        elif entry.version <= applied:
            if where is not None and self._original(entry).version not in self.refused:  # rows of then
                self.content.setdefault((value, where), frozenset(self.rows_at(where)))
            if not late:
                self.blame(f"{value} was moved for version {entry.version}, though {applied} is there")
            self.stale.add(value)
        else:
            self._applied[value] = entry.version
            if where is None and value in self.once_wild and self._was_found_gone(value, entry):
                self.current[value], self.expected[value] = None, NONE
            else:
                self._takes_effect(value, where, entry)

    def _came_late(self, value: str, where: str, entry: LogEntry) -> bool:
        """Take in the late call of an entry that a recovery has given up, or of the newest; whether it is one."""
        if self._is_given_up(entry):  # whoever comes next corrects it
            self.content.setdefault((value, where), frozenset(self.rows_at(where)))
            self.stale.add(value)
            return True
        last = [(one.original.version, one.where) for one in self.effects if one.value == value][-1:]
        is_newest = last == [(self._original(entry).version, where)] and self.current.get(value) != where
        if is_newest:  # another tool had moved it: that it is back looks as if that tool had put it back
            self.current[value], self.expected[value] = where, self.content[value, where]
        return is_newest

    def _is_given_up(self, entry: LogEntry) -> bool:
        """Whether somebody else than its claimant has recorded that an entry was abandoned."""
        records = self.world.history().records
        found = [one for one in records if one.entry.version == entry.version]
        if self._repeats_what_was_abandoned(entry):
            return True
        if any(one.outcome is None for one in found):  # it ends as the recovery that has the last word on it
            word = self.world.services().log.marks.last_word(entry.version)
            found = [one for one in records if one.entry.write_id == word != entry.write_id]
        is_others = entry.recovers is not None or any(one.recorded_by != entry.write_id for one in found)
        return is_others and any(one.outcome is Outcome.ABANDONED for one in found)

    def _repeats_what_was_abandoned(self, entry: LogEntry) -> bool:
        """Whether it recovers, through other recoveries, an entry that was abandoned: then it switches nothing."""
        records = {one.entry.version: one for one in self.world.history().records}
        while entry.meaning.needs_last_word and (original := records.get(entry.recovers or 0)) is not None:
            if original.outcome is Outcome.ABANDONED and original.entry.recovers is None:
                return True
            entry = original.entry
        return False

    def _target(self, named: EntryPartition) -> str | None:
        return None if named.new_location is None else self._where(Location.parse(named.new_location).key)

    def _found_there(self, value: str, where: str | None) -> None:
        """See whether a late call has put a partition where a newer entry wants it: that has nothing left to do."""
        for version in range(self.newest(), self._applied.get(value, 0), -1):
            entry = self.entry(version)
            named = (
                [one for one in entry.partitions if value_of(one.values) == value and not one.added] if entry else []
            )
            is_there = named and version not in self.refused and self._target(named[0]) == where
            if entry and is_there and not self._is_given_up(entry):
                self._applied[value] = version
                self._takes_effect(value, where, entry)
                return

    def _takes_effect(self, value: str, where: str | None, entry: LogEntry) -> None:
        original, found_at = self._original(entry), self._where(self._seen.get(value))
        if any(one.added for one in original.partitions if value_of(one.values) == value):
            self.blame(f"version {entry.version} adds to {where}, and {value} shall be at {self.current.get(value)}")
        self.current[value] = where
        self._leave(found_at, where)
        before = [one for one in self.effects if one.value == value]
        if any(one.original.version == original.version for one in before):
            self._came_back(value, where, found_at)
            return  # corrected: the rows stay as they were promised
        if original.version in self.refused:
            self.blame(f"version {original.version} shows in {value} though {self.refused[original.version]}")
        self._require_not_withdrawn(original)
        if original.write_id in self.planned_before:
            self.blame(f"write {original.write_id} shows, though it was planned in another log")
        if any(one.version > original.version for one in before):
            self.blame(f"version {original.version} was rolled forward over newer rows of {value}")
        if original.operation is Operation.WRITE:
            self._write(value, original, before, self.writes[original.write_id].rows.get(value, NONE))
        elif original.operation is Operation.COMPACT:
            pass  # the rows are what they were
        elif where is None:
            self.expected[value] = NONE
        else:
            known = self._put_back(value, where, original)
            self.expected[value] = frozenset(self.rows_at(where)) if known is None else known
        if original.rollback_to is not None:
            then = max((one for one in self._voided_after if one <= original.rollback_to), default=0)
            self._voided = self._voided_after.get(then, frozenset()) | {
                one.original.write_id for one in self.effects if one.original.version > original.rollback_to
            }
        self._voided_after[original.version] = frozenset(self._voided)
        self.effects.append(Effect(original, entry.version, value, found_at, where))
        self.content[value, where] = self.expected[value]

    def _came_back(self, value: str, where: str | None, found_at: str | None) -> None:
        """Take in that a restore takes a partition for lost which another tool has dropped."""
        if self.has_restored and found_at is None and where is not None and not self.expected.get(value):
            self.expected[value] = self.content.get((value, where), NONE)

    def _was_found_gone(self, value: str, entry: LogEntry) -> bool:
        """Whether a recovery of an entry has found that another tool had dropped a partition: it belongs nowhere."""
        version = self._original(entry).version
        found = [one.found for one in self.world.history().records if one.entry.version == version]
        return any(location is None for one in found for values, location in one.items() if value_of(values) == value)

    def _leave(self, place: str | None, where: str | None) -> None:
        """Note that readers have gone from one place of this library to another: queries may be at work there."""
        self.left.pop(where or "", None)
        if place is not None and place != where and place.startswith(self.world.layout.all_data.key):
            self.left[place] = (
                self.world.store.clock(),
                frozenset(one.key for one in visible_files(self.world.store, place)),
            )

    def _erased(self) -> set[str]:
        erasures = (one.entry for one in self.world.history().records if one.entry.erasure is not None)
        return {Location.parse(deleted.location).key for entry in erasures for deleted in entry.deletes}

    def _require_kept(self) -> None:
        """What readers have left stays for a day at least, but for what an erasure names."""
        for place, (since, keys) in self.left.items() if not self.is_forced else ():
            is_gone = not keys <= self.world.store._objects.keys()
            if is_gone and self.world.store.clock() - since < LATE_CALL_SECONDS and place not in self._erased():
                self.blame(f"files at {place}, which readers have just left, are gone")

    def forget_log(self) -> None:
        """Somebody has deleted the log: versions begin again, and nothing is promised that only it could tell."""
        self.planned_before |= self.writes.keys()
        now = self.locations()
        for value in self.stale:  # what a late call has put back stays: nobody can tell it from the newest rows
            self.current[value] = self._where(now.get(value))
            self.expected[value] = frozenset(self.rows_at(now[value])) if value in now else NONE
        for one in (
            self.effects,
            self.refused,
            self.arrived,
            self._added,
            self._applied,
            self._voided_after,
            self.left,
        ):
            one.clear()  # type: ignore[attr-defined]
        self.stale.clear()

    def _original(self, entry: LogEntry) -> LogEntry:
        original = entry
        while original.meaning.repeats and original.recovers and (found := self.entry(original.recovers)):
            original = found
        return original

    def _put_back(self, value: str, where: str, entry: LogEntry) -> Ids | None:
        """Return what a rollback or a restore must show, ``None`` if that is not known."""
        is_copied = where.startswith(self.world.layout.data(entry.write_id).key)
        version = entry.rollback_to if entry.rollback_to is not None or not is_copied else entry.version - 1
        if version is None:
            return self.content.get((value, where))
        if not is_copied:
            if more := self._added_after(value, where, version):
                self.blame(f"{value} was rolled back to version {version}, to {where} with {sorted(more)} added since")
            return self.content.get((value, where))
        spelled = _spelled(entry, value)  # by another spelling it is another partition
        own = [one for one in self.effects if one.value == value and _spelled(one.original, value) == spelled]
        known = [one.where for one in own if one.original.version <= version][-1:]
        known = known or [one.before for one in own if one.original.version > version][:1]
        if value in self.once_wild or not known:
            return None
        there = self.content.get((value, known[0]))
        return None if there is None or known[0] is None else there - self._added_after(value, known[0], version)

    def _added_after(self, value: str, where: str, version: int) -> Ids:
        later = (
            ids for at, added_to, place, ids in self._added if at > version and (added_to, place) == (value, where)
        )
        return NONE.union(*later)

    def adds(self, key: str, version: int) -> bool:
        """Whether an entry is an append in place that adds this file."""
        entry = self.entry(version)
        return entry is not None and any(key in one.targets() for one in entry.partitions)

    def copied(self, key: str, version: int) -> None:
        """Take in a copy, perhaps of a file that an append in place adds, and for which entry it was sent."""
        entry = self.entry(version)
        named = next((one for one in entry.partitions if key in one.targets()), None) if entry else None
        if entry is None or named is None:
            return
        original, value, where = (
            self._original(entry),
            value_of(named.values),
            Location.parse(str(named.new_location)).key,
        )
        ids: Ids = frozenset(json.loads(self.world.store._objects[key][0]))
        before = self.arrived.get((original.version, value), NONE)
        self.arrived[original.version, value] = before | ids
        if ids <= before:  # a copy again
            if not ids <= self.content.get((value, where), NONE):  # another tool has its rows there since
                self.soft |= ids
        else:
            self._added.append((original.version, value, where, ids))
            self._file_shows(value, where, entry, ids)
        known = self.content.get((value, where))
        self.content[value, where] = frozenset(self.rows_at(where)) if known is None else known | ids

    def _file_shows(self, value: str, where: str, entry: LogEntry, ids: Ids) -> None:
        original = self._original(entry)
        if original.version in self.refused:
            self.blame(f"version {original.version} comes to {where} though {self.refused[original.version]}")
        self._require_not_withdrawn(original)
        before = [one for one in self.effects if one.value == value]
        if value in self.wild:
            return
        if where == self.current.get(value):
            if any(one.original.version > original.version for one in before):
                self.blame(f"files of version {original.version} were added to newer rows of {value}")
            self._write(value, original, before, ids)
            self._applied[value] = max(self._applied.get(value, 0), entry.version)
            self.effects.append(Effect(original, entry.version, value, where, where))
        elif value in self.once_wild:
            self.soft |= ids
        else:
            self.blame(f"version {entry.version} adds to {where}, and {value} shall be at {self.current.get(value)}")

    def require_whole(self) -> None:
        """Compare outcomes with what callers were told, and with what came of appends in place."""
        records = self.world.history().records
        self._published |= {one.entry.write_id for one in records if one.outcome is not Outcome.ABANDONED}
        for record in records:
            entry = record.entry
            if record.outcome is Outcome.ABANDONED and entry.operation is Operation.WRITE:
                self._require_unseen(entry, is_told=entry.write_id in self.told - self._published)
            if record.outcome is Outcome.PUBLISHED and entry.operation is Operation.WRITE:
                self._require_whole_switch(entry, record.superseded)
            for one in (one for one in entry.partitions if one.added and entry.operation is Operation.WRITE):
                value = value_of(one.values)
                came = self.arrived.get((entry.version, value), NONE)
                if value in self.once_wild or one.values in record.superseded:
                    continue
                missing = self.writes[entry.write_id].rows[value] - came
                if record.outcome is Outcome.PUBLISHED and missing:
                    self.blame(f"version {entry.version} is on record as published, and {sorted(missing)} never came")
                if record.outcome is Outcome.ABANDONED and came:
                    self.blame(f"version {entry.version} is on record as abandoned, and {sorted(came)} have come")

    def _require_whole_switch(self, entry: LogEntry, superseded: Collection[PartitionValues]) -> None:
        """What is on record as published has switched in all of its partitions, one after another or at once."""
        named = [one for one in entry.partitions if one.new_location is not None and not one.added]
        values = {value_of(one.values) for one in named if one.values not in superseded}
        seen = {one.value for one in self.effects if one.original.version == entry.version}
        if missing := values - seen - self.once_wild - self.stale:
            self.blame(f"version {entry.version} is on record as published, and {missing} never switched")

    def _write(self, value: str, entry: LogEntry, before: list[Effect], new: Ids) -> None:
        written = self.writes[entry.write_id]
        old = self.expected.get(value, NONE)
        since = [one for one in self.effects[written.planned_at :] if one in before]
        others = {one.original.version for one in since if one.original.operation is not Operation.COMPACT}
        if written.mode.facts.keeps_rows:
            self.expected[value] = old | new
        else:
            self.expected[value] = new
            if others:
                self.blame(f"version {entry.version} replaced in {value} what {others} published after its plan")
        if written.mode.facts.only_creates and old - self.soft:
            self.blame(f"version {entry.version} created {value}, which had {set(old)}")
        same_key = {
            one.original.write_id
            for one in self.effects
            if written.key and (other := self.writes.get(one.original.write_id)) and other.key == written.key
            if self.entry(one.original.version)  # forgotten once a vacuum has trimmed it
        }
        taken = {  # by another tool, in a race: whoever resolves the entry finds nothing of it
            one.original.write_id
            for one in self.effects
            if self.once_wild.issuperset(map(value_of, one.original.partition_values))
        }
        if same_key - {entry.write_id} - self._voided - taken:
            self.blame(f"key {written.key} was applied by {entry.write_id} and by {same_key}")

    def _require_not_withdrawn(self, original: LogEntry) -> None:
        if original.write_id in self.withdrawn and original.operation is Operation.WRITE:
            self.blame(f"write {original.write_id} shows, though it was discarded")

    def _require_unseen(self, entry: LogEntry, *, is_told: bool) -> None:
        """What is on record as abandoned was never told to be published, nor seen."""
        named = set(map(value_of, entry.partition_values))
        if is_told and not (named and self.once_wild.issuperset(named)):
            self.blame(f"write {entry.write_id} is said to be published, and on record as abandoned")
        values = {one.value for one in self.effects if one.original.version == entry.version} - self.once_wild
        if values:
            self.blame(f"version {entry.version} is on record as abandoned, and readers have seen it in {values}")

    def discarded(self, write_id: str) -> None:
        """A caller was told that a staged write is discarded: it is not published, and never will be."""
        self.withdrawn.add(write_id)
        if any(one.original.write_id == write_id for one in self.effects):
            self.blame(f"write {write_id} is said to be discarded, and it was published")

    def acknowledged(self, write_id: str, *, repeated: bool = False) -> None:
        """A caller was told that a write is published, or was before; another tool may have come after it."""
        self.told.add(write_id)
        outcomes = {one.outcome for one in self.world.history().records if one.entry.write_id == write_id}
        if outcomes == {Outcome.ABANDONED}:
            self.blame(f"write {write_id} is said to be published, and on record as abandoned")
        for value, ids in self.writes[write_id].rows.items():
            if (value in self.once_wild and not repeated) or value in self.stale:
                continue  # what a late call has taken away is there once it is put right
            if never := ids - self.shown.get(value, set()):
                self.blame(f"write {write_id} is said to be published, and nobody ever saw {sorted(never)} in {value}")
        effects = [one for one in self.effects if one.original.write_id == write_id]
        rows = self.writes[write_id].rows
        missing = rows.keys() - {one.value for one in effects} - self.once_wild
        if missing:
            self.blame(f"write {write_id} is said to be published, and {missing} never switched")
        for version, value in sorted({(one.original.version, one.value) for one in effects}):
            gone = rows.get(value, NONE) - self.arrived[version, value] if (version, value) in self.arrived else NONE
            if gone and value not in self.once_wild:
                self.blame(f"write {write_id} is said to be published, and {sorted(gone)} of {value} never came")

    def nothing_published(self, version: int, why: str) -> None:
        """A caller was told that nothing of an entry was published."""
        self.refused[version] = why
        seen = {one.value for one in self.effects if one.original.version == version}
        if seen - self.once_wild:  # another tool has taken the others away
            self.blame(f"version {version} was published though {why}")

    def other_tool(self, value: str, ids: Ids, where: str | None, *, raced: bool, looks_late: bool) -> None:
        """Another tool has put a partition elsewhere, or dropped it; it may look like a late call of ours."""
        self._seen = self.locations()
        self.wrote(ids, self.world.table.columns)
        self.content[value, where] = ids
        self.unclear |= {value} if looks_late else set()
        if raced or looks_late:
            self.wild.add(value)
            self.once_wild.add(value)
        else:
            self.expected[value], self.current[value] = ids, where
            self._applied[value] = self.newest()
            self.stale.discard(value)

    def inserted(self, value: str, ids: Ids, *, raced: bool) -> None:
        """Another tool has put a file where readers of a partition look."""
        where = self._where(self._seen.get(value))
        self.wrote(ids, self.world.table.columns)
        self.content[value, where] = self.content.get((value, where), NONE) | ids
        if raced or value in self.stale:
            self.soft |= ids
        if (
            raced or value in self.stale
        ) and where is None:  # a placeholder: whoever resolves its entry leaves it there
            self.wild.add(value)
            self.once_wild.add(value)
        if where == self.current.get(value):
            self.expected[value] = self.expected.get(value, NONE) | ids

    def wrote(self, ids: Collection[int], columns: tuple[Column, ...]) -> None:
        """Note the columns of rows."""
        for row in ids:
            self.columns.setdefault(row, set()).add(columns)

    # What must hold

    def require_columns(self, ids: Collection[int], columns: tuple[Column, ...]) -> None:
        """Rows are only ever read with columns that they were written with."""
        if wrong := [row for row in ids if columns not in self.columns.get(row, {columns})]:
            self.blame(f"rows {sorted(wrong)} are read as {[one.name for one in columns]}, which others have")

    def _require_own_columns(self) -> None:
        table = self.world.table
        if not table.partition_columns:
            self.require_columns(
                [row for place in self.locations().values() for row in self.rows_at(place)], table.columns
            )

    def check(self) -> None:
        """Compare what readers see with the dict."""
        self._require_kept()
        self._require_own_columns()
        now = self.locations()
        for value in sorted(now.keys() | self.expected.keys()):
            listed = self.rows_at(now[value]) if value in now else []
            self.shown.setdefault(value, set()).update(listed)
            rows, where = frozenset(listed), self._where(now.get(value))
            if len(rows) != len(listed):
                self.blame(f"rows of {value} are there twice: {listed}")
            if value in self.wild:  # whose rows they are is open; that they are there is not
                if gone := self.content.get((value, where), NONE) - rows - self.soft:
                    self.blame(f"files were deleted where readers of {value} look: {sorted(gone)} are gone")
                continue
            if value in self.stale and where != self.current.get(value):
                self._found_there(value, where)
            if where == self.current.get(value):
                self.stale.discard(value)
                self._compare(value, rows, self.expected.get(value, NONE))
            elif value in self.stale:
                self._compare(value, rows, self.content.get((value, where), NONE) if where else NONE, "older ")
            else:
                self.blame(f"{value} is at {where}, expected at {self.current.get(value)}")

    def _compare(self, value: str, rows: Ids, wanted: Ids, which: str = "") -> None:
        if (rows ^ wanted) - self.soft:
            lost, more = sorted(wanted - rows), sorted(rows - wanted)
            self.blame(f"{which}rows of {value}: {lost} lost, {more} never published there; {sorted(rows)} are seen")

    def calm_down(self, decided: Collection[str]) -> None:
        """Nobody is at work any more: what was open is what is seen now. A recover has just decided some of it."""
        self.unclear -= set(decided)
        now = self.locations()
        for value in sorted(now.keys() | self.expected.keys()):
            rows = frozenset(self.rows_at(now[value])) if value in now else NONE
            where = self._where(now.get(value))
            if value in self.wild - self.unclear:
                self.expected[value], self.current[value] = rows, where
                self._applied[value] = self.newest()
                self.content[value, where] = rows
                self.stale.discard(value)
            elif where == self.current.get(value):
                self.expected[value] = (self.expected.get(value, NONE) - self.soft) | rows
                self.soft -= rows
        self.wild &= self.unclear


def _spelled(entry: LogEntry, value: str) -> set[PartitionValues]:
    return {values for values in entry.partition_values if value_of(values) == value}
