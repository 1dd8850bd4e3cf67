"""One table of all commands: what each is called, what it takes, what it runs, what it leaves; and its parser."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter, _ActionsContainer
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from table_writer.checked import nearest
from table_writer.cli.arguments import (
    PROGRAM,
    SHARED,
    ExitCode,
    Options,
    Parser,
    UsageError,
    age,
    exit_code_named,
    exit_code_of,
    moment,
    switch,
    version_number,
)
from table_writer.cli.configuration import read_spark_conf
from table_writer.cli.manual import MANUALS, OVERVIEW, description, epilog
from table_writer.errors import MissingExtraError, needs_extra, printable
from table_writer.maintenance import OF_SPARK, Maintenance
from table_writer.model.defaults import NEWEST_VERSIONS, SAFE_AGE, WORKERS

if TYPE_CHECKING:
    from table_writer.config import TableWriterConfig
    from table_writer.reports.health_reports import DoctorReport
    from table_writer.reports.history_reports import RecoverReport
    from table_writer.reports.many_reports import TableResult
    from table_writer.reports.page.table_page import TablePage
    from table_writer.reports.report import Report


@dataclass(frozen=True, slots=True)
class SavedPage:
    """Report on a page that was written to a file, or that is the output itself."""

    page: TablePage
    path: str

    def to_dict(self) -> dict[str, Any]:
        return {**self.page.to_dict(), "html": self.path}

    def to_text(self, *, all_rows: bool = False) -> str:
        if self.path == STDOUT:
            return self.page.to_html()
        return f"{self.page.to_text(all_rows=all_rows)}\n  page written to {printable(self.path)}"

    @property
    def healthy(self) -> bool:
        return self.page.healthy


@dataclass(frozen=True, slots=True)
class Adopted:
    """Report that the files below the root now belong to the table."""

    table: str

    def to_dict(self) -> dict[str, Any]:
        return {"table": self.table, "adopted": True}

    def to_text(self, *, all_rows: bool = False) -> str:  # noqa: ARG002  # as of every report
        return f"{self.table}: the files below its root are adopted; log and data stay as they are"


STDOUT: Final = "-"
SHELLS: Final = ("bash", "zsh", "fish", "tcsh")


class Takes(Enum):
    """The tables that a command takes."""

    ONE = "one table"
    ONE_OR_STORE = "one table, or a store without any"
    SEVERAL = "one table, several, or all of a database"
    DATABASES = "all tables, or those of a database"


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command, named and explained as on the command line."""

    name: str
    former_name: str = ""  # which does the same, and is shown nowhere
    help: str
    options: Options = field(default_factory=dict)  # those that only this command has
    exclusive_options: Options = field(default_factory=dict)  # exactly one of these must be given
    run: Callable[[Maintenance, Namespace], Report | Adopted | SavedPage]
    needs_attention: Callable[[Any], bool] = lambda _: False  # the report names something to look at: exit code 1
    takes: Takes = Takes.ONE
    run_many: Callable[[Maintenance, Namespace], Report] | None = None  # where it takes several tables
    # where it takes a store, and no metastore
    run_store: Callable[[TableWriterConfig, Namespace], Report] | None = None
    asks: Callable[[Namespace], bool] = lambda _: False  # a person at a terminal is asked about these arguments


def _staged_report(keeper: Maintenance, arguments: Namespace) -> Report:
    if arguments.write_id is None:
        return keeper.staged(arguments.table)
    return keeper.staged_write(arguments.table, arguments.write_id)


def _report(keeper: Maintenance, arguments: Namespace) -> TablePage | SavedPage:
    page = keeper.report(arguments.table, limit=arguments.limit)
    if arguments.html is None:
        return page
    if arguments.html != STDOUT:
        page.save(arguments.html)
    return SavedPage(page, arguments.html)


def _adopt(keeper: Maintenance, arguments: Namespace) -> Adopted:
    from table_writer.model.table import TableName

    keeper.adopt(arguments.table, accept_loss=arguments.accept_loss)
    return Adopted(str(TableName.parse(arguments.table)))


