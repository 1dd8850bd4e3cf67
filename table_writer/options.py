"""What can be said with every write call: frozen, complete and valid at construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict

from table_writer.checked import checked
from table_writer.errors import InvalidInputError
from table_writer.model.entry import WRITE_ID
from table_writer.model.new_table import NewTable
from table_writer.model.write import WriteMode

__all__ = ["NewTableKeywords", "WriteKeywords", "WriteOptions", "write_mode"]

GIB: Final = 1024 * 1024 * 1024
MIB: Final = 1024 * 1024
MAX_COPIED_BYTES: Final = 50 * GIB  # of one append: some minutes of copying inside S3
SUFFIXES: Final = (".json", ".checks-")  # of objects that are named after a write
SchemaChoice = Literal["strict", "allow_missing", "evolve"]
Engine = Literal["arrow", "spark"]
Distribution = Literal["none", "hash", "rebalance"]
EmptyAction = Literal["error", "ignore", "replace"]


class WriteKeywords(TypedDict, total=False):
    """The keywords of every write call; :class:`WriteOptions` says what they mean."""

    where: str
    schema: SchemaChoice
    engine: Engine
    distribution: Distribution
    sort_by: Sequence[str]
    target_file_bytes: int | None
    if_empty: EmptyAction
    if_missing: NewTable | None
    max_copied_bytes: int | None
    idempotency_key: str
    tags: Mapping[str, str]
    write_uuid: str
    checks: Sequence[object]


class NewTableKeywords(TypedDict, total=False):
    """The keywords of ``create_table``; :class:`~table_writer.create_table.NewTable` says what they mean."""

    partition_by: Sequence[str]
    location: str
    format: str
    compression: str
    comment: str
    properties: Mapping[str, str]
    options: Mapping[str, str]


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """The options of one write call.

    Parameters
    ----------
    where
        ``overwrite_partitions`` only: a SQL predicate over partition columns. Exactly the partitions it selects are
        replaced, those without rows are dropped; a row outside is an error.
    schema
        ``"strict"``: the DataFrame has the table's columns, in any order. ``"allow_missing"``: missing nullable columns
        become null. ``"evolve"``: so they do, and columns the table does not have are added to it.
    engine
        ``"arrow"`` writes Parquet and ORC. ``"spark"`` lets Spark's own writer write any format that it can write into
        a Hive table, bucketed tables too, into this write's own location; names and sizes of files are Spark's then.
    distribution
        ``"none"``: each task writes the partitions it has rows of. ``"hash"``: all rows of a partition go to one task.
        ``"rebalance"``: Spark's adaptive execution chooses tasks of its advisory size, by partition.
    sort_by
        Columns by which the rows of each file are sorted.
    target_file_bytes
        Size at which a task closes a file and opens the next, in bytes; at least 1 MiB. ``None``: one file per
        partition and task.
    if_empty
        The DataFrame has no rows: ``"error"``; ``"ignore"`` changes nothing; ``"replace"`` replaces with nothing what
        the call replaces (``overwrite_table``, and ``overwrite_partitions`` with ``where``).
    if_missing
        What the table shall be like if it does not exist; ``None`` makes that an error.
    max_copied_bytes
        ``append`` only: the largest number of bytes of existing files to copy; ``None`` for no limit.
    idempotency_key
        Up to 500 characters. A call with a key that was published already, and not rolled back, does nothing.
    tags
        Texts kept in the table's log and shown in its history. Not for secrets.
    write_uuid
        The ``write_id``, where a scheduler's run id shall be in every file name: up to 80 letters, digits, ``.``, ``_``
        and ``-``. Refused if it was used before. Finding out reads the table's whole log.
    checks
        What must be true of the rows before readers see them: checks of :mod:`table_writer.check`, or any callable that
        takes the staged DataFrame and fails an assertion.

    Raises
    ------
    InvalidInputError
        A value is none of these, or does not go with the mode.

    Examples
    --------
    >>> WriteOptions(distribution="rebalance", sort_by=["order_id"]).engine
    'arrow'
    """

    where: str = ""
    schema: SchemaChoice = "strict"
    engine: Engine = "arrow"
    distribution: Distribution = "none"
    sort_by: Sequence[str] = ()
    target_file_bytes: int | None = None
    if_empty: EmptyAction = "error"
    if_missing: NewTable | None = None
    max_copied_bytes: int | None = MAX_COPIED_BYTES
    idempotency_key: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    write_uuid: str = ""
    checks: Sequence[object] = ()

    def __post_init__(self) -> None:
        """Refuse values that no write could work with."""
        rules: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
            ("target_file_bytes", lambda value: value is None or value >= MIB, "None, or at least 1 MiB"),
            ("max_copied_bytes", lambda value: value is None or value >= 0, "None, or a number of bytes"),
            ("idempotency_key", lambda value: len(value) <= 500, "a text of up to 500 characters"),
            (
                "write_uuid",
                lambda value: value == "" or _is_write_id(value),
                f"a text: {WRITE_ID.pattern}, without {' or '.join(SUFFIXES)}",
            ),
        )
        for name, holds, expected in rules:
            if not holds(getattr(self, name)):
                raise InvalidInputError(f"{name}={getattr(self, name)!r}: expected {expected}")
        object.__setattr__(self, "sort_by", tuple(self.sort_by))
        object.__setattr__(self, "tags", dict(self.tags))
        object.__setattr__(self, "checks", tuple(self.checks))

    def require_fit(self, mode: WriteMode) -> None:
        """Refuse options that say nothing in a mode or with an engine: whoever gives them expects something else.

        Raises
        ------
        InvalidInputError
            Names the option and the mode that it belongs to.
        """
        if self.where and mode is not WriteMode.OVERWRITE_PARTITIONS:
            raise InvalidInputError(f"where belongs to overwrite_partitions; {mode.value} has no predicate")
        if self.target_file_bytes is not None and self.engine == "spark":
            raise InvalidInputError(
                "target_file_bytes belongs to engine='arrow'; Spark's own writer has spark.sql.files.maxRecordsPerFile"
            )
        whole = mode is WriteMode.OVERWRITE_TABLE or self.where != ""
        if self.if_empty == "replace" and not whole:
            raise InvalidInputError(
                f"if_empty='replace' needs something to replace: overwrite_table, or overwrite_partitions with where;"
                f" {mode.value} replaces only partitions that there are rows for"
            )


def write_mode(name: str) -> WriteMode:
    """Read the name of a write mode.

    Raises
    ------
    InvalidInputError
        It is none; the message lists them.
    """
    try:
        return WriteMode(name)
    except ValueError as error:
        modes = ", ".join(mode.value for mode in WriteMode)
        raise InvalidInputError(f"mode={name!r}: expected one of {modes}") from error


def _is_write_id(value: str) -> bool:
    return WRITE_ID.fullmatch(value) is not None and not any(suffix in value for suffix in SUFFIXES)
