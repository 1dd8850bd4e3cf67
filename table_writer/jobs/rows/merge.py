"""A merge: rows of the table that updates name by key are changed or deleted, and rows of new keys are inserted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructType

from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.fit import fit
from table_writer.jobs.plan.planner import require_batch
from table_writer.jobs.plan.types import table_schema
from table_writer.jobs.rows.change import ChangedRows
from table_writer.jobs.rows.expressions import Expression, blank, named, table_column, values_of
from table_writer.jobs.rows.hits import FileNames, Hits, computed_now, find_hits, with_file
from table_writer.jobs.rows.keys import Keys, NamedKeys, require_each_once, same_keys
from table_writer.jobs.rows.snapshot import FILE, Snapshot
from table_writer.model.message import RowMark
from table_writer.model.table import PartitionValues
from table_writer.model.table_read import TableRead
from table_writer.model.write import no_partition
from table_writer.spark import open_gateway
from table_writer.spark.sql import quoted

Matched = Literal["update", "ignore", "delete"]
Missing = Literal["insert", "ignore"]
TARGET, UPDATES = ("target",), ("updates",)  # the names of both sides in expressions
FIRST, OLDER = "__table_writer_first", "__table_writer_older"  # whether a row stands for its key, and gives way
OF_TARGET, OF_UPDATES = "__table_writer_target_", "__table_writer_updates_"  # their keys
PRESENT, MARK = "__table_writer_present", "__table_writer_mark"  # whether a row is of the table, and its mark
NEW, GIVEN = "__table_writer_new_", "__table_writer_given_"  # what is inserted, and what was given for it
SEARCH_ABOVE_BYTES: Final = 32 << 20  # measured by benchmarks/merge_search.py
TARGET_AGE, UPDATES_AGE = f"{OF_TARGET}age", f"{OF_UPDATES}age"  # by which the newest row of a key is known


@dataclass(frozen=True, kw_only=True, slots=True)
class Merge:
    """What a caller has said of a merge."""

    updates: DataFrame
    on: Sequence[str]
    matched: Matched = "update"
    missing: Missing = "insert"
    set: Mapping[str, Expression] | None = None
    newest_by: str = ""
    search_above_bytes: int = SEARCH_ABOVE_BYTES
    target_names: Sequence[str] = TARGET
    updates_names: Sequence[str] = UPDATES
    name: ClassVar[str] = "merge"
    selects_by: ClassVar[str] = "where"
    condition: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.set is not None and (self.matched != "update" or not self.set):
            raise InvalidInputError(
                "set: expected the columns that matched='update' changes, with their values; without set it changes all"
            )
        if self.matched == self.missing == "ignore":
            raise InvalidInputError("matched='ignore' with missing='ignore' changes nothing: expected another of both")
        if self.search_above_bytes < 0:
            raise InvalidInputError(f"search_above_bytes={self.search_above_bytes}: expected a number of bytes, or 0")
        if self.newest_by and self.set is not None and self.newest_by.lower() not in map(str.lower, self.set):
            raise InvalidInputError(
                f"newest_by={self.newest_by!r}: set leaves this column as it is, and rows would look older than they"
                f" are; set it too, as in {{'{self.newest_by}': 'updates.{self.newest_by}'}}"
            )

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Find the files that hold rows of the keys; they are written anew, with the rows of new keys."""
        require_batch(self.updates, snapshot.table.name)
        given = _Sides(self, snapshot, self.updates)
        given.require_fit()
        updates, reads = _computed_once(snapshot, given.newest_updates())
        sides = _Sides(self, snapshot, updates)
        if not sides.named_keys.count:
            return ChangedRows(rows=self.updates, replaced={})
        partitions = sides.named_keys.partitions
        if sides.are_rewritten(partitions):
            return ChangedRows(
                rows=sides.rewritten_rows(partitions),
                replaced={values: files for values, files in snapshot.files_of(partitions).items() if files},
                mark=MARK,
                inside=snapshot.scope,
                is_by_key=True,
                reads=reads,
            )
        hits = sides.hits()
        is_insert, changes_files = self.missing == "insert", self.matched != "ignore"
        parts = [sides.changed_rows(hits)] if changes_files else []
        parts += [sides.new_rows()] if is_insert else []
        return ChangedRows(
            rows=parts[0] if len(parts) == 1 else parts[0].union(parts[1]),
            replaced=hits.changed_files if changes_files else {},
            updated=hits.rows if self.matched == "update" else 0,
            deleted=hits.removed,
            inserted=sides.named_keys.count - hits.keys if is_insert else 0,
            inside=snapshot.scope,
            is_by_key=True,
            reads=reads,
            watched=snapshot.scope if is_insert and not sides.keys.tell_partition else no_partition,
        )


