"""A metastore as the protocol needs it: Hive's, or AWS Glue."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from table_writer.errors import InvalidInputError, LostResponseError, MetastoreError, counted, few
from table_writer.metastore.hive_objects import WHOLE_TABLE
from table_writer.model.column_figures import ColumnFigures
from table_writer.model.table import (
    NULL_PARTITION,
    Partition,
    PartitionChange,
    PartitionValues,
    Table,
    TableName,
    shown_name,
)

SHOWN: Final = 3
HONOURED_FROM: Final = (2, 3, 10)  # HIVE-26882; Hive 3 lacks it all the same
LACKING: Final = (3,)

CAUSE: Final = (
    "the character set or the collation of the metastore's own database cannot keep them (MySQL and MariaDB with Hive's"
    " latin1 schema keep ? for what they do not know). Let that database store UTF-8 (utf8mb4, with a binary collation)"
)


def nothing() -> None:
    """Do nothing."""


class Metastore(Protocol):
    """The calls that table_writer makes to a metastore; nothing here retries a call that changes something.

    Reads raise :class:`~table_writer.errors.MetastoreError`. A changing call has three outcomes:

    * it returns: done;
    * it raises a ``MetastoreError``: the call is over. It changed nothing, with one exception: a metastore whose own
      listener fails *after* the commit answers with an error as well. Reading back decides that for good;
    * it raises a ``LostResponseError``: unknown, and the server may still be about to apply it.

    Locations are returned as full URIs ending in ``/``, spelled as the metastore stores them (``file:/tmp/x/`` for
    ``file:///tmp/x/``): compare them by :class:`~table_writer.model.location.Location`. Given ones may end in ``/``.

    **A table without partition columns is its own single partition, of values** ``()``. It is read and altered as a
    partition is, by the same methods: its location and parameters are the table's. It exists as long as the table does
    and can be neither added nor dropped.
    """

    @property
    def uri(self) -> str:
        """The address used, for messages; no credentials."""

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""

    def server_version(self) -> str:
        """Return the version of the metastore as far as it can be told without a change, else the empty string.

        A version number, from a single digit (``"3"``) to what a distribution calls its own (``"3.1.3000.7.2"``). Of
        Hive 2.3, ``"2.3.10"`` is the last release and ``"2.3"`` any before it. From it follows whether
        ``alter_table`` honours ``expected_parameter_key``: 2.3.10 and 4 do, earlier 2.3 and 3 ignore it silently.
        """

    def stated_version(self) -> str:
        """Return the version that the server states, in one read: up to Hive 3.1.3 ``"3.0"``, whatever it is."""

    def why_immovable(self, table: Table) -> str:
        """Say why the server would refuse to move an unpartitioned table within its root; empty if it would not."""

    def why_types_stay(self) -> str:
        """Say why no column may get another type than the one at its position has now; empty if one may."""

    def replicated_as(self, table: Table) -> str:
        """Return the policies by which Hive replicates the table's database to other clusters; empty if it does not."""

    def try_values(self, table: Table, location: str, values: Sequence[str]) -> None:
        """Add partitions of these values at a location, to a new external table beside that one, which is then dropped.

        ``MetastoreError``: the metastore's database does not keep them or their difference, or the table could not be
        made or dropped.
        """

    def why_partial(self, table: Table) -> str:
        """Say why an answer about a table, or a list, may leave out what is there; empty where it is known not to.

        A catalog that knows permissions shows each role what it may see, and says nothing of the rest.
        """

    def why_unproven(self, table: Table) -> str:
        """Say why a table may have columns that it was read without; empty where nothing speaks for that. No call."""

    def switches_at_once(self, table: Table) -> bool:
        """Return whether one call moves all partitions of a table, or none; what may be relied on where it does not.

        ``True`` of every table in Hive, and of unpartitioned ones in AWS Glue. Else ``add_partitions`` and
        ``alter_partitions`` send several calls, and each applies some of its partitions or all. What was applied stays.
        A ``LostResponseError`` is raised also where some were, and the others were refused. After a
        ``PartitionMissingError`` nothing was changed, and nothing is on its way.
        """

    def call_counts(self) -> Mapping[str, int]:
        """Return how many calls were sent so far, by Thrift method or Glue's operation."""

    def get_table(self, name: TableName) -> Table | None:
        """Return the table, ``None`` when there is none."""

    def add_table(self, table: Table) -> bool:
        """Make an external table, without partitions so far; ``False`` and no change if one of its name is there."""

    def remove_table(self, name: TableName) -> None:
        """Drop a table and leave its data; one that does not exist is no error."""

    def get_databases(self) -> Sequence[str]:
        """Return the names of all databases, in one call."""

    def get_tables(self, database: str) -> Iterable[Table]:
        """Read all tables and views of a database, in chunks as they are used; none when there is no such database."""

    def get_partition_names(self, name: TableName) -> Sequence[PartitionValues]:
        """Return the values of all partitions, decoded from Hive's escaped names; ``[()]`` of an unpartitioned table.

        If there are no names, a second call asks whether the table is there. ``MetastoreError`` also: a name has lost
        characters of its values, so that the partition cannot be asked for.
        """

    def get_partitions(self, table: Table, values: Sequence[PartitionValues]) -> Mapping[PartitionValues, Partition]:
        """Read partitions by value, 250 a call; those that do not exist are absent from the answer.

        Of an unpartitioned table ``()`` is the table, freshly read. Raises ``MetastoreError`` also if the answer has
        other values than were asked for, since the metastore's database cannot keep these; or if nothing is there, and
        the table is gone or another one than ``table``.
        """

    def get_all_partitions(self, table: Table) -> Mapping[PartitionValues, Partition]:
        """Read all partitions, their names first; one that vanishes in between is absent, a new one may be as well.

        What is not in the answer may be deleted. So it is of exactly this table, which is read again at last, and of
        every name that is listed; else ``MetastoreError``. An unpartitioned table is read in one call.
        """

    def add_partitions(
        self, table: Table, partitions: Sequence[Partition], *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Add all partitions with the table's columns and SerDe in ONE call, or none (:meth:`switches_at_once`).

        ``before_send`` runs when nothing more can delay the request; what it raises keeps the request from being sent.
        Parameters should hold ``numFiles`` and ``totalSize``: without both, a metastore lists each location. Values
        that are not ASCII are read back, since not every metastore's database keeps them.

        ``InvalidInputError``: a partition appears twice, its values do not fit the table's partition columns, or there
        are none. ``PartitionExistsError``: one of them exists; nothing changed unless the server applied an earlier
        attempt of its own. ``MetastoreError`` also: values were stored as others; the partitions were dropped again.
        """

    def alter_partitions(
        self, table: Table, changes: Sequence[PartitionChange], *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Apply all changes in ONE call, or none (:meth:`switches_at_once`).

        What was read is written back whole, so partitions must be freshly read. Only one that this process itself has
        just added may be given as it was added: there is nothing in it that the caller does not know.

        For an unpartitioned table the one change is a compare-and-set as far as the server has it: on
        ``table_writer.write_id``, or on ``transient_lastDdlTime`` while there is no write_id or it stays the same.
        Servers that ignore this (see :meth:`server_version`) let the later of two win. Columns of the change replace
        the table's in the same call, unless :meth:`why_types_stay` says why they cannot. Spark's placeholder for a
        location stays, and only the SerDe parameter ``path`` moves.

        ``InvalidInputError``: a partition appears twice, or its values do not fit the table's partition columns.
        Nothing changed after a ``PartitionMissingError``, nor where a ``MetastoreError`` says that an unpartitioned
        table was changed since it was read, or is gone.
        """

    def drop_partition(
        self, table: Table, values: PartitionValues, *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Drop one partition from the metastore, leaving its data; one that does not exist is no error."""

    def keeps_statistics(self, table: Table) -> bool:
        """Return whether :meth:`set_statistics` does anything."""

    def differing_statistics(
        self, table: Table, expected: Mapping[PartitionValues, Mapping[str, ColumnFigures]]
    ) -> Sequence[PartitionValues]:
        """Return those of some partitions that have column statistics, and other ones than these figures make.

        With no figures expected: those that have any. Reads 250 partitions a call. One that has none is not returned.
        """

    def set_statistics(
        self,
        table: Table,
        figures: Mapping[PartitionValues, Mapping[str, ColumnFigures]],
        *,
        before_send: Callable[[], None] = nothing,
    ) -> None:
        """Set the column statistics of partitions in ONE call; those of columns without figures stay.

        A server that ends in the middle has set those of some partitions. It also adds the parameter
        ``COLUMN_STATS_ACCURATE`` to each.
        """

    def drop_statistics(
        self, table: Table, values: Sequence[PartitionValues], *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Remove all column statistics of some partitions, a call each; one that has none, or is gone, is no error."""


def validate_values(table: Table, values: Sequence[PartitionValues]) -> None:
    """Refuse values that do not fit the table's partition columns."""
    for partition in values:
        if len(partition) != len(table.partition_columns):
            names = ", ".join(column.name for column in table.partition_columns) or "none"
            raise InvalidInputError(f"{partition} does not fit the partition columns of {table.name}: {names}")


def validate_additions(table: Table, partitions: Sequence[Partition]) -> None:
    """Refuse also duplicates and values that the metastore would spell in another way."""
    values = [partition.values for partition in partitions]
    validate_drops(table, values)
    _refuse_duplicates(table, values)
    if not all(map(all, values)):
        raise InvalidInputError(f"an empty partition value for {table.name}: Hive spells it {NULL_PARTITION}")


def validate_changes(table: Table, changes: Sequence[PartitionChange]) -> None:
    """Refuse what does not fit, and duplicates: of two changes to one partition a server applies either."""
    values = [change.partition.values for change in changes]
    validate_values(table, values)
    _refuse_duplicates(table, values)


def validate_drops(table: Table, values: Sequence[PartitionValues]) -> None:
    """Refuse values that do not fit, and the one partition that an unpartitioned table is."""
    validate_values(table, values)
    if values and not table.partition_columns:
        raise InvalidInputError(
            f"{table.name} has no partition columns: it is its own only partition, which can neither be added nor"
            " dropped; alter it instead, to a location without files if it shall have no rows",
            table=str(table.name),
        )


def _refuse_duplicates(table: Table, values: Sequence[PartitionValues]) -> None:
    twice = next((partition for partition, count in Counter(values).items() if count > 1), None)
    if twice is not None:
        raise InvalidInputError(f"partition {twice} of {table.name} appears twice in one call")


def compares_and_sets(version: str) -> bool:
    """Return whether a server of this version compares a parameter of a table before it sets it.

    Examples
    --------
    >>> [compares_and_sets(version) for version in ("2.3", "2.3.10", "3.1.3000.7.2", "4.0.1", "")]
    [False, True, False, True, False]
    """
    parts = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return parts >= HONOURED_FROM and parts[0] not in LACKING


class OtherValuesError(MetastoreError):
    """Values are stored as others."""


def read_all(metastore: Metastore, table: Table) -> Mapping[PartitionValues, Partition]:
    """Read all partitions of exactly this table: what is not among them is not there, or ``MetastoreError``.

    A partition that was listed and then not found is believed to be gone only if a second list does not have it. At
    last the table is read again: the answers may be those of another one of its name.
    """
    names = metastore.get_partition_names(table.name) if table.partition_columns else [WHOLE_TABLE]
    found = metastore.get_partitions(table, names)
    missing = set(names) - found.keys()
    still_there = missing.intersection(metastore.get_partition_names(table.name)) if missing else ()
    if still_there:
        raise MetastoreError(
            f"the metastore at {metastore.uri} lists {counted(len(still_there), 'partition')} of {table.name} that it"
            f" does not return: {_shown_names(table, still_there)}. Nothing is decided by such an answer; run it again,"
            " and look into the metastore's log if it happens again.",
            table=str(table.name),
        )
    if table.partition_columns:  # else the answer was the table itself, and get_partitions has compared it
        require_same(table, metastore.get_table(table.name), metastore.uri)
    return found


def require_same(asked: Table, now: Table | None, uri: str) -> Table:
    """Return the table; refuse answers about one that is not, or not any more, the one that was asked about."""
    there = require_there(asked.name, now, uri)
    if _identity(asked) != _identity(there):
        raise MetastoreError(
            f"{asked.name} was dropped and made again in the metastore at {uri} since it was read: nothing is decided"
            " by answers of another table. Run it again.",
            table=str(asked.name),
        )
    shown = frozenset(there.shown_names if asked.columns_by == there.columns_by else asked.shown_names)
    if hidden := [name for name in asked.shown_names if name not in shown]:  # what was read may be written back whole
        raise MetastoreError(
            f"{asked.name} was read from the metastore at {uri} with {few(hidden)}, and then without: it shows a role"
            " what it may see, or one of the answers is old, or somebody has just altered the table. Run it again.",
            table=str(asked.name),
        )
    return there


def require_there(name: TableName, now: Table | None, uri: str) -> Table:
    """Return the table; refuse an empty answer about one that is gone."""
    if now is None:
        raise MetastoreError(
            f"there is no table {name} in the metastore at {uri}; what it says of its partitions counts nothing",
            table=str(name),
        )
    return require_named(name, now, uri)


def require_named(asked: TableName, answered: Table, uri: str, of: str = "") -> Table:
    """Return the table; refuse one of another name or, as ``of`` says, of another catalog: that was not asked for.

    A resource link of Lake Formation answers so. A change that takes its names from such an answer would be made to the
    caller's own table of that name.
    """
    name = answered.name
    if of or (name.database.lower(), name.name.lower()) != (asked.database, asked.name):
        raise InvalidInputError(
            f"the metastore at {uri} was asked for {asked}, and answered {of or name}: {asked} is a link to that table,"
            " or its database is one (a resource link of Lake Formation). A link has no log of its own. Nothing was"
            " changed. Name the table that it points to, and its catalog: GlueSettings(catalog_id=…), or"
            " glue://REGION/CATALOG_ID.",
            table=str(asked),
        )
    return answered


def scratch_name(table: Table) -> TableName:
    """Return a name beside a table's that nobody else uses."""
    return TableName(table.name.database, f"table_writer_scratch_{secrets.token_hex(8)}")


def require_whole(name: TableName, listed: Sequence[str], uri: str) -> None:
    """Refuse names with a ?, which Hive writes as ``%3F``: it stands for a character that was lost."""
    lost = [text for text in listed if "?" in text]
    if lost:
        raise OtherValuesError(
            f"the metastore at {uri} lists {counted(len(lost), 'partition')} of {name} with ? for characters that were"
            f" lost, first {lost[0]!r}: {CAUSE}, and let such partitions be dropped and added again.",
            table=str(name),
        )


def require_asked(
    table: Table, asked: Collection[PartitionValues], answered: Mapping[PartitionValues, Partition], uri: str
) -> None:
    """Refuse partitions that were not asked for, since those that were are stored under other values; or elsewhere."""
    others = set(answered) - set(asked)
    if misplaced := [
        values for values, partition in answered.items() if _is_misplaced(table, values, partition.location)
    ]:
        raise OtherValuesError(
            f"the metastore at {uri} keeps the location of {_shown_names(table, misplaced)} of {table.name} with ? in"
            f" it: {CAUSE}, or use other values.",
            table=str(table.name),
        )
    if others:
        lacking = set(asked) - set(answered)
        raise OtherValuesError(
            f"the metastore at {uri} was asked for {_shown_names(table, lacking)} of {table.name}, and answered"
            f" {_shown_names(table, others)}: {CAUSE}, or use other values.",
            table=str(table.name),
        )


def _is_misplaced(table: Table, values: PartitionValues, location: str) -> bool:
    """Return whether a location has lost characters of its partition's values: no tool leaves a ? of its own there."""
    return not "".join(values).isascii() and "?" in location.removeprefix(table.location)


def require_kept(
    metastore: Metastore, table: Table, added: Sequence[Partition], drop: Callable[[Sequence[PartitionValues]], None]
) -> None:
    """Read back what was just added under values that not every database keeps, and drop all again if one is lost.

    ``drop`` gives the names as they were added, which the database loses once more, and so finds. Hive's own
    ``drop_partition`` compares what it finds with what it was asked for, and refuses.

    ``MetastoreError``: one is stored under other values; nothing is changed, unless the message says that the drop
    failed as well. ``LostResponseError``: it could not be read back; all that was added is there.
    """
    odd = [partition.values for partition in added if not all(text.isascii() for text in partition.values)]
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
        drop([partition.values for partition in added])
    except MetastoreError as error:
        end = f"They could not be dropped again ({error.message}): drop them there before anything else."
    raise MetastoreError(
        f"the metastore at {metastore.uri} does not keep {_shown_names(table, odd)} of {table.name}: {CAUSE}, or"
        f" use other values. {end}",
        table=str(table.name),
    )


def _identity(table: Table) -> tuple[int, list[str]]:
    return table.created_at_seconds, [column.name for column in table.partition_columns]


def _shown_names(table: Table, values: Collection[PartitionValues]) -> str:
    names = sorted(shown_name(table, partition) for partition in values)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more