def _doctor(keeper: Maintenance, arguments: Namespace) -> Report:
    spark_conf = read_spark_conf(arguments.spark_conf) if arguments.spark_conf else None
    return keeper.doctor(arguments.table, spark_conf=spark_conf, scratch_table=arguments.scratch_table)


def _examine_store(config: TableWriterConfig, arguments: Namespace) -> DoctorReport:
    from table_writer.doctor.store import examine_store

    return examine_store(arguments.store, config)


def _not_recovered(report: RecoverReport) -> bool:
    in_doubt = "in doubt" in report.settled.values()
    undone = report.dry_run and (report.put_right or report.lost)
    # what is missing, somebody dropped: nothing is left to do
    return bool(in_doubt or undone or report.superseded or report.unfinished_vacuums)


def exit_code(command: Command, report: Any) -> ExitCode:
    """Return the exit code of a report; of many tables the worst counts."""
    from table_writer.reports.many_reports import ManyReport, TablesReport

    if isinstance(report, TablesReport):
        failed = [exit_code_named(table.error["code"]) for table in report.tables if table.error is not None]
        return max([*failed, ExitCode.DONE if report.healthy else ExitCode.LEFT])
    if isinstance(report, ManyReport):
        return max((exit_code_of_result(command, result) for result in report.results), default=ExitCode.DONE)
    return ExitCode.LEFT if command.needs_attention(report) else ExitCode.DONE


def exit_code_of_result(command: Command, result: TableResult[Any]) -> ExitCode:
    if result.error is not None:
        return exit_code_of(result.error)
    return ExitCode.LEFT if command.needs_attention(result.report) else ExitCode.DONE


def facts(command: Command, report: Any) -> dict[str, Any]:
    """Return what ``--json`` prints: of many tables each with the exit code that it would have had alone."""
    from table_writer.reports.many_reports import ManyReport

    found: dict[str, Any] = report.to_dict()
    if isinstance(report, ManyReport):
        for fact, result in zip(found["results"], report.results, strict=True):
            fact["exit_code"] = int(exit_code_of_result(command, result))
    return found


YES: Final[Options] = {"--yes": switch("ask no question at a terminal")}
CHANGES: Final[Options] = {"--dry-run": switch("check everything and change nothing"), **YES}
ONE_STAGED: Final[Options] = {"write_id": {"metavar": "WRITE_ID", "help": "as `staged` lists it"}, **CHANGES}
PARTITIONS: Final[Options] = {
    "--partition": {
        "action": "append",
        "metavar": "NAME",
        "help": "such as dt=2024-01-01; can be repeated (default: all)",
    },
    **CHANGES,
}

WORKERS_OPTION: Final[Options] = {
    "--workers": {
        "type": int,
        "metavar": "N",
        "default": WORKERS,
        "help": "of many tables, so many at once (default: %(default)s)",
    }
}
DATABASE: Final[Options] = {
    "--database": {
        "action": "append",
        "metavar": "DB",
        "help": "all its tables that this library has written; can be repeated",
    }
}
MANY: Final[Options] = {**DATABASE, **WORKERS_OPTION}

