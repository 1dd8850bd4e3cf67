"""Tables and their twins: what this library lets Spark make, beside what Spark makes by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.new_table import NewTable
from table_writer.model.table import TableName
from table_writer.spark.create_table import create_table
from table_writer.testing import Lakehouse

PASSING = {"Created Time", "Statistics"}  # differ by the second, and because saveAsTable writes files
PASSING_PARAMETERS = ("transient_lastDdlTime", "spark.sql.statistics.", "numFiles", "totalSize")


@dataclass(frozen=True)
class Description:
    """All that Spark and the metastore say of a table, without its name."""

    create_statement: str
    described: list[tuple[str, ...]]
    schema: str
    stored: list[object]


@dataclass(frozen=True)
class Twins:
    """One test's database."""

    spark: SparkSession
    metastore: Metastore
    database: str
    location: str
    """For one table: a directory that does not exist."""

    def make(
        self, schema: DataFrame | StructType, new: NewTable, name: str = "made", *, if_not_exists: bool = False
    ) -> str:
        create_table(self.spark, schema, TableName(self.database, name), new, if_not_exists=if_not_exists)
        return f"{self.database}.{name}"

    def exists(self, name: str = "made") -> bool:
        return self.metastore.get_table(TableName(self.database, name)) is not None

    @contextmanager
    def settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Change the session for a moment."""
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self.spark.conf.unset(key)

    def describe(self, name: str = "made") -> Description:
        full = f"{self.database}.{name}"
        table = self.metastore.get_table(TableName(self.database, name))
        assert table is not None
        parameters = {key: text for key, text in table.parameters.items() if not key.startswith(PASSING_PARAMETERS)}
        stored = (table.kind, table.columns, table.partition_columns, table.serde, table.input_format)
        serde = {key: self._nameless(text, name) for key, text in table.serde_parameters.items()}
        rows = self.spark.sql(f"DESCRIBE EXTENDED {full}").collect()
        statement = self.spark.sql(f"SHOW CREATE TABLE {full} AS SERDE" if is_hives(parameters) else show(full)).first()
        assert statement is not None
        return Description(
            create_statement=re.sub(r"'transient_lastDdlTime' = '\d+'", "", self._nameless(statement[0], name)),
            described=[tuple(self._nameless(str(cell), name) for cell in row) for row in rows if row[0] not in PASSING],
            schema=self.spark.table(full).schema.json(),
            stored=[*stored, table.output_format, self._nameless(table.location, name), parameters, serde],
        )

    def _nameless(self, text: str, name: str) -> str:
        return re.sub(r"transient_lastDdlTime=\d+", "", re.sub(rf"\b{name}\b", "TABLE", text))


def show(full_name: str) -> str:
    return f"SHOW CREATE TABLE {full_name}"


def is_hives(parameters: dict[str, str]) -> bool:
    return "spark.sql.sources.provider" not in parameters


@pytest.fixture
def twins(lakehouse: Lakehouse, lakehouse_database: str) -> Twins:
    metastore = HiveMetastore(MetastoreSettings(uris=(lakehouse.metastore_uri,)))
    location = f"{lakehouse.warehouse}/elsewhere/{lakehouse_database}/it's $home 100%"
    return Twins(lakehouse.spark, metastore, lakehouse_database, location)