def _computed_once(snapshot: Snapshot, updates: DataFrame) -> tuple[DataFrame, tuple[TableRead, ...]]:
    """Return the updates as they are computed now, for all jobs of an attempt, and what they read of this very table.

    The rows stay on the executors. If one is lost, the jobs that follow fail: nothing computes its rows again.
    """
    gateway = open_gateway(snapshot.spark)
    listed, reads = gateway.reads(updates, snapshot.opened, listed=True, strict=True)
    return gateway.run(f"updates of {snapshot.table.name}", listed.localCheckpoint), reads


class _Sides:
    """The rows of the table and the updates, each with their keys."""

    def __init__(self, merge: Merge, snapshot: Snapshot, updates: DataFrame) -> None:
        self._merge = merge
        self._snapshot = snapshot
        self._columns = table_schema(snapshot.table)
        self._updates = updates
        self.keys = Keys.of(merge.on, snapshot.table)
        self._of_target, self._of_updates = self.keys.names(OF_TARGET), self.keys.names(OF_UPDATES)
        self._same_key = same_keys(self._of_target, self._of_updates)
        self._age = table_column(snapshot.table, merge.newest_by, "newest_by") if merge.newest_by else None

    def require_fit(self) -> None:
        """Refuse updates whose columns do not fit; that needs no job."""
        _ = self._new_values, self._keyed_updates

    def newest_updates(self) -> DataFrame:
        """Return the updates with the newest of each key alone, where the caller says which that is."""
        if self._age is None:
            return self._updates
        keyed = self._with_age(self.keys.added_to(self._updates, OF_UPDATES), UPDATES_AGE)
        newest_first = Window.partitionBy(*self._of_updates).orderBy(F.col(UPDATES_AGE).desc_nulls_last())
        newest = keyed.withColumn(FIRST, F.row_number().over(newest_first)).where(F.col(FIRST) == 1)
        return newest.drop(FIRST, UPDATES_AGE, *self._of_updates)

    @cached_property
    def named_keys(self) -> NamedKeys:
        """The keys of the updates, which are refused if they repeat one."""
        return require_each_once(self._snapshot, self.keys, self._keyed_updates.select(*self._of_updates), OF_UPDATES)

    def are_rewritten(self, partitions: Collection[PartitionValues]) -> bool:
        """Return whether partitions are so small that all of their rows are written anew, found or not."""
        merge, snapshot = self._merge, self._snapshot
        may_be = snapshot.counts_marks and self.keys.tell_partition and merge.matched != "ignore"
        is_small = may_be and snapshot.is_smaller(partitions, merge.search_above_bytes)
        return is_small and not self._asks_others_of_new_rows

    @property
    def _asks_others_of_new_rows(self) -> bool:
        """Whether functions of the user's own would get rows to insert, too, which have nothing of the table."""
        if self._merge.set is None or self._merge.missing == "ignore":
            return False
        gateway, frame = open_gateway(self._snapshot.spark), self._blank_sides
        return any(gateway.analysis(frame, value).has_foreign_code for value in self._set_values.values())

    def rewritten_rows(self, partitions: Collection[PartitionValues]) -> DataFrame:
        """Return what partitions are to hold, and the rows that go, each with its mark."""
        merge, inserts = self._merge, self._merge.missing == "insert"
        target = self._target(self._snapshot.files_of(partitions)).withColumn(PRESENT, F.lit(True))
        rows, updates = self._both(self._with_age(target, TARGET_AGE), self._updates_with_new_values)
        joined = rows.join(updates, self._same_key, "full" if inserts else "left")
        is_present, is_named = F.col(PRESENT).isNotNull(), F.col(self._of_updates[0]).isNotNull()
        is_changed = is_present & is_named & self._is_older
        change, values = RowMark.DELETED, {}
        if merge.matched == "update":
            change, values = RowMark.UPDATED, self._set_values
        mark = F.when(is_changed, F.lit(change)).otherwise(F.lit(RowMark.KEPT))
        mark = F.when(is_present, mark).otherwise(F.lit(RowMark.INSERTED))

        def value(name: str) -> Column:
            changed, new = self._changed_value(name, values, is_changed), F.col(quoted(f"{NEW}{name}"))
            return (F.when(is_present, changed).otherwise(new) if inserts else changed).alias(name)

        return joined.select(*map(value, self._columns.names), mark.cast("byte").alias(MARK))

    @cached_property
    def _matches(self) -> DataFrame:
        """The file and the key of each row that has a key of the updates; computed once if they also tell new keys."""
        keys_of_updates = self._keyed_updates.select(*self._of_updates, *([UPDATES_AGE] if self._age else []))
        scanned = with_file(self._snapshot.scan(self.named_keys.partitions))
        rows = self._with_age(self.keys.added_to(scanned, OF_TARGET), TARGET_AGE)
        found = rows.join(keys_of_updates, self._same_key)
        matches = found.select(FILE, *self._of_updates, self._is_older.alias(OLDER))
        return computed_now(self._snapshot, matches) if self._merge.missing == "insert" else matches

    def hits(self) -> Hits:
        """Count the rows of the table that have a key of the updates, by file."""
        of_key = Window.partitionBy(*self._of_updates).orderBy(*self._of_updates)
        is_first = F.row_number().over(of_key) == 1 if self._merge.missing == "insert" else F.lit(False)
        marked = self._matches.select(FILE, is_first.alias(FIRST), OLDER)
        is_removed = F.col(OLDER) & F.lit(self._merge.matched == "delete")
        return find_hits(self._snapshot, marked, is_removed, is_first=F.col(FIRST), is_hit=F.col(OLDER))

    def changed_rows(self, hits: Hits) -> DataFrame:
        """Return what becomes of the rows of the files with hits."""
        rows = self._with_age(self._target(hits.changed_files), TARGET_AGE)
        rows, updates = self._both(rows, self._keyed_updates)
        applies = self._same_key & self._is_older
        if self._merge.matched == "delete":
            return rows.join(updates, applies, "left_anti").select(*map(quoted, self._columns.names))
        values, is_matched = self._set_values, F.col(self._of_updates[0]).isNotNull()
        changed = (self._changed_value(name, values, is_matched).alias(name) for name in self._columns.names)
        return rows.join(updates, applies, "left").select(*changed)

    def new_rows(self) -> DataFrame:
        """Return the updates whose key no row has."""
        updates = self.keys.added_to(self._new_values, OF_UPDATES)
        present = self._matches.select(*self._of_updates)
        return updates.join(present, self._of_updates, "left_anti").select(*map(quoted, self._columns.names))

    def _changed_value(self, name: str, values: Mapping[str, Column], is_changed: Column) -> Column:
        """Return what a column of a row of the table gets, whose new values are named."""
        present = _column(self._merge.target_names, name)
        return F.when(is_changed, values[name]).otherwise(present) if name in values else present

    def _both(self, target: DataFrame, updates: DataFrame) -> tuple[DataFrame, DataFrame]:
        return named(target, self._merge.target_names), named(updates, self._merge.updates_names)

    def _target(self, files: FileNames) -> DataFrame:
        return self.keys.added_to(self._snapshot.rows(files), OF_TARGET)

    @property
    def _is_older(self) -> Column:
        """Whether a row of the table is older than the update of its key; one that is as old is that update."""
        if self._age is None:
            return F.lit(True)
        row, update = F.col(TARGET_AGE), F.col(UPDATES_AGE)
        return update.isNotNull() & (row.isNull() | (row < update))

    def _with_age(self, rows: DataFrame, name: str) -> DataFrame:
        """Add by what the newest row of a key is known, where the caller says it, as the table has it."""
        age = self._age
        return rows if age is None else rows.withColumn(name, F.col(quoted(age.name)).cast(age.dataType))

    @cached_property
    def _set_values(self) -> dict[str, Column]:
        """The new values of a row that has a key of the updates, by the table's columns."""
        if self._merge.set is None:
            return {name: _column(self._merge.updates_names, name) for name in self._columns.names}
        return values_of(self._blank_sides, self._merge.set, self._snapshot.table)

    @cached_property
    def _blank_sides(self) -> DataFrame:
        """Both sides without rows, over which values are analyzed."""
        spark = self._snapshot.spark
        target, updates = self._both(blank(spark, self._columns), blank(spark, self._updates.schema))
        return target.crossJoin(updates)

    @cached_property
    def _keyed_updates(self) -> DataFrame:
        """The updates with their keys; as they were given where ``set`` says what is taken of them."""
        if not self._takes_all:
            compared = dict.fromkeys([*self.keys.fields, *([self._age] if self._age else [])])
            self._fitted(StructType(list(compared)))
        updates = self._new_values if self._takes_all else self._updates
        return self._with_age(self.keys.added_to(updates, OF_UPDATES), UPDATES_AGE)

    @property
    def _takes_all(self) -> bool:
        """Whether a row that is changed gets all columns of its update."""
        return self._merge.matched == "update" and self._merge.set is None

    @property
    def _updates_with_new_values(self) -> DataFrame:
        """The updates with their keys, and beside them, where rows are inserted, what the table's columns get."""
        updates = self._keyed_updates
        if self._merge.missing == "ignore":
            return updates
        new = _renamed({name: f"{NEW}{name}" for name in self._columns.names})
        if self._takes_all:
            return updates.select("*", *new)
        given = {f"{GIVEN}{position}": name for position, name in enumerate(updates.columns)}  # two may have one name
        known = {name.lower() for name in self._columns.names}
        own = {alias: name for alias, name in given.items() if name.lower() in known}
        fitted = self._fitted(self._columns, updates.toDF(*given).select("*", *_renamed(own)), beside=list(given))
        return fitted.select(*new, *_renamed(given))

    @cached_property
    def _new_values(self) -> DataFrame:
        """The updates with the table's columns; none but the table's are taken, unless ``set`` may name others."""
        needs_all = self._merge.missing == "insert" or self._takes_all
        return self._fitted(self._columns) if needs_all else self._updates

    def _fitted(self, columns: StructType, updates: DataFrame | None = None, beside: Sequence[str] = ()) -> DataFrame:
        """Return updates in the shape of some of the table's columns, with others beside them, or refuse them."""
        updates, table = self._updates if updates is None else updates, self._snapshot.table
        wanted = {name.lower() for name in (*columns.names, *beside)}
        takes_others = self._merge.set is not None or len(columns) < len(self._columns)
        if takes_others or beside:
            updates = updates.select(*(quoted(name) for name in updates.columns if name.lower() in wanted))
        partition_columns = [column.name for column in table.partition_columns if column.name in columns.names]
        ordered = StructType(sorted(columns, key=lambda field: field.name in partition_columns))
        fitted = fit(updates, ordered, str(table.name), partition_columns, beside=beside).rows
        typed = (F.col(quoted(field.name)).cast(field.dataType).alias(field.name) for field in columns)
        return fitted.select(*typed, *map(quoted, beside))  # partition values are text in what fit() returns


def _renamed(aliases: Mapping[str, str]) -> list[Column]:
    return [F.col(quoted(name)).alias(alias) for name, alias in aliases.items()]


def _column(names: Sequence[str], name: str) -> Column:
    return F.col(".".join(map(quoted, (*names, name))))
