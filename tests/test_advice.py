"""Advice can be followed: each call, parameter, command, option and page that a message names is there.

The messages are found, not listed: every text of the package that is no docstring.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_type_hints

import pytest

import table_writer
from table_writer import Maintenance, StagedWrite, TableWriter, check, config, testing
from table_writer.cli.arguments import UsageError
from table_writer.cli.commands import build_parser
from table_writer.jobs.calls import CallKeywords

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "table_writer"
HOLE: Final = "\0"  # what a message is told when it is made
OF_OTHER_TOOLS: Final = frozenset({"--principal", "--keytab"})  # of spark-submit
OF_OTHERS: Final = frozenset(
    (
        *("days", "hours", "df", "name", "bucketing_version"),  # of timedelta, Spark and tables
        *("qop", "cipher", "boundary", "sig"),  # of SASL, HTTP and Azure
        *("pid", "classifier", "type", "ext", "org", "rev", "module"),  # of processes, and of Ivy
        *("metadata", "write_mode", "all_tables"),  # of Dagster, Kedro and Airflow
    )
)
OWNED: Final = re.compile(
    r"(?<![\w.])(writer\.maintenance|maintenance|keeper|Maintenance\(.*?\)|writer|TableWriter\(spark\))\.([a-z]\w*)"
)
FOREIGN_CALLS: Final = frozenset(
    (
        *("cast", "char", "current_date", "from_json", "json", "lit", "table", "time", "timestamp", "to_date"),
        *("transform", "vector_to_array", "max", "range", "round", "b", "n"),  # all of SQL
        *("createDataFrame", "enableHiveSupport", "foreachBatch", "limit", "load", "saveAsTable", "sql", "withColumn"),
        *("execvp", "exit", "getppid", "int", "now", "prctl", "signal", "timedelta"),  # of Python
        *("expression", "field", "is_null"),  # of PyArrow
    )
)
LITERAL: Final = rf"(?:'|\[|\{{|True\b|False\b|None\b|…|{HOLE})"


@dataclass(frozen=True)
class Message:
    """A text that somebody may read, with a hole for each value."""

    place: str
    text: str


def docstrings(tree: ast.AST) -> set[int]:
    """Return the texts that stand alone: docstrings, also of constants."""
    bodies = (node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list))
    return {id(item.value) for body in bodies for item in body if isinstance(item, ast.Expr)}


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else HOLE


def messages_of(source: str, place: str) -> Iterator[Message]:
    tree = ast.parse(source)
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    skipped = docstrings(tree) | {id(part) for node in whole for part in node.values}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        if is_text and id(node) not in skipped and " " in text_of(node):
            yield Message(f"{place}:{node.lineno}", text_of(node))  # type: ignore[attr-defined]


@cache
def messages() -> tuple[Message, ...]:
    return tuple(
        message
        for path in sorted(PACKAGE.rglob("*.py"))
        for message in messages_of(path.read_text(), path.relative_to(ROOT).as_posix())
    )


@cache
def commands() -> dict[str, argparse.ArgumentParser]:
    (choices,) = (action.choices for action in build_parser()._actions if isinstance(action.choices, dict))
    return dict(choices)


def options(parser: argparse.ArgumentParser) -> set[str]:
    return {option for action in parser._actions for option in action.option_strings}


def parameters(call: Any) -> set[str]:
    """Return the parameters of a call, with the keywords that a TypedDict names."""
    found = set()
    for name, parameter in inspect.signature(call).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            kind = next((kind for kind in KEYWORDS if f"[{kind.__name__}]" in str(parameter.annotation)), None)
            found |= set(get_type_hints(kind)) if kind else set()
        else:
            found.add(name)
    return found


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


KEYWORDS: Final = [*(kind for name, kind in vars(config).items() if name.endswith("Keywords")), CallKeywords]


@cache
def calls() -> dict[str, set[str]]:
    """Return the parameters of every public call by its name."""
    owners: tuple[Any, ...] = (TableWriter, Maintenance, StagedWrite, check, testing, table_writer)
    found: dict[str, set[str]] = {}
    for owner in owners:
        names = getattr(owner, "__all__", None) if isinstance(owner, ModuleType) else vars(owner)
        for name in names or ():
            value = getattr(owner, name)
            if not name.startswith("_") and callable(value) and not is_error(value):
                found.setdefault(name, set()).update(parameters(value))
    return found


def faults_of(text: str) -> Iterator[str]:
    """Say what a message names that is not there."""
    yield from faults_of_calls(text)
    yield from faults_of_parameters(text)
    yield from faults_of_commands(text)
    for page in re.findall(r"docs/[\w/.-]+\.md", text):
        if not (ROOT / page).is_file():
            yield f"page {page}"


def faults_of_calls(text: str) -> Iterator[str]:
    for owner, name in OWNED.findall(text):
        kind = TableWriter if owner in {"writer", "TableWriter(spark)"} else Maintenance
        if not hasattr(kind, name):
            yield f"{kind.__name__}.{name}"
    for name, given in re.findall(r"\b([a-z]\w*)\(((?:[^()]|\([^()]*\))*)\)", text):
        if name not in calls() | dict.fromkeys(FOREIGN_CALLS):
            yield f"call {name}"
        for parameter in re.findall(r"\b([a-z]\w*)=(?!=)", re.sub(r"\([^()]*\)|'[^']*'", "", given)):
            if name in calls() and parameter not in calls()[name]:
                yield f"parameter {parameter} of {name}"


def faults_of_parameters(text: str) -> Iterator[str]:
    known: set[str] = set().union(*calls().values())
    for parameter in re.findall(
        rf"(?<![\w.&/-])([a-z]+(?:_[a-z]+)*)=(?:'|\[|\{{|True\b|False\b|None\b|…|{HOLE})", text
    ):
        if parameter not in known | OF_OTHERS:
            yield f"parameter {parameter}"
    for parameter, value in re.findall(r"(?<![\w.&/-])([a-z_]+)=([a-z]\w*)\b(?![\w.:/(-])", text):
        if parameter in known:
            yield f"{parameter}={value}, which Python does not read"


def faults_of_commands(text: str) -> Iterator[str]:
    known = commands()
    named = re.findall(r"table-writer ([a-z][a-z-]*)", re.sub(r"package table-writer|uninstall table-writer", "", text))
    yield from (f"command {name}" for name in named if name not in known)
    allowed = set().union(*(options(known[name]) for name in named if name in known))
    if not allowed:
        allowed = set().union(*map(options, known.values()))
    for option in re.findall(r"(?<![\w`-])(--[a-z][a-z0-9-]+)", text):
        if option not in allowed | OF_OTHER_TOOLS:
            yield f"option {option} of {' or '.join(named) or 'any command'}"
    for command in re.findall(r"`table-writer ([^`]*)`", text):
        yield from faults_of_command(command)


def faults_of_command(command: str) -> Iterator[str]:
    """Parse a command as it would be typed, with names in its holes."""
    words = shlex.split(command.replace(HOLE, "mart.orders"))
    if words[0] not in commands() or len(words) == 1:  # only named, or not there, which is said already
        return
    try:
        commands()[words[0]].parse_args(words[1:])
    except UsageError as error:
        if "expected one argument" not in str(error):  # which is the reader's to say
            yield f"command {command.replace(HOLE, '…')}: {error}"


def test_what_messages_advise_is_there() -> None:
    faults = {message.place: [*faults_of(message.text)] for message in messages()}
    assert {place: found for place, found in faults.items() if found} == {}
    assert len(faults) > 1_000


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("upsert", "; did you mean merge? It writes by"),
        ("delete", "; did you mean delete_where? It writes by"),
        ("update", "; did you mean update_where? It writes by"),
        ("dedupe", "; did you mean deduplicate? It writes by"),
        ("insert", "; did you mean append? It writes by"),
        ("optimize", "; did you mean compact? It writes by"),
        ("mege", "; did you mean merge? It writes by"),
        ("overwrite", ". It writes by"),
        ("history", ": history needs no Spark: call it by writer.maintenance.history(…)"),
    ],
)
def test_a_call_that_there_is_not_names_the_one_that_is_meant(name: str, advice: str) -> None:
    with pytest.raises(AttributeError) as missing:
        getattr(object.__new__(TableWriter), name)
    assert str(missing.value).startswith(f"TableWriter has no {name}{advice}")
    assert name == "history" or "merge, delete_where, erase_many, update_where, deduplicate" in str(missing.value)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("upsert", "; did you mean merge, which takes Spark: TableWriter(spark).merge(…)"),
        ("merge", ", which takes Spark: TableWriter(spark).merge(…)"),
        ("histroy", "; did you mean history?"),
    ],
)
def test_a_call_that_maintenance_has_not_names_the_one_that_is_meant(name: str, advice: str) -> None:
    with pytest.raises(AttributeError) as missing:
        getattr(object.__new__(Maintenance), name)
    assert str(missing.value) == f"Maintenance has no {name}{advice}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("call writer.upsert", "TableWriter.upsert"),
        ("call TableWriter(spark).vacuum(…)", "TableWriter.vacuum"),
        ("call writer.maintenance.merge", "Maintenance.merge"),
        ("call delete_rows('t', 'true')", "call delete_rows"),
        ("merge(updates, 't', schema='evolve') adds it", "parameter schema of merge"),
        ("give schemas='evolve'", "parameter schemas"),
        ("run `table-writer repair T`", "command repair"),
        ("run table-writer recover T --force", "option --force of recover"),
        ("run `table-writer rollback T --version x`", "command rollback T --version x: "),
        ("see docs/how-to/nothing.md", "page docs/how-to/nothing.md"),
        ("replace it with carry=copy", "carry=copy, which Python does not read"),
    ],
)
def test_advice_that_cannot_be_followed_is_found(text: str, fault: str) -> None:
    assert any(found.startswith(fault) for found in faults_of(text))
