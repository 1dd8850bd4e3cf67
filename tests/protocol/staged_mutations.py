"""Rules of staged writes that look as if they could go, each broken alone; the exploration must notice."""

from __future__ import annotations

from typing import Final

from table_writer.model.entry import LogEntry, Outcome
from table_writer.vacuum.due import InUse

from .answers import staged_key
from .keeping import Protocol
from .mutation import Mutation, where
from .mutations import PublishesWhatIsVacuumed
from .requests import Delete, Next, Phase, ReadLog, RemoveRegistration
from .rules import Discarding
from .scenarios import B_P, VACUUM
from .staged_scenarios import (
    DIED,
    DISCARD,
    EXPIRING,
    GIVEN_UP,
    GONE,
    P1,
    REPLACED_AND_TRIMMED,
    STAGE,
    STAGED,
    STAGING,
    appender,
)
from .state import Budget, Log, location
from .writes import Planned


class IgnoresItsOwnEntries(Protocol):
    def of_this_write(self, plan: Planned, log: Log) -> Next | None:
        return None


class OwnIsLikeAnyOther(Protocol):
    """Who could not resolve the entry of its own write says that nothing was published."""

    def own_not_resolved(self) -> str:
        return "failed"


class DiscardsWithoutClaim(Protocol):
    def claim_discard(self, write_id: str, log: Log, decided: Discarding) -> Phase:
        del log, decided
        yield Delete((write_id,))
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


class SharesItsDirectory(Protocol):
    """All publishers of a write copy into one directory, and so does a publisher that comes again."""

    def own_directory(self, plan: Planned, values: str) -> str:
        return f"X_{plan.rounds + 1}/{values}"


class CopiesToWhatIsStaged(Protocol):
    def own_directory(self, plan: Planned, values: str) -> str:
        return plan.own(values)


class KeepsItsRecordWhereItsHeartbeatWas(Protocol):
    def heartbeat_key(self, write_id: str) -> str:
        return staged_key(write_id)


class PublishesCopiesOfWhatIsGivenUp(Protocol):
    """Only a vacuum of what the write itself has written stops it."""

    def drafted(self, plan: Planned) -> LogEntry:
        return super().drafted(plan._replace(brought=()))


class LooksAtFilesFirst(Protocol):
    """Files that are gone are reported before the log is asked."""

    def look_why(self, plan: Planned) -> Phase:
        log: Log = yield ReadLog()
        return "leave", plan._replace(seen=log.newest), "failed"


class VacuumsWhatIsStaged(Protocol):
    """The files of an abandoned entry go after their retention, though they are staged for longer."""

    def waits(self, code: str, staged: frozenset[str]) -> bool:
        return False


Q1: Final = appender("P1")
Q2: Final = appender("P2")
WRONG: Final = "rows are wrong"

STAGED_MUTATIONS: Final = (
    Mutation(
        "a publisher looks for entries of its own write",
        IgnoresItsOwnEntries,
        where("a publisher died", DIED, P1=P1),
        "nothing is visible",
    ),
    Mutation(
        "who cannot resolve its own write's entry does not know the outcome",
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
        "no discard of what an entry of another name has replaced",
        KnowsOnlyItsOwnEntries,
        where("published, replaced and trimmed", REPLACED_AND_TRIMMED, D=DISCARD),
        "as never published, and it was",
    ),
    Mutation(
        "each publisher of a staged append copies into a directory of its own",
        SharesItsDirectory,
        where("2 publishers of a staged append, a write", STAGED, Budget(timeouts=0), P1=Q1, P2=Q2, B=B_P),
        WRONG,
    ),
    Mutation(
        "no staged append copies beside what was staged",
        CopiesToWhatIsStaged,
        where("2 publishers of a staged append, a write", STAGED, Budget(timeouts=0), P1=Q1, P2=Q2, B=B_P),
        WRONG,
    ),
    Mutation(
        "no publisher points readers at copies that a vacuum has given up",
        PublishesCopiesOfWhatIsGivenUp,
        where("publisher of a staged append, vacuum, a day", STAGED, Budget(days=1), P1=Q1, vacuum=VACUUM),
        "data is gone",
    ),
    Mutation(
        "the record of a staged write has a key that no sign of life has",
        KeepsItsRecordWhereItsHeartbeatWas,
        where("staging, vacuum, a day", STAGING, Budget(days=1, late_store=1), X=STAGE, vacuum=VACUUM),
        "is staged, and its files are gone",
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
