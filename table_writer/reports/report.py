"""The base of all reports: facts for programs, and a summary for people as text, HTML and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar, Final

from table_writer.model.partition_facts import PartitionFacts
from table_writer.reports.html import summary_html
from table_writer.reports.layout import Columns, Grid, Summary

REPORT_FORMAT: Final = 1
NOTES: Final = {"note: {}": "notes"}
FAILURES: Final = {"FAILED: {}": "failures"}
FACTS_OF_EVENTS: Final = ("version", "write_id", "mode", "partitions", "notes")


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """A report on one table, as text, HTML, plain values and an event.

    A subclass declares ``rows``, the attribute whose items are the rows of its first table, and their ``columns``;
    ``lines``, what ends the text: by template the attribute whose items fill it, one line each (of a mapping its keys
    and values); ``derived``, the properties that plain values include; and ``keys``, by attribute, which facts of its
    items they include if not all. What it does not declare is as in its base.
    """

    ROWS: ClassVar[str]
    COLUMNS: ClassVar[Columns]
    LINES: ClassVar[Mapping[str, str]] = {}
    DERIVED: ClassVar[tuple[str, ...]] = ()  # any dataclass that a report holds may have it, or JSON_KEYS
    KEYS: ClassVar[Mapping[str, str]] = {}

    table: str

    def __init_subclass__(
        cls,
        *,
        rows: str | None = None,
        columns: Columns | None = None,
        lines: Mapping[str, str] | None = None,
        derived: tuple[str, ...] | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        super().__init_subclass__()
        declared = {"ROWS": rows, "COLUMNS": columns, "LINES": lines, "DERIVED": derived, "KEYS": keys}
        for name, value in declared.items():
            if value is not None:
                setattr(cls, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: what ``--json`` prints."""
        chosen = {
            name: [{key: _plain_value(getattr(item, key)) for key in keys.split()} for item in getattr(self, name)]
            for name, keys in self.KEYS.items()
        }
        return {"format": REPORT_FORMAT, **_plain_value(self), **chosen}

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return summary_html(self._summary().shortened())

    def to_text(self, *, all_rows: bool = False) -> str:
        """Return the summary as aligned lines; all rows of its table, or the first ones."""
        return (self._summary().with_all_rows() if all_rows else self._summary().shortened()).text()

    def event_facts(self) -> dict[str, Any]:
        """Return the facts of the call that returned this report, by the names of the fields of its event."""
        facts = {name: getattr(self, name) for name in FACTS_OF_EVENTS if hasattr(self, name)}
        return {"outcome": "nothing" if facts["version"] is None else "published", **facts}

    def _summary(self) -> Summary:
        return Summary(
            subject=self.table,
            headline=f"{self.table}{self._headline()}",
            grids=(Grid(self._columns(), getattr(self, self.ROWS)), *self._grids()),
            lines=(*self._lines(), *self._declared_lines()),
        )

    def _columns(self) -> Columns:
        """Return the columns of the first table, of which a report may leave some out."""
        return self.COLUMNS

    def _headline(self) -> str:
        """Return what follows the table's name in the first line."""
        raise NotImplementedError

    def _grids(self) -> Iterable[Grid]:
        """Return the tables after the first one."""
        return ()

    def _lines(self) -> Iterable[str]:
        """Return what stands below all tables, before the lines that are declared."""
        return ()

    def _declared_lines(self) -> Iterable[str]:
        for form, name in self.LINES.items():
            items = getattr(self, name)
            yield from (
                form.format(*fields) for fields in (items.items() if isinstance(items, Mapping) else zip(items))
            )


class ReportOfPartitions(Report, rows="partitions"):
    """A report on a write: what it does, did or would do to each partition."""

    partitions: tuple[PartitionFacts, ...]

    @property
    def added(self) -> tuple[PartitionFacts, ...]:
        """Return the partitions that did not exist before."""
        return self._of("add", "added")

    @property
    def replaced(self) -> tuple[PartitionFacts, ...]:
        """Return the partitions whose old rows are replaced."""
        return self._of("replace", "replaced")

    @property
    def appended(self) -> tuple[PartitionFacts, ...]:
        """Return the partitions that keep their old rows and get those of the DataFrame."""
        return self._of("append", "appended")

    @property
    def emptied(self) -> tuple[PartitionFacts, ...]:
        """Return the partitions that are dropped, since the write has no rows for them."""
        return self._of("empty", "emptied")

    @property
    def rows(self) -> int:
        """Return the number of rows written."""
        return self._sum("rows")

    @property
    def copied_files(self) -> int:
        """Return the number of existing files that an append copies, inside the store."""
        return self._sum("copied_files")

    @property
    def copied_bytes(self) -> int:
        """Return the bytes of the copied files; none of them pass through the client."""
        return self._sum("copied_bytes")

    def _of(self, *actions: str) -> tuple[PartitionFacts, ...]:
        return tuple(partition for partition in self.partitions if partition.action in actions)

    def _sum(self, fact: str) -> int:
        return sum(getattr(partition, fact) or 0 for partition in self.partitions)


def _plain_value(value: Any) -> Any:
    """Return a value as JSON can hold it: decimals and dates become text."""
    if dataclasses.is_dataclass(value):
        all_names = (*(field.name for field in dataclasses.fields(value)), *getattr(value, "DERIVED", ()))
        names = value.JSON_KEYS.split() if hasattr(value, "JSON_KEYS") else all_names
        return {name: _plain_value(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
