"""What ``Maintenance`` is made of, and its calls on staged writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Self

from table_writer.checked import checked
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.display.staged_report import DiscardReport, StagedDetail, StagedReport
from table_writer.display.staged_versions import discard_report, staged_detail, staged_summary
from table_writer.display.write_result import WriteResult
from table_writer.model.table import TableName
from table_writer.publish.publisher import RepeatedError
from table_writer.results import mark_success, repeated_result, write_result
from table_writer.services import Services, TableServices
from table_writer.staged_writes import StagedWrites
from table_writer.stopwatch import Stopwatch

__all__ = ["ServicesBound", "StagedMaintenance"]

NOTHING_IN_THE_WAY: Final = "dry run: nothing was published, and nothing seems to be in the way"
AWS_CHAIN: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


@checked
class ServicesBound:
    """A metastore and the stores of its tables, opened without Spark."""

    def __init__(
        self,
        metastore_uri: str | None = None,
        *,
        config: TableWriterConfig | None = None,
        services: Services | None = None,
    ) -> None:
        if services is None:
            config = config or TableWriterConfig()
            if metastore_uri is not None:
                config = replace(config, metastore_uris=tuple(metastore_uri.split(",")))
            services = Services(SessionSettings(hadoop=_with_credentials(config.hadoop)), config)
        self._services = services

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the metastore; a later call opens a new one."""
        self._services.metastore.close()

    def _open(self, table: str) -> TableServices:
        services = self._services.open_table(TableName.parse(table))
        services.require_owner()
        return services


@checked
class StagedMaintenance(ServicesBound):
    """Lists, shows, publishes and discards staged writes, whoever staged them."""

    def staged(self, table: str) -> StagedReport:
        """List the writes of a table that are staged, newest first: who, when, rows, checks, until when.

        Parameters
        ----------
        table
            ``database.table``.

        Examples
        --------
        >>> keeper.staged("mart.orders").staged
        ()
        """
        services = self._open(table)
        found, unreadable = StagedWrites(services).find_all()
        return StagedReport(
            table=str(services.table.name),
            staged=tuple(map(staged_summary, reversed(found))),
            unreadable=unreadable,
        )

    def staged_write(self, table: str, write_id: str) -> StagedDetail:
        """Show one staged write: its partitions, its checks, and what the footers of its files say of the columns.

        Parameters
        ----------
        table
            ``database.table``.
        write_id
            As :meth:`staged` lists it.

        Raises
        ------
        InvalidInputError
            It is not staged any more, or not yet; the message says which.
        """
        return staged_detail(StagedWrites(self._open(table)).find(write_id))

    def publish(self, table: str, write_id: str, *, dry_run: bool = False) -> WriteResult | StagedDetail:
        """Make readers see a staged write: all its partitions in one metastore call.

        Parameters
        ----------
        table
            ``database.table``.
        write_id
            As :meth:`staged` lists it.
        dry_run
            Check everything, and change nothing.

        Returns
        -------
        WriteResult
            As of every write; ``repeated`` if it was published already, by whatever process, or its idempotency key:
            a job that runs again may call this again. A dry run that finds nothing in the way returns what
            :meth:`staged_write` returns.

        Raises
        ------
        CheckFailedError
            A check of severity ``"error"`` has failed.
        ConflictError
            Somebody else published one of its partitions since it was planned; it stays staged.
        InvalidInputError
            It is not staged any more, and was not published, or was rolled back; or it adds columns to the table, which
            takes Spark.
        StorageError, MetastoreError, OutcomeUnknownError
            As of every write. Unless the outcome is unknown, it stays staged.
        """
        services = self._open(table)
        staged_writes = StagedWrites(services)
        watch = Stopwatch(services.metastore)
        watch.follow(services.store)
        try:
            found = staged_writes.find_unpublished(write_id, dry_run=dry_run)
            if dry_run:
                staged_writes.examine(found.record)
                return staged_detail(found, notes=(NOTHING_IN_THE_WAY,))
            with watch.step("publish"):
                published = staged_writes.publish(found.record)
        except RepeatedError as repeated:
            return repeated_result(repeated.entry, watch, write_id=write_id)
        files = found.record.files
        notes = (*files.plan.notes, *published.notes, *mark_success(services, files, published))
        return replace(write_result(files, published, notes, watch), checks=files.checks)

    def discard(self, table: str, write_id: str, *, dry_run: bool = False) -> DiscardReport:
        """Delete a staged write, so that nobody can publish it any more.

        Parameters
        ----------
        table
            ``database.table``.
        write_id
            As :meth:`staged` lists it.
        dry_run
            Return what would be deleted, and delete nothing.

        Raises
        ------
        InvalidInputError
            It is not staged any more, or not yet; the message says which.
        ConflictError
            Another process has published it, or is about to.
        """
        services = self._open(table)
        done = StagedWrites(services).discard(write_id, dry_run=dry_run)
        return discard_report(services.table, services.layout, write_id, done, dry_run=dry_run)


def _with_credentials(hadoop: Mapping[str, str]) -> Mapping[str, str]:
    """Without any word on credentials take what the AWS SDK finds: profiles and SSO too, as the AWS CLI does."""
    named = any(name.endswith((".access.key", ".aws.credentials.provider")) for name in hadoop)
    return hadoop if named else {**hadoop, "fs.s3a.aws.credentials.provider": AWS_CHAIN}
