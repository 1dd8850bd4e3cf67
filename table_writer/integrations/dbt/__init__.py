"""dbt on Spark (the extra ``dbt``): models, in SQL or Python, that readers see whole, published by a ``TableWriter``.

dbt-spark sends Python models to Databricks and nowhere else. ``python -m table_writer.integrations.dbt`` is the command
``dbt`` with one more way: in the Spark session of dbt's own process, with which ``method: session`` runs SQL models
already.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from table_writer.config import write_mode
from table_writer.errors import InvalidInputError, TableWriterError, needs_extra
from table_writer.model.new_table import NewTable
from table_writer.model.write_mode import WriteMode
from table_writer.writer import TableWriter

with needs_extra("dbt", "table_writer.integrations.dbt"):
    from dbt.adapters import spark as dbt_spark
    from dbt.adapters.base import PythonJobHelper
    from dbt.cli.main import dbtRunner
    from dbt_common.exceptions import DbtRuntimeError

SESSION: Final = "session"
OF_PARTS: Final = {"where", "carry", "idempotency_key"}  # what a full refresh leaves out: it writes all, and once more
__all__ = ["main", "publish", "publish_sql"]


class InSession(PythonJobHelper):
    """Runs a compiled model in the session of this process; dbt makes one for each model."""

    def __init__(self, parsed_model: Mapping[str, Any], credentials: dbt_spark.SparkCredentials) -> None:
        if credentials.method != SESSION:
            raise DbtRuntimeError(f"submission_method {SESSION!r} takes a profile with method: {SESSION}")
        self._name = parsed_model["alias"]

    def submit(self, compiled_code: str) -> None:
        """Run it; what this library refuses is dbt's own error, for one model alone."""
        spark = SparkSession.builder.enableHiveSupport().getOrCreate()
        names = {"__name__": f"dbt_model_{self._name}", "spark": spark}
        try:
            exec(compile(compiled_code, f"<dbt model {self._name}>", "exec"), names)  # noqa: S102 - the user's model
        except TableWriterError as error:
            raise DbtRuntimeError(str(error)) from error


class SparkAdapter(dbt_spark.SparkAdapter):
    """dbt-spark's adapter, whose Python code runs in the session; dbt takes the adapter's module from the class's name.

    A model's ``submission_method`` may still say otherwise.
    """

    @property
    def default_python_submission_method(self) -> str:
        """The submission method of a model that names none."""
        return SESSION

    @property
    def python_submission_helpers(self) -> dict[str, Any]:
        """All that dbt-spark has, and the session."""
        return {**super().python_submission_helpers, SESSION: InSession}


def publish(df: DataFrame, table: str, config: Mapping[str, Any]) -> None:
    """Publish what a model returns; the materialization ``table_writer`` calls it.

    Parameters
    ----------
    df
        The model's rows.
    table
        ``schema.identifier``.
    config
        ``partition_by`` of the model, ``full_refresh`` of the run, and ``options``: ``mode``, the name of a write
        method (default: ``overwrite_partitions`` of a partitioned model, else ``overwrite_table``), and the options of
        that write. A full refresh is ``overwrite_table``, without ``where``, ``carry`` and ``idempotency_key``.
    """
    named = config["partition_by"] or []
    partition_by = [named] if isinstance(named, str) else list(named)
    options = dict(config["options"])
    usual = WriteMode.OVERWRITE_PARTITIONS if partition_by else WriteMode.OVERWRITE_TABLE
    mode = write_mode(options.pop("mode", usual.value))
    if config["full_refresh"]:
        mode = WriteMode.OVERWRITE_TABLE
        options = {name: value for name, value in options.items() if name not in OF_PARTS}
    if not isinstance(df, DataFrame):
        raise InvalidInputError(f"the model of {table} returned a {type(df).__name__}: expected a Spark DataFrame")
    options.setdefault("if_missing", NewTable(partition_by=partition_by))
    result = getattr(TableWriter(df.sparkSession), mode.value)(df, table, **options)
    print(result.to_text())  # noqa: T201 - dbt's own lines are there too


def publish_sql(spark: SparkSession, query: str, table: str, config: Mapping[str, Any]) -> None:
    """Publish the rows of a SQL model, whose query comes as JSON."""
    publish(spark.sql(json.loads(query)), table, config)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run dbt with these words, by default the process's own; returns dbt's exit code.

    Examples
    --------
    >>> main(["--version"])  # doctest: +SKIP
    """
    dbt_spark.Plugin.adapter = SparkAdapter
    result = dbtRunner().invoke(list(sys.argv[1:] if arguments is None else arguments))
    if result.exception is not None:
        print(result.exception, file=sys.stderr)  # noqa: T201
        return 2
    return 0 if result.success else 1
