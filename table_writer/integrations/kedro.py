"""Kedro (the extra ``kedro``): the dataset of a Hive table, in place of ``spark.SparkHiveDataset``."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from pyspark.sql import DataFrame

from table_writer.checked import nearest
from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError, needs_extra
from table_writer.integrations.declared import OF_MERGE, OF_WRITE, declared_checks, kind_of, require_known, session
from table_writer.model.new_table import HIVE_OPTIONS, NewTable
from table_writer.model.table import TableName
from table_writer.writer import TableWriter

with needs_extra("kedro", "table_writer.integrations.kedro"):
    from kedro.io import AbstractDataset, DatasetError

NEW_ONLY: Final = ("error", "errorifexists")
WRITE_MODES: Final = ("append", *NEW_ONLY, "upsert", "overwrite", "overwrite_partitions")
OF_TABLE: Final = ("partitionBy", "format", "fileFormat", "path", "compression", "comment", "properties", "options")
IGNORED: Final = "eager_checkpoint"  # Kedro's upsert computes its rows twice without one; a merge computes them once
__all__ = ["HiveDataset"]


class HiveDataset(AbstractDataset[DataFrame, DataFrame]):
    """A Hive table whose readers see all old rows or all new rows of a save.

    It takes what ``spark.SparkHiveDataset`` takes, so that a catalog changes in its ``type`` alone. A table that does
    not exist is made by the first save.

    ========================  =============================================================================
    ``write_mode``            a save
    ========================  =============================================================================
    ``append``                adds rows
    ``errorifexists``         makes the table, or fails: nothing replaces rows; the default, also ``error``
    ``overwrite``             replaces the whole table
    ``overwrite_partitions``  replaces the partitions that there are rows for, or that ``where`` selects
    ``upsert``                replaces rows that have the key of a new one, and adds the others
    ========================  =============================================================================

    Without rows ``overwrite`` empties the table, ``overwrite_partitions`` what ``where`` selects; other saves change
    nothing. ``overwrite`` gives an unpartitioned table the columns of its rows; a partitioned one keeps its own, unless
    ``schema: evolve`` adds some. An ``upsert`` refuses rows that share a key, or have null in it.

    Parameters
    ----------
    database, table
        The name of the table.
    write_mode
        What a save does.
    table_pk
        The columns of the key, for ``upsert``.
    save_args
        ``partitionBy``, ``format``, ``fileFormat``, ``path``, ``compression`` and other options with which Spark would
        make the table, Parquet if they do not say; ``comment``, ``properties`` and ``options`` of
        :class:`~table_writer.NewTable`; and what :class:`~table_writer.WriteOptions` describes, of an upsert what
        ``TableWriter.merge`` takes, such as ``retries``. An item of ``checks`` is one of :mod:`table_writer.check` by
        name, ``not_null: id`` or ``in_range: {column: amount, min: 0}``, or the path of a check, of a function that
        takes the rows, or of a list of them: ``shop.quality.ORDERS``.
    metadata
        Anything; Kedro ignores it.

    Raises
    ------
    DatasetError
        A value cannot be used.

    Examples
    --------
    >>> orders = HiveDataset(database="mart", table="orders", write_mode="upsert", table_pk=["dt", "id"])
    """

    _SINGLE_PROCESS = True  # one Spark session: ThreadRunner, not ParallelRunner

    def __init__(
        self,
        *,
        database: str,
        table: str,
        write_mode: str = NEW_ONLY[1],
        table_pk: Sequence[str] | None = None,
        save_args: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if write_mode not in WRITE_MODES:
            raise DatasetError(
                f"write_mode={write_mode!r}{nearest(write_mode, WRITE_MODES) or ':'} expected one of"
                f" {', '.join(WRITE_MODES)}"
            )
        if write_mode == "upsert" and not table_pk:
            raise DatasetError("write_mode='upsert' needs table_pk, the columns of the key")
        self._write_mode = write_mode
        self._table_pk = [table_pk] if isinstance(table_pk, str) else list(table_pk or ())
        try:
            self._table = TableName.parse(f"{database}.{table}")
            self._name = str(self._table)
            self._read_save_args(dict(save_args or {}))
        except InvalidInputError as error:
            raise DatasetError(f"{database}.{table}: {error}") from error
        self.metadata = metadata

    def _read_save_args(self, save_args: dict[str, Any]) -> None:
        """Split what makes the table from what each save is asked for."""
        save_args.pop(IGNORED, None)
        of_call = OF_MERGE if self._write_mode == "upsert" else OF_WRITE
        table_args = {name: save_args.pop(name) for name in OF_TABLE if name in save_args}
        table_format = table_args.get("format") or "hive"
        known = of_call | set(OF_TABLE)
        takes_any = table_format not in ("hive", "parquet")  # a data source, whose options are its own
        of_format = [
            name
            for name in set(save_args) - known
            if name in HIVE_OPTIONS or "." in name or (takes_any and not nearest(name, known))
        ]
        options = {name: save_args.pop(name) for name in of_format} | dict(table_args.get("options") or {})
        require_known(save_args, known, "save_args")
        if "checks" in save_args:
            save_args["checks"] = declared_checks(save_args["checks"])
        if self._write_mode != "upsert":
            WriteOptions(**save_args)  # which refuses a value that cannot be used
        by = table_args.get("partitionBy") or ()
        self._options = save_args
        self._new_table = NewTable(
            partition_by=[by] if isinstance(by, str) else list(by),
            format=f"hive:{table_args.get('fileFormat') or 'parquet'}" if table_format == "hive" else table_format,
            location=table_args.get("path") or "",
            compression=table_args.get("compression") or "",
            comment=table_args.get("comment") or "",
            properties=table_args.get("properties") or {},
            options={name: _as_text(value) for name, value in options.items()},
        )

    def load(self) -> DataFrame:
        """Return the table's rows."""
        return session().table(self._table.sql)

    def save(self, data: DataFrame) -> None:
        """Publish the rows."""
        if not isinstance(data, DataFrame):
            raise DatasetError(f"{self._name} takes a Spark DataFrame, not a {kind_of(data)}")
        exists = self._exists()
        if exists:
            self._require_same_partitions()
        writer = TableWriter(data.sparkSession)
        if self._write_mode == "upsert":
            if not exists:
                self._require_key(data)
                writer.create_table(data, self._name, if_not_exists=True, **_as_keywords(self._new_table))
            result: Any = writer.merge(data, self._name, on=self._table_pk, **self._options)
        else:
            method = self._write_mode if self._write_mode in ("append", "overwrite_partitions") else "overwrite_table"
            options = {**self._usual_options(exists=exists), **self._options, "if_missing": self._new_table}
            result = getattr(writer, method)(data, self._name, **options)
        self._logger.info("%s", result.to_text())

    def _usual_options(self, *, exists: bool) -> dict[str, Any]:
        """Return what a save does where ``save_args`` do not say it."""
        if self._write_mode in ("append", "overwrite_partitions"):
            return {"if_empty": "replace" if self._options.get("where") else "ignore"}
        is_new = (
            not exists or session().table(self._table.sql).isEmpty()
        )  # a first save that failed leaves an empty table
        if self._write_mode in NEW_ONLY and not is_new:
            raise DatasetError(f"{self._name} exists, and write_mode={self._write_mode!r} replaces no rows")
        replaces_columns = exists and not self._partition_columns()
        return {"if_empty": "replace", **({"schema": "replace"} if replaces_columns else {})}

    def _partition_columns(self) -> list[str]:
        return [column.name for column in session().catalog.listColumns(self._table.sql) if column.isPartition]

    def _require_same_partitions(self) -> None:
        named, found = list(self._new_table.partition_by), self._partition_columns()
        if named and [name.lower() for name in named] != [name.lower() for name in found]:
            raise DatasetError(f"partitionBy is {named}, and {self._name} is partitioned by {found}: nothing was saved")

    def _require_key(self, data: DataFrame) -> None:
        missing = {name.lower() for name in self._table_pk} - {name.lower() for name in data.columns}
        if missing:
            raise DatasetError(f"table_pk of {self._name} has {sorted(missing)}, and its rows have {data.columns}")

    def _describe(self) -> dict[str, Any]:
        return {
            "database": self._table.database,
            "table": self._table.name,
            "write_mode": self._write_mode,
            "table_pk": self._table_pk,
            "partition_by": list(self._new_table.partition_by),
            "format": self._new_table.format,
        }

    def _exists(self) -> bool:
        return session().catalog.tableExists(self._table.sql)

    def __getstate__(self) -> NoReturn:
        raise pickle.PicklingError(f"{self._name}: a dataset of Spark stays in its process; use ThreadRunner")


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_keywords(table: NewTable) -> dict[str, Any]:
    return {name: getattr(table, name) for name in NewTable.__dataclass_fields__}
