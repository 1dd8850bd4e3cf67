"""What a broken rule is: a piece of the real code with one text in place of another, and who notices it."""

from __future__ import annotations
import __future__

import inspect
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from textwrap import dedent
from types import FunctionType
from typing import Any

from .run import begin_of
from .schedule import Schedule
from .search import BUDGETED, Bound, Exploration
from .story import wrong_with


@dataclass(frozen=True)
class Mutation:
    """A rule, the function that keeps it (``module:Class.function``), and what stands there when it is broken."""

    rule: str
    function: str
    text: str
    broken: str
    actors: tuple[str, ...] = ()
    bound: Bound = BUDGETED
    schedules: int = 600  # of which one notices it
    seed: int = 0
    kind: str = ""

    also: tuple[tuple[str, str, str], ...] = ()
    """Other guards of the same rule, each as function, text and what stands there: one alone is not missed."""

    schedule: str = ""
    """A schedule that notices it, where hardly one of thousands does: its points follow the calls."""

    test: str = ""
    """A test that notices it, where the oracle cannot, as node id."""

    def is_noticed(self) -> bool:
        """Whether a promise is broken with the rule: what comes before is done as it should be."""
        if self.test:
            return self.rule in noticed_by_tests()
        schedule = Schedule.parse(self.schedule)
        exploration = Exploration(self.actors, self.bound, kind=self.kind, seed=self.seed)
        begin_of(Schedule(self.actors, kind=self.kind))
        is_sound = not self.schedule or not wrong_with(schedule)
        with self.applied():
            if self.schedule:
                return is_sound and bool(wrong_with(schedule))
            exploration.sample(self.schedules, stops=True)
        return bool(exploration.failures)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the rule in here."""
        with ExitStack() as broken:
            for one in ((self.function, self.text, self.broken), *self.also):
                broken.enter_context(_replaced(*one))
            yield


@cache
def noticed_by_tests() -> frozenset[str]:
    """Return the broken rules that their tests notice."""
    command = [sys.executable, "-m", "tests.explore.unit"]
    return frozenset(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines())


@contextmanager
def _replaced(place: str, text: str, broken: str) -> Iterator[None]:
    module_name, _, path = place.partition(":")
    module = import_module(f"table_writer.{module_name}")
    *owners, name = path.split(".")
    owner: Any = module
    for one in owners:
        owner = getattr(owner, one)
    kept = inspect.getattr_static(owner, name)
    function = broken_function(_plain(kept), text, broken, module.__dict__)
    wrapped = isinstance(kept, classmethod | staticmethod | property | cached_property)
    double: Any = type(kept)(function) if wrapped else function
    if isinstance(kept, cached_property):
        double.__set_name__(owner, name)
    holders = [owner] if owners else [one for one in _modules() if vars(one).get(name) is kept]
    for holder in holders:
        setattr(holder, name, double)
    try:
        yield
    finally:
        for holder in holders:
            setattr(holder, name, kept)


def broken_function(function: FunctionType, text: str, broken: str, names: dict[str, Any]) -> FunctionType:
    """Return a function whose source has one text in place of another."""
    source = dedent(inspect.getsource(function))
    if source.count(text) != 1:
        raise ValueError(f"{text!r} is {source.count(text)} times in {function.__qualname__}")
    made: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    exec(compile(source.replace(text, broken), inspect.getfile(function), "exec", flags), names, made)  # noqa: S102
    return _plain(made[function.__name__])


def _plain(kept: Any) -> FunctionType:
    """Return the function in a method, or in a property."""
    for name in ("fget", "func", "__func__"):
        kept = getattr(kept, name, None) or kept
    return inspect.unwrap(kept)


def _modules() -> list[Any]:
    return [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "table_writer"]
