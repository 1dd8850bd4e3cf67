"""Who can work on a table, as the product has it, and as actors do: public calls, and kinds of entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

from table_writer.maintenance import Maintenance
from table_writer.model.meaning import Operation
from table_writer.model.write_mode import WriteMode

from .actors import MIRRORED, OURS
from .run import Run, begin_of
from .schedule import Schedule

OF_SPARK: Final[Mapping[str, Collection[str]]] = {
    "append": ("append", "append_in_place", "append_once"),
    "overwrite_partitions": ("overwrite", "overwrite_where", "overwrite_once"),
    "overwrite_table": ("overwrite_table",),
    "create_partitions": ("create",),
    "compact": ("compact",),
    "rewrite": ("change_rows",),
    "merge": ("change_rows",),
    "update_where": ("change_rows",),
    "deduplicate": ("change_rows",),
    "delete_where": ("change_rows", "purge"),
    "erase_many": ("purge",),
    "sql": ("overwrite", "append", "change_rows"),
    "stage": ("stage", "stage_rows"),
    "for_each_batch": ("batch",),
    "read": ("read_older",),
}
"""The operations of actors that do to a table what a call of a writer does, whose Spark is left out here."""
OF_MAINTENANCE: Final = frozenset({"adopt", "changes", "doctor", "recover", "staged", "staged_write"})
"""Calls of a writer that are calls of its `maintenance`."""
CHANGE_NOTHING: Final[Mapping[str, str]] = {
    "create_table": "a table that is there stays as it is, and no other has it yet",
    "maintenance": "it is the other face",
    "plan": "it looks, as the write that follows it does first",
    "read_changes": "it reads older versions, as `read` does",
    "version_of": "it says which version a DataFrame was read at",
}
"""Calls that change nothing of a table that others may work on, each with why."""
THE_SAME: Final[Mapping[str, str]] = {
    "close": "it ends connections",
    "erase_many": "a delete with `purge`, of each table",
    "erasure_many": "erasure, of each table",
    "certify": "it makes a table of its own, and ends it",
    "examine_store": "it tries a store, and takes no table",
    "leave": "it lists what is there",
    "recover_many": "recover, of each table",
    "tables": "it looks at each table",
    "vacuum_many": "vacuum, of each table",
}
"""Calls of `Maintenance` that no actor makes, each with why: several tables are what threads are for."""


def public_calls(face: type) -> frozenset[str]:
    """Return the names of all that a user may call."""
    return frozenset(name for name in vars(face) if not name.startswith("_"))


@contextmanager
def recorded(calls: set[str]) -> Iterator[None]:
    """Note which calls of ``Maintenance`` are made, but for those that only look."""
    kept = {name: vars(Maintenance)[name] for name in public_calls(Maintenance)}

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            calls.add(name)
            return function(*arguments, **named)

        return call

    for name, function in kept.items():
        setattr(Maintenance, name, noting(name, function))
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(Maintenance, name, function)


def kinds_of_entries() -> frozenset[str]:
    """Return all kinds of entries that there can be: operations and write modes."""
    return frozenset((*(one.value for one in Operation), *(one.value for one in WriteMode)))


def made_by_actors() -> tuple[set[str], set[str]]:
    """Let each actor of ours work alone; return the kinds of entries that there are, and the calls that were made."""
    found: set[str] = set()
    calls: set[str] = set()
    for schedule in (*(Schedule((name,)) for name in OURS), *(Schedule((name,), kind="mirrored") for name in MIRRORED)):
        begin = begin_of(schedule)
        run = Run(schedule, begin)
        with recorded(calls):
            run.go()
        for version in range(1, run.oracle.newest() + 1):
            if made := run.oracle.entry(version):
                found |= {made.operation.value, *((made.mode.value,) if made.mode else ())}
    return found, calls
