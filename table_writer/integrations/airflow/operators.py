"""Operators for what the command line does: vacuum, recover, publish, rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from airflow.sdk import BaseOperator

from table_writer.cli.arguments import ExitCode, age, exit_code_of, moment, version_number
from table_writer.cli.commands import BY_NAME, exit_code
from table_writer.errors import ConflictError, TableWriterError, few
from table_writer.integrations.airflow.connection import as_declared, failure, open_keeper, shortened_facts
from table_writer.integrations.settings import named_tables, parsed_value
from table_writer.maintenance import Maintenance
from table_writer.protocol.table.present import PUBLISHED
from table_writer.reports.history_reports import RollbackReport
from table_writer.reports.report import Report

SETTINGS: Final = ("conn_id", "settings")


class TableWriterOperator(BaseOperator):
    """The base of all operators here: where the metastore is, what goes to XCom, what is retried.

    The report is logged, and pushed to XCom as plain values, lists cut to 100 items. A task fails with
    ``AirflowException``, which Airflow retries, or with ``AirflowFailException``, which it does not:

    ====================================================  ==========================================
    storage or metastore failed; something is left to do  is retried
    wrong call, failed check, damaged log, conflict       fails for good: a retry meets it again
    outcome unknown                                       retried by vacuum and recover only
    ====================================================  ==========================================

    Parameters
    ----------
    conn_id
        An Airflow connection: host and port of the metastore, login and password, and an extra with the names of the
        command line's options (``metastore_uri``, ``conf``, ``conf_dir``, ``endpoint_url``, …). Without it the
        environment says it, as for ``table-writer``: ``TABLE_WRITER_METASTORE_URI``, ``HADOOP_CONF_DIR``.
    settings
        The same names, where the DAG is to say them; they win. A secret here is refused when the DAG is read.
    **kwargs
        Of every Airflow operator.
    """

    template_fields: Sequence[str] = SETTINGS
    ui_color = "#dceefb"
    command: ClassVar[str]  # whose rules say what is left to look at
    may_repeat: ClassVar[bool] = False  # a second call does no harm where the first one's outcome is unknown

    def __init__(self, *, conn_id: str | None = None, settings: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id
        self.settings = as_declared(settings)

    def execute(self, context: Any) -> dict[str, Any]:
        """Make the call, and return its report for XCom."""
        try:
            with open_keeper(self.conn_id, self.settings) as keeper:
                report = self._call(keeper)
        except TableWriterError as error:
            raise failure(exit_code_of(error), str(error), may_repeat=self.may_repeat) from error
        self.log.info("%s", report.to_text())
        facts: dict[str, Any] = shortened_facts(report.to_dict())
        code = exit_code(BY_NAME[self.command], report)
        if code is not ExitCode.DONE:
            context["ti"].xcom_push(key="return_value", value=facts)
            raise failure(code, report.to_text(), may_repeat=self.may_repeat)
        return facts

    def _call(self, keeper: Maintenance) -> Report:
        raise NotImplementedError

    def on_kill(self) -> None:
        """Say how it goes on: every call may end at any moment, and the table's log says what it had begun."""
        self.log.warning(
            "%s was killed: what it had begun, the next write, a RecoverOperator or `table-writer recover` finishes or"
            " resolves",
            self.command,
        )


