"""Statements that no call is made of, and what to do instead: advice that is safe to follow to the letter.

Many of Spark's own commands delete, replace or hide files that readers see, or the log that names them, and nothing
brings those back. So ``spark.sql`` is named for what only reads, or changes nothing of a table, and for what changes a
description while nobody writes; for all else, known or not, a call is named that makes a version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import is_instance_of

from table_writer.errors import InvalidInputError
from table_writer.spark.reads import items
from table_writer.spark.sql import quoted
from table_writer.spark.statement import refused
from table_writer.spark.types import literal

COMMAND: Final = "org.apache.spark.sql.catalyst.plans.logical.Command"
COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
CHANGES: Final = {"DeleteFromTable", "UpdateTable", "MergeIntoTable", "InsertIntoStatement"}
REPLACING: Final = "call overwrite_partitions with where, which replaces what a predicate selects"
PLAIN: Final = "run this with spark.sql"
QUERIES: Final = {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"}  # how a query begins

CLAUSES: Final[Sequence[tuple[Callable[[tuple[str, ...]], bool], str, str]]] = (
    (
        lambda kinds: kinds[0] == "UnresolvedWith" and not CHANGES.isdisjoint(kinds),
        "WITH before the statement",
        "put it inside: INSERT INTO … WITH …, or USING (WITH … SELECT …)",
    ),
    (
        lambda kinds: kinds[0] == "Union" and not CHANGES.isdisjoint(kinds),
        "several INSERT of one FROM",
        "write one statement for each",
    ),
    (lambda kinds: kinds[0].startswith("Overwrite"), "INSERT INTO … REPLACE", REPLACING),
    (
        lambda kinds: any(kind.startswith("InsertInto") for kind in kinds),
        "INSERT OVERWRITE DIRECTORY",
        (
            "it empties the directory first, that of a table too: write files with DataFrame.write, in its mode"
            " 'errorifexists', to a directory of their own"
        ),
    ),
    (lambda kinds: kinds[0] == "PlanWithUnresolvedIdentifier", "IDENTIFIER(…)", "name the table as database.table"),
    (
        lambda kinds: kinds[0] == "CompoundBody" or "ExecuteImmediate" in kinds[0],
        "a statement inside of another",
        "give each by itself",
    ),
)
"""What no call does of a statement, by the kinds of the nodes of its plan, and what to write instead."""

HARMLESS: Final = re.compile(
    r"Show|Describe|Explain|Cache|Uncache|ClearCache|Refresh|Use|Reset|List|Add(?:Jars|Files|Archives)"
    r"|Set(?:Command|Catalog|Variable)|(?:Create|Drop)(?:View|TempView|Function|UserDefined|Variable)|AlterView"
    r"|CreateNamespace|CommentOnNamespace|SetNamespaceProperties"
)
"""How the names of commands begin that change no table."""

ONLY_DESCRIBES: Final = re.compile(
    r"Analyze|AddColumns|AlterColumn|RenameColumn|DropColumns|(?:Set|Unset)TableProperties|CommentOnTable"
)
"""The same of those that send back the table's or the partitions' description as Spark has read it a moment before."""


@dataclass(frozen=True, slots=True)
class _Command:
    """A command of Spark, and the table that it is about."""

    node: Any
    table: str  # as a call takes it; as a word where the statement says it otherwise

    def where(self, specs: Iterator[Any]) -> str:
        """Return the predicate that selects the rows of some partitions, in quotes."""
        return repr(" OR ".join(map(_is_in, specs)))


def _emptying(command: _Command, where: str = "'true'") -> str:
    return (
        f"it deletes files that readers see, with no version to go back to: call delete_where({command.table}, {where})"
    )


def _drop(command: _Command) -> str:
    return (
        "of a managed table it deletes the files, the log and all versions: call"
        f" delete_where({command.table}, 'true'), which leaves the table without rows, and a version to go back to"
    )


def _rename_of_partition(command: _Command) -> str:
    where = command.where(iter([getattr(command.node, "from")()]))
    return (
        f"it moves a partition to where the log does not know it: call update_where({command.table}, {{…}},"
        f" where={where}) with the partition columns' new values"
    )


def _move(command: _Command) -> str:
    return (
        "readers would see other files than those that the log names. For rows of an earlier version call"
        f" maintenance.rollback({command.table}, version=…); to have the rows elsewhere, write them into a new table:"
        f" overwrite_table(spark.table({command.table}), …, if_missing=NewTable(location=…))"
    )


def _repair(command: _Command) -> str:
    return (
        "it brings back partitions that were deleted, and files of writes that were never published. What is written"
        " here needs no repair; for partitions that the metastore has lost call"
        f" maintenance.restore({command.table})"
    )


def _load(command: _Command) -> str:
    mode = "overwrite_partitions" if command.node.isOverwrite() else "append"
    return f"it moves files to where the log does not know them: call {mode}(spark.read.load(…), {command.table})"


INSTEAD: Final[Mapping[str, Callable[[_Command], str]]] = {
    "TruncateTable": _emptying,
    "TruncatePartition": lambda command: _emptying(command, command.where(iter([command.node.partitionSpec()]))),
    "DropPartitions": lambda command: _emptying(command, command.where(items(command.node.parts()))),
    "DropTable": _drop,
    "DropNamespace": lambda _: (
        "it can delete all managed tables in it, with files, logs and all versions: call delete_where(…, 'true') for"
        " each table whose rows are to go"
    ),
    "SetNamespaceLocation": lambda _: "say where a table is when it is made: create_table(…, location=…)",
    "RenamePartitions": _rename_of_partition,
    "AddPartitions": lambda command: (
        "readers would see files that are of no version: call"
        f" create_partitions(df, {command.table}) with the rows, which adds partitions or changes nothing"
    ),
    "RecoverPartitions": _repair,
    "RepairTable": _repair,
    "SetTableLocation": _move,
    "SetTableSerDeProperties": lambda command: (
        "the files that are there would be read in another way, or from another place: write the rows into a new"
        f" table, overwrite_table(spark.table({command.table}), …, if_missing=NewTable(…))"
    ),
    "ReplaceColumns": lambda command: (
        "older files would be read with other columns: of an unpartitioned table call"
        f" overwrite_table(df, {command.table}, schema='replace'); else write the rows into a new table"
    ),
    "RenameTable": lambda command: (
        "of a managed table it moves the files under its readers, and away from the log: write the rows into a table"
        f" of the new name, overwrite_table(spark.table({command.table}), …, if_missing=NewTable(…))"
    ),
    "CreateTable": lambda command: f"call create_table(…, {command.table})",
    "CreateTableLike": lambda command: f"call create_table(…, {command.table}) with the other table's schema",
    "CreateTableLikeCommand": lambda command: (  # before Spark 4
        f"call create_table(…, {_shown(command.node.targetTable().nameParts())}) with the other table's schema"
    ),
    "CreateTableAsSelect": lambda command: (
        "it writes rows that are of no version: call"
        f" append(spark.sql('SELECT …'), {command.table}, if_missing=NewTable(…))"
    ),
    "ReplaceTable": lambda command: (
        f"the table would be dropped, with all versions: call overwrite_table(df, {command.table})"
    ),
    "ReplaceTableAsSelect": lambda command: (
        "the table would be dropped, with all versions: call"
        f" overwrite_table(spark.sql('SELECT …'), {command.table}, if_missing=NewTable(…))"
    ),
    "LoadData": _load,
}
"""What to do instead of a command, by its name."""


def other_statement(gateway: Any, plan: Any, sql: str) -> InvalidInputError:
    """Return the error for a statement that no call is made of; ``plan`` is what Spark's parser has made of it."""
    nodes = list(_nodes(plan))
    kinds = tuple(map(kind_of, nodes))
    for is_meant, clause, advice in CLAUSES:
        if is_meant(kinds):
            return refused(clause, advice)
    command = next((node for node in nodes if is_instance_of(gateway, node, COMMAND)), None)
    is_query = command is None and first_word(sql) in QUERIES  # else a command by another name, as CALL
    advice = PLAIN if is_query else _advice(command or plan)
    return InvalidInputError(f"{first_word(sql)}: sql() takes MERGE INTO, DELETE FROM, UPDATE and INSERT; {advice}")


