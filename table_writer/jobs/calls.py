"""The request of a caller, however it came: by a method of its own, or by the name of that method and its keywords."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

from pyspark.sql import Column, DataFrame

from table_writer.check import Check
from table_writer.check.run import as_checks
from table_writer.checked import nearest
from table_writer.config import RowOptions, WriteKeywords, WriteOptions, write_mode
from table_writer.errors import InvalidInputError
from table_writer.jobs.rows.change import RewrittenRows, RowCall
from table_writer.jobs.rows.deduplicate import Deduplicated
from table_writer.jobs.rows.merge import Matched, Merge, Missing
from table_writer.jobs.rows.where import DeletedWhere, UpdatedWhere
from table_writer.model.write_mode import WriteMode

CHANGES: Final[Mapping[str, Any]] = {
    change.name: change for change in (RewrittenRows, Merge, DeletedWhere, UpdatedWhere, Deduplicated)
}
"""By the name of its method: what a change of rows is made of, whose fields are the parameters of that method."""

UPDATES: Final = "updates"  # the DataFrame of a change that has one
OF_SQL: Final = frozenset({"names", "target_names", "updates_names", "clauses"})  # what only a statement of SQL says


class CallKeywords(WriteKeywords, total=False):
    """The keywords of all calls that write; each takes those of its method."""

    where: str | Column  # type: ignore[misc]  # a Column for update_where
    retries: int
    on: Sequence[str]
    matched: Matched
    missing: Missing
    set: Mapping[str, str | Column] | None
    delete: str | Column
    deleted_flag: str
    newest_by: str
    search_above_bytes: int
    keep: Sequence[str | Column]
    predicate: str | Column
    change: Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A write: its mode and its options."""

    mode: WriteMode
    options: WriteOptions
    stream: str = ""  # the name of the stream that the batch is of
    # the streaming queries that the batch may belong to; empty if they are not known
    query_ids: frozenset[str] = frozenset()
    checks: tuple[Check, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", as_checks(self.options.checks))


def call_of(
    mode: str,
    keywords: Mapping[str, Any],
    rows: DataFrame | None = None,
    *,
    stream: str = "",
    query_ids: frozenset[str] = frozenset(),
) -> Call | RowCall:
    """Read the name of a method and its keywords; ``InvalidInputError`` says what does not fit."""
    batch: dict[str, Any] = {"stream": stream, "query_ids": query_ids}
    if mode not in CHANGES:
        chosen_mode = _write_mode(mode)
        _require_names(mode, keywords, _parameters(WriteOptions))
        return Call(mode=chosen_mode, options=WriteOptions(**keywords), **batch)
    change, others = CHANGES[mode], _parameters(RowOptions)
    own = [name for name in _parameters(change) if name not in {UPDATES, *OF_SQL}]
    if change.selects_by != "where":  # it has no partitions selected beside its predicate
        others.remove("where")
    needed = [item.name for item in fields(change) if item.default is MISSING and item.name in own]
    _require_names(mode, keywords, [*own, *others], needed)
    given = {name: keywords[name] for name in own if name in keywords}
    if UPDATES in _parameters(change):
        given[UPDATES] = rows
    options = RowOptions(**{name: value for name, value in keywords.items() if name not in given})
    return RowCall(change=change(**given), options=options, **batch)


def require_rows(call: Call | RowCall, mode: str, rows: DataFrame | None) -> None:
    """Refuse a call without the DataFrame that it needs, or with one that it does not take."""
    takes_rows = isinstance(call, Call) or isinstance(call.change, Merge)
    if takes_rows and rows is None:
        raise InvalidInputError(f"df=None: expected the DataFrame that {mode} takes")
    if rows is not None and not takes_rows:
        raise InvalidInputError(f"df: expected None, since {mode} takes no rows beside the table's own")


def _write_mode(name: str) -> WriteMode:
    try:
        return write_mode(name)
    except InvalidInputError as error:
        raise InvalidInputError(f"{error.message}; or a call that changes rows: {', '.join(CHANGES)}") from error


def _parameters(options: type) -> list[str]:
    return [item.name for item in fields(options)]


def _require_names(mode: str, given: Collection[str], known: Sequence[str], needed: Sequence[str] = ()) -> None:
    for name in given:
        if name not in known:
            hint = nearest(name, known) or "."
            raise InvalidInputError(f"{mode} has no parameter {name}{hint} It takes {', '.join(known)}")
    missing = [name for name in needed if name not in given]
    if missing:
        raise InvalidInputError(f"{mode} needs {', '.join(missing)}")