class _TablesOperator(TableWriterOperator):
    """An operator for one table, several, those of databases, or all."""

    template_fields: Sequence[str] = (*SETTINGS, "tables", "database")
    may_repeat = True

    def __init__(
        self,
        *,
        tables: str | Sequence[str] | None = None,
        database: str | Sequence[str] | None = None,
        all_tables: bool = False,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.database = database
        self.all_tables = all_tables
        self.dry_run_only = dry_run  # dry_run is a method of every Airflow operator

    def _call(self, keeper: Maintenance) -> Report:
        tables = named_tables(self.tables, self.database, all_tables=self.all_tables)
        if tables and len(tables) == 1:
            return self._call_one(keeper, tables[0])
        return self._call_many(keeper, tables)

    def _call_one(self, keeper: Maintenance, table: str) -> Report:
        raise NotImplementedError

    def _call_many(self, keeper: Maintenance, tables: Sequence[str] | None) -> Report:
        raise NotImplementedError


class VacuumOperator(_TablesOperator):
    """Delete what readers have left for longer than the retention, as ``Maintenance.vacuum`` and ``vacuum_many`` do.

    Of many tables, one that fails keeps no other from its turn; the task fails afterwards, and names it.

    Parameters
    ----------
    tables, database, all_tables
        Exactly one: ``"mart.orders"`` or several; ``"mart"`` or several; or all that this library has written. A
        template that renders to nothing is an error, and never all tables.
    older_than
        Age since the data was replaced: a ``timedelta``, or ``"7d"``, ``"36h"``, ``"90m"``. Default: the table's
        retention, three days without one.
    force
        Allow an age under 24 hours, or under the table property ``table_writer.retention``: running queries may fail
        then.
    dry_run
        Change nothing; the report says what would be deleted.
    **kwargs
        ``conn_id`` and ``settings`` of ``TableWriterOperator``, and those of every Airflow operator.

    Examples
    --------
    >>> vacuum = VacuumOperator(task_id="vacuum", database="mart", conn_id="lake")
    """

    template_fields: Sequence[str] = (*_TablesOperator.template_fields, "older_than")
    command = "vacuum"

    def __init__(self, *, older_than: timedelta | str | None = None, force: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.older_than = older_than
        self.force = force

    @property
    def _age(self) -> timedelta | None:
        given = self.older_than
        return parsed_value(age, "older_than", given) if isinstance(given, str) else given

    def _call_one(self, keeper: Maintenance, table: str) -> Report:
        return keeper.vacuum(table, older_than=self._age, dry_run=self.dry_run_only, force=self.force)

    def _call_many(self, keeper: Maintenance, tables: Sequence[str] | None) -> Report:
        return keeper.vacuum_many(
            tables, database=self.database or None, older_than=self._age, dry_run=self.dry_run_only, force=self.force
        )


class RecoverOperator(_TablesOperator):
    """Resolve what a crash or a lost answer left in doubt, as ``Maintenance.recover`` and ``recover_many`` do.

    Nothing needs it: the next write of the same partitions does the same. It makes rows visible, or a failure known,
    before that. Entries of the log that are lost are an error: giving them up is for a person.

    Parameters
    ----------
    tables, database, all_tables
        As of :class:`VacuumOperator`.
    dry_run
        Change nothing; the task fails if something is in doubt.
    **kwargs
        ``conn_id`` and ``settings`` of ``TableWriterOperator``, and those of every Airflow operator.

    Examples
    --------
    >>> recover = RecoverOperator(task_id="recover", tables="mart.orders", trigger_rule="one_failed")
    """

    command = "recover"

    def _call_one(self, keeper: Maintenance, table: str) -> Report:
        return keeper.recover(table, dry_run=self.dry_run_only)

    def _call_many(self, keeper: Maintenance, tables: Sequence[str] | None) -> Report:
        return keeper.recover_many(tables, database=self.database or None, dry_run=self.dry_run_only)


class PublishOperator(TableWriterOperator):
    """Make readers see a staged write, all its partitions in one metastore call, as ``Maintenance.publish`` does.

    A task that runs again after it has published does nothing, and returns the same version: ``repeated`` is true. A
    conflict fails for good: somebody else has published one of its partitions since it was staged, and the rows must be
    staged again. After an unknown outcome a :class:`RecoverOperator` comes first, then the cleared task finds out.

    Parameters
    ----------
    table
        ``database.table``.
    write_id
        Of the staged write: ``StagedWrite.write_id``, handed on through XCom.
    dry_run
        Change nothing; the task fails if something is in the way.
    **kwargs
        ``conn_id`` and ``settings`` of ``TableWriterOperator``, and those of every Airflow operator.

    Examples
    --------
    >>> publish = PublishOperator(
    ...     task_id="publish", table="mart.orders", write_id="{{ ti.xcom_pull(task_ids='stage') }}"
    ... )
    """

    template_fields: Sequence[str] = (*SETTINGS, "table", "write_id")
    command = "publish"

    def __init__(self, *, table: str, write_id: str, dry_run: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.write_id = write_id
        self.dry_run_only = dry_run

    def _call(self, keeper: Maintenance) -> Report:
        return keeper.publish(self.table, str(self.write_id), dry_run=self.dry_run_only)


class RollbackOperator(TableWriterOperator):
    """Put partitions back to an earlier version, in one metastore call, as ``Maintenance.rollback`` does.

    A conflict fails for good: somebody has published meanwhile, and what to go back to is to be decided again. So does
    a later try of a task, or a cleared one, where the log has a rollback of the same partitions to the same version,
    and somebody has published them since: an earlier try may have made it, and this one would undo what came after.

    Parameters
    ----------
    table
        ``database.table``.
    version, write_id, as_of
        Exactly one: a number of the history, the write that published it, or a time (a ``datetime``, or a text in UTC
        unless it has an offset).
    partitions
        Names such as ``"dt={{ ds }}"``; default: all that changed since.
    dry_run
        Change nothing; the report says what would be put back.
    **kwargs
        ``conn_id`` and ``settings`` of ``TableWriterOperator``, and those of every Airflow operator.

    Examples
    --------
    >>> rollback = RollbackOperator(
    ...     task_id="undo", table="mart.orders", version="{{ params.version }}", partitions=["dt={{ ds }}"]
    ... )
    """

    template_fields: Sequence[str] = (*SETTINGS, "table", "version", "write_id", "as_of", "partitions")
    command = "rollback"

    def __init__(
        self,
        *,
        table: str,
        version: int | str | None = None,
        write_id: str | None = None,
        as_of: datetime | str | None = None,
        partitions: Sequence[str] | None = None,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.version = version
        self.write_id = write_id
        self.as_of = as_of
        self.partitions = partitions
        self.dry_run_only = dry_run

    def execute(self, context: Any) -> dict[str, Any]:
        """Make the call, as every operator does; a later try looks first whether an earlier one has made it."""
        self._may_be_done = context["ti"].try_number > 1
        return super().execute(context)

    def _call(self, keeper: Maintenance) -> Report:
        if self._may_be_done and not self.dry_run_only:
            _require_not_done(keeper, self._put_back(keeper, dry_run=True))
        return self._put_back(keeper, dry_run=self.dry_run_only)

    def _put_back(self, keeper: Maintenance, *, dry_run: bool) -> RollbackReport:
        as_of = parsed_value(moment, "as_of", self.as_of) if isinstance(self.as_of, str) else self.as_of
        return keeper.rollback(
            self.table,
            version=None if self.version is None else parsed_value(version_number, "version", self.version),
            write_id=self.write_id,
            as_of=as_of,
            partitions=self.partitions,
            dry_run=dry_run,
        )


def _require_not_done(keeper: Maintenance, planned: RollbackReport) -> None:
    """Raise ``ConflictError`` where a partition was put back to the same version before, and published since."""
    table, to = planned.table, planned.to_version
    names = {partition.name for partition in planned.partitions}
    for version in keeper.history(table).versions if names else ():
        if version.state != PUBLISHED or version.mode != f"rollback to version {to}":
            continue
        again = sorted(
            names.intersection(partition.name for partition in keeper.show(table, version.version).partitions)
        )
        if again:
            raise ConflictError(
                f"version {version.version} of {table} has put {few(again)} back to version {to} before, perhaps by an"
                " earlier try of this task, and somebody has published since. This try changed nothing. Look at the"
                " history: if it shall be put back once more, start a new run; else mark the task as a success.",
                table=table,
            )
