"""A sensor that waits for rows of partitions, by name and version: a name alone says nothing of the rows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from table_writer.cli.arguments import ExitCode, exit_code_of, moment, version_number
from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.integrations.airflow.connection import as_declared, failure, open_keeper
from table_writer.integrations.settings import parsed_value
from table_writer.maintenance import Maintenance
from table_writer.model.partition_facts import PartitionNow
from table_writer.model.table import WHOLE_TABLE
from table_writer.protocol.table.present import PUBLISHED

logger = logging.getLogger(__name__)
NEWEST_VERSIONS: Final = 20  # among which a write is looked for first, where none of its rows are to be seen


@dataclass(frozen=True, kw_only=True)
class WantedRows:
    """The rows that a sensor waits for; plain values, which a trigger keeps in Airflow's database."""

    table: str
    partitions: tuple[str, ...] | None  # None: an unpartitioned table
    after_version: int
    since: str  # with a time zone; empty: whenever
    write_id: str  # empty: of any write
    min_rows: int

    @classmethod
    def of(cls, sensor: PartitionSensor) -> Self:
        """Read what templates have made of a sensor's arguments; one that is empty by then would wait for less."""
        for name in ("partitions", "since", "write_id"):
            value = getattr(sensor, name)
            if value is not None and (not value or value == "None"):
                raise InvalidInputError(
                    f"{name}={value!r} of the sensor for {sensor.table}: its template found nothing"
                )
        given = sensor.since.isoformat() if isinstance(sensor.since, datetime) else sensor.since
        since = parsed_value(moment, "since", given) if given else None
        named = (sensor.partitions,) if isinstance(sensor.partitions, str) else sensor.partitions
        return cls(
            table=sensor.table,
            partitions=None if named is None else tuple(named),
            after_version=parsed_value(version_number, "after_version", sensor.after_version),
            since=since.isoformat() if since else "",
            write_id=sensor.write_id or "",
            min_rows=parsed_value(int, "min_rows", sensor.min_rows),
        )

    def rows_found(self, keeper: Maintenance) -> dict[str, Any] | None:
        """Look once: what is handed on through XCom if all rows are there, else ``None``, and the log says why."""
        report = keeper.partitions(self.table, self.partitions)
        if self.partitions is None and {partition.name for partition in report.partitions} != {WHOLE_TABLE}:
            raise InvalidInputError(
                f"{report.table} is partitioned: say which partitions to wait for, such as 'dt=2024-01-01'",
                table=report.table,
            )
        after = self._after(keeper, report.partitions)
        waiting = [
            f"{partition.name} {why}"
            for partition in report.partitions
            for why in self._reasons_to_wait(partition, after)
        ]
        if waiting:
            logger.info("%s: waiting, since %s", report.table, "; ".join(waiting))
            return None
        versions = [partition.version for partition in report.partitions if partition.version is not None]
        partitions = report.to_dict()["partitions"]
        return {"table": report.table, "version": max(versions, default=None), "partitions": partitions}

    def _after(self, keeper: Maintenance, partitions: Sequence[PartitionNow]) -> int | None:
        """Return the version that rows must be newer than; ``None`` while the write to wait for is not published."""
        if not self.write_id or all(partition.write_id == self.write_id for partition in partitions):
            return self.after_version
        seen = [
            partition.version
            for partition in partitions
            if partition.write_id == self.write_id and partition.version is not None
        ]
        own = seen or self._versions_of_write(keeper, NEWEST_VERSIONS)
        if not own and self.write_id not in {staged.write_id for staged in keeper.staged(self.table).staged}:
            own = self._versions_of_write(keeper, None)  # all of the log: it may have been published long ago
        return max(min(own) - 1, self.after_version) if own else None

    def _versions_of_write(self, keeper: Maintenance, limit: int | None) -> list[int]:
        """Return the versions, of so many newest ones, by which readers came to see the write."""
        newest = {version.version: version for version in keeper.history(self.table, limit=limit).versions}
        own = []
        for version in newest.values():
            first = newest.get(version.settles or version.version, version)  # a recovery does another's write again
            own += [version.version] if version.state == PUBLISHED and self.write_id == first.write_id else []
        return own

    def _reasons_to_wait(self, partition: PartitionNow, after: int | None) -> Iterator[str]:
        """Say why a partition does not have the rows that are waited for; nothing if it has."""
        if partition.state != PUBLISHED:
            yield f"is {partition.state}: {partition.note}"
        elif after is None:
            yield f"has no rows of write {self.write_id}, which is not published, by what is left of the log"
        elif partition.version is None and (after or self.since or self.write_id):
            yield f"has older rows: {partition.note}"
        elif partition.version is not None and partition.version <= after:
            yield f"has rows of version {partition.version}, and of none after {after}"
        elif self.since and partition.published_at and partition.published_at < datetime.fromisoformat(self.since):
            yield f"has rows of {partition.published_at.isoformat()}, and of none since {self.since}"
        elif partition.rows is None and self.min_rows > 1:
            yield f"has rows of other tools too: whether they are {self.min_rows} in all, the log does not know"
        elif partition.rows is not None and partition.rows < self.min_rows:
            yield f"has {partition.rows} rows, and not yet {self.min_rows}"


