"""Rules of appends in place, each broken alone; the exploration must notice."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import replace
from typing import Final

from table_writer.log.fold import Left
from table_writer.log.history import History, SlotRecord
from table_writer.log.rules import PartitionState, _delete
from table_writer.model.entry import Operation, Outcome
from table_writer.vacuum.due import InUse

from .adding import Missing
from .in_place_faults import TWICE_OLD
from .in_place_worlds import (
    ADDED,
    ADDED_OFTEN,
    ADDED_WITH_KEY,
    AWAY,
    BACK_TO_I,
    DIED_COPYING,
    HALF_MOVED,
    LATE_IN_PLACE,
    REFUSED,
    REFUSED_STAGED,
    REPLACED,
    RESTORE,
    in_place,
    publisher_in_place,
    rollback_by,
)
from .keeping import Protocol
from .mode_mutations import AppendsBesideOneInDoubt, TrustsTheMetastore
from .mode_scenarios import PLAIN_TWICE, table
from .mutation import Mutation, where
from .requests import LOST, OK, Copy, Delete, ListFiles, Next, Phase, ReadLog, RecordOutcome
from .scenarios import B_P, DROP_P, OLD_ALTER, ONLY_P, RECOVER, THEIRS, VACUUM, rollback
from .state import Budget, Change, Log, Metastore, Slot, code_of_text
from .writes import Job, Planned


class CopiesFirst(Protocol):
    """Copies before the metastore call, and gives up as always when that is refused."""

    def switch(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        if not job.to_copy:
            return (yield from super().switch(job, present, attempt))
        target, source, row = job.to_copy[0]
        answer = yield Copy(((target, source, (row,)),), self.in_time_of(job.version))
        return ("switch", job._replace(to_copy=job.to_copy[1:]), present, attempt) if answer == OK else job.unknown


class DeletesSourcesBeforeTheOutcome(Protocol):
    """A source goes with the first file that was copied."""

    def copy_added(self, job: Job, todo: tuple[tuple[str, str, str], ...]) -> Phase:
        phase = yield from super().copy_added(job, todo)
        return ("delete_source", phase, todo[0][1]) if phase[0] == "copy_added" else phase

    def delete_source(self, then: Next, source: str) -> Phase:
        yield Delete((source,))
        return then


class TakesLostForCopied(Protocol):
    def copy_added(self, job: Job, todo: tuple[tuple[str, str, str], ...]) -> Phase:
        if not todo:
            return "drop", job
        target, source, row = todo[0]
        answer = yield Copy(((target, source, (row,)),), self.in_time_of(job.version))
        return ("copy_added", job, todo[1:]) if answer in {OK, LOST} else job.unknown


class RecoversByLocation(Protocol):
    def states(self, slot: Slot, now: Metastore, copied: Collection[str]) -> dict[str, PartitionState]:
        return super().states(slot, now, {one.values for one in slot.added})


class ConfirmsByLocation(Protocol):
    def copied(self, slot: Slot) -> Generator[ListFiles, tuple[tuple[str, ...], ...], frozenset[str]]:
        return frozenset(one.values for one in slot.added)
        yield


class AbandonsWhatWasBegun(Protocol):
    def recovery(self, log: Log, record: SlotRecord, then: Next, *, failed: Next) -> Next:
        if log.slots[record.entry.version - 1].added:
            return "abandon", record.entry.version, then
        return super().recovery(log, record, then, failed=failed)

    def abandon(self, version: int, then: Next) -> Phase:
        yield RecordOutcome(version, Outcome.ABANDONED, "R")
        return then


class PointsBackToTheSameLocation(Protocol):
    def is_to_be_copied(self, log: Log, code: str, version: int) -> bool:
        return False


class LeavesWhatIsCurrent(PointsBackToTheSameLocation):
    """A rollback has nothing to do where a partition is at the version's location."""

    def is_there(self, log: Log, values: str, code: str, *, copied: bool) -> bool:
        return True


class LooksForLaterFiles(Protocol):
    """Files that are not there yet do not count."""

    def surplus(self, history: History, code: str, version: int) -> frozenset[str]:
        ended = [one for one in history.records if one.outcome is Outcome.PUBLISHED]
        return super().surplus(History(history.layout, ended, history.unverified), code, version)


class TakesLaterVersionsForSurplus(Protocol):
    """What entries of later versions name is no part of a version, a recovery of an earlier one included."""

    def surplus(self, history: History, code: str, version: int) -> frozenset[str]:
        return frozenset(
            found.name
            for record in history.records
            for one in record.entry.partitions
            if record.entry.version > version and code_of_text(one.new_location) == code
            for found in one.added
        )


class RollsBackToWhatIsGivenUp(Protocol):
    def is_given_up(self, log: Log, write_id: str) -> bool:
        return False


class AddsToWhatIsDeleted(Protocol):
    def is_deleted_in_place(self, plan: Planned, log: Log, slot: Slot) -> bool:
        return False


