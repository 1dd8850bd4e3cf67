"""No two rows have the same key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import FractionalType

from table_writer.check.audit import Facts
from table_writer.check.check import METADATA, Check, CountIf, Question
from table_writer.check.target import Target
from table_writer.check.wording import row_count_text
from table_writer.model.check_result import CheckResult
from table_writer.model.partition_name import NULL_PARTITION
from table_writer.sql_text import spark_reason

__all__ = ["KeyQuestion", "Unique"]


@dataclass(frozen=True, kw_only=True)
class Unique(Check):
    """No two rows have the same values in some columns."""

    columns: tuple[str, ...]

    def bind(self, target: Target) -> Question:
        """Find the columns."""
        places = tuple(target.place(column) for column in self.columns)
        try:
            target.empty.where(reduce(and_, (place.column == place.column for place in places)))
        except PySparkException as error:  # a map, for one
            raise self.wrong(f"rows cannot be told apart by these columns: {spark_reason(error)}") from error
        return KeyQuestion(check=self, places=places)


class KeyQuestion(Question):
    """Asks how many keys there are; rows with a null in theirs do not count, as in SQL's UNIQUE."""

    @property
    def key(self) -> str:
        """The columns for people."""
        return ", ".join(place.shown for place in self.places)

    @property
    def keys(self) -> tuple[Column, ...]:
        """What no two rows may have in common."""
        return tuple(place.column for place in self.places)

    @property
    def has_key(self) -> Column:
        """Whether a row counts."""
        return reduce(and_, (key.isNotNull() for key in self.keys))

    def known(self, facts: Facts) -> CheckResult | None:
        """Partitions tell of keys that are made of partition columns alone."""
        if facts.rows < 2:
            return self.passed(f"no {self.key} is there twice in {row_count_text(facts.rows)}", METADATA)
        if not all(place.is_partition and not isinstance(place.kind, FractionalType) for place in self.places):
            return None
        texts = [facts.texts(place) for place in self.places]
        counts: Counter[tuple[str, ...]] = Counter()
        for one in zip(*texts, strict=True):
            counts[tuple(text for text, _ in one)] += one[0][1]
        repeated = [rows for key, rows in counts.items() if rows > 1 and NULL_PARTITION not in key]
        return self.of_counts(sum(repeated), len(repeated), facts.rows, METADATA)

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        """Count rows that have a key, and keys."""
        return [count_if(self.has_key), F.count_distinct(*self.keys)]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        """Judge before it is known which keys are there twice."""
        rows, keys = map(int, measured)
        if rows == keys:
            return self.of_counts(0, 0, facts.rows, "spark")
        repeating = rows - keys
        text = f"{repeating:,} of {row_count_text(facts.rows)} repeat the {self.key} of another"
        return self.failed(text, repeating)

    def of_counts(self, repeated_rows: int, repeated_keys: int, rows: int, by: str) -> CheckResult:
        """Judge by how many keys there are more than once, in how many rows."""
        if repeated_rows == 0:
            return self.passed(f"no {self.key} is there twice in {row_count_text(rows)}", by)
        return self.failed(
            f"{repeated_rows:,} of {row_count_text(rows)} share their {self.key} with another"
            f" ({repeated_keys:,} different key{'s' if repeated_keys > 1 else ''})",
            repeated_rows,
            by=by,
        )
