"""What a broken rule is, for the exploration that must notice it."""

from __future__ import annotations

from dataclasses import dataclass

from .explorer import Scenario
from .keeping import Keeping
from .requests import Next
from .scenarios import scenario
from .state import Budget, World


@dataclass(frozen=True)
class Mutation:
    """A broken rule, where it shows, and how."""

    rule: str
    protocol: type[Keeping]
    scenario: Scenario
    finds: str


def where(title: str, begin: World, budget: Budget | None = None, **actors: Next) -> Scenario:
    return scenario(title, begin, budget or Budget(), None, **actors)
