"""One table of all commands: what each is called, what it takes, what it runs, what it leaves; and its parser."""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter, _ActionsContainer
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from table_writer.checked import nearest
from table_writer.cli.arguments import (
    PROGRAM,
    SHARED,
    ExitCode,
    Options,
    Parser,
    UsageError,
    exit_code_named,
    exit_code_of,
    switch,
)
from table_writer.cli.calls import Call, option_of
from table_writer.cli.configuration import read_spark_conf
from table_writer.cli.manual import MANUALS, OVERVIEW, PURPOSE, epilog, filled_text
from table_writer.errors import MissingExtraError, needs_extra, printable
from table_writer.maintenance import OF_SPARK, Maintenance

if TYPE_CHECKING:
    from table_writer.config import TableWriterConfig
    from table_writer.reports.certification_report import CertificationReport
    from table_writer.reports.erasure_report import ErasureReport
    from table_writer.reports.health_reports import DoctorReport
    from table_writer.reports.history_reports import RecoverReport
    from table_writer.reports.many_reports import TableResult
    from table_writer.reports.page.table_page import TablePage
    from table_writer.reports.plan_report import RowsPlan
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
STDIN: Final = "-"
SHELLS: Final = ("bash", "zsh", "fish", "tcsh")


class Takes(Enum):
    """The tables that a command takes."""

    ONE = "one table"
    ONE_OR_STORE = "one table, or a store without any"
    STORE = "a place in a store"
    SEVERAL = "one table, several, or all of a database"
    DATABASES = "all tables, or those of a database"


