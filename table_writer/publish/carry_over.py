"""An append's other half: the files that partitions hold already, copied by the store beside the new ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from table_writer.errors import ConflictError, InvalidInputError, StorageError
from table_writer.log.files import files_read_at, why_not_copied
from table_writer.model.location import Location
from table_writer.model.partition_name import shown_name
from table_writer.model.table import Partition, PartitionValues
from table_writer.model.write import StagedFiles, TableLayout, WritePlan
from table_writer.publish.as_staged import require_as_staged
from table_writer.publish.switch import PartitionsNow
from table_writer.storage import SourceChangedError
from table_writer.storage.object_store import ObjectInfo, ObjectStore

__all__ = ["Carried", "CarryOver", "Copies", "CopyFiles", "Hold"]

logger = logging.getLogger(__name__)

LIST_THREADS: Final = 16
MOST_ATTEMPTS: Final = 20  # of copying files that others replace meanwhile

Copies = Mapping[str, ObjectInfo]
"""Files to copy: the new key, and the file as it was listed."""

CopyFiles = Callable[[Copies], None]
"""Makes all copies, or raises."""

Hold = Callable[[], None]
"""Raises when this process may not go on: another may have taken over what it was doing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """The files of one partition that an append brings along; rows are known where this library wrote them all."""

    files: int = 0
    bytes: int = 0
    rows: int | None = 0
    raw_bytes: int | None = 0


