"""The Delta log in a table's root, as it lies in the store."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from table_writer.errors import StorageError
from table_writer.mirrors.delta.actions import Action, commit_lines, dropping, handover, taking_back
from table_writer.mirrors.delta.snapshot import NOTHING, Checkpoint, Snapshot
from table_writer.mirrors.mirror import Held, MirrorChange, NotOursError
from table_writer.model.location import Location
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.root_markers import DELTA_LOG, is_own_delta_log
from table_writer.storage.footers import Names, other_spellings
from table_writer.storage.object_store import ObjectInfo, many
from table_writer.storage.table_files import delete_keys, require_deleted

logger = logging.getLogger(__name__)
CHECKPOINT_EVERY: Final = 10  # commits, as Delta itself does: readers read all that came after a checkpoint
COMMIT: Final = re.compile(r"([0-9]{20})\.json")
CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
NUMBER: Final = re.compile(r"([0-9]{20})\.")
POINTER: Final = "_last_checkpoint"


@dataclass(frozen=True, slots=True)
class _Listed:
    """The commits and checkpoints of a Delta log, by their numbers."""

    commits: dict[int, ObjectInfo]
    checkpoints: dict[int, ObjectInfo]


class DeltaMirror:
    """The mirror of a table in Delta's format."""

    numbers_versions: ClassVar = True

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened
        self._store = opened.store
        self._root = opened.layout.root
        self._prefix = f"{self._root.key}{DELTA_LOG}/"

    def read(self) -> Snapshot | None:
        """Read the newest snapshot: the pointer, a listing, a checkpoint, and the commits after it."""
        pointer, damage = self._pointer()
        pointer = pointer if pointer >= self._first else NOTHING  # of a log that was dropped
        listed = self._list(after=pointer)
        if pointer != NOTHING and pointer not in listed.checkpoints:
            damage, listed = f"checkpoint {pointer} is missing", self._list(after=NOTHING)
        if not listed.commits and not listed.checkpoints:
            if self._first:
                self._require_own()
            return None
        snapshot, damage = self._base(listed, damage)
        newest = max(*listed.commits, *listed.checkpoints, NOTHING)
        # the commit of a checkpoint says what was in doubt, and who made it, which the checkpoint does not
        wanted = range(max(snapshot.own_version, 0), newest + 1)
        present = [number for number in wanted if number in listed.commits]
        if missing := sorted(set(wanted) - set(present)):
            damage = damage or f"commit {missing[0]} is missing"
        for number, actions in zip(present, many(self._actions, present), strict=True):
            after = None if actions is None else _after(snapshot, number, actions)
            if after is None:
                damage = damage or f"commit {number} cannot be read"
            else:
                snapshot = after
        if snapshot.foreign:
            damage = damage or f"another tool has made commit {', '.join(map(str, snapshot.foreign))}"
        if not snapshot.is_ours:
            self._require_own()
        checkpoint, anchor = snapshot.checkpoint._replace(pointer=pointer), (newest, snapshot.transaction)
        return replace(snapshot, own_version=newest, damage=damage, checkpoint=checkpoint, anchor=anchor)

    def _require_own(self) -> None:
        """Refuse a log of another tool."""
        is_log = any(_number_of(found.key, self._prefix) >= 0 for found in self._store.list(self._prefix))
        if is_log and not is_own_delta_log(self._store, self._root):
            raise NotOursError(
                f"{self._root}{DELTA_LOG}/ is a Delta log that this library did not begin: it is left alone. Move it"
                " away if nobody needs it",
                table=str(self._opened.table.name),
            )

    def why_unfit(self, wanted: Names, there: Names, *, has_ids: bool) -> str:  # noqa: ARG002 - without a mapping
        """Say why: readers go by exact names."""
        found = next(other_spellings(wanted, there), None)
        if found is None:
            return ""
        return f"spells column {'.'.join(found[0])} as {' and '.join(found[1])}, and readers of Delta go by exact names"

    def write(self, held: Held | None, change: MirrorChange) -> Snapshot | None:
        """Commit a change under the next number, if nobody has taken it."""
        before = self._known(held)
        actions = before.changed(change)
        after = self._commit(before, actions) if actions else before
        if after is None or not change.is_whole:
            return after
        more = after.changed(change)  # files that were in another partition
        return self._commit(after, more) if more else after

    def is_there(self, held: Held) -> bool:
        """Read the commit that was the newest when the log was read: one of the same number may be another log's."""
        number, transaction = self._known(held).anchor
        actions = self._actions(number) or ()
        return any((action.get("commitInfo") or {}).get("txnId", "") == transaction for action in actions)

    def hand_over(self, held: Held, version: int) -> Snapshot | None:
        """Commit what lets others write."""
        before = self._known(held)
        return self._commit(before, handover(before.protocol, before.metadata, version, before.own_facts))

    def take_back(self, held: Held, version: int) -> Snapshot | None:
        """Commit what keeps others out."""
        before = self._known(held)
        return self._commit(before, taking_back(before.protocol, before.metadata, version, before.own_facts))

    def why_unguarded(self) -> str:
        """Return nothing: a number is taken once."""
        return ""

    def retire(self, held: Held) -> Snapshot | None:
        """Commit that the log is being deleted."""
        before = self._known(held)
        return self._put_commit(before, dropping(before.own_facts))

    @property
    def _first(self) -> int:
        """The number with which this log begins: those before are of one that was dropped, and may be there yet."""
        return self._opened.log.lister.mirror("delta").number

    def _known(self, held: Held | None) -> Snapshot:
        return held if isinstance(held, Snapshot) else Snapshot(root=self._root, own_version=self._first - 1)

    def _commit(self, before: Snapshot, actions: Sequence[Action]) -> Snapshot | None:
        after = self._put_commit(before, actions)
        if after is None:
            return None
        number, after = after.own_version, replace(after, damage="", foreign=())
        after = replace(after, anchor=before.anchor if before.anchor[0] > NOTHING else (number, after.transaction))
        begins_late = number > 0 and not before.is_ours  # readers ask for what was before
        return self._with_checkpoint(after, is_due=bool(before.damage) or begins_late)

    def _put_commit(self, before: Snapshot, actions: Sequence[Action]) -> Snapshot | None:
        number = before.own_version + 1
        is_first = self._store.put_if_absent(self._commit_key(number), commit_lines(actions))
        return before.after(number, actions) if is_first else None

    def release(self, locations: Collection[Location]) -> None:
        """Leave all commits: as after a vacuum of Delta's own, versions that name files there fail their readers."""

    def tidy(self, older_than_seconds: float) -> None:
        """Delete commits and checkpoints before one that is old enough itself, and that readers are sent to or past."""
        owner = self._store.get(self._opened.layout.owner_key)
        if owner is None:
            return
        now = owner.info.modified_at.timestamp() + owner.age_seconds
        listed = self._list(after=NOTHING)
        old = {
            number
            for number, found in listed.checkpoints.items()
            if now - found.modified_at.timestamp() > older_than_seconds
        }
        kept_from = min(max(old, default=0), max(self._pointer()[0], 0)) if old else 0
        kept_from = max(kept_from, self._first)
        gone = [
            found for found in self._store.list(self._prefix) if -1 < _number_of(found.key, self._prefix) < kept_from
        ]
        if gone and is_own_delta_log(self._store, self._root):
            require_deleted(delete_keys(self._store, gone), f"{self._root}{DELTA_LOG}/")

    def drop(self, held: Held | None) -> int:
        """Delete the log up to the commit that says so, which goes last: what comes later is of the next one."""
        retired = self._known(held)
        last = self._commit_key(retired.own_version)
        listed = (found.key for found in self._store.list(self._prefix))
        kept = {f"{self._prefix}{POINTER}"} if self._pointer()[0] > retired.own_version else ()
        keys = [key for key in listed if _number_of(key, self._prefix) <= retired.own_version and key not in kept]
        for batch in ([key for key in keys if key != last], [key for key in keys if key == last]):
            require_deleted(delete_keys(self._store, batch), f"{self._root}{DELTA_LOG}/")
        return len(keys)

    def _with_checkpoint(self, after: Snapshot, *, is_due: bool) -> Snapshot:
        """Put a checkpoint, or send readers to the one before: at most one more request, which may fail."""
        try:
            if is_due or after.own_version - max(after.checkpoint.number, 0) >= CHECKPOINT_EVERY:
                size = self._put_checkpoint(after)
                after = replace(after, checkpoint=after.checkpoint._replace(number=after.own_version, size=size))
                if not is_due:
                    return after
            number, size, pointed_to = after.checkpoint
            if pointed_to != number:
                pointer = {"version": number, "size": size}
                self._store.put(f"{self._prefix}{POINTER}", json.dumps(pointer).encode())
                after = replace(after, checkpoint=after.checkpoint._replace(pointer=number))
        except StorageError as error:
            if is_due:
                raise
            logger.warning("readers of %s go on from an earlier checkpoint: %s", self._prefix, error)
        return after

    def _put_checkpoint(self, snapshot: Snapshot) -> int:
        from table_writer.mirrors.delta.checkpoint import checkpoint_bytes  # noqa: PLC0415 - pyarrow, seldom used

        actions = list(snapshot.actions())
        self._store.put(f"{self._prefix}{snapshot.own_version:020d}.checkpoint.parquet", checkpoint_bytes(actions))
        return len(actions)

    def _base(self, listed: _Listed, damage: str) -> tuple[Snapshot, str]:
        """Return the newest checkpoint that can be read, and what is wrong."""
        for number in sorted(listed.checkpoints, reverse=True):
            actions = self._checkpoint(number)
            snapshot = None if actions is None else _after(Snapshot(root=self._root), number, actions)
            if actions is None or snapshot is None:
                damage = damage or f"checkpoint {number} cannot be read"
                continue
            own = replace(snapshot, foreign=(), retold=frozenset(), is_ours=snapshot.version > 0)
            return replace(own, checkpoint=Checkpoint(number, len(actions))), damage
        return Snapshot(root=self._root), damage

    def _checkpoint(self, number: int) -> list[Action] | None:
        from table_writer.mirrors.delta.checkpoint import actions_in  # noqa: PLC0415 - as above

        found = self._store.get(f"{self._prefix}{number:020d}.checkpoint.parquet")
        try:
            return None if found is None else actions_in(found.body)
        except (ValueError, KeyError, TypeError, OSError) as error:  # pyarrow's own errors are of these
            logger.warning("checkpoint %d below %s cannot be read: %s", number, self._prefix, error)
            return None

    def _actions(self, number: int) -> list[Action] | None:
        """Read a commit, ``None`` if it is gone or no list of actions."""
        found = self._store.get(self._commit_key(number))
        try:
            lines = [] if found is None else [line for line in found.body.splitlines() if line.strip()]
            actions = [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as error:
            logger.warning("commit %d below %s cannot be read: %s", number, self._prefix, error)
            return None
        return actions if actions and all(isinstance(action, dict) for action in actions) else None

    def _pointer(self) -> tuple[int, str]:
        """Return the checkpoint that readers are sent to, and what is wrong with that."""
        found = self._store.get(f"{self._prefix}{POINTER}")
        try:
            return (NOTHING, "") if found is None else (max(NOTHING, int(json.loads(found.body)["version"])), "")
        except (ValueError, KeyError, TypeError, RecursionError):
            return NOTHING, f"{POINTER} cannot be read"

    def _list(self, *, after: int) -> _Listed:
        """List from a number on."""
        first = f"{self._prefix}{after:020d}" if after > NOTHING else ""
        return _listed(list(self._store.list(self._prefix, start_after=first)), self._prefix, self._first)

    def _commit_key(self, number: int) -> str:
        return f"{self._prefix}{number:020d}.json"


def _number_of(key: str, prefix: str) -> int:
    """Return the number that an object's name begins with; -1 if that is none, as of the pointer."""
    found = NUMBER.match(key.removeprefix(prefix))
    return int(found[1]) if found else -1


def _after(snapshot: Snapshot, number: int, actions: list[Action]) -> Snapshot | None:
    """Return what readers find after actions, ``None`` if these are not as the protocol has them."""
    try:
        after = snapshot.after(number, actions)
        _ = after.log_id, after.names
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        logger.warning("actions of commit %d below %s cannot be read: %r", number, snapshot.root, error)
        return None
    return after


def _listed(found: Sequence[ObjectInfo], prefix: str, begin: int) -> _Listed:
    commits: dict[int, ObjectInfo] = {}
    checkpoints: dict[int, ObjectInfo] = {}
    for info in found:
        name = info.key.removeprefix(prefix)
        if commit := COMMIT.fullmatch(name):
            commits[int(commit[1])] = info
        elif checkpoint := CHECKPOINT.fullmatch(name):
            checkpoints[int(checkpoint[1])] = info
    return _Listed(
        *({number: info for number, info in of_kind.items() if number >= begin} for of_kind in (commits, checkpoints))
    )
