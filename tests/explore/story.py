"""A failing schedule as a person reads it, without all that it fails without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .run import Run, carried_out
from .schedule import SWITCHES, Deviation, Schedule


def wrong_with(schedule: Schedule) -> str:
    """Return what is wrong after a schedule; empty if nothing is."""
    return next(iter(carried_out(schedule).oracle.wrong), "")


def shortest(schedule: Schedule) -> Schedule:
    """Leave out of a failing schedule what it fails without."""
    again = True
    while again:
        again = False
        for less in _with_less(schedule):
            if wrong_with(less):
                schedule, again = less, True
                break
    return schedule


def _with_less(schedule: Schedule) -> Iterator[Schedule]:
    for number in range(len(schedule.actors)) if len(schedule.actors) > 1 else ():
        yield schedule.without_actor(number)
    deviations = schedule.deviations
    for index, one in enumerate(deviations):
        yield replace(schedule, deviations=deviations[:index] + deviations[index + 1 :])
        for simpler in _simpler(one):
            yield replace(schedule, deviations=(*deviations[:index], simpler, *deviations[index + 1 :]))


def _simpler(one: Deviation) -> Iterator[Deviation]:
    if one.what == "stand still":
        yield replace(one, what="later")
    if one.what in SWITCHES - {"switch"}:
        yield replace(one, what="switch")
    if one.what == "late and death":
        yield replace(one, what="death")
        yield replace(one, what="late")
    if one.what == "late":
        yield replace(one, what="error")


def told(schedule: Schedule) -> str:
    """Return a schedule's story, and the command that repeats it."""
    run = carried_out(schedule, is_told=True)
    return "\n".join([*_lines(run), f'repeat: python -m tests.explore --repeat "{schedule}"'])


def _lines(run: Run) -> Iterator[str]:
    yield f"{', '.join(run.schedule.actors)}: {len(run.steps)} calls"
    yield from (line for line in run.trace[run.begun_at :] if line.strip())
    yield f"WRONG: {next(iter(run.oracle.wrong), 'nothing')}"
