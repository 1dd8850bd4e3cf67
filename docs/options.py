# ruff: noqa: INP001
"""Puts each option of a call, with its type and meaning, below the ``**options`` of its docstring."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from numpydoc.docscrape import NumpyDocString

from table_writer import CompactOptions, NewTable, RowOptions, WriteOptions
from table_writer.arrow.writer import ArrowKeywords
from table_writer.config import (
    CompactKeywords,
    NewTableKeywords,
    RowKeywords,
    SelectedRowKeywords,
    StatementKeywords,
    WriteKeywords,
)
from table_writer.jobs.calls import CallKeywords
from table_writer.jobs.rows.merge import MergeKeywords
from table_writer.model.write_mode import WriteMode

DOCUMENTED_BY: Final[Mapping[type, type]] = {
    WriteKeywords: WriteOptions,
    CallKeywords: WriteOptions,  # the others are parameters of the methods that change rows
    CompactKeywords: CompactOptions,
    RowKeywords: RowOptions,
    SelectedRowKeywords: RowOptions,
    MergeKeywords: RowOptions,
    NewTableKeywords: NewTable,
    ArrowKeywords: WriteOptions,
}
MODES: Final = {mode.value for mode in WriteMode}
LAST: Final = re.compile(r"(\w+, )*\*\*(?P<name>\w+)")  # the entry of the options, perhaps with arguments before
ONLY: Final = re.compile(r"``(\w+)`` only")  # how the description of an option of one mode begins


def expand_options(_: Any, what: str, name: str, function: Any, __: Any, lines: list[str]) -> None:
    """Insert a docstring's options behind the entry of ``**options``, less those that it says are not taken."""
    found = next(((at, match) for at, line in enumerate(lines) if (match := LAST.fullmatch(line))), None)
    if what != "method" or found is None:
        return
    at, match = found
    (keywords,) = get_args(get_type_hints(inspect.unwrap(function))[match["name"]])
    if keywords is StatementKeywords:  # the call that the statement stands for lists them
        return
    end = next(one for one in range(at + 1, len(lines)) if not lines[one].startswith(" "))
    _, _, not_taken = " ".join(lines[at + 1 : end]).partition("without ")
    lines[end:end] = options_of(keywords, name.rpartition(".")[2], set(re.findall(r"``(\w+)``", not_taken)))


def options_of(keywords: type, call: str, not_taken: set[str]) -> Iterator[str]:
    """Yield the entries of a section of parameters, without the options that belong to another mode alone."""
    documented_by = DOCUMENTED_BY[keywords]
    taken = set(keywords.__annotations__) - not_taken
    types, given = get_type_hints(documented_by), {field.name: field for field in fields(documented_by)}
    for entry in NumpyDocString(inspect.getdoc(documented_by) or "")["Parameters"]:
        only = ONLY.match(" ".join(entry.desc))
        if entry.name in taken and not (only and call in MODES - {only[1]}):
            yield f"{entry.name} : ``{written(types[entry.name])}``, default ``{default(given[entry.name])}``"
            yield from textwrap.indent("\n".join(entry.desc), "    ").splitlines()


def written(annotation: Any) -> str:
    """Write a type as a reader of the page would."""
    if get_origin(annotation) is Literal:
        return f"{{{', '.join(map(repr, get_args(annotation)))}}}"
    return re.sub(r"\b([a-z_]+\.)+", "", inspect.formatannotation(annotation))


def default(field: Field[Any]) -> str:
    """Write an option's default."""
    return repr(field.default_factory() if field.default_factory is not MISSING else field.default)