@dataclass
class CarryOver:
    """Copies what readers see of a write's partitions below the write's own prefix, no byte through this process.

    Parameters
    ----------
    store, copy_files
        Where the files are, and who copies them.
    staged
        The new files.
    hold
        For a staged write, which others may publish too: asked before each change to its files; raises once it is
        another's turn. ``None`` for a write that nobody else knows of.
    """

    store: ObjectStore
    copy_files: CopyFiles
    staged: StagedFiles
    hold: Hold | None = None
    carried: dict[PartitionValues, Carried] = field(default_factory=dict, init=False)
    _copied: dict[str, ObjectInfo] = field(default_factory=dict, init=False)
    _attempts: int = field(default=0, init=False)

    @property
    def plan(self) -> WritePlan:
        """The write's."""
        return self.staged.plan

    def bring(self, now: PartitionsNow, targets: Mapping[PartitionValues, str]) -> bool:
        """Copy all files of these partitions that are not copied yet; remove copies of what is not there any more.

        ``targets`` says where readers will look for each: the metastore may spell a partition otherwise than Spark.
        Returns whether anything changed: then time has passed, and the caller looks again before it claims.

        Raises
        ------
        InvalidInputError
            A partition's files cannot be read by the table's description, lie in another bucket, or are too many bytes.
        ConflictError
            They change faster than they are copied.
        """
        wanted = self._wanted(now, targets)
        missing = {key: source for key, source in wanted.items() if self._copied.get(key) != source}
        surplus = [key for key in self._copied if key not in wanted]
        if not missing and not surplus:
            self._require_exactly(wanted)
            return False
        self._require_attempt()
        logger.info(
            "write_id=%s copies %d files with %d bytes", self.plan.write_id, len(missing), _bytes(missing.values())
        )
        self._delete(surplus)
        self._copied = {key: source for key, source in self._copied.items() if key in wanted and key not in missing}
        try:
            self._still_ours()
            self.copy_files(missing)
        except SourceChangedError as changed:
            logger.warning("write_id=%s lists again: %s", self.plan.write_id, changed)
            self._delete(list(missing))  # some were copied before one was found changed
            return True
        self._copied.update(missing)
        return True

    def _delete(self, keys: Sequence[str]) -> None:
        self._still_ours()
        self.store.delete(keys)

    def _still_ours(self) -> None:
        if self.hold is not None:
            self.hold()

    def _require_exactly(self, wanted: Copies) -> None:
        """Refuse to publish when the write's prefix holds anything but the new files and the copies.

        An executor that was given up can finish a copy late; and a staged write has lain there for anybody to reach.
        """
        if not wanted and not self._attempts and self.hold is None:
            return
        expected = {key: source.size_bytes for key, source in wanted.items()}
        found = require_as_staged(self.store, self.staged)
        wrong = {key for key, _ in found.items() ^ expected.items()}
        if wrong:
            raise StorageError(
                f"{len(wrong)} file(s) below {self.plan.data_location} are not what was copied or written, for example"
                f" {min(wrong)}; nothing was published. Run it again.",
                table=str(self.plan.table.name),
                write_id=self.plan.write_id,
            )

    def _wanted(self, now: PartitionsNow, targets: Mapping[PartitionValues, str]) -> dict[str, ObjectInfo]:
        with ThreadPoolExecutor(LIST_THREADS, thread_name_prefix="list") as pool:
            files = pool.map(lambda one: self._files_of(one, Location.parse(targets[one.values])), now.values())
            listed = dict(zip(now, files, strict=True))
        limit, size = self.plan.max_copied_bytes, sum(_bytes(files.values()) for files in listed.values())
        if limit is not None and size > limit:
            raise InvalidInputError(
                f"the append would copy {size:,} bytes that {len(listed)} partition(s) of {self.plan.table.name} hold"
                f" already, above max_copied_bytes={limit:,}. Nothing was published. Partition the table more finely,"
                " so that an append touches less; or replace the partitions with overwrite_partitions; or raise"
                " max_copied_bytes.",
                table=str(self.plan.table.name),
                write_id=self.plan.write_id,
            )
        layout = self.plan.layout
        self.carried = {values: _described(now[values], files.values(), layout) for values, files in listed.items()}
        return {key: source for files in listed.values() for key, source in files.items()}

    def _files_of(self, partition: Partition, target: Location) -> dict[str, ObjectInfo]:
        """List what readers of a partition see, by the key of each file's copy."""
        location = Location.parse(partition.location)
        if self.plan.layout.is_placeholder(location):
            return {}
        self._require_readable(partition)
        return {
            f"{target.key}{found.key.removeprefix(location.key)}": found
            for found in files_read_at(self.store, self.plan.layout, location)
        }

    def _require_readable(self, partition: Partition) -> None:
        name = shown_name(self.plan.table, partition.values)
        reason = why_not_copied(self.plan.layout, partition)
        if reason:
            raise InvalidInputError(
                f"{name} of {self.plan.table.name} {reason}: its files cannot be put beside new ones. Nothing was"
                " published. Replace it with overwrite_partitions, with its rows and the new ones.",
                table=str(self.plan.table.name),
                write_id=self.plan.write_id,
            )

    def _require_attempt(self) -> None:
        self._attempts += 1
        if self._attempts > MOST_ATTEMPTS:
            raise ConflictError(
                f"files of {self.plan.table.name} changed {MOST_ATTEMPTS} times while write {self.plan.write_id} copied"
                " them: others write to the same partitions without pause. Nothing was published; run it again later.",
                table=str(self.plan.table.name),
                write_id=self.plan.write_id,
            )


def _bytes(files: Iterable[ObjectInfo]) -> int:
    return sum(found.size_bytes for found in files)


def _described(partition: Partition, files: Collection[ObjectInfo], layout: TableLayout) -> Carried:
    """Take rows from the partition's parameters only where they describe these very files."""
    size_bytes = _bytes(files)
    given = partition.parameters
    ours = layout.write_id_of(Location.parse(partition.location)) is not None
    if not files:
        return Carried()
    exact = ours and (given.get("numFiles"), given.get("totalSize")) == (str(len(files)), str(size_bytes))
    return Carried(
        files=len(files),
        bytes=size_bytes,
        rows=_figure(given.get("numRows")) if exact else None,
        raw_bytes=_figure(given.get("rawDataSize")) if exact else None,
    )


def _figure(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
