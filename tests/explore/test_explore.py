"""Whatever meets whatever in the real code, in whatever order and however late: promises hold.

A failing schedule is told, shortened, with the command that repeats it. See the package for how it works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from .every_mutation import EVERY_MUTATION
from .mutation import Mutation
from .scenarios import BUDGETED_PAIRS, PAIRS, TRIPLES
from .schedule import Deviation, Schedule
from .search import BUDGETED, SLOW, Bound, Exploration, Figures
from .story import shortest, told
from .worlds import KINDS

PARTS, FEW = 10, 2
Scenarios = Sequence[tuple[str, ...]]
BY_KIND = Mapping[str, Scenarios]


@pytest.fixture(scope="module")
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    total = Figures()
    yield total
    plugins = request.config.pluginmanager
    with plugins.get_plugin("capturemanager").global_and_fixture_disabled():
        plugins.get_plugin("terminalreporter").write_line(f"\nexplored: {total}")


def parts(by_kind: BY_KIND, kind: str, schedules: int, bound: Bound, *marks: pytest.MarkDecorator) -> list[object]:
    name = f"{kind} {'triples' if by_kind is TRIPLES else 'pairs'}".strip().replace(" ", "-")
    size, number = f"{bound.preemptions}-{bound.faults}", FEW if kind else PARTS
    return [
        pytest.param(kind, by_kind[kind][part::number], schedules, bound, marks=marks, id=f"{name}-{size}-part-{part}")
        for part in range(number)
    ]


@pytest.mark.parametrize(
    ("kind", "scenarios", "schedules", "bound"),
    [
        *parts(BUDGETED_PAIRS, "", 2, BUDGETED),
        *parts(TRIPLES, "", 6, BUDGETED, pytest.mark.not_quick),
        *parts(BUDGETED_PAIRS, "root", 2, BUDGETED),
        *parts(BUDGETED_PAIRS, "batches", 2, BUDGETED, pytest.mark.not_quick),
        *parts(BUDGETED_PAIRS, "mirrored", 2, BUDGETED, pytest.mark.not_quick),
        *parts(TRIPLES, "mirrored", 4, BUDGETED, pytest.mark.not_quick),
        *parts(PAIRS, "", 4, SLOW, pytest.mark.slow),
        *parts(TRIPLES, "", 30, SLOW, pytest.mark.slow),
        *parts(PAIRS, "root", 2, SLOW, pytest.mark.slow),
        *parts(TRIPLES, "root", 5, SLOW, pytest.mark.slow),
        *parts(PAIRS, "uncompared root", 2, SLOW, pytest.mark.slow),
        *parts(TRIPLES, "uncompared root", 4, SLOW, pytest.mark.slow),
        *parts(PAIRS, "batches", 2, SLOW, pytest.mark.slow),
        *parts(TRIPLES, "batches", 7, SLOW, pytest.mark.slow),
        *parts(PAIRS, "mirrored", 6, SLOW, pytest.mark.slow),
        *parts(TRIPLES, "mirrored", 30, SLOW, pytest.mark.slow),
    ],
)
def test_promises_hold_whoever_meets_whom(
    kind: str, scenarios: Scenarios, schedules: int, bound: Bound, figures: Figures
) -> None:
    for actors in scenarios:
        exploration = Exploration(actors, bound, kind=kind)
        exploration.sample(schedules)
        figures.add(exploration.figures)
        if exploration.failures:
            pytest.fail(told(shortest(exploration.failures[0].schedule)))


def test_every_broken_rule_has_its_place_in_the_code() -> None:
    for mutation in EVERY_MUTATION:
        with mutation.applied():
            pass


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [pytest.param(one, id=one.rule) for one in EVERY_MUTATION])
def test_a_broken_rule_is_noticed(mutation: Mutation) -> None:
    assert mutation.is_noticed()


def test_a_schedule_is_one_story() -> None:
    for kind in KINDS:
        schedule = Schedule(("append", "recover"), (Deviation(0, 37, "error"), Deviation(0, 41, "hour", 1)), kind)
        assert Schedule.parse(str(schedule)) == schedule
        assert told(schedule) == told(schedule)
