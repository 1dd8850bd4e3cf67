"""Looks at everything a table's writes depend on, and says what to change. Nothing of the table is changed."""

from __future__ import annotations

from table_writer.doctor.examination import examine

__all__ = ["examine"]
