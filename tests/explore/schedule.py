"""A schedule: who works on a table, in which order, and where it departs from one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from .worlds import KINDS

What = Literal[
    "switch",
    "hour",
    "later",
    "stand still",
    "arrive",
    "death",
    "error",
    "answer lost",
    "misreported",
    "late",
    "late and death",
    "twice",
]
SIGNS: Final[dict[What, str]] = {
    "switch": ">",
    "hour": ">>",
    "later": ">>>",
    "stand still": ">>>!",
    "arrive": "~",
    "death": "!death",
    "error": "!error",
    "answer lost": "!lost",
    "misreported": "!misreported",
    "late": "!late",
    "late and death": "!late-death",
    "twice": "!twice",
}
SWITCHES: Final[frozenset[What]] = frozenset({"switch", "hour", "later", "stand still"})
FAULTS: Final[frozenset[What]] = frozenset(SIGNS.keys() - SWITCHES - {"arrive"}) | {"stand still"}
_DEVIATION: Final = re.compile(r"(\d+)@(\d+)(>>>!|>>>|>>|>|~|![a-z-]+)(\d*)")


@dataclass(frozen=True, order=True)
class Deviation:
    """What happens at an actor's n-th point: it is switched away from, or a fault, or a late request arrives."""

    actor: int
    point: int
    what: What
    to: int = -1

    def __str__(self) -> str:
        return f"{self.actor}@{self.point}{SIGNS[self.what]}{self.to if self.to >= 0 else ''}"

    @property
    def preempts(self) -> bool:
        """Whether it counts as a preemption: a late request is an actor of one step."""
        return self.what in SWITCHES or self.what == "arrive"

    @property
    def stops(self) -> bool:
        """Whether the actor's call fails, or takes effect otherwise; else it goes on when it is its turn."""
        return not self.preempts

    @property
    def is_fault(self) -> bool:
        return self.what in FAULTS


@dataclass(frozen=True)
class Schedule:
    """Actors by name in the order in which they begin, deviations, and the kind of table, by name."""

    actors: tuple[str, ...]
    deviations: tuple[Deviation, ...] = ()
    kind: str = ""

    def __str__(self) -> str:
        kind = f"{self.kind}: " if self.kind else ""
        return f"{kind}{', '.join(self.actors)}: {' '.join(map(str, self.deviations))}".rstrip(": ")

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read what ``str`` has written."""
        kind, text = kind_in(text)
        names, _, marks = text.partition(":")
        by_sign = {sign: what for what, sign in SIGNS.items()}
        found = [_DEVIATION.fullmatch(one) for one in marks.split()]
        if None in found:
            raise ValueError(f"{text!r} is no schedule")
        deviations = (
            Deviation(int(one[1]), int(one[2]), by_sign[one[3]], int(one[4] or -1)) for one in found if one is not None
        )
        return cls(tuple(name.strip() for name in names.split(",")), tuple(deviations), kind)

    @property
    def preemptions(self) -> int:
        return sum(one.preempts for one in self.deviations)

    @property
    def faults(self) -> int:
        return sum(one.is_fault for one in self.deviations)

    def with_deviation(self, one: Deviation) -> Schedule:
        return replace(self, deviations=(*self.deviations, one))

    def without_actor(self, actor: int) -> Schedule:
        """Leave an actor out, and what concerns it."""

        def moved(number: int) -> int:
            return number - (number > actor)

        kept = (one for one in self.deviations if actor not in {one.actor, one.to})
        return replace(
            self,
            actors=self.actors[:actor] + self.actors[actor + 1 :],
            deviations=tuple(replace(one, actor=moved(one.actor), to=moved(one.to)) for one in kept),
        )


def kind_in(text: str) -> tuple[str, str]:
    """Return the kind of table that a schedule begins with, and the rest."""
    first, _, rest = text.partition(":")
    return (first, rest.strip()) if first in KINDS else ("", text)
