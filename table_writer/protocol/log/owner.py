"""The owner of a root: the first write records to which table the files belong, and every later call compares."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Final

from table_writer.errors import DamagedError, InvalidInputError, MetastoreError, StorageError, counted, few
from table_writer.metastore.protocol import Metastore
from table_writer.model.location import Location
from table_writer.model.table import ROOT_PARAMETER, Partition, Table
from table_writer.model.write import TableLayout
from table_writer.protocol.log.stored import READABLE_BYTES, small_json
from table_writer.storage.object_store import ObjectStore, StoredObject
from table_writer.storage.proof import require_proven
from table_writer.storage.table_files import files_read_at

OWNER_FORMAT = 1
logger = logging.getLogger(__name__)
SUCCEEDED: Final = "x"  # in an id of a log, after the id that it had before; elsewhere ids are hexadecimal
MOST_NAMES_BYTES: Final = READABLE_BYTES // 2  # the names of some 2,000 columns


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """A table as its own files know it: a name, and when the metastore says it was created.

    The metastore's address is kept for people only: one metastore has many addresses, and a copied metastore differs
    from its original in no field. A table that was dropped and created again differs in ``created_at_seconds``.
    """

    database: str
    name: str
    created_at_seconds: int
    metastore: str
    log_id: str = ""  # the log's id: a log that was deleted and begun again has another
    columns: tuple[str, ...] = ()  # names that the metastore has shown, with Spark's own schema; none in older files
    lost_logs: tuple[str, ...] = ()  # ids of logs that a person goes on without, though partitions name them
    columns_by: str = ""  # the write that gave the table these in place of others: only then they can be missed

    @classmethod
    def of(cls, table: Table, metastore_uri: str) -> Owner:
        """Describe a table."""
        return cls(
            database=table.name.database,
            name=table.name.name,
            created_at_seconds=table.created_at_seconds,
            metastore=metastore_uri,
            columns=table.shown_names,
            columns_by=table.columns_by,
        )

    @property
    def identity(self) -> tuple[str, str, int]:
        """The fields by which tables are compared."""
        return (self.database, self.name, self.created_at_seconds)

    def hidden_columns(self, shown: Owner) -> tuple[str, ...]:
        """Return the columns that the metastore has shown before, and does not show now."""
        names = frozenset(shown.columns if self.columns_by == shown.columns_by else self.columns)
        return tuple(name for name in self.columns if name not in names)

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """The columns that are stored: none of a table that has too many."""
        return self.columns if len(json.dumps(self.columns)) <= MOST_NAMES_BYTES else ()

    def to_json(self) -> bytes:
        """Return what is stored."""
        usual = {"columns_by", "lost_logs"}
        fields = {name: value for name, value in asdict(self).items() if value or name not in usual}
        return json.dumps({"format": OWNER_FORMAT, **fields, "columns": self.kept_columns}).encode()

    @classmethod
    def from_json(cls, body: bytes, where: str) -> Owner:
        """Read and validate."""
        try:
            stored = small_json(body)
            if stored.pop("format") != OWNER_FORMAT:
                raise InvalidInputError(f"{where} has an unknown format: upgrade table_writer to read it")
            texts = {name: tuple(map(str, stored.get(name, ()))) for name in ("columns", "lost_logs")}
            return cls(**{**stored, **texts})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise DamagedError(
                f"{where} cannot be read: {error}. Put it back from an older version of the object; or, if the files"
                " are this table's, run `table-writer adopt TABLE`, which writes it anew and keeps the log"
            ) from error


def take_root(
    store: ObjectStore, layout: TableLayout, owner: Owner, *, first_write: Callable[[], None] = lambda: None
) -> str:
    """Make sure that the files below the root are this table's; returns the id of its log.

    The first write also tries what some stores do not do, silently: of conditional puts that race one wins, and
    listings are in order. It also makes the checks of ``first_write``, once in a table's life. Raises
    ``InvalidInputError`` if another table's files are there, or the store does not do so.
    """
    stored = store.get(layout.owner_key)
    if stored is None:
        first_write()
        store.delete([layout.checkpoint_key])  # a checkpoint of a log that somebody has deleted
        require_proven(store, layout.own)
        store.put_if_absent(layout.owner_key, replace(owner, log_id=_begin_log(store, layout)).to_json())
        stored = store.get(layout.owner_key)
    holder = _refuse_other(store, stored, layout, owner)
    if holder.identity != owner.identity:
        store.put(layout.owner_key, replace(owner, log_id=holder.log_id, lost_logs=holder.lost_logs).to_json())
    else:
        note_columns(store, layout, holder, owner)
    return holder.log_id


def note_columns(store: ObjectStore, layout: TableLayout, holder: Owner, owner: Owner) -> None:
    """Write down which columns the metastore shows, if there are more than before, or others: one request then."""
    is_known = frozenset(owner.kept_columns) <= frozenset(holder.columns) and owner.columns_by == holder.columns_by
    if not is_known:
        store.put(layout.owner_key, replace(holder, columns=owner.columns, columns_by=owner.columns_by).to_json())


def adopt_root(store: ObjectStore, layout: TableLayout, owner: Owner, lost_logs: Collection[str] = ()) -> None:
    """Declare that the files below the root, and the log, are this table's, whosever they were.

    It goes on without the ``lost_logs``, which partitions name. From then on it has another id, beside the one that its
    entries have: it may have lost its newest entries; and the other log, if it is there, may have been told the same of
    this one, and must not take what is published from now on for that.
    """
    found = readable_owner(store, layout)
    log_id, before = found_log_id(store, layout), frozenset(found.lost_logs if found else ())
    lost = before.union(lost_logs)
    if not log_id or lost != before:
        log_id = _begin_log(store, layout, after=log_id)
    store.put(layout.owner_key, replace(owner, log_id=log_id, lost_logs=tuple(sorted(lost))).to_json())


def readable_owner(store: ObjectStore, layout: TableLayout) -> Owner | None:
    """Return whose the files below the root are, ``None`` if nothing that can be read says so."""
    stored = store.get(layout.owner_key)
    try:
        return Owner.from_json(stored.body, layout.owner_key) if stored else None
    except InvalidInputError as damaged:  # to adopt is to put it right
        logger.warning("%s", damaged)
        return None


def present_ids(store: ObjectStore, layout: TableLayout) -> list[str]:
    """Return the ids of the log that is there, by its marks: none if there is no log, or it has lost them."""
    prefix = f"{layout.log_prefix}id-"
    return [found.key.removeprefix(prefix) for found in store.list(prefix)]


def found_log_id(store: ObjectStore, layout: TableLayout) -> str:
    """Return the id of the log that is there, as ``owner.json`` says, unless marks deny that; empty: none is.

    An earlier ``owner.json`` that was put back names an id that the log had before.
    """
    owner, present = readable_owner(store, layout), present_ids(store, layout)
    named = owner.log_id if owner else ""
    successors = [log_id for log_id in present if precedes(named, log_id)]
    return named if not successors and (named in present or not present) else max(successors or present)


def _begin_log(store: ObjectStore, layout: TableLayout, after: str = "") -> str:
    """Return the id of the log that is there, else of a new one; from now on every listing shows it.

    ``after`` is the id that the log had until now. The new one begins with it, and sorts behind it: so the marks alone
    tell which is the present one.
    """
    present = max(present_ids(store, layout), default="")
    log_id = f"{after}{SUCCEEDED}{secrets.token_hex(4)}" if after else present or secrets.token_hex(8)
    store.put(f"{layout.log_prefix}id-{log_id}", b"")
    return log_id


def precedes(earlier: str, later: str) -> bool:
    """Return whether a log had the one id before a person went on without some log, and the other since then."""
    return earlier != "" and later.startswith(f"{earlier}{SUCCEEDED}")


def require_owner(
    store: ObjectStore,
    layout: TableLayout,
    owner: Owner,
    *,
    complete: Callable[[], None] = lambda: None,
    notes_columns: bool = False,
) -> str:
    """Return the id of the table's log, empty if there is none yet; refuse files of another table.

    So is an answer of the metastore that lacks columns which it has shown before. ``complete`` refuses one that may be
    the first to lack some; ``notes_columns`` writes new ones down.
    """
    stored = store.get(layout.owner_key)
    holder = _refuse_other(store, stored, layout, owner)
    if stored is not None and not (holder.columns and holder.columns_by == owner.columns_by):
        complete()
    if stored is not None and notes_columns and holder.identity == owner.identity:
        note_columns(store, layout, holder, owner)
    return holder.log_id


def require_columns(holder: Owner, shown: Owner) -> None:
    """Refuse an answer without columns that the table had: what is written back by it would drop them for everybody.

    A table that was made again may have others.
    """
    hidden_columns = holder.hidden_columns(shown)
    if hidden_columns and holder.identity == shown.identity:
        table = f"{shown.database}.{shown.name}"
        raise InvalidInputError(
            f"the metastore at {shown.metastore} does not show {counted(len(hidden_columns), 'column')} that it has"
            f" shown of {table}: {few(hidden_columns)}. It shows a role what it may see (Lake Formation), or the answer"
            " is old; a write would take them from everybody. Nothing was changed. Use a role that sees all columns. Or"
            " if the metastore was put back from a backup: add these columns to the table. Or"
            f" if they were dropped on purpose: `table-writer adopt {table} --accept-loss`.",
            table=table,
        )


def is_of_earlier_table(store: ObjectStore, layout: TableLayout, owner: Owner) -> bool:
    """Return whether the files belonged to an earlier table of this very name, and may be taken over.

    Raises ``InvalidInputError`` if another table's files are there.
    """
    stored = store.get(layout.owner_key)
    found = Owner.from_json(stored.body, layout.owner_key) if stored else owner
    if (found.database, found.name) != (owner.database, owner.name):
        _refuse_other(store, stored, layout, owner)
    require_columns(found, owner)
    return found.identity != owner.identity


def _is_unwritten(store: ObjectStore, layout: TableLayout, holder: Owner, owner: Owner) -> bool:
    """Return whether an earlier table of this name was dropped before a publish: then there is nothing to adopt.

    Its log must be there, and nothing else: one that somebody has deleted says nothing, and a write may be staged. A
    write of the earlier table that is still on its way is refused as ever.
    """
    created, is_same_name = holder.created_at_seconds, holder.identity[:2] == owner.identity[:2]
    if not (is_same_name and isinstance(created, int) and created < owner.created_at_seconds):  # what is stored is JSON
        return False
    keys = {info.key for info in islice(store.list(layout.own.key), 3)}
    return keys == {layout.owner_key, f"{layout.log_prefix}id-{holder.log_id}"}


def _refuse_other(store: ObjectStore, stored: StoredObject | None, layout: TableLayout, owner: Owner) -> Owner:
    table = f"{owner.database}.{owner.name}"
    where = f"{layout.own}owner.json"
    holder = Owner.from_json(stored.body, where) if stored else owner
    if holder.identity != owner.identity and not _is_unwritten(store, layout, holder, owner):
        raise InvalidInputError(
            f"{where} belongs to {holder.database}.{holder.name} created at {holder.created_at_seconds}"
            f" (seen at {holder.metastore}), not to {table} created at {owner.created_at_seconds}: the table was"
            " dropped and created again, renamed, or another metastore uses the same files. If it is the same data,"
            " adopt it:"
            f" `table-writer adopt {table}` or TableWriter(spark).adopt({table!r}) keeps the log. If the metastore was"
            f" lost, `table-writer restore {table}` adds the partitions. If not, reset it: once nothing reads the old"
            f" table, delete {layout.own}owner.json, checkpoint.json and log/ beside it, which forgets its history.",
            table=table,
        )
    require_columns(holder, owner)
    return holder


def places_of(table: Table) -> tuple[Location, ...]:
    """Return the directories that a table names, each once; none of a view."""
    named = () if "VIEW" in table.kind else (table.root, table.location, table.hive_location)
    found = (Location.parse_any(text) for text in dict.fromkeys(named) if text)
    return tuple(location for location in found if location is not None)


def other_tables(metastore: Metastore, table: Table) -> Iterator[Table]:
    """Read all other tables of all databases: 1 call, and for each database 1 and 1 for every 100 tables.

    Raises ``MetastoreError`` also when the answer lacks the table itself: then others may be missing as well.
    """
    itself = False
    for database in metastore.get_databases():
        for other in metastore.get_tables(database):
            if other.name == table.name:
                itself = True
            else:
                yield other
    if not itself:
        raise MetastoreError(
            f"the metastore at {metastore.uri} does not list {table.name} among its tables: which other tables there"
            " are is not known",
            table=str(table.name),
        )


def refuse_nested_roots(store: ObjectStore, layout: TableLayout, table: Table, others: Iterable[Table]) -> None:
    """Refuse, at the first write, a root inside another table's root or around one: a clean-up would meet its files."""
    for other in others:
        for theirs in places_of(other) if other.name != table.name else ():
            if theirs.contains(layout.root) or layout.root.contains(theirs):
                raise InvalidInputError(
                    f"the locations of {table.name} ({layout.root}) and {other.name} ({theirs}) contain each other;"
                    " move one of the tables",
                    table=str(table.name),
                )
    segments = layout.root.key.split("/")[:-2]
    for depth in range(len(segments), 0, -1):
        above = layout.root.beside("/".join(segments[:depth]) + "/")
        if _is_root(store, TableLayout(above, layout.directory_name)):
            raise InvalidInputError(
                f"{layout.root} lies inside {above}, which is another table's root; move one of the tables",
                table=str(table.name),
            )


