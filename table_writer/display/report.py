"""What all reports have: facts for programs, a summary for people, JSON for both."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from table_writer.display.html import summary_html
from table_writer.display.render import Summary, summary_text

__all__ = ["Report"]

SHOWN_LINES: Final = 12  # below the table
REPORT_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """A report on one table."""

    table: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: what ``--json`` prints."""
        return {"format": REPORT_FORMAT, **_plain(self)}

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return summary_html(_shortened(self._summary()))

    def to_text(self, *, all_rows: bool = False) -> str:
        """Return the summary as aligned lines; all rows of its table, or the first ones."""
        return summary_text(self._summary().with_all_rows() if all_rows else _shortened(self._summary()))

    def _summary(self) -> Summary:
        raise NotImplementedError


def _shortened(summary: Summary) -> Summary:
    """Leave out all but the first lines: a vacuum of a large table keeps thousands of locations."""
    hidden = len(summary.lines) - SHOWN_LINES
    if hidden <= 0:
        return summary
    return dataclasses.replace(summary, lines=(*summary.lines[:SHOWN_LINES], f"… and {hidden:,} more lines"))


def _plain(value: Any) -> Any:
    """Return what JSON has: numbers that it would round are text, and so are dates."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, date | datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
