"""Prefect (the extra ``prefect``): a task that writes a table, one that vacuums, and the condition of their retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from pyspark.sql import DataFrame

from table_writer.checked import nearest
from table_writer.cli.arguments import MEANINGS, ExitCode, exit_code_of
from table_writer.cli.commands import BY_NAME, exit_code
from table_writer.errors import InvalidInputError, TableWriterError, needs_extra
from table_writer.integrations.declared import kind_of
from table_writer.integrations.retries import is_retried, meets_it_again
from table_writer.integrations.settings import named_tables, read_settings
from table_writer.maintenance import Maintenance
from table_writer.model.write_mode import WriteMode
from table_writer.reports.write_result import WriteResult
from table_writer.writer import TableWriter

with needs_extra("prefect", "table_writer.integrations.prefect"):
    from prefect import get_run_logger, task
    from prefect.cache_policies import NO_CACHE
    from prefect.runtime import task_run

MODES: Final = (*(mode.value for mode in WriteMode), "merge")
__all__ = ["VacuumUnfinishedError", "retry_can_help", "vacuum_tables", "write_table"]


class VacuumUnfinishedError(TableWriterError, code="vacuum_unfinished"):
    """Something is left to delete; the message is the report, and ``exit_code`` what the command line would say."""

    exit_code: ExitCode = ExitCode.LEFT


def retry_can_help(task: Any, task_run: Any, state: Any) -> bool:  # noqa: ARG001  # Prefect's signature
    """Return whether a task that writes should be retried: ``retry_condition_fn`` of a task of yours.

    Not retried is what the next try would meet again: a wrong call, a schema that does not fit, a failed check, a
    partition that exists already, an unknown outcome, and a write that was published in part. Conflicts,
    and failures of storage and metastore, are retried.

    Examples
    --------
    >>> @task(retries=3, retry_condition_fn=retry_can_help)
    ... def load() -> None: ...
    """
    return not (isinstance(state.data, BaseException) and meets_it_again(state.data))


def _vacuum_can_help(task: Any, task_run: Any, state: Any) -> bool:  # noqa: ARG001  # Prefect's signature
    error = state.data
    if not isinstance(error, TableWriterError):
        return True
    code = error.exit_code if isinstance(error, VacuumUnfinishedError) else exit_code_of(error)
    return is_retried(code, may_repeat=True)


@task(cache_policy=NO_CACHE, persist_result=False, retry_condition_fn=retry_can_help)
def write_table(
    rows: DataFrame | Callable[[], DataFrame], table: str, mode: str = "overwrite_partitions", **options: Any
) -> WriteResult:
    """Publish rows, which readers see whole or not at all.

    Say how often it is retried by ``write_table.with_options(retries=2, retry_delay_seconds=60)``: only what
    :func:`retry_can_help` says is. A retried append whose first try was published adds nothing.

    Parameters
    ----------
    rows
        A DataFrame; or a function that makes one, which each try calls: after a conflict the rows that it has read are
        read again.
    table
        ``database.table``.
    mode
        The name of a write method, or ``"merge"``.
    **options
        Of that method: see :class:`~table_writer.WriteOptions`, and ``TableWriter.merge``.

    Examples
    --------
    >>> faithful = write_table.with_options(retries=2, retry_delay_seconds=60)
    """
    if mode not in MODES:
        raise InvalidInputError(f"mode={mode!r}{nearest(mode, MODES) or ':'} expected one of {', '.join(MODES)}")
    df = rows() if callable(rows) else rows
    if not isinstance(df, DataFrame):
        raise InvalidInputError(f"rows of {table} are a {kind_of(df)}: expected a Spark DataFrame")
    if mode == WriteMode.APPEND.value and task_run.id:
        options.setdefault("idempotency_key", f"prefect/{task_run.id}")
    result: WriteResult = getattr(TableWriter(df.sparkSession), mode)(df, table, **options)
    get_run_logger().info("%s", result.to_text())
    return result


@task(cache_policy=NO_CACHE, persist_result=False, retry_condition_fn=_vacuum_can_help)
def vacuum_tables(
    tables: str | Sequence[str] | None = None,
    *,
    database: str | Sequence[str] | None = None,
    all_tables: bool = False,
    older_than: timedelta | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Delete what readers have left for longer than the retention; it needs no Spark.

    Of many tables, one that fails keeps no other from its turn; the task fails afterwards, and names it.

    Parameters
    ----------
    tables, database, all_tables
        Exactly one: ``"mart.orders"`` or several; ``"mart"`` or several; or all that this library has written.
    older_than
        Age since the data was replaced. Default: the table's retention, three days without one.
    settings
        Names of the command line's options, with underscores: ``metastore_uri``, ``endpoint_url``, ``conf``, … Without
        them the environment says it, as for ``table-writer``.

    Raises
    ------
    VacuumUnfinishedError
        Something could not be deleted.

    Examples
    --------
    >>> nightly = vacuum_tables.with_options(retries=3, retry_delay_seconds=600)
    """
    names = named_tables(tables, database, all_tables=all_tables)
    uri, config = read_settings(settings or {})
    with Maintenance(uri, config=replace(config, progress="log")) as keeper:
        if names and len(names) == 1:
            report: Any = keeper.vacuum(names[0], older_than=older_than)
        else:
            report = keeper.vacuum_many(names, database=database or None, older_than=older_than)
    code = exit_code(BY_NAME["vacuum"], report)
    if code is not ExitCode.DONE:
        error = VacuumUnfinishedError(f"{report.to_text()}\n[exit code {int(code)}: {MEANINGS[code]}]")
        error.exit_code = code
        raise error
    get_run_logger().info("%s", report.to_text())
    facts: dict[str, Any] = report.to_dict()
    return facts