COMMANDS: Final = (
    Command(
        name="tables",
        help="List the tables that this library has written: version, age, what is in doubt, what a vacuum frees.",
        takes=Takes.DATABASES,
        options=MANY,
        run=lambda keeper, given: keeper.tables(given.database, workers=given.workers),
    ),
    Command(
        name="report",
        help="Look at a table once: versions, sizes, checks, what is in doubt; with --html as a page with pictures.",
        options={
            "--html": {"metavar": "FILE", "help": "write it as one page with pictures; - is stdout"},
            "--limit": {
                "type": int,
                "metavar": "N",
                "default": NEWEST_VERSIONS,
                "help": "read so many of the newest versions (default: %(default)s)",
            },
        },
        run=_report,
        needs_attention=lambda report: not report.healthy,
    ),
    Command(
        name="history",
        help="List the versions of a table, newest first.",
        options={"--limit": {"type": int, "metavar": "N", "help": "only so many of the newest"}},
        run=lambda keeper, given: keeper.history(given.table, limit=given.limit),
    ),
    Command(
        name="show",
        help="Show one version, partition by partition.",
        options={"version": {"type": version_number, "metavar": "VERSION", "help": "its number in the history"}},
        run=lambda keeper, given: keeper.show(given.table, given.version),
    ),
    Command(
        name="partitions",
        help="Say which version wrote the rows that readers find in partitions now.",
        options={"--partition": {**PARTITIONS["--partition"], "help": "also one that is not there yet (default: all)"}},
        run=lambda keeper, given: keeper.partitions(given.table, given.partition),
    ),
    Command(
        name="changes",
        former_name="diff",
        help="List the partitions that two versions differ in, with rows before and after.",
        options={
            "from_version": {"type": version_number, "metavar": "FROM", "help": "0: before the first version"},
            "to_version": {"type": version_number, "metavar": "TO", "help": "a newer version"},
        },
        run=lambda keeper, given: keeper.changes(given.table, given.from_version, given.to_version),
    ),
    Command(
        name="recover",
        help="Resolve every publish that was left in doubt, and correct what the metastore applied late.",
        takes=Takes.SEVERAL,
        options={
            "--accept-loss": switch("of one table: go on without entries of the log that are lost for good"),
            **MANY,
            **CHANGES,
        },
        run=lambda keeper, given: keeper.recover(given.table, dry_run=given.dry_run, accept_loss=given.accept_loss),
        run_many=lambda keeper, given: keeper.recover_many(
            given.tables, database=given.database, dry_run=given.dry_run, workers=given.workers
        ),
        needs_attention=_not_recovered,
        asks=lambda given: bool(given.accept_loss),
    ),
    Command(
        name="rollback",
        help="Put partitions back to an earlier version, in one metastore call, as a new version.",
        exclusive_options={
            "--version": {"type": version_number, "metavar": "N", "help": "0: before the first version"},
            "--to-version": {"type": version_number, "dest": "version", "help": SUPPRESS},
            "--write-id": {"metavar": "ID", "help": "the version that this write published"},
            "--to-write-id": {"dest": "write_id", "help": SUPPRESS},
            "--as-of": {
                "type": moment,
                "metavar": "TIME",
                "help": "the newest version of this time or before, as the history shows it: UTC without an offset",
            },
        },
        options=PARTITIONS,
        run=lambda keeper, given: keeper.rollback(
            given.table,
            version=given.version,
            write_id=given.write_id,
            as_of=given.as_of,
            partitions=given.partition,
            dry_run=given.dry_run,
        ),
        asks=lambda _: True,
    ),
    Command(
        name="vacuum",
        help="Delete what readers have left for longer than the retention, and what dead writes have left behind.",
        options={
            "--older-than": {
                "type": age,
                "metavar": "AGE",
                "help": "such as 7d, 36h, 90m (default: the table's own retention, three days without one)",
            },
            "--force": switch("allow an age at which running queries may fail"),
            **MANY,
            **CHANGES,
        },
        takes=Takes.SEVERAL,
        run=lambda keeper, given: keeper.vacuum(
            given.table, older_than=given.older_than, dry_run=given.dry_run, force=given.force
        ),
        run_many=lambda keeper, given: keeper.vacuum_many(
            given.tables,
            database=given.database,
            older_than=given.older_than,
            dry_run=given.dry_run,
            force=given.force,
            workers=given.workers,
        ),
        needs_attention=lambda report: bool(report.failures),
        asks=lambda _: True,
    ),
    Command(
        name="uploads",
        help="List pending uploads below the table's root, with whose they are; with --abort give up dead writes.",
        options={
            "--abort": switch("give dead writes up: their uploads and files are deleted"),
            "--older-than": {
                "type": age,
                "metavar": "AGE",
                "default": SAFE_AGE,
                "help": "since a dead writer's last sign (default: 24h)",
            },
            "--force": switch("allow an age under 24h"),
            **CHANGES,
        },
        run=lambda keeper, given: keeper.uploads(
            given.table, abort=given.abort, older_than=given.older_than, dry_run=given.dry_run, force=given.force
        ),
        needs_attention=lambda report: bool(report.failures),
        asks=lambda given: bool(given.abort),
    ),
    Command(
        name="staged",
        help="List the writes that are staged, or show one of them.",
        options={"write_id": {"nargs": "?", "metavar": "WRITE_ID", "help": "show this one, partition by partition"}},
        run=_staged_report,
    ),
    Command(
        name="publish",
        help="Make readers see a staged write: all its partitions in one metastore call.",
        options=ONE_STAGED,
        run=lambda keeper, given: keeper.publish(given.table, given.write_id, dry_run=given.dry_run),
        asks=lambda _: True,
    ),
    Command(
        name="discard",
        help="Delete a staged write, so that nobody can publish it any more.",
        options=ONE_STAGED,
        run=lambda keeper, given: keeper.discard(given.table, given.write_id, dry_run=given.dry_run),
        needs_attention=lambda report: bool(report.failures),
        asks=lambda _: True,
    ),
    Command(
        name="restore",
        help="Add the partitions that the log knows and the metastore does not, in one metastore call.",
        options=PARTITIONS,
        run=lambda keeper, given: keeper.restore(given.table, partitions=given.partition, dry_run=given.dry_run),
        needs_attention=lambda report: bool(report.not_there),
        asks=lambda _: True,
    ),
    Command(
        name="adopt",
        help="Declare that the files below a table's root are this table's, after it was renamed or created again.",
        options={"--accept-loss": switch("partitions that the metastore does not have were dropped on purpose"), **YES},
        run=_adopt,
        asks=lambda given: bool(given.accept_loss),
    ),
    Command(
        name="doctor",
        help="Look for what makes writing a table slow, unsafe or expensive, or try a store, and say what to change.",
        options={
            "--store": {
                "metavar": "LOCATION",
                "help": "instead of TABLE: try a store below a location such as s3a://bucket/prefix before its first"
                " write; needs no metastore",
            },
            "--spark-conf": {"metavar": "FILE", "help": "a spark-defaults.conf whose settings are looked at, too"},
            "--scratch-table": {
                "action": "store_true",
                "help": "try which characters the metastore keeps, in a table that is made for that and dropped again",
            },
        },
        run=_doctor,
        run_store=_examine_store,
        needs_attention=lambda report: not report.healthy,
        takes=Takes.ONE_OR_STORE,
    ),
)
BY_NAME: Final = {command.name: command for command in COMMANDS}
FORMER_NAMES: Final = {command.former_name: command.name for command in COMMANDS if command.former_name}


