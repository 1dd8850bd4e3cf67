"""A table as a pyarrow dataset: partitions pruned by the metastore's names, files fixed when it is made."""

from __future__ import annotations

import atexit
import gc
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from typing import Any, Final, NoReturn
from weakref import ref

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from table_writer.checked import checked
from table_writer.config import TableWriterConfig
from table_writer.errors import DamagedError, InvalidInputError
from table_writer.model.location import Location
from table_writer.model.table import Partition, PartitionValues, Table, TableName, shown_name
from table_writer.model.table_kind import provider_of, why_not_read
from table_writer.protocol.table.services import Services, nearest_names, require_table
from table_writer.read.types import Default, arrow_schema, existing_defaults
from table_writer.read.where import conditions_by_partition
from table_writer.storage.footers import names_of, other_spellings
from table_writer.storage.object_store import ObjectInfo, ObjectStore, many, visible_files

FORMATS: Final[Mapping[str, Callable[[], Any]]] = {
    # INT96 holds more years than nanoseconds do
    "parquet": lambda: ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")),
    "orc": ds.OrcFileFormat,
}
SERDES: Final = {"parquethiveserde": "parquet", "orcserde": "orc"}
WITHOUT_NAMES: Final = re.compile(r"_col\d+")  # ORC of Hive before 2.0

CHAR: Final = re.compile(r"(?<!var)char\(")
WRITTEN_BY_SPARK: Final = b"org.apache.spark.version"  # of a footer: CHAR was padded as it was written
LONGEST_WAIT_SECONDS: Final = 1.0  # at the end of the process, for scans that were not read to their end
SHORT_WAIT_SECONDS: Final = 0.1  # where no file is open: an expression or a traceback may hold what looks in use
_given: Final[list[ref[_OpenFile | _StoredFiles]]] = []  # to pyarrow; what has gone leaves it without Python's help

Found = Mapping[str, tuple[ObjectStore, ObjectInfo]]
"""Files by their URI."""


@checked
def read_arrow(
    table: str, where: Any = None, *, metastore_uri: str | None = None, config: TableWriterConfig | None = None
) -> Any:
    """Return a table as a pyarrow dataset, for pyarrow, pandas, Polars and DuckDB, without Spark.

    Each partition is whole, as for every reader that asks the metastore. Locations and files are those of the call, and
    later writes are not seen; rows are read when the dataset is. A file that was deleted or replaced by then is a
    ``StorageError``. The call reads the footers of all chosen files, sixteen at a time.

    Parameters
    ----------
    table
        ``database.table``, of Parquet or ORC, whoever writes it.
    where
        Which partitions, by their columns alone: filters in the form that pyarrow and pandas know, ``[("dt", ">=",
        "2024-01-01"), ("country", "in", ["de", "fr"])]``, or a list of such lists, of which one is to be true. They are
        decided as in Spark: NaN equals NaN and is above all numbers, and comparisons with null are not true, ``not in``
        neither. Or a ``pyarrow.compute.Expression``, which pyarrow decides: to it NaN equals nothing, and null is
        in no list, so that ``~field.isin(…)`` is true of it. It is no SQL, since no Spark is there to read it. Default:
        all partitions.
    metastore_uri, config
        As of :class:`~table_writer.Maintenance`.

    Returns
    -------
    pyarrow.dataset.Dataset
        The table's columns, then its partition columns, each of the table's type; a column that an older file lacks is
        its default, else null. A ``TIMESTAMP`` is in UTC; as a partition column, and in ORC, it has no zone: it is what
        the clock showed where it was written.

    Raises
    ------
    InvalidInputError
        There is no such table, its format or a type is not read without Spark, ``where`` cannot be decided, or pyarrow
        would find other rows in a file than Spark: the message names it.
    MetastoreError, StorageError
        Metastore or store failed.

    Examples
    --------
    One day as a pandas frame, ``docs/how-to/read-with-other-engines.md`` runs more::

        read_arrow("mart.orders", [("dt", "=", "2024-01-01")]).to_table().to_pandas()
    """
    services = Services.without_spark(metastore_uri, config or TableWriterConfig())
    try:
        return open_dataset(services, TableName.parse(table), where)
    finally:
        services.metastore.close()