def _advice(node: Any) -> str:
    kind, command = kind_of(node), _Command(node, _table_of(node))
    if kind in INSTEAD:
        return INSTEAD[kind](command)
    if HARMLESS.match(kind):
        return PLAIN
    if ONLY_DESCRIBES.match(kind):
        return (
            f"run this with spark.sql while nobody writes {command.table}: Spark sends back the description that it has"
            " read before, and with it locations from before a publish"
        )
    return "no call does this, and what it does to a table's files and its log is not known here"


def first_word(sql: str) -> str:
    """Return the word by which a statement is known; comments may stand before it.

    Examples
    --------
    >>> first_word("/* -- twice */ select 1"), first_word("/**/" * 1000)
    ('SELECT', 'no statement')
    """
    found = re.search(r"\w+", COMMENT.sub(" ", sql))
    return found[0].upper() if found else "no statement"


def kind_of(node: Any) -> str:
    """Return the name of a node of a plan."""
    return "" if node is None else str(node.getClass().getSimpleName())


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a plan from its root down."""
    waiting = [plan]
    while waiting:
        node = waiting.pop(0)
        yield node
        waiting += items(node.children())


def _table_of(node: Any) -> str:
    """Return the table that a command is about, as a call takes its name."""
    children = list(items(node.children()))
    names = {"UnresolvedTable": "multipartIdentifier", "UnresolvedTableOrView": "multipartIdentifier"}
    method = {**names, "UnresolvedIdentifier": "nameParts"}.get(kind_of(children[0]) if children else "")
    if method is None:
        return "the table"
    return _shown(getattr(children[0], method)())


def _shown(parts: Any) -> str:
    """Return a name of several parts as a call takes it."""
    names = map(str, items(parts))
    return repr(".".join(name if re.fullmatch(r"\w+", name) else quoted(name) for name in names))


def _is_in(spec: Any) -> str:
    """Return the predicate of one partition."""
    values = {str(pair._1()): pair._2() for pair in items(spec.spec().toSeq())}  # noqa: SLF001  # a tuple of Scala
    return " AND ".join(
        f"{quoted(name)} IS NULL" if value is None else f"{quoted(name)} = {literal(str(value))}"
        for name, value in values.items()
    )