def parse(argv: Sequence[str]) -> Namespace:
    """Read the arguments; ``UsageError`` if they make no command."""
    parser = build_parser()
    commands = _parsers(parser)
    name, *others = argv or ("",)
    if (call := name.replace("-", "_")) in OF_SPARK:
        parser.error(f"{name} takes Spark, which {PROGRAM} works without: TableWriter(spark).{call}(…) in Python")
    argv = [FORMER_NAMES[name], *others] if name in FORMER_NAMES else argv
    try:
        arguments, unknown = parser.parse_known_args(argv)
    except UsageError as error:  # what is missing may be there, misspelled
        meant = next((word for word in argv if word in commands), "")
        raise UsageError(f"{error.message}{_nearest(argv, commands.get(meant, parser))}", error.usage) from None
    own = commands[arguments.command]  # whose usage an error shows
    if unknown:
        options = ", ".join(word.partition("=")[0] for word in unknown if word.startswith("-"))
        near = _nearest(unknown, own)
        lists = f"`{PROGRAM} {arguments.command} --help` lists all"
        own.error(f"not known here: {options or 'a further word'}{near or ';'} {lists}")
    if getattr(arguments, "html", None) == STDOUT and arguments.json:
        own.error("--html - and --json both want stdout: write the page to a file")
    _settle_tables(own, arguments, BY_NAME[arguments.command].takes)
    return arguments


def _nearest(words: Sequence[str], parser: ArgumentParser) -> str:
    """Ask whether a known option was meant by one that is not known."""
    actions = [action for action in parser._actions if action.help != SUPPRESS]  # noqa: SLF001  # of our own class
    known = [option for action in actions for option in action.option_strings]
    given = (word.partition("=")[0] for word in words if word.startswith("--"))
    return next((near for option in given if option not in known and (near := nearest(option, known))), "")