def _is_root(store: ObjectStore, layout: TableLayout) -> bool:
    try:
        return store.head(layout.owner_key) is not None
    except StorageError as error:  # a policy may allow this table's prefix and nothing above it
        logger.info("cannot look whether %s is a table root: %s", layout.root, error)
        return False


def is_moved(layout: TableLayout, table: Table) -> bool:
    """Return whether a published, unpartitioned table is outside its root, or at two places at once. No I/O."""
    if table.partition_columns or ROOT_PARAMETER not in table.parameters:
        return False
    return _is_split(table) or not layout.root.contains(Location.parse(table.location))


def home_of(store: ObjectStore, layout: TableLayout, table: Table) -> TableLayout:
    """Return the layout below the first place the table names where a log lies; as given if there is none."""
    named = (TableLayout(place, layout.directory_name) for place in places_of(table))
    return next((home for home in named if store.head(home.owner_key) is not None), layout)


def require_in_place(store: ObjectStore, layout: TableLayout, table: Table) -> None:
    """Refuse a table whose location is neither the log's nor holds its files; no request where its locations agree."""
    name = table.name
    if is_moved(layout, table):
        raise InvalidInputError(
            f"{name} is at {_places(table)}, and its log and its rows are below {layout.root}: another tool has renamed"
            " or moved it (ALTER TABLE ... RENAME TO or SET LOCATION), and a write would build on what is there now."
            f" Nothing was changed. Adopt it: `table-writer adopt {name}` or TableWriter(spark).adopt({str(name)!r})"
            " points readers at its rows again, unless somebody has written elsewhere since. To go on with what is"
            f" there now: ALTER TABLE {name.sql} UNSET TBLPROPERTIES ('{ROOT_PARAMETER}'), which begins a new log"
            f" there and leaves {layout.root} to you.",
            table=str(name),
        )
    if table.hive_location and _is_split(table) and _is_at_hives(store, layout, table):
        raise InvalidInputError(
            f"{name} is at {_places(table)}, and its files are where Hive looks: Hive has renamed or moved it, and the"
            f" SerDe parameter path, where Spark looks, has stayed. Nothing was changed. ALTER TABLE {name.sql} SET"
            f" LOCATION '{table.hive_location.rstrip('/')}' in Spark puts both there.",
            table=str(name),
        )