def without_sources(history: History) -> History:
    records = [
        replace(
            record,
            entry=replace(record.entry, partitions=tuple(replace(one, source=None) for one in record.entry.partitions)),
        )
        for record in history.records
    ]
    return History(history.layout, records, history.unverified)


class VacuumsSources(Protocol):
    def in_use(self, history: History, now: Metastore) -> InUse:
        return super().in_use(without_sources(history), now)


class KeepsWhatARestoreCopied(Protocol):
    def chosen(self, history: History, used: InUse) -> tuple[Left, ...]:
        restores = {one.entry.version for one in history.records if one.entry.operation is Operation.RESTORE}
        return tuple(left for left in super().chosen(history, used) if left.left_by not in restores)


class CoversByLocation(Protocol):
    """A vacuum that deletes what an entry copies says nothing of it."""

    def covered(self, history: History, record: SlotRecord) -> bool:
        bare = without_sources(history)
        return super().covered(bare, next(one for one in bare.records if one.entry.version == record.entry.version))


class RebuildsByLocation(Protocol):
    def rebuilt(
        self, log: Log, version: int, shown: dict[str, str | None], copied: dict[str, bool | None]
    ) -> tuple[Outcome, tuple[str, ...]]:
        return super().rebuilt(log, version, shown, dict.fromkeys(copied, True))


class TakesAddedForGivenUp(Protocol):
    def rebuilt(
        self, log: Log, version: int, shown: dict[str, str | None], copied: dict[str, bool | None]
    ) -> tuple[Outcome, tuple[str, ...]]:
        return super().rebuilt(log, version, shown, dict.fromkeys(copied, False))


class RebuildsByAnOldLog(Protocol):
    def log_after_listing(self, log: Log, missing: Missing) -> Generator[ReadLog, Log, Log]:
        return log
        yield


class CoversAllBelow(Protocol):
    """Listed files of other tools in the root are taken for all that lies below it."""

    def covered(self, history: History, record: SlotRecord) -> bool:
        newer = [one.entry for one in history.records if one.entry.version > record.entry.version]
        return super().covered(history, record) or any(_delete([one], record.entry) for one in newer)


class LooksForTheKeyInWhatIsNew(Protocol):
    """A rollback that brings a key back is not looked behind."""

    def records_with_key(self, log: Log, unseen: Sequence[SlotRecord]) -> Sequence[SlotRecord]:
        return unseen


class CopiesTooLate(Protocol):
    """The claim's time does not hold for copies."""

    def copy_added(self, job: Job, todo: tuple[tuple[str, str, str], ...]) -> Phase:
        if not todo:
            return "drop", job
        target, source, row = todo[0]
        answer = yield Copy(((target, source, (row,)),))
        return ("copy_added", job, todo[1:]) if answer == OK else job.unknown


class CallsByLocation(Protocol):
    def state_of_call(self, job: Job, change: Change, now: str | None) -> PartitionState:
        added = next((one for one in job.in_place if one.values == change[0]), None)
        return self.state(change, now, added, copied=True)


A_P: Final = in_place("A", "p")
A_2: Final = in_place("A", "p", 2)
WRONG: Final = "rows are wrong"
MISSED: Final = "without the rows that version"
ABANDONED: Final = "which was abandoned"

