"""Rules of the other write modes that look as if they could go, each broken alone; the exploration must notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from table_writer.log.history import History, SlotRecord
from table_writer.log.rules import PartitionState, Standing, standing
from table_writer.model.entry import LogEntry, Operation, Outcome
from table_writer.model.location import PlaceSet
from table_writer.vacuum.due import InUse

from .keeping import Protocol
from .mode_scenarios import (
    ADD_P,
    DIED_ELSEWHERE,
    GIVEN_UP,
    NOTHING,
    PLAIN_TWICE,
    ROLLED_BACK,
    SEPARATE,
    append,
    create,
    keyed,
    table,
)
from .mode_scenarios import where as replacing
from .mutation import Mutation, where
from .requests import MISSING, OK, Next, Phase, ReadLog
from .scenarios import A_P, B_P, BOTH, OLD_ALTER, OLD_DROP, ONLY_P, RECOVER, VACUUM, rollback, write
from .state import Budget, Call, Log, Metastore, location
from .writes import Behind, Job, Planned, Shown, Write


class ClaimsRightAfterCopying(Protocol):
    """What was copied is taken for what is there."""

    def look(self, plan: Planned, log: Log) -> Phase:
        if plan.brought:
            return "claim", plan, log, tuple((one.values, one.source) for one in plan.brought)
        return (yield from super().look(plan, log))


class AppendsBlindly(Protocol):
    def bring(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        return "claim", plan, log, shown
        yield


class KeepsOldCopies(Protocol):
    """What is there now is copied beside what was there."""

    def own_directory(self, plan: Planned, values: str) -> str:
        return plan.own(values)


class AppendsBesideOneInDoubt(Protocol):
    def standing(self, record: SlotRecord, draft: LogEntry, plan: Planned) -> Standing:
        found = super().standing(record, draft, plan)
        return Standing.UNRELATED if found is Standing.IN_DOUBT else found


class TrustsTheMetastore(Protocol):
    """What a late call has brought back, or taken away, is built on."""

    def in_the_way(self, plan: Planned, log: Log, shown: Shown) -> tuple[Behind, ...]:
        return ()


class OverwritesWhatItHasNotSeen(Protocol):
    def standing(self, record: SlotRecord, draft: LogEntry, plan: Planned) -> Standing:
        return standing(record, draft, plan.in_doubt, scope=plan.write.scope, appends=True)


class CreatesByAlter(Protocol):
    def switch(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        if not present:
            partitions = tuple(values for values, _, _ in job.changes)
            yield self.send(job, ("add", tuple((values, f"@{job.write_id}") for values in partitions)))
            return "alter", job, partitions, attempt
        return (yield from super().switch(job, present, attempt))


class CreatesWhatExists(Protocol):
    def built(self, plan: Planned, log: Log, shown: Shown) -> Next:
        return "claim", plan, log, shown


class ConflictsOnlyWithItsRows(Protocol):
    def standing(self, record: SlotRecord, draft: LogEntry, plan: Planned) -> Standing:
        return standing(record, draft, plan.in_doubt)


class DropsWithoutEmptying(Protocol):
    def one_alter(self, job: Job, present: tuple[str, ...]) -> Call:
        return super().one_alter(job, tuple(values for values, _, new in job.changes if new and values in present))

    def drop(self, job: Job) -> Phase:
        for values in [values for values, _, new in job.changes if new is None]:
            answer = yield self.send(job, ("drop", ((values, None),)))
            if answer not in {OK, MISSING}:
                return job.unrecorded
        return "record_outcome", job, job.to_record


class DropsTheTable(Protocol):
    def look(self, plan: Planned, log: Log) -> Phase:
        partitioned = plan._replace(write=plan.write._replace(is_of_whole_table=False))
        return (yield from super().look(partitioned, log))


class LooksEverywhereBelowTheRoot(Protocol):
    """A reader of an unpartitioned table's root is taken to look into this library's own directory."""

    def in_use(self, history: History, now: Metastore) -> InUse:
        used = super().in_use(history, now)
        shown = PlaceSet(location(code).place for code in now if code is not None)
        return _Everywhere(used, shown)


class _Everywhere(InUse):
    def __init__(self, used: InUse, shown: PlaceSet) -> None:
        self._used = used
        self._shown = shown

    def meets(self, place: tuple[str, str, str]) -> bool:
        return self._used.meets(place) or self._shown.meets(place)

    def holds(self, place: tuple[str, str, str]) -> bool:
        return self._used.holds(place) or self._shown.holds(place)


class TakesNothingForSuperseded(Protocol):
    def recovered_as(self, states: tuple[PartitionState, ...]) -> Outcome:
        done = [state for state in states if state is not PartitionState.SUPERSEDED]
        return Outcome.PUBLISHED if done else Outcome.ABANDONED


class LooksForTheKeyFirst(Protocol):
    """And fixes the base version afterwards: what was published in between is never looked at."""

    def write(self, write: Write) -> Phase:
        log: Log = yield ReadLog()
        if write.key and self.repeats(log.history.records, write.key):
            return "end", "repeated"
        return "fix_base", write

    def fix_base(self, write: Write) -> Phase:
        log: Log = yield ReadLog()
        return "upload", Planned(write, log.newest, log.in_doubt)


class LooksForTheKeyOnce(Protocol):
    def repeats_since(self, records: Sequence[SlotRecord], plan: Planned) -> bool:
        return False


class CountsAbandonedKeys(Protocol):
    def repeats(self, records: Sequence[SlotRecord], key: str) -> bool:
        return any(one.entry.idempotency_key == key and one.outcome is not None for one in records)


class CountsKeysOfWhatWasRolledBack(Protocol):
    def repeats(self, records: Sequence[SlotRecord], key: str) -> bool:
        writes = (one for one in records if one.entry.operation is Operation.WRITE)
        return any(one.entry.idempotency_key == key and one.outcome is Outcome.PUBLISHED for one in writes)


class DoesNotWaitForItsKey(Protocol):
    def standing(self, record: SlotRecord, draft: LogEntry, plan: Planned) -> Standing:
        return super().standing(record, replace(draft, idempotency_key=""), plan)


APPEND_P: Final = append("A", "p")
KEYED_TWICE: Final = where("one key twice", ONLY_P, A=append("A", "p", "k"), B=append("B", "p", "k"))
WRONG: Final = "rows are wrong"

MODE_MUTATIONS: Final = (
    Mutation(
        "an append looks again after copying",
        ClaimsRightAfterCopying,
        where("append, write", ONLY_P, A=APPEND_P, B=B_P),
        WRONG,
    ),
    Mutation("an append brings along what is there", AppendsBlindly, where("append", ONLY_P, A=APPEND_P), WRONG),
    Mutation(
        "what is not there any more is not among the copies",
        KeepsOldCopies,
        where("append, write", ONLY_P, A=APPEND_P, B=B_P),
        WRONG,
    ),
    Mutation(
        "an append waits for what is in doubt",
        AppendsBesideOneInDoubt,
        where("2 appends", ONLY_P, A=APPEND_P, B=append("B", "p")),
        "rows are wrong",
    ),
    Mutation(
        "no append to what a late alter has brought back",
        TrustsTheMetastore,
        where("an old alter pending: append", OLD_ALTER, Budget(timeouts=0), A=APPEND_P),
        WRONG,
    ),
    Mutation(
        "no append where a late drop has taken rows away",
        TrustsTheMetastore,
        where("an old drop pending: append", OLD_DROP, Budget(timeouts=0), A=APPEND_P),
        WRONG,
    ),
    Mutation(
        "no creation where a late drop has taken rows away",
        TrustsTheMetastore,
        where("an old drop pending: creation", OLD_DROP, Budget(timeouts=0), A=create("A", "p")),
        "they are lost",
    ),
    Mutation(
        "only an append may publish over what it has not seen",
        OverwritesWhatItHasNotSeen,
        where("2 writes", ONLY_P, A=A_P, B=B_P),
        "lost update",
    ),
    Mutation(
        "a creation adds and alters nothing",
        CreatesByAlter,
        replace(
            where("creation, another tool", NOTHING, Budget(other_tool=1), A=create("A", "pq")), other_tool=(ADD_P,)
        ),
        "shall only be created",
    ),
    Mutation(
        "a creation refuses what exists", CreatesWhatExists, where("creation", ONLY_P, A=create("A", "p")), "lost"
    ),
    Mutation(
        "an overwrite of the table conflicts with every newer entry",
        ConflictsOnlyWithItsRows,
        where("overwrite of the table, write of q", ONLY_P, A=table("A", "p"), B=write("B", "q")),
        "lost update",
    ),
    Mutation(
        "a replaced set of partitions conflicts with every newer entry of it",
        ConflictsOnlyWithItsRows,
        where("overwrite where q, write of q", SEPARATE, A=replacing("A", "", "q"), B=write("B", "q")),
        "a lost update",
    ),
    Mutation(
        "what a table loses is emptied in the same alter",
        DropsWithoutEmptying,
        where("overwrite of the table", BOTH, A=table("A", "p")),
        "without the others",
    ),
    Mutation(
        "an unpartitioned table is emptied, not dropped",
        DropsTheTable,
        where("overwrite with nothing", PLAIN_TWICE, A=table("A", "", whole=True)),
        "lost its location",
    ),
    Mutation(
        "a reader of the root does not look into the own directory",
        LooksEverywhereBelowTheRoot,
        where("rollback to the root, vacuum", PLAIN_TWICE, Budget(days=1), K=rollback(0), vacuum=VACUUM),
        "and vacuum leaves it",
    ),
    Mutation(
        "an entry without partitions is not superseded",
        TakesNothingForSuperseded,
        where("overwrite of nothing with nothing", NOTHING, Budget(unrecorded=1), A=table("A", ""), recover=RECOVER),
        "told its user that it succeeded",
    ),
    Mutation("the base version is fixed before the key is looked for", LooksForTheKeyFirst, KEYED_TWICE, "twice"),
    Mutation("the key is looked for again at the publish", LooksForTheKeyOnce, KEYED_TWICE, "twice"),
    Mutation(
        "the key of an abandoned entry is void",
        CountsAbandonedKeys,
        where("a key that was given up", GIVEN_UP, A=append("A", "p", "k")),
        "no such rows are there",
    ),
    Mutation(
        "the key of an entry that was rolled back is void",
        CountsKeysOfWhatWasRolledBack,
        where("a key that was rolled back", ROLLED_BACK, A=append("A", "p", "k")),
        "no such rows are there",
    ),
    Mutation(
        "a write waits for an entry in doubt that has its key",
        DoesNotWaitForItsKey,
        where("a key in doubt elsewhere", DIED_ELSEWHERE, A=keyed("A", "p"), recover=RECOVER),
        "twice",
    ),
)
