"""Statements of SQL, taken apart by Spark's own parser and analyzer, which say what they mean; nothing of them is run.

The parser names the parts of ``DELETE``, ``UPDATE`` and ``MERGE``. An ``INSERT`` is analyzed as Spark would before it
wrote: its rows then have the table's columns, types and defaults. What no call does exactly is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import AtomicType, DataType

from table_writer.errors import InvalidInputError
from table_writer.model.table import unquoted
from table_writer.spark.files import with_fields
from table_writer.spark.other_statements import REPLACING, first_word, kind_of, other_statement
from table_writer.spark.reads import items, last_run_here
from table_writer.spark.sql import SPARK_ERRORS, UNKNOWN_NAME, spark_sentence, without_query_log
from table_writer.spark.statement import (
    Assignments,
    Deletion,
    Insertion,
    MergeAction,
    MergeInto,
    Names,
    Statement,
    Target,
    Update,
    WhenClause,
    refused,
)

CATALYST: Final = "org.apache.spark.sql.catalyst"
SPARK_CATALOG: Final = "spark_catalog"
PRIVILEGES: Final = "__required_write_privileges__"  # an option that Spark's parser adds by itself
OVERWRITE, SAVE_MODE = 4, 8  # positions in InsertIntoStatement, and in Spark's command of files
DEFAULT: Final = "DEFAULT"
ACTIONS: Final[Mapping[str, MergeAction]] = {
    "UpdateAction": "update",
    "UpdateStarAction": "update",
    "DeleteAction": "delete",
    "InsertAction": "insert",
    "InsertStarAction": "insert",
}
WITH_VALUES: Final = frozenset({"UpdateAction", "InsertAction"})
WRITERS: Final = ("InsertIntoHadoopFsRelationCommand", "InsertIntoHiveTable")
"""What Spark makes of an ``INSERT`` into a table that its own catalog has."""


class StatementParser:
    """Implements :class:`~table_writer.spark.statement.Statements` in one classic session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._session: Any = spark._jsparkSession  # noqa: SLF001  # PySpark has no public way to any of this
        self._java: Any = spark.sparkContext._jvm  # noqa: SLF001  # the same
        self._class = str(self._session.getClass().getName())  # of which Spark 4 has another, in a package of its own

    def parsed(self, sql: str) -> Statement:
        kinds: dict[str, Callable[[Any], Statement]] = {
            "DeleteFromTable": self._deletion,
            "UpdateTable": self._update,
            "MergeIntoTable": self._merge,
            "InsertIntoStatement": self._insertion,
        }
        try:
            with without_query_log():
                with self._active():
                    plan = self._session.sessionState().sqlParser().parsePlan(sql)
                kind = kind_of(plan)
                if kind not in kinds:
                    raise other_statement(self._spark.sparkContext._gateway, plan, sql)  # noqa: SLF001  # the same
                return kinds[kind](plan)
        except SPARK_ERRORS as error:
            raise InvalidInputError(
                f"{first_word(sql)}: {spark_sentence(error)}{self._here(error)} Nothing was done."
            ) from error

    def _here(self, error: Exception) -> str:
        """Say in which session a name was looked up that is not known."""
        if UNKNOWN_NAME not in str(error):
            return ""
        run = last_run_here(self._spark)
        whose = "the TableWriter" if run is None else "the streaming batch on this thread (batch.sparkSession)"
        return f" Here that was the session of {whose}."

    def named(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        catalyst = self._package(CATALYST)
        alias = catalyst.AliasIdentifier(names[-1], self._java.PythonUtils.toSeq(list(names[:-1])))
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001  # PySpark has no public way to the plan
        return self._dataframe(catalyst.plans.logical.SubqueryAlias(alias, plan))

    def column_named(self, frame: DataFrame, column: Column) -> tuple[Names, str] | None:
        selected = frame.select(column)._jdf.queryExecution().analyzed()  # noqa: SLF001  # the same
        value = selected.projectList().apply(0)
        return (_texts(value.qualifier()), str(value.name())) if kind_of(value) == "AttributeReference" else None

    def stored(self, frame: DataFrame, value: Column, kind: DataType) -> Column:
        given = frame.select(value).schema[0].dataType
        policy = str(self._spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI"))
        cast: Any = self._package(f"{CATALYST}.expressions").Cast
        given_type, wanted_type = map(self._java_type, (given, kind))
        if (
            given == kind
            or policy.upper() != "ANSI"
            or not (isinstance(given, AtomicType) and isinstance(kind, AtomicType))
            or not cast.canANSIStoreAssign(given_type, wanted_type)
        ):
            return value
        mode = self._package(f"{CATALYST}.expressions").EvalMode.ANSI()
        java_column: Any = value._jc  # noqa: SLF001  # PySpark has no public way to it
        expression = java_column.expr() if self._is_spark_3 else self._utils.expression(java_column)
        return self._column(cast(expression, wanted_type, self._java.scala.Option.empty(), mode))

    def _deletion(self, plan: Any) -> Deletion:
        return Deletion(target=self._target(plan.table()), predicate=self._column(plan.condition()))

    def _update(self, plan: Any) -> Update:
        where = plan.condition()
        return Update(
            target=self._target(plan.table()),
            set=self._assignments(plan.assignments(), "SET"),
            predicate=self._column(where.get()) if where.isDefined() else F.lit(True),
        )

    def _merge(self, plan: Any) -> MergeInto:
        if self._says(plan, "withSchemaEvolution"):
            raise refused("WITH SCHEMA EVOLUTION", "add the columns with ALTER TABLE first")
        target = self._target(plan.targetTable())
        source = self._dataframe(plan.sourceTable())
        return MergeInto(
            target=target,
            source=source,
            source_names=self._names_of(source),
            pairs=tuple(self._pairs(plan.mergeCondition())),
            matched=self._clauses(plan.matchedActions(), "SET"),
            missing=self._clauses(plan.notMatchedActions(), "VALUES"),
            unmatched=self._clauses(plan.notMatchedBySourceActions(), "SET"),
        )

    def _clauses(self, actions: Any, values: str) -> tuple[WhenClause, ...]:
        return tuple(
            WhenClause(
                action=ACTIONS[kind_of(action)],
                condition=self._column(action.condition().get()) if action.condition().isDefined() else None,
                values=self._assignments(action.assignments(), values) if kind_of(action) in WITH_VALUES else None,
            )
            for action in items(actions)
        )

    def _insertion(self, plan: Any) -> Insertion:
        if plan.ifPartitionNotExists():
            raise refused("IF NOT EXISTS", "call create_partitions, which adds partitions or changes nothing")
        if self._says(plan, "replaceCriteriaOpt"):
            raise refused("INSERT INTO … REPLACE", REPLACING)
        if self._says(plan, "withSchemaEvolution"):
            raise refused("WITH SCHEMA EVOLUTION", "call append, or another write mode, with schema='evolve'")
        target, is_overwrite = self._target(plan.table()), bool(plan.overwrite())
        # as an append: Spark refuses an overwrite that reads its own table, which is nothing to be afraid of here
        query = with_fields(plan, overwrite=(OVERWRITE, False))
        skipped = self._package("org.apache.spark.sql.execution").CommandExecutionMode.SKIP()
        command = self._session.sessionState().executePlan(query, skipped).analyzed()
        kind = kind_of(command)
        if kind not in WRITERS:
            raise refused(f"INSERT INTO {target.table}", f"it is no table of Hive: Spark writes it by {kind}")
        keeps_others = True
        if kind == WRITERS[0]:
            overwrite = self._package("org.apache.spark.sql").SaveMode.Overwrite
            keeps_others = bool(with_fields(command, mode=(SAVE_MODE, overwrite)).dynamicPartitionOverwrite())
        static = {str(pair._1()): pair._2() for pair in items(command.staticPartitions().toSeq())}  # noqa: SLF001
        return Insertion(
            target=target,
            rows=self._dataframe(command.query()).toDF(*_texts(command.outputColumnNames())),
            static=static,
            is_overwrite=is_overwrite,
            keeps_others=keeps_others,
        )

    def _target(self, plan: Any) -> Target:
        """Return the table that a statement changes, as Spark would find it by its name."""
        alias: Names = ()
        if kind_of(plan) == "SubqueryAlias":
            alias, plan = (str(plan.identifier().name()),), plan.child()
        if kind_of(plan) != "UnresolvedRelation":
            raise refused(f"a table by {kind_of(plan)}", "name it as database.table")
        parts = _texts(plan.multipartIdentifier())
        shown = ".".join(parts)
        if set(plan.options().keySet()) - {PRIVILEGES}:
            raise refused(f"WITH (…) after {shown}", "leave the options out")
        if self._session.sessionState().catalog().isTempView(plan.multipartIdentifier()):
            raise refused(f"{shown}, a temporary view", "name the table itself")
        catalog = self._spark.catalog.currentCatalog()
        if len(parts) > 1 and self._is_catalog(parts[0]):
            catalog, parts = parts[0], parts[1:]
        if len(parts) == 1:
            parts = (unquoted(self._spark.catalog.currentDatabase()), *parts)
        if catalog != SPARK_CATALOG or len(parts) != len(("database", "table")) or any("." in part for part in parts):
            raise refused(f"{shown}, of catalog {catalog!r}", f"tables of {SPARK_CATALOG} are written here")
        return Target(table=".".join(parts), names=alias or (SPARK_CATALOG, *parts))

    def _is_catalog(self, name: str) -> bool:
        """Return whether a name is that of a catalog; it is not opened for that."""
        return name.lower() == SPARK_CATALOG or self._spark.conf.get(f"spark.sql.catalog.{name}", None) is not None

    def _assignments(self, assignments: Any, clause: str) -> Assignments:
        return tuple(self._assignment(assignment, clause) for assignment in items(assignments))

    def _assignment(self, assignment: Any, clause: str) -> tuple[Names, Column]:
        key, value = assignment.key(), assignment.value()
        if kind_of(key) != "UnresolvedAttribute":
            raise refused(f"{clause} {key.sql()}", "name a column")
        names = _texts(key.nameParts())
        if kind_of(value) == "UnresolvedAttribute" and tuple(map(str.upper, _texts(value.nameParts()))) == (DEFAULT,):
            raise refused(f"{DEFAULT} for {'.'.join(names)}", "write the value out")
        return names, self._column(value)

    def _pairs(self, condition: Any) -> Iterator[tuple[Column, Column]]:
        """Yield both sides of the equalities that a condition is made of."""
        terms = [condition]
        while terms:
            term = terms.pop(0)
            if kind_of(term) == "And":
                terms[:0] = [term.left(), term.right()]
            elif kind_of(term) in {"EqualTo", "EqualNullSafe"}:  # alike, for a key without nulls
                yield self._column(term.left()), self._column(term.right())
            else:
                raise refused(
                    f"ON … {term.sql()}",
                    "ON takes columns of both sides that are equal, joined by AND: filter the source in USING (SELECT"
                    " … WHERE …), and choose partitions with where=",
                )

    def _says(self, plan: Any, field: str) -> bool:
        """Return whether a statement has a clause that not every version of Spark knows."""
        if self._is_spark_3 or field not in _texts(plan.productElementNames().toSeq()):
            return False
        value = getattr(plan, field)()
        return value if isinstance(value, bool) else bool(value.isDefined())

    def _names_of(self, source: DataFrame) -> Names:
        """Return the names by which a statement may qualify the columns of its source."""
        output = source._jdf.queryExecution().analyzed().output()  # noqa: SLF001  # the same
        found = {_texts(attribute.qualifier()) for attribute in items(output)}
        if len(found) != 1:
            raise refused("USING without a name", "give the source one: USING (SELECT …) AS source")
        return found.pop()

    @property
    def _is_spark_3(self) -> bool:
        return ".classic." not in self._class

    @property
    def _utils(self) -> Any:
        return self._package("org.apache.spark.sql.classic").ExpressionUtils

    def _column(self, expression: Any) -> Column:
        if self._is_spark_3:
            return Column(self._package("org.apache.spark.sql").Column(expression))
        return Column(self._utils.column(expression))

    def _java_type(self, kind: DataType) -> Any:
        return self._package("org.apache.spark.sql.types").DataType.fromJson(kind.json())

    def _dataframe(self, plan: Any) -> DataFrame:
        dataset = self._package(self._session.emptyDataFrame().getClass().getName())
        return DataFrame(dataset.ofRows(self._session, plan), self._spark)

    @contextmanager
    def _active(self) -> Iterator[None]:
        """Let the parser read the settings of this session: it asks the one that is active on this thread."""
        sessions = self._package(self._class)
        former = sessions.getActiveSession()
        sessions.setActiveSession(self._session)
        try:
            yield
        finally:
            if former.isDefined():
                sessions.setActiveSession(former.get())
            else:
                sessions.clearActiveSession()

    def _package(self, name: str) -> Any:
        return reduce(getattr, name.split("."), self._java)


def _texts(sequence: Any) -> Names:
    return tuple(map(str, items(sequence)))
