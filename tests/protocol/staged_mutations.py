"""Rules of staged writes that look as if they could go, each broken alone; the exploration must notice."""

from __future__ import annotations

from typing import Final

from table_writer.model.entry import Outcome
from table_writer.vacuum.due import InUse

from .keeping import Protocol
from .mutation import Mutation, where
from .mutations import PublishesWhatIsVacuumed
from .requests import Delete, ListFiles, Next, Phase, ReadLog, RemoveRegistration, RemoveTurns
from .rules import Discarding
from .scenarios import B_P, RECOVER, VACUUM, rollback
from .staged_scenarios import (
    APPEND_DIED,
    APPENDED_AND_TRIMMED,
    DIED,
    DIED_COPYING,
    DISCARD,
    EXPIRING,
    GIVEN_UP,
    GONE,
    P1,
    REPLACED_AND_TRIMMED,
    STAGED,
    appender,
)
from .state import Budget, Log, location
from .writes import Planned


class IgnoresItsOwnEntries(Protocol):
    def of_this_write(self, plan: Planned, log: Log) -> Next | None:
        return None


class OwnIsLikeAnyOther(Protocol):
    """Who could not settle the entry of its own write says that nothing was published."""

    def own_not_settled(self) -> str:
        return "failed"


class DiscardsWithoutClaim(Protocol):
    def claim_discard(self, write_id: str, log: Log, decided: Discarding) -> Phase:
        del log, decided
        yield Delete(write_id)
        return "end", "vacuumed"


class DiscardsTheRefusedWithoutClaim(Protocol):
    """After an abandoned entry only the registration goes."""

    def claim_discard(self, write_id: str, log: Log, decided: Discarding) -> Phase:
        if decided is Discarding.LATER:
            yield RemoveRegistration(write_id)
            return "end", "vacuumed"
        return (yield from super().claim_discard(write_id, log, decided))


class DeletesTheRefusedAtOnce(Protocol):
    def discarding(self, log: Log, write_id: str, used: InUse) -> Discarding:
        found = super().discarding(log, write_id, used)
        return Discarding.NOW if found is Discarding.LATER else found


class DeletesClaimedCopies(Protocol):
    def is_claimed(self, log: Log, write_id: str) -> bool:
        return False


class KnowsOnlyItsOwnEntries(Protocol):
    """Entries of the write itself count, and not others that name its files."""

    def is_claimed(self, log: Log, write_id: str) -> bool:
        own = [one for one in log.history.records if one.entry.write_id == write_id]
        return any(one.outcome is not Outcome.ABANDONED for one in own)

    def discarding(self, log: Log, write_id: str, used: InUse) -> Discarding:
        own = [one for one in log.history.records if one.entry.write_id == write_id]
        if self.is_claimed(log, write_id) or used.meets(location(write_id).place):
            return Discarding.REFUSED
        return Discarding.LATER if own else Discarding.NOW


class PublishesWithoutTurn(Protocol):
    def list_turns(self, plan: Planned) -> Phase:
        return "compare_first", plan
        yield

    def compare_first(self, plan: Planned) -> Phase:
        found = yield ListFiles(self._targets(plan.write))
        beside = self._beside(plan.write, found)
        return ("delete_copies", plan, beside, ("publish", plan)) if beside else ("publish", plan)


class NumbersTurnsAgain(Protocol):
    """A turn that is given back leaves no object behind."""

    def give_back(self, plan: Planned, report: str) -> Phase:
        if plan.turn:
            yield RemoveTurns(plan.turn)
        return "unregister", plan, report


class ClaimsAfterItsTurn(Protocol):
    def turn_of_claim(self, plan: Planned) -> int:
        return 0


class CopiesAfterItsTurn(Protocol):
    def turn_of_files(self, plan: Planned) -> int:
        return 0


class ForgetsItsTurn(ClaimsAfterItsTurn, CopiesAfterItsTurn):
    pass


class ComparesOnlyWhatItCopied(Protocol):
    def compares(self, plan: Planned) -> bool:
        return bool(plan.copied)


class LooksAtFilesFirst(Protocol):
    """Files that are gone are reported before the log is asked."""

    def look_why(self, plan: Planned) -> Phase:
        log: Log = yield ReadLog()
        return "leave", plan._replace(seen=log.newest), "failed", True


class VacuumsWhatIsStaged(Protocol):
    """The files of an abandoned entry go after their retention, though they are staged for longer."""

    def waits(self, code: str, staged: frozenset[str]) -> bool:
        return False


