"""The catalog in which readers find the mirror: it names the metadata that is the newest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Final, Protocol

from pyiceberg.catalog import Catalog as ForeignCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, TableUpdate, update_table_metadata

from table_writer.errors import MetastoreError, MissingExtraError, TableWriterError
from table_writer.metastore.hive_objects import METADATA_LOCATION, TableChangedError
from table_writer.metastore.protocol import Metastore, compares_and_sets
from table_writer.metastore.settings import GLUE_SCHEME
from table_writer.mirrors.iceberg.columns import hive_columns
from table_writer.mirrors.iceberg.files import MetadataFiles
from table_writer.model.table import Partition, PartitionChange, Table, TableName

KIND: Final = "table_type"
PREVIOUS: Final = "previous_metadata_location"
INPUT: Final = "org.apache.hadoop.mapred.FileInputFormat"  # as Iceberg's own clients describe what only they can read
OUTPUT: Final = "org.apache.hadoop.mapred.FileOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


class Catalog(Protocol):
    """What names the newest metadata of one table."""

    def find(self) -> str | None:
        """Return where the newest metadata is; ``None`` if there is no such table, empty if it is no Iceberg table."""

    def add(self, metadata: TableMetadata) -> str | None:
        """Make the table; return where its metadata is, ``None`` if there is one of its name."""

    def commit(
        self, known: str, before: TableMetadata, updates: tuple[TableUpdate, ...]
    ) -> tuple[str, TableMetadata] | None:
        """Let readers see updates of metadata, if it is still the newest; return what they find then."""

    def replace(self, known: str, metadata: TableMetadata) -> str | None:
        """Let readers see other metadata in place of what is known to be the newest."""

    def remove(self) -> None:
        """Drop the table, and leave all files."""

    def why_unguarded(self) -> str:
        """Say why a change may be put over one that was faster; empty where it is refused."""


class OwnCatalog:
    """The metastore of the table itself, by this library's own gateway: Hive's, or AWS Glue."""

    def __init__(self, metastore: Metastore, name: TableName, files: MetadataFiles) -> None:
        self._metastore = metastore
        self._name = name
        self._files = files

    def find(self) -> str | None:
        """Read the table: one call."""
        table = self._metastore.get_table(self._name)
        return None if table is None else _metadata_location(table)

    def add(self, metadata: TableMetadata) -> str | None:
        """Write the metadata, then make the table."""
        location = self._files.write(metadata, number=0)
        table = Table(
            name=self._name,
            kind="EXTERNAL_TABLE",
            location=metadata.location,
            columns=hive_columns(metadata.schema()),
            partition_columns=(),
            parameters=_parameters(metadata, location),
            input_format=INPUT,
            output_format=OUTPUT,
            serde=SERDE,
        )
        return location if self._metastore.add_table(table) else None

    def commit(
        self, known: str, before: TableMetadata, updates: tuple[TableUpdate, ...]
    ) -> tuple[str, TableMetadata] | None:
        """Let the table name metadata with these updates, if nobody was faster."""
        metadata = update_table_metadata(before, updates, metadata_location=known)
        location = self.replace(known, metadata)
        return None if location is None else (location, metadata)

    def replace(self, known: str, metadata: TableMetadata) -> str | None:
        """Write the metadata, then let the table name it."""
        table = self._metastore.get_table(self._name)
        if table is None or _metadata_location(table) != known:
            return None
        location = self._files.write(metadata, number=self._files.number_of(known) + 1)
        columns = hive_columns(metadata.schema())
        partition = Partition(values=(), location=table.location, parameters=table.parameters, native=table.native)
        change = PartitionChange(
            partition=partition,
            location=metadata.location,
            set_parameters={**_parameters(metadata, location), PREVIOUS: known},
            columns=None if columns == table.columns else columns,
        )
        try:
            self._metastore.alter_partitions(table, [change])
        except TableChangedError:
            return None
        return location

    def remove(self) -> None:
        """Drop the table; files stay."""
        self._metastore.remove_table(self._name)

    def why_unguarded(self) -> str:
        """Ask which version the server is of."""
        uri = self._metastore.uri
        if uri.startswith(GLUE_SCHEME) or compares_and_sets(self._metastore.server_version()):
            return ""
        return (
            f"the metastore at {uri} compares nothing before it changes a table (Hive 2.3.10 and 4 do), so an older"
            " snapshot could be put over one of another engine"
        )


class PyIcebergCatalog:
    """A catalog that pyiceberg knows by a name of the user's."""

    def __init__(self, catalog: str, name: TableName, files: MetadataFiles, *, needed: str) -> None:
        with _foreign_errors(catalog):
            self._catalog: ForeignCatalog = load_catalog(catalog)
        if needed:
            _require_library(catalog, self._catalog, needed)
        self._name = catalog
        self._identifier = (name.database, name.name)
        self._files = files

    def find(self) -> str | None:
        """Read the table: one call."""
        with _foreign_errors(self._name):
            try:
                return str(self._catalog.load_table(self._identifier).metadata_location)
            except NoSuchTableError:
                return None

    def add(self, metadata: TableMetadata) -> str | None:
        """Write the metadata, then make the table."""
        location = self._files.write(metadata, number=0)
        with _foreign_errors(self._name):
            self._catalog.create_namespace_if_not_exists(self._identifier[:1])
            try:
                return str(self._catalog.register_table(self._identifier, location).metadata_location)
            except TableAlreadyExistsError:
                return None

    def commit(
        self, known: str, before: TableMetadata, updates: tuple[TableUpdate, ...]
    ) -> tuple[str, TableMetadata] | None:
        """Let the table name metadata with these updates, if nobody was faster."""
        with _foreign_errors(self._name):
            return self._commit(known, before, updates)

    def _commit(
        self, known: str, before: TableMetadata, updates: tuple[TableUpdate, ...]
    ) -> tuple[str, TableMetadata] | None:
        table = self._catalog.load_table(self._identifier)
        if table.metadata_location != known:
            return None
        requirements = (
            AssertTableUUID(uuid=before.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": before.current_snapshot_id}),
        )
        try:
            answer = self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException:
            return None
        return str(answer.metadata_location), answer.metadata

    def replace(self, known: str, metadata: TableMetadata) -> str | None:
        """Write the metadata, then let the table name it."""
        if self.find() != known:
            return None
        self.remove()
        return self.add(metadata)

    def why_unguarded(self) -> str:
        """Return nothing: each kind of catalog compares, or locks."""
        return ""

    def remove(self) -> None:
        """Drop the table; files stay."""
        with _foreign_errors(self._name), suppress(NoSuchTableError):
            self._catalog.drop_table(self._identifier)


def _require_library(name: str, catalog: ForeignCatalog, needed: str) -> None:
    """Refuse a catalog that would fail once it reads the first metadata: all but REST read them in this process."""
    from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415 - seldom used

    if not isinstance(catalog, RestCatalog) and find_spec(needed) is None:
        raise MissingExtraError(
            f"the Iceberg catalog {name!r} reads this table's files by {needed}: pip install {needed}"
        )


@contextmanager
def _foreign_errors(catalog: str) -> Iterator[None]:
    """Say of whatever a catalog's own libraries raise which catalog it was."""
    try:
        yield
    except TableWriterError:
        raise
    except Exception as error:  # each kind of catalog has errors of its own libraries
        raise MetastoreError(f"the Iceberg catalog {catalog!r} fails: {type(error).__name__}: {error}") from error


def _metadata_location(table: Table) -> str:
    is_iceberg = table.parameters.get(KIND, "").upper() == "ICEBERG"
    return table.parameters.get(METADATA_LOCATION, "") if is_iceberg else ""


def _parameters(metadata: TableMetadata, location: str) -> dict[str, str]:
    """Return the parameters by which Iceberg's clients know the table; the server deletes no file of it."""
    kept = {KIND: "ICEBERG", METADATA_LOCATION: location, "uuid": str(metadata.table_uuid)}
    return {**kept, "EXTERNAL": "TRUE", "external.table.purge": "false", "gc.enabled": "false"}
