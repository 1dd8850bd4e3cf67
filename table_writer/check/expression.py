"""A check in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import BooleanType

from table_writer.check.audit import Facts
from table_writer.check.check import SPARK, Check, CountIf, Question
from table_writer.check.row_checks import RowQuestion
from table_writer.check.target import Place, Target
from table_writer.check.wording import printable, row_count_text, shortened, shown
from table_writer.model.check_result import CheckResult
from table_writer.sql_text import quoted, spark_reason

__all__ = ["Analyzed", "Expression", "analyze"]

LONGEST_SQL: Final = 80  # characters of it in a message


@dataclass(frozen=True, kw_only=True)
class Analyzed:
    """What Spark's analyzer says of an expression.

    Parameters
    ----------
    places
        The columns it names.
    is_aggregate
        It is about all rows at once.
    is_repeatable
        A row's values alone give the same answer each time: no other row (a window) and no other table is asked.
    """

    places: tuple[Place, ...]
    is_aggregate: bool
    is_repeatable: bool


def analyze(sql: str, target: Target, check: Check) -> Analyzed:
    """Let Spark analyze an expression over the table's columns.

    Raises
    ------
    InvalidInputError
        It is no condition over them.
    """
    try:
        frame = target.empty.select(F.expr(sql))
        kinds = [field.dataType for field in frame.schema]
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001  # PySpark has no public way to the plan
        nodes = list(_nodes(plan))
        names = {name for node in nodes for name in _names(node)}
        steps = set(map(_kind, nodes))
        is_aggregate, makes_rows = "Aggregate" in steps, "Generate" in steps
        is_repeatable = bool(plan.deterministic()) and plan.subqueriesAll().size() == 0 and "Window" not in steps
    except (PySparkException, Py4JError) as error:
        raise check.wrong(
            f"{shown(sql)} is no condition over the columns of {target.table}: {spark_reason(error)}"
        ) from error
    if kinds != [BooleanType()] or makes_rows:
        found = ", ".join(kind.simpleString() for kind in kinds[:3])
        raise check.wrong(f"{shown(sql)} is no condition: it is {found}{', of several rows' * makes_rows}, not boolean")
    places = tuple(target.place(quoted(name)) for name in target.schema.names if name in names)
    return Analyzed(places=places, is_aggregate=is_aggregate, is_repeatable=is_repeatable)


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield a plan's nodes but its leaves."""
    children = plan.children()
    if children.size():
        yield plan
    for position in range(children.size()):
        yield from _nodes(children.apply(position))


def _kind(node: Any) -> str:
    return str(node.nodeName())


def _names(node: Any) -> Iterator[str]:
    found = node.references().toSeq()
    yield from (str(found.apply(position).name()) for position in range(found.size()))


@dataclass(frozen=True, kw_only=True)
class Expression(Check):
    """A condition is true for every row, or, with an aggregate function in it, for all of them together."""

    sql: str

    def bind(self, target: Target) -> Question:
        """Let Spark analyze it."""
        found = analyze(self.sql, target, self)
        text = printable(shortened(self.sql, LONGEST_SQL))
        if found.is_aggregate:
            return _OfAllRows(check=self, places=found.places, sql=self.sql, text=text)
        return _OfEachRow(
            check=self, places=found.places, sql=self.sql, repeatable=found.is_repeatable, verdict=f"break {text}"
        )


@dataclass(frozen=True, kw_only=True)
class _OfEachRow(RowQuestion):
    sql: str
    repeatable: bool

    @property
    def is_repeatable(self) -> bool:
        return self.repeatable

    def failing(self, label: str) -> Column | None:  # noqa: ARG002
        return ~F.expr(self.sql)


@dataclass(frozen=True, kw_only=True)
class _OfAllRows(Question):
    sql: str
    text: str

    def known(self, facts: Facts) -> CheckResult | None:  # noqa: ARG002
        """Ask Spark also where there are no rows: ``count(*) > 0`` is false there."""
        return None

    @property
    def is_local(self) -> bool:
        """A partition's values stand for many rows."""
        return False

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        return [F.expr(self.sql)]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        over = f"over {row_count_text(facts.rows)}"
        if measured[0] is False:
            return self.failed(f"{self.text} is false {over}", by=SPARK)
        return self.passed(f"{self.text} is {'true' if measured[0] else 'null'} {over}", SPARK)