def open_dataset(services: Services, name: TableName, where: Any = None) -> Any:
    """Return the dataset of a table's chosen partitions, as :func:`read_arrow` does."""
    known = services.metastore.get_table(name)
    meant = "" if known else nearest_names(services.metastore, name)
    table = require_table(known, name, services.metastore.uri, meant)
    format_name = _format_of(table)
    file_format = FORMATS[format_name]()
    schema = arrow_schema(table, has_instants=format_name == "parquet")
    guarantees = _conditions_by_partition(services, table, schema, where)
    partitions = services.metastore.get_partitions(table, list(guarantees))
    listed = many(partial(_files_of, services, table), partitions.values())
    found: Found = {uri: file for files in listed for uri, file in files.items()}
    handler = _StoredFiles(found)
    filesystem = pafs.PyFileSystem(handler)
    made = partial(file_format.make_fragment, filesystem=filesystem)
    data = pa.schema(list(schema)[: len(schema) - len(table.partition_columns)])
    defaults = existing_defaults(table)

    def readable(file: tuple[str, int, Any]) -> Any:
        uri, size_bytes, guarantee = file
        fragment = made(uri, partition_expression=guarantee, file_size=size_bytes)
        there = _require_readable(table, data, fragment)
        known = [
            _known_of(table, field, defaults[field.name], uri)
            for field in data
            if _has_default_only(there, defaults, field)
        ]
        if not known:
            return fragment
        return made(uri, partition_expression=reduce(and_, known, guarantee), file_size=size_bytes)

    files = [
        (uri, info.size_bytes, guarantees[values])
        for values, found_files in zip(partitions, listed, strict=True)
        for uri, (_, info) in found_files.items()
    ]
    fragments = many(readable, files)
    dataset = ds.FileSystemDataset(fragments, schema, file_format, filesystem)
    handler.dataset = ref(dataset)
    return dataset


def _format_of(table: Table) -> str:
    if reason := why_not_read(table):
        raise InvalidInputError(f"{table.name} {reason}", table=str(table.name))
    provider = provider_of(table)
    known = provider if provider != "hive" else SERDES.get(table.serde.rpartition(".")[2].lower(), "")
    if known not in FORMATS:
        raise InvalidInputError(
            f"{table.name} is stored as {table.serde if provider == 'hive' else provider}: without Spark only Parquet"
            " and ORC are read",
            table=str(table.name),
        )
    return known


def _conditions_by_partition(services: Services, table: Table, schema: Any, where: Any) -> dict[PartitionValues, Any]:
    """Return the partitions for which ``where`` is true, each with what is known of its rows."""
    columns = list(schema)[len(schema) - len(table.partition_columns) :]
    if not columns:
        if where is not None:
            raise InvalidInputError(
                f"{table.name} has no partitions to choose by where: filter the rows of the dataset",
                table=str(table.name),
            )
        return {(): pc.scalar(True)}  # the whole table
    return conditions_by_partition(table, columns, list(services.metastore.get_partition_names(table.name)), where)


def _files_of(services: Services, table: Table, partition: Partition) -> Found:
    location = Location.parse(partition.location)
    store = services.store_of(location)
    files = [file for file in visible_files(store, location.key) if file.size_bytes]  # to Spark, too, it has no rows
    if deeper := next((info.key for info in files if "/" in info.key.removeprefix(location.key)), None):
        raise InvalidInputError(
            f"{shown_name(table, partition.values)} of {table.name} has files in directories of its own, such as"
            f" {location.beside(deeper)}: Spark reads them, Hive and Trino do not. Read it with Spark, or write the"
            " partition again",
            table=str(table.name),
        )
    return {f"{location.scheme}://{location.bucket}/{info.key}": (store, info) for info in files}


def _has_default_only(there: Any, defaults: Mapping[str, Default], field: Any) -> bool:
    return field.name in defaults and field.name not in there.names


