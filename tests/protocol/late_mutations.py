"""Rules about late requests, damage and other tools' rows, each broken alone; the exploration must notice."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from table_writer.log.history import History, SlotRecord
from table_writer.model.entry import Outcome

from .keeping import Protocol
from .late_scenarios import AT_PLACEHOLDER, BEGUN_AGAIN, COPIED, GIVEN_UP, HALF_REPLACED, SECOND_ROUND, VACUUMED
from .mode_scenarios import append
from .mutation import Mutation, where
from .requests import Copy, Delete, ListFiles, Phase
from .scenarios import B_P, BOTH, OLD_ALTER, OLD_DROP, ONLY_P, RECOVER, TWICE, VACUUM, rollback
from .staged_scenarios import P1
from .state import Budget, Call, Log, rows_at
from .writes import Behind, Brought, Job, Planned, Shown


class CopiesAgainWhereItHasCopied(Protocol):
    """The next round deletes what is not there any more, and copies what is missing, at the same keys."""

    def copy(self, plan: Planned, wanted: tuple[Brought, ...]) -> Phase:
        known = {one.values: one for one in plan.brought}
        for one in wanted:
            surplus = tuple(row for row in known[one.values].rows if row not in one.rows) if one.values in known else ()
            if surplus:
                yield Delete((plan.own(one.values),), surplus)
        return "copy_missing", plan, wanted

    def copy_missing(self, plan: Planned, wanted: tuple[Brought, ...]) -> Phase:
        brought = tuple(one._replace(target=plan.own(one.values)) for one in wanted)
        yield Copy(tuple((one.target, one.source, one.rows) for one in brought if one.source))
        return "publish", plan._replace(brought=brought)


class StopsLookingAfterADay(Protocol):
    """What a late call has done counts only within its day."""

    def to_verify(self, log: Log) -> frozenset[int]:
        return frozenset()

    def may_be_late(self, log: Log) -> bool:
        return bool(log.marks.unverified - log.marks.closed)


class ForgetsDropsAfterADay(Protocol):
    """A partition that is gone, or back at other tools' files, counts as set back only within the day."""

    def behind(self, log: Log, shown: Shown) -> tuple[Behind, ...]:
        young = log.marks._replace(unverified=log.marks.unverified - log.marks.closed)
        return super().behind(Log.of(log.slots, young), shown)


class VerifiesTooEarly(Protocol):
    def to_verify(self, log: Log) -> frozenset[int]:
        return log.marks.unverified


class VerifiesItsOwnPartitions(Protocol):
    def verified_by(self, plan: Planned) -> tuple[str, ...]:
        return plan.write.partitions


class VerifiesWhatIsInDoubt(Protocol):
    def to_verify(self, log: Log) -> frozenset[int]:
        return log.marks.closed


class RollsCoveredForward(Protocol):
    def covered(self, history: History, record: SlotRecord) -> bool:
        return False


class CountsOnlyPublishes(Protocol):
    """What is in doubt, and claimed over the entry, says nothing of it."""

    def covered(self, history: History, record: SlotRecord) -> bool:
        ended = [one for one in history.records if one.outcome is not None]
        return super().covered(History(history.layout, ended, history.unverified), record)


class IgnoresVacuums(Protocol):
    def covered(self, history: History, record: SlotRecord) -> bool:
        publishes = [one for one in history.records if one.entry.partitions]
        return super().covered(History(history.layout, publishes, history.unverified), record)


class TakesCoveredForGivenUp(Protocol):
    def rebuilt(
        self, log: Log, version: int, shown: dict[str, str | None], copied: dict[str, bool | None]
    ) -> tuple[Outcome, tuple[str, ...]]:
        return Outcome.ABANDONED, ()


class TakesSlotsOfLostEntries(Protocol):
    """The newest entry counts, and no outcome without one."""

    def newest_entries(self, log: Log) -> Log | None:
        return log.without_lost_entries()


class SharesItsPlaceholder(Protocol):
    def one_alter(self, job: Job, present: tuple[str, ...]) -> Call:
        kind, places, *more = super().one_alter(job, present)
        shared = tuple((values, f"@{job.write_id}/p" if code.startswith("@") else code) for values, code in places)
        return (kind, shared, *more)


class TrustsPlaceholders(Protocol):
    def places(self, shown: Shown) -> tuple[tuple[str, str], ...]:
        return tuple((values, place) for values, place in super().places(shown) if rows_at(place))