TABLE_WORDS: Final[Mapping[Takes, Mapping[str, Any]]] = {
    Takes.ONE: {"help": "database.table"},
    Takes.ONE_OR_STORE: {"nargs": "?", "default": "", "help": "database.table"},
    Takes.SEVERAL: {"nargs": "*", "help": "database.table; several, or none with --all"},
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command: what the call of ``Maintenance`` that has its name does not say.

    The signature of the call makes the options, its docstring their help; ``options`` are those that differ.
    """

    name: str
    takes: Takes = Takes.ONE
    options: Options = field(default_factory=dict)
    exclusive: tuple[str, ...] = ()  # exactly one of these parameters must be given
    run: Callable[[Maintenance, Namespace], Report | Adopted | SavedPage] | None = None  # where it is more than a call
    # where it takes a store, and needs no metastore
    run_store: Callable[[TableWriterConfig, Namespace], Report] | None = None
    needs_attention: Callable[[Any], bool] = lambda _: False  # the report names something to look at: exit code 1
    asks: Callable[[Namespace], bool] | None = None  # a person at a terminal is asked about these arguments

    @cached_property
    def call(self) -> Call:
        return Call(self.name if hasattr(Maintenance, self.name) else f"{self.name}_many")

    @cached_property
    def many(self) -> Call | None:
        """Return the call for several tables, where there is one."""
        return Call(f"{self.name}_many") if self.takes is Takes.SEVERAL else None

    @cached_property
    def all_options(self) -> Options:
        """Return the options, and the words without dashes, that this command takes and not every one."""
        options = dict(self.options)
        for call in (self.call, self.many) if self.many else (self.call,):
            for name, keywords in call.options().items():
                options.setdefault(name, keywords)
        return {**options, "--yes": switch("ask no question at a terminal")} if self.asks else options

    def run_without_metastore(self, arguments: Namespace) -> Callable[[TableWriterConfig, Namespace], Report] | None:
        """Return what runs these arguments where no metastore is named; ``None`` if they need one."""
        return self.run_store if self.takes is Takes.STORE or getattr(arguments, "store", None) else None

    def run_call(self, keeper: Maintenance, arguments: Namespace) -> Report | Adopted | SavedPage:
        """Make the call, which for several tables is another one than for one table."""
        if self.run is not None:
            return self.run(keeper, arguments)
        call = self.many if self.many is not None and not arguments.table else self.call
        report: Report = call.make(keeper, arguments)
        return report

    def only_for_one(self, arguments: Namespace) -> str:
        """Return an option that was given and that only the call on one table takes; empty if there is none."""
        if self.many is None:
            return ""
        own = [name for name in self.call.parameters if name not in self.many.parameters and name != "table"]
        given = (name for name in own if getattr(arguments, name) != self.call.parameters[name].default)
        return next(map(option_of, given), "")


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


def _erase(keeper: Maintenance, arguments: Namespace) -> Report:
    settings = read_spark_conf(arguments.spark_conf) if arguments.spark_conf else None
    report: Report = Call("erase_many").make(keeper, arguments, spark=settings)
    return report


def _not_erased(report: ErasureReport | RowsPlan) -> bool:
    """Return whether a table may still hold such rows, or would refuse; that it held none is nothing to look at."""
    from table_writer.reports.erasure_report import ErasureReport

    if isinstance(report, ErasureReport):
        return not (report.is_complete or report.found_nothing)
    return not report.ok


def _examine_store(config: TableWriterConfig, arguments: Namespace) -> DoctorReport:
    from table_writer.doctor.store import examine_store

    return examine_store(arguments.store, config)


def _certify(config: TableWriterConfig, arguments: Namespace) -> CertificationReport:
    from table_writer.doctor.certify import certify
    from table_writer.doctor.certify_steps import Extent
    from table_writer.protocol.table.services import Services

    return certify(
        arguments.location,
        config,
        Services.without_spark(None, config) if config.metastore_uris else None,
        database=arguments.database,
        extent=Extent(races=arguments.races, kills=arguments.kills, minutes=arguments.minutes),
        history=arguments.history or "",
    )


def _not_recovered(report: RecoverReport) -> bool:
    in_doubt = "in doubt" in report.settled.values()
    undone = report.dry_run and (report.put_right or report.lost)
    # what is missing, somebody dropped: nothing is left to do
    return bool(in_doubt or undone or report.superseded or report.unfinished_vacuums)


def exit_code(command: Command, report: Any) -> ExitCode:
    """Return the exit code of a report; of many tables the worst counts."""
    from table_writer.reports.erasure_report import ErasureReport
    from table_writer.reports.many_reports import ErasuresReport, ManyReport, TablesReport

    if isinstance(report, TablesReport):
        failed = [exit_code_named(table.error["code"]) for table in report.tables if table.error is not None]
        return max([*failed, ExitCode.DONE if report.healthy else ExitCode.LEFT])
    if isinstance(report, ManyReport):
        codes = [exit_code_of_result(command, result) for result in report.results]
        is_open = isinstance(report, ErasuresReport) and (
            report.not_looked_through or not (report.dry_run or report.is_complete)
        )
        return max([*codes, ExitCode.LEFT if is_open else ExitCode.DONE])
    found_nothing = isinstance(report, ErasureReport) and report.found_nothing  # of many tables some have none
    return ExitCode.LEFT if found_nothing or command.needs_attention(report) else ExitCode.DONE


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


COMMANDS: Final = (
    Command(name="tables", takes=Takes.DATABASES),
    Command(
        name="report",
        options={"--html": {"metavar": "FILE", "help": "write it as one page with pictures; - is stdout"}},
        run=_report,
        needs_attention=lambda report: not report.healthy,
    ),
    Command(name="history"),
    Command(name="show"),
    Command(name="partitions"),
    Command(name="changes"),
    Command(
        name="recover", takes=Takes.SEVERAL, needs_attention=_not_recovered, asks=lambda given: bool(given.accept_loss)
    ),
    Command(name="rollback", exclusive=("version", "write_id", "as_of"), asks=lambda _: True),
    Command(
        name="vacuum", takes=Takes.SEVERAL, needs_attention=lambda report: bool(report.failures), asks=lambda _: True
    ),
    Command(
        name="erase",
        takes=Takes.SEVERAL,
        options={
            "--where": {
                "metavar": "PREDICATE",
                "required": True,
                "dest": "where",
                "help": "which rows: a predicate in SQL over columns alone; - reads it from stdin, since options show"
                " in process lists",
            },
            "--spark-conf": {
                "metavar": "FILE",
                "help": "a spark-defaults.conf for the session that is started, with spark.jars.packages for S3A;"
                " secrets in it are not read",
            },
        },
        run=_erase,
        needs_attention=_not_erased,
        asks=lambda _: True,
    ),
    Command(name="erasure", takes=Takes.SEVERAL, needs_attention=_not_erased),
    Command(name="mirror", needs_attention=lambda report: not report.healthy, asks=lambda given: bool(given.drop)),
    Command(name="handover", needs_attention=lambda report: not report.healthy, asks=lambda _: True),
    Command(name="uploads", needs_attention=lambda report: bool(report.failures), asks=lambda given: bool(given.abort)),
    Command(
        name="staged",
        options={"write_id": {"nargs": "?", "metavar": "WRITE_ID", "help": "show this one, partition by partition"}},
        run=_staged_report,
    ),
    Command(name="publish", asks=lambda _: True),
    Command(name="discard", needs_attention=lambda report: bool(report.failures), asks=lambda _: True),
    Command(name="restore", needs_attention=lambda report: bool(report.not_there), asks=lambda _: True),
    Command(name="leave"),
    Command(name="adopt", run=_adopt, asks=lambda given: bool(given.accept_loss)),
    Command(
        name="doctor",
        takes=Takes.ONE_OR_STORE,
        options={
            "--store": {
                "metavar": "LOCATION",
                "help": "instead of TABLE: try a store below a location such as s3a://bucket/prefix before its first"
                " write; needs no metastore",
            },
            "--spark-conf": {"metavar": "FILE", "help": "a spark-defaults.conf whose settings are looked at, too"},
        },
        run=_doctor,
        run_store=_examine_store,
        needs_attention=lambda report: not report.healthy,
    ),
    Command(name="certify", takes=Takes.STORE, run_store=_certify, needs_attention=lambda report: not report.holds),
)
BY_NAME: Final = {command.name: command for command in COMMANDS}


def parse(argv: Sequence[str]) -> Namespace:
    """Read the arguments; ``UsageError`` if they make no command."""
    parser = build_parser()
    commands = _parsers(parser)
    name = argv[0] if argv else ""
    if (call := name.replace("-", "_")) in OF_SPARK:
        parser.error(f"{name} takes Spark, which {PROGRAM} works without: TableWriter(spark).{call}(…) in Python")
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
    if getattr(arguments, "where", None) == STDIN:
        arguments.where = sys.stdin.read().strip()  # options show in process lists
    return arguments


def _nearest(words: Sequence[str], parser: ArgumentParser) -> str:
    """Ask whether a known option was meant by one that is not known."""
    known = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001  # our own class
    given = (word.partition("=")[0] for word in words if word.startswith("--"))
    return next((near for option in given if option not in known and (near := nearest(option, known))), "")


def _settle_tables(parser: ArgumentParser, arguments: Namespace, takes: Takes) -> None:
    """Find out which tables are meant: ``table`` is the one, empty if there may be several; then ``tables`` are those.

    Of a command on one table ``--all`` means all rows only. ``tables`` is ``None`` where databases are meant, or all.
    """
    if takes is Takes.STORE:
        arguments.table = ""
    if takes in {Takes.ONE, Takes.STORE}:
        return
    if takes is Takes.ONE_OR_STORE:
        if bool(arguments.table) == bool(arguments.store):
            parser.error("give either TABLE or --store LOCATION")
        return
    named = arguments.table if takes is Takes.SEVERAL else []
    arguments.table = named[0] if len(named) == 1 and not arguments.database else ""
    arguments.tables = named or None
    if takes is Takes.DATABASES:
        arguments.unwritten |= arguments.all_rows
        return
    if named and arguments.database:
        parser.error("TABLE and --database exclude each other: name tables, or whole databases")
    if not (named or arguments.database or arguments.all_rows):
        parser.error("the following arguments are required: TABLE, one or several; or --database DB, or --all")
    option = "" if arguments.table else BY_NAME[arguments.command].only_for_one(arguments)
    if option:
        parser.error(f"{option} is for one TABLE at a time")


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
            command_parser.description = BY_NAME[name].call.summary  # of which shells show the first line
            for action in (action for action in command_parser._actions if action.metavar in kinds):  # noqa: SLF001
                action.complete = kinds[str(action.metavar)]  # type: ignore[attr-defined]
        print(shtab.complete(parser, shell=shell))  # noqa: T201
        parser.exit()


def _parsers(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """Return the parser of each command."""
    return next(dict(action.choices) for action in parser._actions if isinstance(action.choices, dict))  # noqa: SLF001


def build_parser() -> Parser:
    like: dict[str, Any] = {"formatter_class": RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = Parser(prog=PROGRAM, description=filled_text(PURPOSE), epilog=epilog(OVERVIEW), **like)
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
        manual, call = MANUALS[command.name], command.call
        own = Parser(prog=f"{PROGRAM} {command.name}", add_help=False)
        _add_own(own, command)
        own.add_argument("shared", nargs="*", metavar="OPTION")  # those of every command, in a word
        one = chosen.add_parser(
            command.name,
            help=call.summary,
            description=filled_text(" ".join(filter(None, (call.summary, call.promises, manual.note)))),
            epilog=epilog(manual),
            usage=own.format_usage().removeprefix("usage: ").rstrip(),
            parents=[shared],
            **like,
        )
        _add_own(one, command)
    return parser


def _add_own(parser: Parser, command: Command) -> None:
    """Add what only this command takes."""
    if command.takes in TABLE_WORDS:
        _add(parser, {"table": {"metavar": "TABLE", **TABLE_WORDS[command.takes]}})
    options = dict(command.all_options)
    if command.exclusive:
        group = parser.add_mutually_exclusive_group(required=True)
        _add(group, {option_of(name): options.pop(option_of(name)) for name in command.exclusive})
    _add(parser, options)


def _add(parser: _ActionsContainer, options: Options) -> None:
    for name, keywords in options.items():
        parser.add_argument(name, **keywords)
