"""The report that ``plan`` returns: what a write would do, and why it would fail as it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from table_writer.errors import counted
from table_writer.model.partition_facts import PartitionFacts
from table_writer.reports.layout import ACTION, NAME, ROWS, Figure, Place, size, size_or_dash
from table_writer.reports.report import NOTES, ReportOfPartitions


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaVerdict:
    """The answer whether a DataFrame fits a table, and the columns that would be changed to make it fit.

    Parameters
    ----------
    problems
        Why it does not fit, one sentence each.
    added_columns
        The table would get: ``"discount: decimal(10,2)"``.
    filled_columns
        The DataFrame has not, and would be null.
    default_columns
        The DataFrame has not, and would be their defaults: ``"status: 'open'"``.
    converted_columns
        Would be widened: ``"amount: int -> bigint"``.

    Examples
    --------
    >>> SchemaVerdict(converted_columns=("amount: int -> bigint",)).fits
    True
    """

    problems: tuple[str, ...] = ()
    added_columns: tuple[str, ...] = ()
    filled_columns: tuple[str, ...] = ()
    default_columns: tuple[str, ...] = ()
    converted_columns: tuple[str, ...] = ()

    DERIVED: ClassVar[tuple[str, ...]] = ("fits",)

    @property
    def fits(self) -> bool:
        """Return whether the DataFrame fits the table."""
        return not self.problems


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanReport(
    ReportOfPartitions,
    columns=(
        NAME,
        ACTION,
        ROWS,
        Figure("copied files", "copied_files", lambda count: count or "-"),
        Figure("copied", "copied_bytes", size_or_dash),
        Place("new location", "location", lambda location: location or "(dropped)"),
    ),
    lines=NOTES,
    derived=("ok", "rows", "copied_files", "copied_bytes"),
    keys={"partitions": "name values action location rows replaced_location copied_files copied_bytes"},
):
    """The report on a write that was only planned. Nothing was written; other writers may change the table first.

    Parameters
    ----------
    table, mode
        What was asked.
    base_version
        The newest version of the table's log; 0 before the first.
    partitions
        Every partition that would change, in the order of the values.
    schema
        Whether the DataFrame fits.
    notes
        What a person should know.
    problems
        Why the call would fail as it stands, besides the schema's.

    Examples
    --------
    >>> replaced = PartitionFacts(
    ...     name="dt=2024-01-01",
    ...     values=("2024-01-01",),
    ...     action="replace",
    ...     location="s3a://lake/orders/_table_writer/data/W/dt=2024-01-01/",
    ...     rows=1200,
    ...     old_location="s3a://lake/orders/dt=2024-01-01/",
    ... )
    >>> report = PlanReport(
    ...     table="mart.orders",
    ...     mode="overwrite_partitions",
    ...     base_version=7,
    ...     partitions=(replaced,),
    ...     schema=SchemaVerdict(converted_columns=("amount: int -> bigint",)),
    ... )
    >>> print(report.to_text().splitlines()[0])
    mart.orders: overwrite_partitions on version 7 would replace 1 partition, 1,200 rows
    >>> report.ok, report.to_dict()["schema"]["fits"]
    (True, True)
    """

    mode: str
    base_version: int
    partitions: tuple[PartitionFacts, ...] = ()
    schema: SchemaVerdict = SchemaVerdict()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether the call would be carried out as things stand."""
        return self.schema.fits and not self.problems

    def _lines(self) -> Iterator[str]:
        yield from (f"PROBLEM: {problem}" for problem in (*self.schema.problems, *self.problems))
        yield from (f"would add column {column}" for column in self.schema.added_columns)
        yield from (f"would fill column {column} with nulls" for column in self.schema.filled_columns)
        yield from (f"would fill column {column}, its default" for column in self.schema.default_columns)
        yield from (f"would convert column {column}" for column in self.schema.converted_columns)

    def _headline(self) -> str:
        partitions_by_verb = {
            "add": self.added,
            "replace": self.replaced,
            "append to": self.appended,
            "empty": self.emptied,
        }
        parts = [f"{verb} {len(partitions):,}" for verb, partitions in partitions_by_verb.items() if partitions]
        noun = "partition" if parts and parts[-1].endswith(" 1") else "partitions"
        change = f"{', '.join(parts)} {noun}, {counted(self.rows, 'row')}" if parts else "change nothing"
        copies = f", {counted(self.copied_files, 'file')} ({size(self.copied_bytes)}) copied"
        copied_text = copies if self.copied_files else ""
        fails = "" if self.ok else "would FAIL; it "
        return f": {self.mode} on version {self.base_version} {fails}would {change}{copied_text}"


@dataclass(frozen=True, kw_only=True, repr=False)
class RowsPlan(PlanReport):
    """The report on a change of rows that was only planned.

    ``rows`` are those that would be written: with the changed rows all others of their files.

    Parameters
    ----------
    inserted, updated, deleted
        How many rows, exactly; ``None`` of a ``rewrite``, whose function does what it likes.
    replaced_files, replaced_bytes
        The files whose rows would be written anew; ``copied_files`` would stay, in partitions that change.

    Examples
    --------
    >>> plan = RowsPlan(table="mart.orders", mode="merge", base_version=7, inserted=2, updated=1, deleted=0)
    >>> print(plan.to_text().splitlines()[0])
    mart.orders: merge on version 7 would change nothing: insert 2, update 1, delete 0 rows, replace 0 files
    """

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    replaced_files: int = 0
    replaced_bytes: int = 0

    def _headline(self) -> str:
        counts = f"insert {self.inserted or 0:,}, update {self.updated or 0:,}, delete {self.deleted or 0:,} rows, "
        what = "" if self.inserted is None else counts
        return f"{super()._headline()}: {what}replace {counted(self.replaced_files, 'file')}"
