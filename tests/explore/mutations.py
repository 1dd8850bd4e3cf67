"""Broken rules: a piece of the real code with one text in place of another, and who meets whom when that shows."""

from __future__ import annotations
import __future__

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent
from types import FunctionType
from typing import Any, Final


@dataclass(frozen=True)
class Mutation:
    """A rule, the function that keeps it (``module:Class.function``), and what stands there when it is broken."""

    rule: str
    function: str
    text: str
    broken: str
    actors: tuple[str, ...]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the rule in here."""
        module_name, _, path = self.function.partition(":")
        module = import_module(f"table_writer.{module_name}")
        *owners, name = path.split(".")
        owner: Any = module
        for one in owners:
            owner = getattr(owner, one)
        kept = inspect.getattr_static(owner, name)
        function = broken_function(_plain(kept), self.text, self.broken, module.__dict__)
        double: Any = type(kept)(function) if isinstance(kept, classmethod | staticmethod | property) else function
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
    mutated = made[function.__name__]
    return inspect.unwrap(mutated.fget if isinstance(mutated, property) else getattr(mutated, "__func__", mutated))


def _plain(kept: Any) -> FunctionType:
    return inspect.unwrap(kept.fget if isinstance(kept, property) else getattr(kept, "__func__", kept))


def _modules() -> list[Any]:
    return [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "table_writer"]


ROLLBACK: Final = ("append after a recovery", "rollback far")
MUTATIONS: Final = (
    Mutation(
        "a correction claims after the listing that the look began with",
        "publish.recovery:Recovery.correct",
        "history.newest > state.newest",
        "False",
        ROLLBACK,
    ),
)
