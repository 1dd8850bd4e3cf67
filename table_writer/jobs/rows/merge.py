"""A merge: rows of the table that updates name by key are changed or deleted, and rows of new keys are inserted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, Literal, get_args

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import BooleanType

from table_writer.config import MergeSchema, SelectedRowKeywords
from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.planner import require_batch
from table_writer.jobs.plan.types import table_schema
from table_writer.jobs.rows.change import ChangedRows
from table_writer.jobs.rows.clauses import CLAUSE, Clause, Clauses, Resolved, column
from table_writer.jobs.rows.expressions import Expression, blank, named, predicate_of, table_column
from table_writer.jobs.rows.hits import COUNT, FileNames, Hits, collected, computed_now, find_hits, with_file
from table_writer.jobs.rows.keys import NamedKeys, require_each_once, same_keys
from table_writer.jobs.rows.snapshot import FILE, Snapshot
from table_writer.jobs.rows.updates import DELETES, FIRST, NEW, OF_UPDATES, Updates
from table_writer.model.message import RowMark
from table_writer.model.table import PartitionValues
from table_writer.model.table_read import TableRead
from table_writer.model.write import every_partition, no_partition
from table_writer.spark import open_gateway
from table_writer.spark.sql import quoted

Matched = Literal["update", "ignore", "delete"]
Missing = Literal["insert", "ignore"]
TARGET, UPDATES = ("target",), ("updates",)  # the names of both sides in expressions
OF_TARGET: Final = "__table_writer_target_"  # the columns of the keys of its rows
TARGET_AGE: Final = f"{OF_TARGET}age"
PRESENT, MARK = "__table_writer_present", "__table_writer_mark"  # whether a row is of the table, and its mark
SEARCH_ABOVE_BYTES: Final = 32 << 20  # measured by benchmarks/merge_search.py
FORGETS: Final = (
    "the table would forget a deleted row, and a late update would bring it back. Give the table a BOOLEAN column, name"
    " it as deleted_flag, and read WHERE that IS NOT TRUE"
)


class MergeKeywords(SelectedRowKeywords, total=False):
    """The keywords of a merge: those of every change of rows, and what it takes beside."""

    delete: str | Column
    deleted_flag: str
    newest_by: str
    schema: MergeSchema
    search_above_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Merge:
    """What a caller has said of a merge."""

    updates: DataFrame
    on: Sequence[str]
    matched: Matched = "update"
    missing: Missing = "insert"
    set: Mapping[str, Expression] | None = None
    delete: Expression | None = None
    deleted_flag: str = ""
    newest_by: str = ""
    schema: MergeSchema = "strict"
    search_above_bytes: int = SEARCH_ABOVE_BYTES
    target_names: Sequence[str] = TARGET
    updates_names: Sequence[str] = UPDATES
    clauses: Clauses | None = None  # of a statement of SQL, in place of what the parameters say
    name: ClassVar[str] = "merge"
    selects_by: ClassVar[str] = "where"
    condition: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.set is not None and (self.matched != "update" or not self.set):
            raise InvalidInputError(
                "set: expected the columns that matched='update' changes, with their values; without set it changes all"
            )
        if self.matched == self.missing == "ignore" and self.delete is None:
            raise InvalidInputError("matched='ignore' with missing='ignore' changes nothing: expected another of both")
        if self.search_above_bytes < 0:
            raise InvalidInputError(f"search_above_bytes={self.search_above_bytes}: expected a number of bytes, or 0")
        if self.newest_by and self.set is not None and self.newest_by.lower() not in map(str.lower, self.set):
            raise InvalidInputError(
                f"newest_by={self.newest_by!r}: set leaves this column as it is, and rows would look older than they"
                f" are; set it too, as in {{'{self.newest_by}': 'updates.{self.newest_by}'}}"
            )
        if self.schema not in get_args(MergeSchema):
            raise InvalidInputError(f"schema={self.schema!r}: expected one of {', '.join(get_args(MergeSchema))}")
        if self.schema == "evolve" and (self.set is not None or self.matched == "delete"):
            raise InvalidInputError("schema='evolve': expected matched='update' without set, which takes all columns")
        self._require_feed()

    def _require_feed(self) -> None:
        """Refuse what is not said whole of a feed with deletes."""
        if self.delete is not None and self.matched == "delete":
            raise InvalidInputError("delete: matched='delete' deletes the row of every update; leave one of both out")
        if self.deleted_flag and (self.delete is None or self.matched != "update" or self.missing != "insert"):
            raise InvalidInputError(
                f"deleted_flag={self.deleted_flag!r}: expected delete, which says what marks a row, and that others are"
                " updated and inserted"
            )
        taken = {name.lower() for name in (*self.on, *(self.set or ()), self.newest_by)}
        if self.deleted_flag.lower() in taken - {""}:
            raise InvalidInputError(
                f"deleted_flag={self.deleted_flag!r}: on, set or newest_by names it too; the call sets it by itself"
            )
        deletes = self.delete is not None or self.matched == "delete"
        if self.newest_by and deletes and not self.deleted_flag:
            said = ", delete='true' in place of matched='delete'" if self.matched == "delete" else ""
            raise InvalidInputError(f"newest_by={self.newest_by!r}: {FORGETS}{said}")

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Find the files that hold rows of the keys; they are written anew, with the rows of new keys."""
        require_batch(self.updates, snapshot.table.name)
        given = _Sides(self._read(snapshot), snapshot)
        updates, reads = _computed_once(snapshot, given.newest_updates())
        return given.of(updates).changed(reads)

    def _read(self, snapshot: Snapshot) -> Merge:
        """Return the merge of updates that say themselves which rows go, or are marked as deleted."""
        if self.delete is None:
            return self
        gateway, sample = open_gateway(self.updates.sparkSession), blank(snapshot.spark, self.updates.schema)
        sample = named(sample, self.updates_names)
        deletes = predicate_of(sample, self.delete, "delete").or_false
        said_by = {name.lower() for name in gateway.analysis(sample, deletes).names}
        known = {name.lower() for name in table_schema(snapshot.table).names}
        spare = said_by - known if self.set is None else set()  # of the feed alone: nothing else asks for it
        rows = named(self.updates, self.updates_names).withColumn(DELETES, deletes)
        rows = rows.drop(*(name for name in self.updates.columns if name.lower() in spare))
        if not self.deleted_flag:
            return replace(self, updates=rows, delete=DELETES)
        flag = table_column(snapshot.table, self.deleted_flag, "deleted_flag")
        if not isinstance(flag.dataType, BooleanType):
            raise InvalidInputError(f"deleted_flag={flag.name!r}: expected a BOOLEAN column")
        marked = rows.withColumn(flag.name, F.col(DELETES)).drop(DELETES)
        by_flag = None if self.set is None else {**self.set, flag.name: column(self.updates_names, flag.name)}
        return replace(self, updates=marked, set=by_flag, delete=None, deleted_flag="")

    @property
    def said(self) -> Clauses:
        """What the parameters say, or a statement, as clauses."""
        if self.clauses is not None:
            return self.clauses
        goes = None if self.delete is None else F.col(DELETES)
        deleting = (Clause(mark=RowMark.DELETED, condition=goes),) if goes is not None else ()
        others = {
            "update": (Clause(mark=RowMark.UPDATED, values=self.set),),
            "delete": (Clause(mark=RowMark.DELETED),),
            "ignore": (),
        }
        inserting = (Clause(mark=RowMark.INSERTED, condition=None if goes is None else ~goes),)
        return Clauses(
            matched=(*deleting, *others[self.matched]), missing=inserting if self.missing == "insert" else ()
        )


