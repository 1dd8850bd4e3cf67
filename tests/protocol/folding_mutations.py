"""Rules about folding a log, each broken alone; the exploration must notice."""

from __future__ import annotations

from typing import Final

from table_writer.log.history import History, SlotRecord
from table_writer.model.table import PartitionValues

from .in_place_worlds import in_place
from .keeping import Protocol
from .mutation import Mutation, where
from .scenarios import A_P, A_PQ, B_P, OLD_ALTER, ONLY_P, RECOVER, rollback
from .state import Budget

OTHERWISE: Final = "the log says something else"


class FoldsWhatIsInDoubt(Protocol):
    def folds(self, history: History) -> tuple[int, ...]:
        return tuple(one.entry.version for one in history.records if one.entry.version < history.newest)


class FoldsWhatARecoveryHasEnded(Protocol):
    """A fold does not care whether a recovery is verified."""

    def is_late(self, history: History, record: SlotRecord) -> bool:
        return False


class NeverAsksHowAPartitionCame(Protocol):
    def needs_entries(self, history: History, here: dict[PartitionValues, str]) -> bool:
        return False


class NeverAsksWhichFilesCount(Protocol):
    def counts_twice(self, history: History) -> bool:
        return False


FOLDING_MUTATIONS: Final = (
    Mutation("what is in doubt is not folded", FoldsWhatIsInDoubt, where("2 writes", ONLY_P, A=A_PQ, B=B_P), OTHERWISE),
    Mutation(
        "what a recovery has ended is folded once it is verified",
        FoldsWhatARecoveryHasEnded,
        where("rollback that drops, write, recover", ONLY_P, Budget(timeouts=1), K=rollback(0), A=A_P, recover=RECOVER),
        "it looks elsewhere",
    ),
    Mutation(
        "the entries say how a partition came to an older place of ours",
        NeverAsksHowAPartitionCame,
        where("old alter", OLD_ALTER, Budget(timeouts=1), B=B_P, recover=RECOVER),
        "it looks elsewhere",
    ),
    Mutation(
        "the entries say which files of an append in place count that was done again",
        NeverAsksWhichFilesCount,
        where(
            "in place: append, 2 recovers",
            ONLY_P,
            Budget(timeouts=1),
            A=in_place("A", "p", 2),
            recover=RECOVER,
            again=RECOVER,
        ),
        OTHERWISE,
    ),
)