class LeavesCopies(Protocol):
    """Whoever takes a turn goes on beside the copies of one that died."""

    def compare_staged(self, plan: Planned) -> Phase:
        yield ListFiles(self._targets(plan.write))
        return "publish", plan

    def compares(self, plan: Planned) -> bool:
        return False


Q1: Final = appender("P1")
Q2: Final = appender("P2")
Q3: Final = appender("P3")
WRONG: Final = "rows are wrong"
PAUSED_ONCE: Final = where("2 publishers of a staged append", STAGED, Budget(timeouts=0, pauses=1), P1=Q1, P2=Q2)
WITH_WRITE: Final = where("the same, and a write", STAGED, Budget(timeouts=0, pauses=1), P1=Q1, P2=Q2, B=B_P)

STAGED_MUTATIONS: Final = (
    Mutation(
        "a publisher looks for entries of its own write",
        IgnoresItsOwnEntries,
        where("a publisher died", DIED, P1=P1),
        "nothing is visible",
    ),
    Mutation(
        "who cannot settle its own write's entry does not know the outcome",
        OwnIsLikeAnyOther,
        where("a publisher died, a refusal", DIED, Budget(refusals=1), P1=P1),
        "nothing is visible",
    ),
    Mutation(
        "no discard without a claim",
        DiscardsWithoutClaim,
        where("publisher, discard", STAGED, P1=P1, D=DISCARD),
        "data is gone",
    ),
    Mutation(
        "no discard without a claim, also after a refusal",
        DiscardsTheRefusedWithoutClaim,
        where("refused before: publisher, discard", GIVEN_UP, P1=P1, D=DISCARD),
        "is discarded, and version 3 is published",
    ),
    Mutation(
        "a publisher stops at a discard, and at the vacuum of what expired",
        PublishesWhatIsVacuumed,
        where("publisher, vacuum, it expires", EXPIRING, Budget(days=1), P1=P1, vacuum=VACUUM),
        "as never published, and it was",
    ),
    Mutation(
        "no copies are deleted that an entry names",
        DeletesClaimedCopies,
        where("a publisher of an append died", APPEND_DIED, P1=Q1, recover=RECOVER),
        WRONG,
    ),
    Mutation(
        "no copies are deleted that an entry of another name names",
        KnowsOnlyItsOwnEntries,
        where("published and trimmed", APPENDED_AND_TRIMMED, P1=Q1),
        WRONG,
    ),
    Mutation(
        "no discard of what an entry of another name has replaced",
        KnowsOnlyItsOwnEntries,
        where("published, replaced and trimmed", REPLACED_AND_TRIMMED, D=DISCARD),
        "as never published, and it was",
    ),
    Mutation(
        "a staged append is published in turns",
        PublishesWithoutTurn,
        where("2 publishers of a staged append", STAGED, P1=Q1, P2=Q2),
        WRONG,
    ),
    Mutation(
        "nobody takes a number that was taken before",
        NumbersTurnsAgain,
        where("3 publishers of a staged append", STAGED, Budget(timeouts=0, refusals=1), P1=Q1, P2=Q2, P3=Q3),
        WRONG,
    ),
    Mutation("nothing is claimed after the turn", ClaimsAfterItsTurn, PAUSED_ONCE, WRONG),
    Mutation("nothing is copied or deleted after the turn", CopiesAfterItsTurn, WITH_WRITE, WRONG),
    Mutation("a turn bounds what its holder does", ForgetsItsTurn, PAUSED_ONCE, WRONG),
    Mutation(
        "what a publisher that died has copied goes",
        LeavesCopies,
        where("a publisher died copying, a write", DIED_COPYING, Budget(timeouts=0), P1=Q1, B=B_P),
        WRONG,
    ),
    Mutation(
        "an append compares its directory, also when it has copied nothing",
        ComparesOnlyWhatItCopied,
        where(
            "2 publishers of a staged append, rollback",
            STAGED,
            Budget(timeouts=0, refusals=1, pauses=1),
            P1=Q1,
            P2=Q2,
            K=rollback(0),
        ),
        WRONG,
    ),
    Mutation(
        "the log is asked before files are missed",
        LooksAtFilesFirst,
        where("published, replaced and vacuumed", GONE, P1=P1),
        "nothing is visible",
    ),
    Mutation(
        "a vacuum spares what is staged",
        VacuumsWhatIsStaged,
        where("refused before: vacuum, a day", GIVEN_UP, Budget(days=1), P1=P1, vacuum=VACUUM),
        "is staged, and its files are gone",
    ),
)