def _computed_once(snapshot: Snapshot, updates: DataFrame) -> tuple[DataFrame, tuple[TableRead, ...]]:
    """Return the updates as they are computed now, for all jobs of an attempt, and what they read of this very table.

    The rows stay on the executors. If one is lost, the jobs that follow fail: nothing computes its rows again.
    """
    gateway = open_gateway(snapshot.spark)
    listed, reads = gateway.reads(updates, snapshot.opened, listed=True, strict=True)
    return gateway.run(f"updates of {snapshot.table.name}", listed.localCheckpoint), reads


class _Sides:
    """The rows of the table and the updates, each with their keys, and which clause is for which of them."""

    def __init__(self, merge: Merge, snapshot: Snapshot) -> None:
        self._merge = merge
        self._clauses = merge.said
        self._snapshot = snapshot
        others = merge.set is not None or merge.clauses is not None
        self._updates = Updates(
            merge.updates,
            snapshot.table,
            merge.on,
            merge.newest_by,
            adds_columns=merge.schema == "evolve",
            others=others,
        )
        self._same_key = same_keys(self._updates.keys.names(OF_TARGET), self._updates.key_names)

    def of(self, updates: DataFrame) -> _Sides:
        """Return the same with the updates as they were computed."""
        sides = _Sides(replace(self._merge, updates=updates), self._snapshot)
        sides._resolved = self._resolved  # its own kind: the columns are the same
        return sides

    def changed(self, reads: tuple[TableRead, ...]) -> ChangedRows:
        """Say what becomes of which files; runs the jobs that find them."""
        snapshot, clauses = self._snapshot, self._clauses
        if not self.named_keys.count and not clauses.unmatched:
            return ChangedRows(rows=self._merge.updates, replaced={})
        if self.are_rewritten:
            return ChangedRows(
                rows=self.rewritten_rows(),
                replaced={values: files for values, files in snapshot.files_of(self._partitions).items() if files},
                mark=MARK,
                inside=snapshot.scope,
                is_by_key=True,
                reads=reads,
                schema=self._merge.schema,
            )
        hits = self.hits()
        parts = [self.changed_rows(hits)] if clauses.changes_present_rows else []
        parts += [self.new_rows()] if clauses.missing else []
        return ChangedRows(
            rows=parts[0] if len(parts) == 1 else parts[0].union(parts[1]),
            replaced=hits.changed_files,
            updated=hits.rows - hits.removed,
            deleted=hits.removed,
            inserted=self._inserted(hits),
            inside=snapshot.scope,
            is_by_key=True,
            reads=reads,
            schema=self._merge.schema,
            watched=snapshot.scope if clauses.missing and not self._updates.keys.tell_partition else no_partition,
        )

    def newest_updates(self) -> DataFrame:
        """Return the updates that count; what does not fit, or is not understood, is refused without a job."""
        self._updates.require_fit(self._clauses)
        _ = self._resolved
        if not self._is_bounded and any(clause.condition is None for clause in self._clauses.unmatched):
            raise InvalidInputError(
                "WHEN NOT MATCHED BY SOURCE: it would change rows of every partition. Say which with where=, or with"
                " AND after BY SOURCE. Nothing was done.",
                table=str(self._snapshot.table.name),
            )
        return self._updates.newest()

    @property
    def _is_bounded(self) -> bool:
        """Whether the call says which partitions it is about, or there is but one."""
        return self._snapshot.scope is not every_partition or not self._snapshot.table.partition_columns

    @cached_property
    def named_keys(self) -> NamedKeys:
        """The keys of the updates, which are refused if they repeat one."""
        keyed = self._updates.keyed.select(*self._updates.key_names)
        return require_each_once(self._snapshot, self._updates.keys, keyed, OF_UPDATES)

    @property
    def _partitions(self) -> Collection[PartitionValues]:
        """The partitions in which rows may change."""
        return self._snapshot.selected if self._clauses.unmatched else self.named_keys.partitions

    @property
    def are_rewritten(self) -> bool:
        """Return whether partitions are so small that all of their rows are written anew, found or not."""
        clauses, snapshot = self._clauses, self._snapshot
        may_be = snapshot.counts_marks and self._updates.keys.tell_partition and clauses.changes_present_rows
        may_be = may_be and (not clauses.unmatched or self._is_bounded)  # else all partitions would be written anew
        is_small = may_be and snapshot.is_smaller(self._partitions, self._merge.search_above_bytes)
        return is_small and not (clauses.missing and self._resolved.has_foreign_code)

    def rewritten_rows(self) -> DataFrame:
        """Return what partitions are to hold, and the rows that go, each with its mark."""
        inserts = bool(self._clauses.missing)
        target = self._target(self._snapshot.files_of(self._partitions)).withColumn(PRESENT, F.lit(True))
        rows, updates = self._both(target, self._updates_for_values)
        joined = rows.join(updates, self._same_key, "full" if inserts else "left")
        is_present = F.col(PRESENT).isNotNull()
        chosen = self._with_clause(joined, is_present if inserts else None)
        chosen = chosen.where(is_present | F.col(CLAUSE).isNotNull()) if inserts else chosen
        return chosen.select(*self._values_of(may_insert=inserts), self._resolved.mark.alias(MARK))

    @cached_property
    def _matches(self) -> DataFrame:
        """The file, the key and the clause of each row that may change; computed once if they also tell new keys."""
        scanned = self._keyed_target(with_file(self._snapshot.scan(self._partitions)))
        rows, updates = self._both(scanned, self._updates.keyed)
        found = rows.join(updates, self._same_key, "left" if self._clauses.unmatched else "inner")
        matches = self._with_clause(found).select(FILE, *self._updates.key_names, CLAUSE)
        if self._clauses.unmatched:  # of the others there may be as many as the table has rows
            matches = matches.where(F.col(CLAUSE).isNotNull() | F.col(self._updates.key_names[0]).isNotNull())
        return computed_now(self._snapshot, matches) if self._clauses.missing else matches

    def hits(self) -> Hits:
        """Count the rows of the table that are to change, by file."""
        is_first = self._is_first if self._counts_keys else F.lit(False)
        marked = self._matches.select(FILE, CLAUSE, is_first.alias(FIRST))
        is_hit = F.col(CLAUSE).isNotNull()
        return find_hits(self._snapshot, marked, self._resolved.is_deleted, is_first=F.col(FIRST), is_hit=is_hit)

    @property
    def _counts_keys(self) -> bool:
        """Whether the rows that have a key tell how many updates are new: all others are inserted."""
        return self._clauses.insert_all and not self._clauses.unmatched

    @property
    def _is_first(self) -> Column:
        of_key = Window.partitionBy(*self._updates.key_names).orderBy(*self._updates.key_names)
        return F.row_number().over(of_key) == 1

    def _inserted(self, hits: Hits) -> int:
        """Return how many updates are inserted."""
        if not self._clauses.missing:
            return 0
        if self._counts_keys:
            return self.named_keys.count - hits.keys
        [(count,)] = collected(self._snapshot, self.new_rows().agg(F.count(F.lit(1)).alias(COUNT)))
        return int(count)

    def changed_rows(self, hits: Hits) -> DataFrame:
        """Return what becomes of the rows of the files with hits."""
        rows, updates = self._both(self._target(hits.changed_files), self._updates_for_values)
        chosen = self._with_clause(rows.join(updates, self._same_key, "left"))
        return chosen.where(~self._resolved.is_deleted).select(*self._values_of(may_insert=False))

    def new_rows(self) -> DataFrame:
        """Return the updates whose key no row has, and for which a clause holds."""
        names = self._updates.key_names
        present = self._matches.where(F.col(names[0]).isNotNull()).select(*names)
        missing = self._updates_for_values.join(present, names, "left_anti")
        updates = self._resolved.updates.with_own(named(missing, self._merge.updates_names))
        chosen = updates.select("*", self._resolved.number_of_missing.alias(CLAUSE)).where(F.col(CLAUSE).isNotNull())
        return chosen.select(*(self._value(name, None) for name in self._updates.columns.names))

    def _with_clause(self, joined: DataFrame, is_present: Column | None = None) -> DataFrame:
        """Add the number of the clause that holds for each row of both sides."""
        is_named = F.col(self._updates.key_names[0]).isNotNull()
        number = self._resolved.number_of(
            is_named=is_named, is_present=is_present, is_older=self._updates.is_newer_than(TARGET_AGE)
        )
        return joined.select("*", number.alias(CLAUSE))

    def _values_of(self, *, may_insert: bool) -> list[Column]:
        """Return what the columns of a row of both sides get."""
        names = self._updates.columns.names
        return [self._value(name, column(self._merge.target_names, name), may_insert=may_insert) for name in names]

    def _value(self, name: str, present: Column | None, *, may_insert: bool = True) -> Column:
        new, is_given = F.col(quoted(f"{NEW}{name}")), self._updates.has(name)
        value = self._resolved.value(name, present=present, new=new, is_given=is_given, may_insert=may_insert)
        field = self._updates.columns[name]
        return value.cast(field.dataType).alias(name, metadata=field.metadata)  # of limits and comments of new columns

    def _both(self, target: DataFrame, updates: DataFrame) -> tuple[DataFrame, DataFrame]:
        target, updates = named(target, self._merge.target_names), named(updates, self._merge.updates_names)
        return self._resolved.target.with_own(target), self._resolved.updates.with_own(updates)

    def _target(self, files: FileNames) -> DataFrame:
        return self._keyed_target(self._snapshot.rows(files))

    def _keyed_target(self, rows: DataFrame) -> DataFrame:
        """Add to rows of the table the columns that it gets, which they do not have yet, and their keys."""
        known = table_schema(self._snapshot.table).names
        new = {
            field.name: F.lit(None).cast(field.dataType) for field in self._updates.columns if field.name not in known
        }
        keyed = self._updates.keys.added_to(rows.withColumns(new) if new else rows, OF_TARGET)
        return self._updates.with_age(keyed, TARGET_AGE)

    @cached_property
    def _resolved(self) -> Resolved:
        spark = self._snapshot.spark
        target = named(blank(spark, self._updates.columns), self._merge.target_names)
        updates = named(blank(spark, self._merge.updates.schema), self._merge.updates_names)
        return Resolved(self._clauses, target, updates, self._snapshot.table)

    @cached_property
    def _updates_for_values(self) -> DataFrame:
        """The updates with their keys, and beside them, where a clause takes all columns, what the table's get."""
        return self._updates.with_new_values if self._clauses.take_all_columns else self._updates.keyed
