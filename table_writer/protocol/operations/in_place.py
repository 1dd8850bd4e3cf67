"""An append in place: its files come to where readers look already, each by itself, after the switch.

Here alone it is planned, copied, and looked at by a recovery; the log counts its files (``log/state.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from table_writer.errors import InvalidInputError, StorageError, counted, few
from table_writer.model.entry import AddedFile, EntryPartition, LogEntry
from table_writer.model.location import Location, Place
from table_writer.model.table import PartitionsNow, PartitionValues, Table, name_in, shown_name
from table_writer.model.write import TableLayout, WrittenFiles
from table_writer.protocol.log.history import History
from table_writer.protocol.log.rules import PartitionState
from table_writer.protocol.operations.append import require_as_staged
from table_writer.protocol.operations.entry import NotThereError, require_not_fewer
from table_writer.storage.object_store import ObjectInfo, ObjectStore, is_hidden, many
from table_writer.storage.table_files import COPY_THREADS, why_not_copied

MOST_NAMED: Final = 20  # files, in an error


@dataclass
class InPlace:
    """The partitions to whose locations a write adds its files, and these files; none unless its plan says so.

    ``read_all`` reads all partitions of the table: one that the write does not name may look at the same files. It is
    called once a publish, if any partition stays. ``copies`` are those of the write's :class:`CarryOver`: where a
    partition was at a placeholder before, they lie beside its new files.
    """

    store: ObjectStore
    staged: WrittenFiles
    read_all: Callable[[Table], PartitionsNow]
    copies: Collection[str]
    files: Mapping[str, ObjectInfo] = field(default_factory=dict, init=False)
    """The write's own, by their keys, as they were listed last."""
    _others: PartitionsNow | None = field(default=None, init=False)

    def partitions_to_grow(self, table: Table, now: PartitionsNow) -> PartitionsNow:
        """Return the partitions to whose location files are added, having looked whether all files are there.

        A partition at a placeholder moves, as in every append: files there would stand in the way of its drop. Raises
        ``InvalidInputError`` if files of the table cannot be put beside those of a partition, or would show in another
        one too, and ``StorageError`` if the write's files are not as they were written.
        """
        plan = self.staged.plan
        if not plan.in_place:
            return {}
        to_grow = {
            values: partition
            for values, partition in now.items()
            if not plan.layout.is_placeholder(Location.parse(partition.location))
        }
        readers = self._readers(table, now) if to_grow else {}
        for values, partition in to_grow.items():
            location = Location.parse(partition.location)
            in_reach = plan.layout.root.contains(location)
            outside = "" if in_reach else "lies outside the table's directory"
            reason = why_not_copied(plan.layout, partition) or partition.narrower or outside
            others = [name for name in _readers_of(location, readers) if name != values]
            if others:
                reason = f"shares {location} with another partition, {shown_name(plan.table, min(others))}"
            if reason:
                copied = "" if in_reach and not partition.narrower else ", or append with carry='copy'"
                raise InvalidInputError(
                    f"{shown_name(plan.table, values)} of {plan.table.name} {reason}: files cannot be added to it."
                    f" Nothing was published. Replace it with {plan.table.overwrite_call}, with its rows and the new"
                    f" ones{copied}.",
                    **plan.named,
                )
        if to_grow:
            self.files = require_as_staged(self.store, self.staged)
            self._refuse_strays(to_grow)
        return to_grow

    def _readers(self, table: Table, now: PartitionsNow) -> dict[Place, list[PartitionValues]]:
        """Return which partitions are at each place, those that the write does not name too."""
        if self._others is None:
            self._others = self.read_all(table) if table.partition_columns else {}
        readers: dict[Place, list[PartitionValues]] = {}
        for values, partition in ({**self._others, **now}).items():
            location = Location.parse_any(partition.location)
            if location is not None:
                readers.setdefault(location.place, []).append(values)
        return readers

    def _refuse_strays(self, to_grow: Collection[PartitionValues]) -> None:
        """Refuse files that nobody has written where those lie that are to be added, as a late executor's would."""
        plan = self.staged.plan
        own = [partition for partition in self.staged.partitions if plan.spelled(partition.values) in to_grow]
        directories = tuple(plan.data_location.child(name_in(plan.table, partition.values)).key for partition in own)
        strays = {key for key in self.files if key.startswith(directories)}
        strays -= {key for partition in own for key in partition.keys} | set(self.copies)
        if strays:
            raise StorageError(
                f"the files of write {plan.write_id} are not exactly those that were written:"
                f" {counted(len(strays), 'file')} more, for example {min(strays)}. Nothing was published. Run it"
                " again.",
                **plan.named,
            )

    def with_added_files(self, draft: LogEntry, to_grow: PartitionsNow) -> LogEntry:
        """Return the draft with these partitions where they are, and with what is added to them: no copy of others'."""
        own = {self.staged.plan.spelled(partition.values): partition.keys for partition in self.staged.partitions}
        named = (
            self._grown_partition(partition, own[partition.values], to_grow[partition.values].location)
            if partition.values in to_grow
            else partition
            for partition in draft.partitions
        )
        return replace(draft, partitions=tuple(named))

    def _grown_partition(self, drafted: EntryPartition, keys: Iterable[str], location: str) -> EntryPartition:
        prefix = Location.parse(str(drafted.new_location)).key
        sizes = {key.removeprefix(prefix): self.files[key].size_bytes for key in keys}
        added = tuple(AddedFile(name=name, size_bytes=size) for name, size in sorted(sizes.items()))
        # others may have put files beside those that nobody has counted: of columns nothing is known
        return replace(drafted, new_location=location, source=drafted.new_location, added=added, figures="")

    def sources(self, partitions: Collection[EntryPartition]) -> tuple[Location, ...]:
        """Return where the files lie that are copied: one directory if all partitions stay where they are."""
        found = tuple(Location.parse(partition.source) for partition in partitions if partition.source is not None)
        return (self.staged.plan.data_location,) if found and len(found) == len(partitions) else found