def _settle_tables(parser: ArgumentParser, arguments: Namespace, takes: Takes) -> None:
    """Find out which tables are meant: ``table`` is the one, empty if there may be several; then ``tables`` are those.

    Of a command on one table ``--all`` means all rows only. ``tables`` is ``None`` where databases are meant, or all.
    """
    if takes is Takes.ONE:
        return
    if takes is Takes.ONE_OR_STORE:
        if bool(arguments.table) == bool(arguments.store):
            parser.error("give either TABLE or --store LOCATION")
        return
    named = arguments.table if takes is Takes.SEVERAL else []
    arguments.table = named[0] if len(named) == 1 and not arguments.database else ""
    arguments.tables = named or None
    if takes is Takes.DATABASES:
        return
    if named and arguments.database:
        parser.error("TABLE and --database exclude each other: name tables, or whole databases")
    if not (named or arguments.database or arguments.all_rows):
        parser.error("the following arguments are required: TABLE, one or several; or --database DB, or --all")
    if not arguments.table and getattr(arguments, "accept_loss", False):
        parser.error("--accept-loss is for one TABLE at a time")


class _Version(Action):
    """Prints the version, and ends."""

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        from table_writer.version import __version__

        print(PROGRAM, __version__)  # noqa: T201
        parser.exit()


class _PrintCompletion(Action):
    """Prints a script for a shell, made by shtab, and ends."""

    def __call__(self, parser: ArgumentParser, _: Namespace, shell: Any, option_string: str | None = None) -> None:  # noqa: ARG002
        try:
            with needs_extra("completion", "--print-completion"):
                import shtab  # an extra
        except MissingExtraError as missing:
            parser.error(missing.message)
        kinds = {"FILE": shtab.FILE, "PEM": shtab.FILE, "DIR": shtab.DIRECTORY}
        for name, command_parser in _parsers(parser).items():
            command_parser.description = BY_NAME[name].help  # of which shells show the first line
            for action in (action for action in command_parser._actions if action.metavar in kinds):  # noqa: SLF001
                action.complete = kinds[str(action.metavar)]  # type: ignore[attr-defined]
        print(shtab.complete(parser, shell=shell))  # noqa: T201
        parser.exit()


def _parsers(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """Return the parser of each command."""
    return next(dict(action.choices) for action in parser._actions if isinstance(action.choices, dict))  # noqa: SLF001


def build_parser() -> Parser:
    like: dict[str, Any] = {"formatter_class": RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = Parser(prog=PROGRAM, description=description("", OVERVIEW), epilog=epilog(OVERVIEW), **like)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version of this program and exit")
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print a script that lets a shell complete commands and options: {', '.join(SHELLS)}",
    )
    chosen = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    shared = Parser(add_help=False, allow_abbrev=False)
    for title, options in SHARED.items():
        _add(shared.add_argument_group(title), options)
    for command in COMMANDS:
        manual = MANUALS[command.name]
        text: dict[str, Any] = {"description": description(command.help, manual), "epilog": epilog(manual)}
        own = Parser(prog=f"{PROGRAM} {command.name}", add_help=False)
        _add_own(own, command)
        own.add_argument("shared", nargs="*", metavar="OPTION")  # those of every command, in a word
        usage = own.format_usage().removeprefix("usage: ").rstrip()
        one = chosen.add_parser(command.name, help=command.help, parents=[shared], usage=usage, **text, **like)
        _add_own(one, command)
    return parser


def _add_own(parser: Parser, command: Command) -> None:
    """Add what only this command takes."""
    if command.takes is Takes.ONE:
        _add(parser, {"table": {"metavar": "TABLE", "help": "database.table"}})
    elif command.takes is Takes.ONE_OR_STORE:
        _add(parser, {"table": {"nargs": "?", "default": "", "metavar": "TABLE", "help": "database.table"}})
    elif command.takes is Takes.SEVERAL:
        several = "database.table; several, or none with --all"
        _add(parser, {"table": {"nargs": "*", "metavar": "TABLE", "help": several}})
    if command.exclusive_options:
        _add(parser.add_mutually_exclusive_group(required=True), command.exclusive_options)
    _add(parser, command.options)


def _add(parser: _ActionsContainer, options: Options) -> None:
    for name, keywords in options.items():
        parser.add_argument(name, **keywords)