IN_PLACE_MUTATIONS: Final = (
    Mutation(
        "nothing is copied before the metastore has answered",
        CopiesFirst,
        where("append in place, a refusal", ONLY_P, Budget(refusals=1), A=A_P),
        ABANDONED,
    ),
    Mutation(
        "sources stay until the outcome is recorded",
        DeletesSourcesBeforeTheOutcome,
        where("append in place", ONLY_P, A=A_2),
        "recover ends with 'failed'",
    ),
    Mutation(
        "a copy without an answer leaves the entry in doubt",
        TakesLostForCopied,
        where("append in place, late copies", ONLY_P, Budget(late_store=1), A=A_P),
        MISSED,
    ),
    Mutation("a recovery asks for files", RecoversByLocation, where("append in place", ONLY_P, A=A_P), MISSED),
    Mutation(
        "nothing is confirmed before its files are there",
        ConfirmsByLocation,
        where("2 appends in place", ONLY_P, A=A_P, B=in_place("B", "p")),
        MISSED,
    ),
    Mutation(
        "what was begun is rolled forward",
        AbandonsWhatWasBegun,
        where("died copying: recover", DIED_COPYING, recover=RECOVER),
        ABANDONED,
    ),
    Mutation(
        "a rollback copies where later files lie",
        PointsBackToTheSameLocation,
        where("replaced: rollback", REPLACED, K=rollback(1)),
        WRONG,
    ),
    Mutation(
        "a restore copies where files of an abandoned entry lie",
        PointsBackToTheSameLocation,
        replace(
            where("died copying, another tool drops it: restore", DIED_COPYING, Budget(other_tool=1), restore=RESTORE),
            other_tool=(DROP_P,),
        ),
        ABANDONED,
    ),
    Mutation(
        "a rollback copies where abandoned files may come",
        LooksForLaterFiles,
        where("another tool had moved it: rollback", AWAY, K=rollback(1)),
        ABANDONED,
    ),
    Mutation(
        "what a recovery names is of the version that it finishes",
        TakesLaterVersionsForSurplus,
        where("an append in place was recovered: rollback", LATE_IN_PLACE, K=rollback(2)),
        WRONG,
    ),
    Mutation(
        "what was superseded is no part of any version",
        TakesLaterVersionsForSurplus,
        where("another tool had moved one of two: rollback", HALF_MOVED, K=rollback(3)),
        WRONG,
    ),
    Mutation(
        "a rollback that a vacuum has given up stops",
        RollsBackToWhatIsGivenUp,
        where("rollback, vacuum, a day", ADDED, Budget(days=1), K=rollback(1), vacuum=VACUUM),
        "data is gone",
    ),
    Mutation(
        "nothing is added to what a vacuum deletes",
        AddsToWhatIsDeleted,
        replace(
            where("another tool points back: append, vacuum", TWICE_OLD, Budget(other_tool=1), A=A_P, vacuum=VACUUM),
            other_tool=(BACK_TO_I,),
        ),
        MISSED,
    ),
    Mutation(
        "a vacuum spares sources of what is in doubt",
        VacuumsSources,
        where(
            "refused before: publisher, vacuum",
            REFUSED_STAGED,
            Budget(days=1),
            P1=publisher_in_place("P1", files=2),
            vacuum=VACUUM,
        ),
        ABANDONED,
    ),
    Mutation(
        "a vacuum deletes what an abandoned restore has copied",
        KeepsWhatARestoreCopied,
        replace(
            where(
                "another tool drops it: append, restore",
                ADDED,
                Budget(timeouts=1, late=1, other_tool=1),
                A=in_place("A", "p", 2),
                restore=RESTORE,
            ),
            other_tool=(DROP_P,),
        ),
        "vacuum leaves it",
    ),
    Mutation(
        "an entry whose source a vacuum deletes is not done again",
        CoversByLocation,
        where("an outcome is lost: recover, vacuum", REFUSED, Budget(damaged=1), recover=RECOVER, vacuum=VACUUM),
        "recover ends with 'failed'",
    ),
    Mutation(
        "an outcome is rebuilt by files: what was refused",
        RebuildsByLocation,
        where("an outcome is lost: append", REFUSED, Budget(timeouts=1, damaged=1), A=A_P),
        MISSED,
    ),
    Mutation(
        "an outcome is rebuilt by files: what was published",
        TakesAddedForGivenUp,
        where("an outcome is lost: rollback", ADDED_OFTEN, Budget(timeouts=1, damaged=1), K=rollback(1)),
        WRONG,
    ),
    Mutation(
        "an outcome is rebuilt by a log that was read after the files",
        RebuildsByAnOldLog,
        where(
            "an outcome is lost: write, vacuum", REPLACED, Budget(timeouts=0, damaged=1, days=1), B=B_P, vacuum=VACUUM
        ),
        "lost update",
    ),
    Mutation(
        "nothing is added to what a late alter has brought back",
        TrustsTheMetastore,
        where("an old alter pending: append in place", OLD_ALTER, Budget(timeouts=0), A=A_P),
        WRONG,
    ),
    Mutation(
        "an append in place waits for what is in doubt",
        AppendsBesideOneInDoubt,
        where("2 appends in place", ONLY_P, A=A_2, B=in_place("B", "p")),
        ABANDONED,
    ),
    Mutation(
        "a call without an answer counts by the parameters",
        CallsByLocation,
        where("append in place, write, late", THEIRS, Budget(timeouts=0, late=1), A=A_P, B=B_P),
        "after recover",
    ),
    Mutation(
        "files of other tools in the root are no directory of ours: a write",
        CoversAllBelow,
        where(
            "unpartitioned: write, vacuum, recover",
            PLAIN_TWICE,
            Budget(timeouts=1, late=1),
            A=table("A", "p", whole=True),
            vacuum=VACUUM,
            recover=RECOVER,
        ),
        "its entry is abandoned",
    ),
    Mutation(
        "files of other tools in the root are no directory of ours: an append in place",
        CoversAllBelow,
        where(
            "unpartitioned: append in place, vacuum", PLAIN_TWICE, A=in_place("A", "p", 2, whole=True), vacuum=VACUUM
        ),
        ABANDONED,
    ),
    Mutation(
        "a key is looked for behind a rollback",
        LooksForTheKeyInWhatIsNew,
        where(
            "a key, 2 rollbacks: append in place",
            ADDED_WITH_KEY,
            Budget(timeouts=0),
            A=in_place("A", "p", key="k"),
            K=rollback(1),
            L=rollback_by("L", 2),
        ),
        "twice",
    ),
)