def _readers_of(location: Location, readers: Mapping[Place, list[PartitionValues]]) -> Iterator[PartitionValues]:
    """Yield the partitions whose readers see what lies at a location: those that are there, or at a directory around.

    Readers list what is below a location too, and pass over what is hidden.
    """
    store, bucket, key = location.place
    segments = key.split("/")[:-1]
    for depth in range(len(segments), -1, -1):
        around = "".join(f"{segment}/" for segment in segments[:depth])
        yield from readers.get((store, bucket, around), ())
        if depth and is_hidden(segments[depth - 1]):
            return


def add_files(
    store: ObjectStore,
    partitions: Collection[EntryPartition],
    files: Mapping[str, ObjectInfo] | None = None,
    *,
    before_send: Callable[[], object],
) -> None:
    """Copy what appends in place add; twice is as good as once: source, name and bytes are the same.

    ``files`` are the sources as they were listed before the claim, by whoever sends the first copies. By default they
    are listed now, and what is there already is not copied again. ``before_send`` may raise before each request: one
    that leaves after the claim can come to where another tool has put its own rows since. Raises ``StorageError`` if
    not all could be copied.
    """
    sources = {target: key for partition in partitions for target, key in partition.sources().items()}
    if files is None:
        sources = {target: sources[target] for target in missing_files(store, partitions)}
        files = listed_sources(store, partitions) if sources else {}
    gone = sorted(key for key in sources.values() if key not in files)
    if gone:
        raise StorageError(f"{counted(len(gone), 'file')} to be added are gone, for example {gone[0]}.")
    known = files

    def copy(target: str) -> None:
        store.copy(known[sources[target]], target, before_send=before_send)

    many(copy, sources, COPY_THREADS)


def missing_files(store: ObjectStore, partitions: Iterable[EntryPartition]) -> dict[str, int]:
    """Return which files of appends in place are not where readers look yet, by key with their sizes."""
    wanted = {key: size for partition in partitions for key, size in partition.targets().items()}
    found = dict(zip(wanted, many(store.head, wanted, COPY_THREADS), strict=True))
    return {key: size for key, size in wanted.items() if (one := found[key]) is None or one.size_bytes != size}


