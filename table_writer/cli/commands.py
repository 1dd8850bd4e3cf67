"""One table of all commands: what each is called, what it takes, what it runs, what it leaves."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from table_writer.cli.arguments import age, version_number
from table_writer.cli.configuration import read_spark_conf
from table_writer.display.report import Report
from table_writer.display.reports import RecoverReport
from table_writer.maintenance import Maintenance
from table_writer.model.table import TableName
from table_writer.vacuum.due import SAFE_AGE


@dataclass(frozen=True, slots=True)
class Adopted:
    """Report that the files below the root now belong to the table."""

    table: str

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values."""
        return {"table": self.table, "adopted": True}

    def to_text(self, *, all_rows: bool = False) -> str:  # noqa: ARG002  # as of every report
        """Return them as a line."""
        return f"{self.table}: the files below its root are adopted; log and data stay as they are"


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command, named and explained as on the command line."""

    name: str
    help: str
    add_arguments: Callable[[ArgumentParser], None]  # those that only this command has
    run: Callable[[Maintenance, Namespace], Report | Adopted]
    left: Callable[[Any], bool] = lambda _: False  # the report names something to look at: exit code 1
    asks: Callable[[Namespace], bool] = lambda _: False  # a person at a terminal is asked about these arguments


def _staged(keeper: Maintenance, arguments: Namespace) -> Report:
    if arguments.write_id is None:
        return keeper.staged(arguments.table)
    return keeper.staged_write(arguments.table, arguments.write_id)


def _adopt(keeper: Maintenance, arguments: Namespace) -> Adopted:
    keeper.adopt(arguments.table, accept_loss=arguments.accept_loss)
    return Adopted(str(TableName.parse(arguments.table)))


def _doctor(keeper: Maintenance, arguments: Namespace) -> Report:
    spark_conf = read_spark_conf(arguments.spark_conf) if arguments.spark_conf else None
    return keeper.doctor(arguments.table, spark_conf=spark_conf)


def _not_recovered(report: RecoverReport) -> bool:
    in_doubt = "in doubt" in report.settled.values()
    undone = report.dry_run and (report.put_right or report.lost)
    # what is missing, somebody dropped: nothing is left to do
    return bool(in_doubt or undone or report.superseded or report.unfinished_vacuums)


def _history_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, metavar="N", help="only so many of the newest")


def _show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("version", type=version_number, metavar="VERSION", help="its number in the history")


def _staged_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("write_id", nargs="?", metavar="WRITE_ID", help="show this one, partition by partition")


def _one_staged_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("write_id", metavar="WRITE_ID", help="as `staged` lists it")
    _change_arguments(parser)


def _change_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="check everything and change nothing")
    _yes_argument(parser)


def _yes_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="ask no question at a terminal")


def _recover_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--accept-loss", action="store_true", help="go on without entries of the log that are lost for good"
    )
    _change_arguments(parser)


def _adopt_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--accept-loss", action="store_true", help="partitions that the metastore does not have were dropped on purpose"
    )
    _yes_argument(parser)


def _rollback_arguments(parser: ArgumentParser) -> None:
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-version", type=version_number, metavar="N", help="0: before the first version")
    to.add_argument("--to-write-id", metavar="ID", help="the version that this write published")
    _restore_arguments(parser)


def _restore_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--partition", action="append", metavar="NAME", help="such as dt=2024-01-01; can be repeated (default: all)"
    )
    _change_arguments(parser)


def _vacuum_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--older-than",
        type=age,
        metavar="AGE",
        help="such as 7d, 36h, 90m (default: the table's own retention, three days without one)",
    )
    parser.add_argument("--force", action="store_true", help="allow an age at which running queries may fail")
    _change_arguments(parser)


def _uploads_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--abort", action="store_true", help="give dead writes up: their uploads and files are deleted")
    parser.add_argument(
        "--older-than", type=age, metavar="AGE", default=SAFE_AGE, help="since a dead writer's last sign (default: 24h)"
    )
    parser.add_argument("--force", action="store_true", help="allow an age under 24h")
    _change_arguments(parser)


def _doctor_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--spark-conf", metavar="FILE", help="a spark-defaults.conf whose settings are looked at, too")


COMMANDS: Final = (
    Command(
        name="history",
        help="List the versions of a table, newest first.",
        add_arguments=_history_arguments,
        run=lambda keeper, given: keeper.history(given.table, limit=given.limit),
    ),
    Command(
        name="show",
        help="Show one version, partition by partition.",
        add_arguments=_show_arguments,
        run=lambda keeper, given: keeper.show(given.table, given.version),
    ),
    Command(
        name="recover",
        help="Resolve every publish that was left in doubt, and correct what the metastore applied late.",
        add_arguments=_recover_arguments,
        run=lambda keeper, given: keeper.recover(given.table, dry_run=given.dry_run, accept_loss=given.accept_loss),
        left=_not_recovered,
        asks=lambda given: bool(given.accept_loss),
    ),
    Command(
        name="rollback",
        help="Put partitions back to an earlier version, in one metastore call, as a new version.",
        add_arguments=_rollback_arguments,
        run=lambda keeper, given: keeper.rollback(
            given.table,
            version=given.to_version,
            write_id=given.to_write_id,
            partitions=given.partition,
            dry_run=given.dry_run,
        ),
        asks=lambda _: True,
    ),
    Command(
        name="vacuum",
        help="Delete what readers have left for longer than the retention, and what dead writes have left behind.",
        add_arguments=_vacuum_arguments,
        run=lambda keeper, given: keeper.vacuum(
            given.table, older_than=given.older_than, dry_run=given.dry_run, force=given.force
        ),
        left=lambda report: bool(report.failures),
        asks=lambda _: True,
    ),
    Command(
        name="uploads",
        help="List pending uploads below the table's root, with whose they are; with --abort give up dead writes.",
        add_arguments=_uploads_arguments,
        run=lambda keeper, given: keeper.uploads(
            given.table, abort=given.abort, older_than=given.older_than, dry_run=given.dry_run, force=given.force
        ),
        left=lambda report: bool(report.failures),
        asks=lambda given: bool(given.abort),
    ),
    Command(
        name="staged",
        help="List the writes that are staged, or show one of them.",
        add_arguments=_staged_arguments,
        run=_staged,
    ),
    Command(
        name="publish",
        help="Make readers see a staged write: all its partitions in one metastore call.",
        add_arguments=_one_staged_arguments,
        run=lambda keeper, given: keeper.publish(given.table, given.write_id, dry_run=given.dry_run),
        asks=lambda _: True,
    ),
    Command(
        name="discard",
        help="Delete a staged write, so that nobody can publish it any more.",
        add_arguments=_one_staged_arguments,
        run=lambda keeper, given: keeper.discard(given.table, given.write_id, dry_run=given.dry_run),
        left=lambda report: bool(report.failures),
        asks=lambda _: True,
    ),
    Command(
        name="restore",
        help="Add the partitions that the log knows and the metastore does not, in one metastore call.",
        add_arguments=_restore_arguments,
        run=lambda keeper, given: keeper.restore(given.table, partitions=given.partition, dry_run=given.dry_run),
        left=lambda report: bool(report.not_there),
        asks=lambda _: True,
    ),
    Command(
        name="adopt",
        help="Declare that the files below a table's root are this table's, after it was renamed or created again.",
        add_arguments=_adopt_arguments,
        run=_adopt,
        asks=lambda given: bool(given.accept_loss),
    ),
    Command(
        name="doctor",
        help="Look for what makes writing this table slow, unsafe or expensive, and say what to change.",
        add_arguments=_doctor_arguments,
        run=_doctor,
        left=lambda report: not report.healthy,
    ),
)