def _known_of(table: Table, field: Any, default: Default, uri: str) -> Any:
    """Return the condition that all rows of a file without a column meet: pyarrow fills the column by it."""
    try:
        value = default.value(field.type)
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        raise InvalidInputError(
            f"{uri} of {table.name} was written before column {field.name} was added, and Spark reads its default"
            f" there, {default.sql}: {error}. Read the table with Spark, or write the partition again",
            table=str(table.name),
        ) from error
    return pc.field(field.name).is_null() if value is None else pc.field(field.name) == value


def _require_readable(table: Table, wanted: Any, fragment: Any) -> Any:
    """Return the schema of a file; refuse one that pyarrow would read as other rows than Spark.

    It finds columns by exact names only.
    """
    try:
        there = fragment.physical_schema
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(
            f"{fragment.path} of {table.name} cannot be read as the table's format: {error}", table=str(table.name)
        ) from error
    if len(there) and all(WITHOUT_NAMES.fullmatch(name) for name in there.names):
        raise InvalidInputError(
            f"{fragment.path} of {table.name} names its columns _col0, _col1, …: only Spark and Hive read it, which go"
            " by their order. Write the partition again",
            table=str(table.name),
        )
    blanks = [column.name for column in table.columns if CHAR.search(column.type.lower())]
    if blanks and fragment.format.default_extname == "parquet" and WRITTEN_BY_SPARK not in (there.metadata or {}):
        raise InvalidInputError(
            f"{fragment.path} of {table.name} was not written by Spark: column {blanks[0]} is a CHAR, which Spark pads"
            " with blanks as it reads, and pyarrow does not. Read it with Spark, or write the partition again",
            table=str(table.name),
        )
    if found := next(other_spellings(names_of(wanted), names_of(there)), None):
        raise InvalidInputError(
            f"{fragment.path} of {table.name} spells column {'.'.join(found[0])} as {' and '.join(found[1])}: Spark and"
            " Hive find it all the same, pyarrow goes by exact names. Write the partition again",
            table=str(table.name),
        )
    return there


def _wait_for_readers() -> None:
    """Let pyarrow's threads drop what they hold of ours: one that does so while Python ends aborts the process."""
    if not _given:
        return
    gc.collect()
    began = time.monotonic()
    while time.monotonic() - began < max((given.wait_seconds() for given in _alive()), default=0.0):
        time.sleep(0.005)
    time.sleep(0.005)  # what has dropped the last one may not have ended its call


def _alive() -> Iterator[_OpenFile | _StoredFiles]:
    return (given for held in list(_given) if (given := held()) is not None)


atexit.register(_wait_for_readers)


def _give(given: _OpenFile | _StoredFiles) -> None:
    # The callback is a method of C. One in Python could let another thread run before it has ended: this one would then
    # want to go on while Python ends.
    _given.append(ref(given, _given.remove))


@dataclass(eq=False)
class _OpenFile:
    """A file as pyarrow reads it: each read is one request for a range, of exactly the file that was listed."""

    store: ObjectStore
    info: ObjectInfo
    position: int = 0
    closed: bool = False

    def __post_init__(self) -> None:
        _give(self)

    def wait_seconds(self) -> float:
        return LONGEST_WAIT_SECONDS

    def read(self, size: int = -1) -> bytes:
        body = self.store.read_range(self.info, self.position, self.info.size_bytes if size < 0 else size)
        self.position += len(body)
        return body

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset + (0, self.position, self.info.size_bytes)[whence]
        return self.position

    def tell(self) -> int:
        return self.position

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class _StoredFiles(pafs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """Exactly the files of one dataset, through the project's stores: their credentials, retries and errors."""

    def __init__(self, files: Found) -> None:
        self._files = files
        self.dataset: ref[Any] | None = None
        _give(self)

    def wait_seconds(self) -> float:
        """Return for how long the end of the process waits: not at all if the dataset holds it until then."""
        is_held = self.dataset is not None and self.dataset() is not None
        return 0.0 if is_held else SHORT_WAIT_SECONDS

    def get_type_name(self) -> str:
        return "table_writer"

    def normalize_path(self, path: str) -> str:
        return path

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(_OpenFile(*self._files[path]), mode="r")

    open_input_stream = open_input_file

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        return [pafs.FileInfo(path, pafs.FileType.File, size=self._files[path][1].size_bytes) for path in paths]

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("a dataset of a table is read only")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