def listed_sources(store: ObjectStore, partitions: Iterable[EntryPartition]) -> dict[str, ObjectInfo]:
    """List the files that appends in place copy, as far as they are there with the size that the entry names."""
    wanted = [partition for partition in partitions if partition.source is not None]
    sizes = {key: partition.targets()[target] for partition in wanted for target, key in partition.sources().items()}
    prefixes = [Location.parse(str(partition.source)).key for partition in wanted]
    found = (info for infos in many(lambda prefix: list(store.list(prefix)), prefixes) for info in infos)
    return {info.key: info for info in found if sizes.get(info.key) == info.size_bytes}


def whole_partitions(store: ObjectStore, partitions: Iterable[EntryPartition]) -> frozenset[PartitionValues]:
    """Return the partitions to which an append in place has added all of its files."""
    in_place = [partition for partition in partitions if partition.added]
    missing = missing_files(store, in_place).keys()
    return frozenset(partition.values for partition in in_place if missing.isdisjoint(partition.targets()))


def require_files(store: ObjectStore, layout: TableLayout, partition: EntryPartition) -> EntryPartition:
    """Return a partition whose files are all there, those to be added in either place; or ``NotThereError``."""
    if not partition.added:
        return require_not_fewer(store, layout, partition)
    missing, sources = missing_files(store, [partition]), partition.sources()
    gone = missing and {sources[key] for key in missing} - listed_sources(store, [partition]).keys()
    if gone:
        raise NotThereError(f"{counted(len(gone), 'file')} to be added are gone, for example {min(gone)}")
    return partition


def half_added_error(
    store: ObjectStore,
    entry: LogEntry,
    claimed: LogEntry,
    found: Mapping[PartitionValues, PartitionState],
    in_the_way: Mapping[PartitionValues, str],
) -> StorageError | None:
    """Return the error of an append in place that readers see a part of, and that cannot be finished.

    No outcome is true of it: its rows are neither all there nor nowhere. A partition that has all of them is done,
    and can be on record as such beside others that are given up.
    """
    grown = (partition for partition in claimed.partitions if partition.added)
    partitions = [partition for partition in grown if found[partition.values] is not PartitionState.SUPERSEDED]
    missing = missing_files(store, partitions)
    visible = sorted({key for partition in partitions for key in partition.targets()} - missing.keys())
    sources = {target: key for partition in partitions for target, key in partition.sources().items()}
    gone = sorted({sources[key] for key in missing} - listed_sources(store, partitions).keys())
    undone = (partition for partition in partitions if found[partition.values] is not PartitionState.DONE)
    is_partly_there = any(not missing.keys() >= partition.targets().keys() for partition in undone)
    if not (visible and gone) and not is_partly_there:
        return None
    if gone:
        reason = f"{counted(len(gone), 'file')} that it was to add are gone ({few(gone, most=MOST_NAMED)})"
        way = "Bring the lost files back, from older versions of the bucket's objects or a backup"
    else:
        reason, way = (f"it cannot be finished: {min(in_the_way.values())}", "Put back what is missing or has changed")
    name = entry.table
    return StorageError(
        f"version {entry.version} of {name}, an append in place, is half there: readers see"
        f" {counted(len(visible), 'file')} of it ({few(visible, most=MOST_NAMED)}), and {reason}. It stays in"
        f" doubt. {way}; or delete those that readers see, and write its rows again afterwards. Then run"
        f" `table-writer recover {name}`.",
        **entry.named,
    )


def copied_partitions(
    store: ObjectStore, history: History, entry: LogEntry, read_again: Callable[[], History]
) -> dict[PartitionValues, bool | None]:
    """Return of each append in place of an entry whether it has added files; ``None`` if its location is deleted since.

    ``read_again`` reads the log once files were looked for: a vacuum that has deleted some of them is in it by then.
    """
    in_place = [partition for partition in entry.partitions if partition.added]
    missing = missing_files(store, in_place)
    history = read_again() if in_place else history
    return {partition.values: _is_copied(history, partition, missing) for partition in in_place}


def _is_copied(history: History, partition: EntryPartition, missing: Collection[str]) -> bool | None:
    place = Location.parse(str(partition.new_location)).place
    if any(key not in missing for key in partition.targets()):
        return True
    return None if place in history.state.deleted_places or place in history.state.doomed_places else False
