"""Answers of a metastore, held against the question: none is believed that says too little, or something else.

Hive 4 answers an empty list for a table that is gone, and a database of another character set answers other values
than it was given. Whoever took either at its word would take rows that are in use for rows that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from table_writer.errors import LostResponseError, MetastoreError
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.whole_table import WHOLE_TABLE
from table_writer.model.partition_name import shown_name
from table_writer.model.table import Partition, PartitionValues, Table, TableName

__all__ = ["read_all", "require_asked", "require_kept", "require_listed", "require_same", "require_there"]

SHOWN: Final = 3
CAUSE: Final = (
    "the character set or the collation of the metastore's own database cannot keep them (MySQL and MariaDB with Hive's"
    " latin1 schema keep ? for what they do not know). Let that database store UTF-8 (utf8mb4, with a binary collation)"
)


class OtherValuesError(MetastoreError):
    """Values are stored as others."""


def read_all(metastore: Metastore, table: Table) -> Mapping[PartitionValues, Partition]:
    """Read all partitions of exactly this table: what is not among them is not there.

    A partition that was listed and then not found is believed to be gone only if a second list does not have it. At
    last the table is read again: the answers may be those of another one of its name.

    Raises
    ------
    MetastoreError
        The answers do not fit each other, or the table was dropped, or dropped and made again, since it was read.
    """
    names = metastore.get_partition_names(table.name) if table.partition_columns else [WHOLE_TABLE]
    found = metastore.get_partitions(table, names)
    missing = set(names) - found.keys()
    still_there = missing.intersection(metastore.get_partition_names(table.name)) if missing else ()
    if still_there:
        raise MetastoreError(
            f"the metastore at {metastore.uri} lists {len(still_there)} partition(s) of {table.name} that it does not"
            f" return: {_shown(table, still_there)}. Nothing is decided by such an answer; run it again, and look into"
            " the metastore's log if it happens again.",
            table=str(table.name),
        )
    if table.partition_columns:  # else the answer was the table itself, and get_partitions has compared it
        require_same(table, metastore.get_table(table.name), metastore.uri)
    return found


def require_same(asked: Table, now: Table | None, uri: str) -> None:
    """Refuse answers about a table that is not, or not any more, the one that was asked about."""
    if _identity(asked) != _identity(require_there(asked.name, now, uri)):
        raise MetastoreError(
            f"{asked.name} was dropped and made again in the metastore at {uri} since it was read: nothing is decided"
            " by answers of another table. Run it again.",
            table=str(asked.name),
        )


def require_there(name: TableName, now: Table | None, uri: str) -> Table:
    """Return the table; refuse an empty answer about one that is gone."""
    if now is None:
        raise MetastoreError(
            f"there is no table {name} in the metastore at {uri}; what it says of its partitions counts nothing",
            table=str(name),
        )
    return now


def require_asked(
    table: Table, asked: Collection[PartitionValues], answered: Collection[PartitionValues], uri: str
) -> None:
    """Refuse partitions that were not asked for: those that were are stored under other values."""
    others = set(answered) - set(asked)
    if others:
        lacking = set(asked) - set(answered)
        raise OtherValuesError(
            f"the metastore at {uri} was asked for partition(s) {_shown(table, lacking)} of {table.name}, and answered"
            f" {_shown(table, others)}: {CAUSE}, or use other values.",
            table=str(table.name),
        )


def require_listed(database: str, listed: Collection[str], uri: str) -> None:
    """Refuse tables that were listed twice and never returned."""
    if listed:
        raise MetastoreError(
            f"the metastore at {uri} lists {len(listed)} table(s) of {database} that it does not return, first"
            f" {min(listed)}; run it again, and look into the metastore's log if it happens again",
            table=f"{database}.*",
        )


def require_kept(
    metastore: Metastore, table: Table, added: Sequence[Partition], before_send: Callable[[], None]
) -> None:
    """Read back what was just added under values that not every database keeps, and drop all again if one is lost.

    Raises
    ------
    MetastoreError
        One is stored under other values. Nothing is changed, unless the message says that the drop failed as well.
    LostResponseError
        It could not be read back: all that was added is there.
    """
    odd = [one.values for one in added if not all(text.isascii() for text in one.values)]
    try:
        if metastore.get_partitions(table, odd).keys() >= set(odd):
            return
    except OtherValuesError:
        pass
    except MetastoreError as error:
        raise LostResponseError(
            f"partitions of {table.name} were added, and could not be read back: {error.message}", table=str(table.name)
        ) from error
    end = "They were dropped again: nothing was changed."
    try:
        for one in added:
            metastore.drop_partition(table, one.values, before_send=before_send)
    except MetastoreError as error:
        end = f"They could not be dropped again ({error.message}): drop them there before anything else."
    raise MetastoreError(
        f"the metastore at {metastore.uri} does not keep partition(s) {_shown(table, odd)} of {table.name}: {CAUSE}, or"
        f" use other values. {end}",
        table=str(table.name),
    )


def _identity(table: Table) -> tuple[int, list[str]]:
    return table.created_at_seconds, [column.name for column in table.partition_columns]


def _shown(table: Table, values: Collection[PartitionValues]) -> str:
    names = sorted(shown_name(table, one) for one in values)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more
