"""The table has the columns it should have."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from table_writer.check.audit import Facts
from table_writer.check.check import METADATA, Check, Question
from table_writer.check.target import Target, declared_type
from table_writer.check.wording import counted, listed, printable, shown
from table_writer.model.check_result import CheckResult
from table_writer.sql_text import spark_reason

__all__ = ["HasSchema"]


@dataclass(frozen=True, kw_only=True)
class HasSchema(Check):
    """Names, types and order of the columns."""

    expected: StructType | str

    def bind(self, target: Target) -> Question:  # noqa: ARG002  # no column
        """Read the DDL."""
        try:
            expected = _parse_datatype_string(self.expected) if isinstance(self.expected, str) else self.expected
        except PySparkException as error:
            raise self.wrong(f"{shown(self.expected)} is no schema in DDL: {spark_reason(error)}") from error
        if not isinstance(expected, StructType):
            raise self.wrong(f"{shown(self.expected)} is a type, not a schema: write 'name type, name type'")
        return _Schema(check=self, expected=expected)


@dataclass(frozen=True, kw_only=True)
class _Schema(Question):
    expected: StructType

    def known(self, facts: Facts) -> CheckResult:
        target = facts.target
        pairs = zip_longest(self.expected, target.schema)
        differences = [text for position, pair in enumerate(pairs, 1) if (text := _difference(target, position, *pair))]
        if differences:
            return self.failed(f"the schema is another: {listed(differences, 10)}", by=METADATA)
        return self.passed(f"{counted(len(self.expected), 'column')}, as expected", METADATA)


def _difference(target: Target, position: int, expected: StructField | None, found: StructField | None) -> str:
    if expected is None or found is None:
        missing = "missing" if found is None else "not expected"
        return f"column {position} ({_spelled(expected or found)}) is {missing}"
    types = (declared_type(expected), declared_type(found))
    is_same = types[0] == types[1] or (not target.is_case_sensitive and types[0].lower() == types[1].lower())
    if target.same(expected.name, found.name) and is_same:
        return ""
    return f"column {position} is {_spelled(found)}, not {_spelled(expected)}"


def _spelled(field: StructField | None) -> str:
    return "" if field is None else printable(f"{field.name} {declared_type(field)}")