class TableWriterSensor(BaseSensorOperator):
    """Arguments of a sensor beside the rows that it waits for; see :class:`PartitionSensor`.

    A class of its own: Airflow gives a DAG's default arguments to parameters that a signature names, and a signature
    here names six at the most.
    """

    template_fields: Sequence[str] = ("conn_id", "settings")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        conn_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        usual = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.conn_id = conn_id
        self.settings = as_declared(settings)
        self.deferrable = usual if deferrable is None else deferrable

    def execute(self, context: Any) -> Any:
        """Wait here, or look once and then wait in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        first = self.poke(context)
        if first.is_done:
            return first.xcom_value
        return self.defer(trigger=self.trigger(), method_name="resume", timeout=timedelta(seconds=self.timeout))

    def trigger(self) -> BaseTrigger:
        """Return the trigger, which waits in the triggerer."""
        raise NotImplementedError

    def resume(self, context: Any, event: Mapping[str, Any]) -> Any:  # noqa: ARG002  # Airflow's signature
        """Go on with what the trigger has found, or raise what it met."""
        if "found" in event:
            return event["found"]
        raise failure(ExitCode(event["exit_code"]), event["message"], may_repeat=True)


class PartitionSensor(TableWriterSensor):
    """Wait until partitions hold rows of a write that is new enough, by what the log of the table says.

    An upstream job that publishes a partition again does not add its name again, so a sensor for the name would return
    at once, with the old rows. This one looks at which version wrote the rows that readers find now. A rollback brings
    rows of an earlier version back, a compaction changes none, and both are seen through. Rows that another tool has
    written have no version: the sensor says so in the task's log, and goes on waiting.

    Its XCom has the ``version``, the newest of all that were waited for, and for each of the ``partitions`` its
    ``name``, ``version``, ``write_id``, ``published_at`` and ``rows``. The next run can wait for what comes after it.

    Parameters
    ----------
    table
        ``database.table``.
    partitions
        ``"dt={{ ds }}"``, or several, which must all have new rows; leave it out for an unpartitioned table.
    after_version
        Rows must be of a later version than this number of the table's history; 0 for any.
    since
        Rows must have been published at this time or later, by the clock of the process that published them: a
        ``datetime``, or a text such as ``"{{ data_interval_end }}"``, in UTC unless it has an offset.
    write_id
        Rows must be of this write, such as a staged one that somebody publishes, or of a version after it.
    min_rows
        How many rows each partition must have, at least 1.
    deferrable
        Wait in the triggerer, without a worker's slot. Default: ``operators.default_deferrable`` of Airflow's settings.
    conn_id, settings
        As of :class:`~table_writer.integrations.airflow.operators.TableWriterOperator`.
    **kwargs
        Of every sensor: ``poke_interval``, ``timeout``, ``mode="reschedule"``, ``soft_fail``, …

    Examples
    --------
    >>> sensor = PartitionSensor(
    ...     task_id="orders", table="mart.orders", partitions="dt={{ ds }}", since="{{ data_interval_end }}"
    ... )
    """

    template_fields: Sequence[str] = (
        *TableWriterSensor.template_fields,
        *("table", "partitions", "after_version", "since", "write_id", "min_rows"),
    )

    def __init__(
        self,
        *,
        table: str,
        partitions: str | Sequence[str] | None = None,
        after_version: int | str = 0,
        since: datetime | str | None = None,
        write_id: str | None = None,
        min_rows: int | str = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partitions = partitions
        self.after_version = after_version
        self.since = since
        self.write_id = write_id
        self.min_rows = min_rows

    def poke(self, context: Any) -> PokeReturnValue:  # noqa: ARG002  # Airflow's signature
        """Look once."""
        try:
            with open_keeper(self.conn_id, self.settings) as keeper:
                found = WantedRows.of(self).rows_found(keeper)
        except TableWriterError as error:
            raise failure(exit_code_of(error), str(error), may_repeat=True) from error
        return PokeReturnValue(is_done=found is not None, xcom_value=found)

    def trigger(self) -> PartitionTrigger:
        """Return the trigger, which waits in the triggerer."""
        return PartitionTrigger(
            wanted=asdict(WantedRows.of(self)),
            conn_id=self.conn_id,
            settings=self.settings,
            poke_seconds=self.poke_interval,
        )


class PartitionTrigger(BaseTrigger):
    """Waits in the triggerer for what a :class:`PartitionSensor` asks; looks in a thread, and holds no other up.

    What it is made of is stored in Airflow's database: a connection's name and no secret of it.

    Parameters
    ----------
    wanted
        What the sensor waits for, as plain values.
    conn_id, settings
        As of the sensor.
    poke_seconds
        Between two looks.
    """

    def __init__(
        self, *, wanted: Mapping[str, Any], conn_id: str | None, settings: Mapping[str, Any], poke_seconds: float
    ) -> None:
        super().__init__()
        self.wanted = dict(wanted)
        self.conn_id = conn_id
        self.settings = dict(settings)
        self.poke_seconds = poke_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and arguments that make the same trigger in another process."""
        made_of = {name: getattr(self, name) for name in ("wanted", "conn_id", "settings", "poke_seconds")}
        return f"{PartitionTrigger.__module__}.{PartitionTrigger.__qualname__}", made_of

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again; the one event is what was found, or the error that ended it."""
        while True:
            try:
                # not asyncio.to_thread: Airflow's connections are asked for in the loop that asgiref goes back to
                found = await sync_to_async(self._rows_found, thread_sensitive=False)()
            except TableWriterError as error:
                yield TriggerEvent({"exit_code": int(exit_code_of(error)), "message": str(error)})
                return
            if found is not None:
                yield TriggerEvent({"found": found})
                return
            await asyncio.sleep(self.poke_seconds)

    def _rows_found(self) -> dict[str, Any] | None:
        partitions = self.wanted["partitions"]  # a list by now, where it has been in the database
        wanted = WantedRows(**{**self.wanted, "partitions": partitions and tuple(partitions)})
        with open_keeper(self.conn_id, self.settings) as keeper:
            return wanted.rows_found(keeper)