def refuse_left_log(layout: TableLayout, table: Table, partitions: Iterable[Partition]) -> None:
    """Refuse to begin a log where partitions say that the table has one elsewhere."""
    for location in filter(None, (Location.parse_any(partition.location) for partition in partitions)):
        before, found, _ = f"/{location.key}".partition(f"/{layout.directory_name}/")
        if found and not layout.own.contains(location):
            left = location.beside(f"{before.removeprefix('/')}/".removeprefix("/"))
            raise InvalidInputError(
                f"{table.name} is at {layout.root}, which has no log, and its partitions are below {left}, which this"
                f" library has written: another tool has moved the table (SET LOCATION). ALTER TABLE {table.name.sql}"
                f" SET LOCATION '{str(left).rstrip('/')}' brings it back to its log. `table-writer adopt {table.name}`"
                " begins a new log here instead; nothing deletes the files there then.",
                table=str(table.name),
            )


def refuse_immovable(metastore: Metastore, table: Table) -> None:
    """Refuse, at the first write, an unpartitioned table that the metastore would not point at new rows."""
    reason = "" if table.partition_columns else metastore.why_immovable(table)
    if reason:
        raise InvalidInputError(
            f"the metastore at {metastore.uri} would refuse to point {table.name} at new rows below {table.root}:"
            f" {reason}. Nothing was written. Before the first write, ALTER TABLE {table.name.sql} SET LOCATION to"
            " where"
            " Hive lets it move (its files do not come along), or partition the table: partitions may lie anywhere."
            " Or let the server's administrator unset metastore.warehouse.external.dir, or set"
            " metastore.metadata.transformer.class to a blank.",
            table=str(table.name),
        )


def _is_at_hives(store: ObjectStore, layout: TableLayout, table: Table) -> bool:
    """Return whether the log is where only Hive looks, or, of an unpartitioned table without a log, all files are."""
    hives = TableLayout(Location.parse(table.hive_location), layout.directory_name)
    if store.head(layout.owner_key) is not None:
        return False
    if store.head(hives.owner_key) is not None:
        return True
    seen = (any(files_read_at(store, files_layout, files_layout.root)) for files_layout in (hives, layout))
    return not table.partition_columns and list(seen) == [True, False]


def _is_split(table: Table) -> bool:
    hives = Location.parse(table.hive_location or table.location)
    return not hives.same_place(Location.parse(table.location))


def _places(table: Table) -> str:
    return f"{table.location} (for Hive at {table.hive_location})" if table.hive_location else table.location
