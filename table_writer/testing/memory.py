"""A store and a metastore in memory: unit tests of jobs without Spark, Java and servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from table_writer.checked import checked
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.maintenance import Maintenance
from table_writer.model.table import Column, Table, TableName
from table_writer.model.table_kind import as_parquet
from table_writer.protocol.table.services import Services
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.memory_store import MemoryStore

if TYPE_CHECKING:
    import pyarrow as pa

    from table_writer.arrow.writer import ArrowWriter

WAREHOUSE: Final = "s3a://memory/warehouse"


@checked
class MemoryLakehouse:
    """Tables in memory that :class:`~table_writer.ArrowWriter` writes, as they would be on S3 and in a metastore.

    The writer, its log, conflicts, recovery and vacuum are the real ones. Store and metastore are doubles, which this
    library's own tests compare with the real services, call by call. Spark is not at work, so what takes Spark is
    tested with :func:`lakehouse`.

    Attributes
    ----------
    store
        Holds all objects. ``store.on_call`` is called as ``on_call(operation, phase, key)`` around each request, with
        the phase ``"before"`` or ``"after"``: raise an error there, and the request fails, or its answer is lost.
    metastore
        Holds all tables. ``metastore.on_call`` is called as ``on_call(method, phase)``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> lake = MemoryLakehouse()
    >>> lake.create_table("mart.orders", {"id": "bigint", "dt": "string"}, partition_by=["dt"])
    >>> rows = pa.table({"id": [1, 2], "dt": ["2024-01-01", "2024-01-02"]})
    >>> lake.writer().overwrite_partitions(rows, "mart.orders").rows
    2
    >>> lake.rows("mart.orders").num_rows
    2
    """

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.metastore = MemoryMetastore()

    def create_table(self, table: str, columns: Mapping[str, str], *, partition_by: Sequence[str] = ()) -> None:
        """Make a Parquet table.

        Parameters
        ----------
        table
            ``database.table``.
        columns
            Types by name, as in SQL: ``{"id": "bigint", "tags": "array<string>"}``. As in Hive, names are kept in lower
            case.
        partition_by
            Those of the columns that it is partitioned by.

        Raises
        ------
        InvalidInputError
            It is there already, a type is none, or the names do not make a table.
        """
        from table_writer.read.types import arrow_schema  # noqa: PLC0415  # as below

        name = TableName.parse(table)
        kinds = {column.lower(): kind for column, kind in columns.items()}
        by = [column.lower() for column in partition_by]
        unknown = [column for column in by if column not in kinds]
        if unknown:
            raise InvalidInputError(f"partition_by={list(partition_by)}: {table} has no column {unknown[0]!r}")
        if len(kinds) < len(columns) or len(set(by)) < len(by):
            raise InvalidInputError(f"{table}: a column is named twice; upper and lower case are the same name")
        if not kinds.keys() - set(by):
            raise InvalidInputError(f"{table} has no column beside {by}: a table has one that it is not partitioned by")
        if self.metastore.get_table(name) is not None:
            raise InvalidInputError(f"there is a table {table} already")
        plain = Table(
            name=name,
            kind="EXTERNAL_TABLE",
            location=f"{WAREHOUSE}/{name.database}.db/{name.name}",
            columns=tuple(Column(column, kind) for column, kind in kinds.items() if column not in by),
            partition_columns=tuple(Column(column, kinds[column]) for column in by),
            parameters={"EXTERNAL": "TRUE"},
        )
        made = as_parquet(plain)
        arrow_schema(made)  # refuses a type that nobody could read
        self.metastore.create_table(made)

    def services(self, config: TableWriterConfig | None = None) -> Services:
        """Return what ``ArrowWriter(services=…)`` and ``Maintenance(services=…)`` take."""
        return Services(
            SessionSettings(hadoop={"hive.metastore.uris": "thrift://memory:9083"}),
            config or TableWriterConfig(progress="off"),
            open_metastore=lambda _: self.metastore,
            open_object_store=lambda _: self.store,
        )

    def writer(self, config: TableWriterConfig | None = None) -> ArrowWriter:
        """Return a writer of its tables."""
        from table_writer.arrow.writer import ArrowWriter  # noqa: PLC0415  # it takes pyarrow, which is slow to import

        return ArrowWriter(services=self.services(config))

    @property
    def maintenance(self) -> Maintenance:
        """History, rollback, vacuum and the rest, of its tables."""
        return Maintenance(services=self.services())

    def rows(self, table: str, where: Any = None) -> pa.Table:
        """Return the rows that readers see, as :func:`~table_writer.read_arrow` reads them."""
        from table_writer.read.dataset import open_dataset  # noqa: PLC0415  # as above

        return open_dataset(self.services(), TableName.parse(table), where).to_table()