class DropsWithoutLooking(Protocol):
    def is_empty(self, placeholder: str) -> Generator[ListFiles, tuple[tuple[str, ...], ...], bool]:
        return True
        yield


class EmptiesAgain(Protocol):
    """A recovery takes partitions from one placeholder to its own."""

    def one_alter(self, job: Job, present: tuple[str, ...]) -> Call:
        return super().one_alter(job._replace(emptied=()), present)


class ForgetsWhichLog(Protocol):
    def is_same_log(self, plan: Planned, log: Log) -> bool:
        return True


WRONG: Final = "rows are wrong"
ONCE: Final = Budget(timeouts=0, late_store=1)
A_DAY: Final = Budget(timeouts=0, days=1)
TWO_APPENDS: Final = where("an old alter pending: 2 appends", OLD_ALTER, A_DAY, A=append("A", "p"), C=append("C", "q"))

LATE_MUTATIONS: Final = (
    Mutation(
        "no round copies where an earlier one has copied: a late delete",
        CopiesAgainWhereItHasCopied,
        where("append that has copied, rollback", COPIED, ONCE, A=SECOND_ROUND, K=rollback(1)),
        WRONG,
    ),
    Mutation(
        "no round copies where an earlier one has copied: a late copy",
        CopiesAgainWhereItHasCopied,
        where("append, write", ONLY_P, ONCE, A=append("A", "p"), B=B_P),
        WRONG,
    ),
    Mutation("late calls count until somebody has looked", StopsLookingAfterADay, TWO_APPENDS, WRONG),
    Mutation(
        "late drops count until somebody has looked",
        ForgetsDropsAfterADay,
        where("an old drop pending: append", OLD_DROP, A_DAY, A=append("A", "p")),
        "after recover",
    ),
    Mutation("nobody verifies while a call may come", VerifiesTooEarly, TWO_APPENDS, WRONG),
    Mutation("who verifies compares all partitions", VerifiesItsOwnPartitions, TWO_APPENDS, WRONG),
    Mutation("nobody verifies while anything is in doubt", VerifiesWhatIsInDoubt, TWO_APPENDS, "lost update"),
    Mutation(
        "what newer entries cover is not done again",
        RollsCoveredForward,
        where("an outcome is lost: recover", VACUUMED, Budget(damaged=1), recover=RECOVER),
        "data is gone",
    ),
    Mutation(
        "what was claimed over an entry covers it, though it is in doubt",
        CountsOnlyPublishes,
        where("an outcome is lost: write, recover", TWICE, Budget(timeouts=1, damaged=1), B=B_P, recover=RECOVER),
        "lost update",
    ),
    Mutation(
        "what a vacuum deletes is not done again",
        IgnoresVacuums,
        where("an outcome is lost: recover, vacuum", GIVEN_UP, Budget(damaged=1), recover=RECOVER, vacuum=VACUUM),
        "data is gone",
    ),
    Mutation(
        "an outcome is rebuilt by what came after the entry",
        TakesCoveredForGivenUp,
        where("an outcome is lost: recover", HALF_REPLACED, Budget(damaged=1), recover=RECOVER),
        "a lost update",
    ),
    Mutation(
        "nobody takes the slot of a lost entry",
        TakesSlotsOfLostEntries,
        where("an entry is lost: write", GIVEN_UP, Budget(timeouts=0, lost_entries=1), B=B_P),
        "no entry in doubt wants",
    ),
    Mutation(
        "each partition has a placeholder of its own",
        SharesItsPlaceholder,
        where("another tool inserts: rollback", BOTH, Budget(inserts=1), K=rollback(0, "pq")),
        "what was inserted into",
    ),
    Mutation(
        "an append lists placeholders",
        TrustsPlaceholders,
        where("another tool inserts: append", AT_PLACEHOLDER, Budget(timeouts=0, inserts=1), A=append("A", "p")),
        WRONG,
    ),
    Mutation(
        "a placeholder is listed before it is dropped",
        DropsWithoutLooking,
        where("another tool inserts: rollback", ONLY_P, Budget(inserts=1), K=rollback(0)),
        "is dropped with what was inserted there",
    ),
    Mutation(
        "what is emptied already stays where it is",
        EmptiesAgain,
        where("another tool inserts: rollback", ONLY_P, Budget(inserts=1), K=rollback(0), recover=RECOVER),
        "is dropped with what was inserted there",
    ),
    Mutation(
        "what was planned in another log conflicts",
        ForgetsWhichLog,
        where("the log was deleted, a write: publisher", BEGUN_AGAIN, P1=P1),
        "lost update",
    ),
)
