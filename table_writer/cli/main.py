"""``main``: arguments, settings, the question, the call, the report, the exit code; in this order."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TextIO

from table_writer.cli.arguments import PROGRAM, ExitCode, UsageError, exit_code_of
from table_writer.cli.commands import BY_NAME, Command, exit_code, facts, parse
from table_writer.cli.configuration import Redaction, read_configuration
from table_writer.errors import TableWriterError, printable
from table_writer.maintenance import Maintenance
from table_writer.signals import handled, interrupt

YES: Final = frozenset({"y", "yes"})


class _DeclinedError(Exception):
    """The question was not answered with yes."""


def main(argv: Sequence[str] | None = None, *, make_maintenance: Callable[..., Maintenance] = Maintenance) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv
        The words after the program's name; by default the process's own.
    make_maintenance
        Replaced in tests.

    Returns
    -------
    int
        One of ``ExitCode``.

    Examples
    --------
    >>> main(["history"]) == 2  # a table is missing: wrong usage
    True
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments = parse(words)
    except UsageError as error:
        return _wrong_usage(error, as_json="--json" in words)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    output = Output(as_json=arguments.json, verbose=arguments.verbose)
    try:
        with handled(interrupt, signal.SIGTERM), output.logging():
            return _run(BY_NAME[arguments.command], arguments, output, make_maintenance)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # a traceback helps nobody at a prompt
        output.error(error, _facts(error, arguments.table))
        return ExitCode.INTERRUPTED if isinstance(error, _DeclinedError) else exit_code_of(error)


def _run(
    command: Command, arguments: Namespace, output: Output, make_maintenance: Callable[..., Maintenance]
) -> ExitCode:
    run_store = command.run_without_metastore(arguments)
    uri, config = read_configuration(arguments, needs_metastore=run_store is None)
    output.redaction.hide(config.hadoop)
    if run_store is not None:
        found = run_store(replace(config, metastore_uris=tuple(uri.split(",")) if uri else None), arguments)
        output.report(facts(command, found), found.to_text(all_rows=True))
        return exit_code(command, found)
    keeper = make_maintenance(uri, config=config)
    if command.asks is not None and command.asks(arguments) and _is_asked(arguments):
        preview = command.call.summary  # where there is no dry run to show
        if "dry_run" in arguments:
            would_be = command.run_call(keeper, Namespace(**{**vars(arguments), "dry_run": True}))
            preview = would_be.to_text(all_rows=arguments.all_rows)
        if not output.ask(preview):
            raise _DeclinedError("nothing was changed")
    interrupted = None
    try:
        report: Any = command.run_call(keeper, arguments)
    except KeyboardInterrupt as stopped:
        if not hasattr(stopped, "report"):  # of a call on many tables, which have been done in part
            raise
        report, interrupted = stopped.report, ExitCode.INTERRUPTED
        output.say(f"{PROGRAM}: {stopped}")
    output.report(facts(command, report), report.to_text(all_rows=arguments.all_rows))
    return interrupted or exit_code(command, report)


def _is_asked(arguments: Namespace) -> bool:
    """Return whether a person is there to answer; scripts are never asked."""
    streams = (sys.stdin, sys.stdout)  # None where a scheduler has closed them
    is_answered = arguments.yes or getattr(arguments, "dry_run", False)
    return not is_answered and all(stream is not None and stream.isatty() for stream in streams)


def _facts(error: BaseException, table: str) -> dict[str, Any]:
    if isinstance(error, TableWriterError):
        return {"code": error.code, "message": str(error), "table": error.table or table, "write_id": error.write_id}
    recover = f"`{PROGRAM} recover {table or '--all'}`"
    if isinstance(error, _DeclinedError):
        code, message = "declined", str(error)
    elif isinstance(error, KeyboardInterrupt):
        code, message = "interrupted", f"interrupted; if something was being changed, {recover} finishes or resolves it"
    else:
        code = "internal"
        message = (
            f"unexpected {type(error).__name__}: {error}. This is a bug; --verbose shows where. Whether something"
            f" changed is not known: {recover} finds out."
        )
    return {"code": code, "message": message, "table": table, "write_id": ""}


def _wrong_usage(error: UsageError, *, as_json: bool) -> ExitCode:
    output = Output(as_json=as_json, verbose=False)
    for line in error.usage.splitlines():
        output.say(line)
    output.error(error, {"code": "usage", "message": error.message, "table": "", "write_id": ""})
    return ExitCode.WRONG_CALL


class Output:
    """Prints for one run of the command.

    ``as_json``: one JSON object on stdout and nothing else there. ``verbose``: log lines from INFO on, and tracebacks.
    """

    def __init__(self, *, as_json: bool, verbose: bool) -> None:
        self.redaction = Redaction()
        self._as_json = as_json
        self._verbose = verbose

    def report(self, facts: Mapping[str, Any], text: str) -> None:
        """Print a result on stdout; a reader that has gone (``| head``) is no error."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a name still gets the rest
        try:
            # escaped to ASCII: the same in every locale, and no control character reaches a terminal
            print(json.dumps(facts, indent=2) if self._as_json else text, flush=True)  # noqa: T201
        except BrokenPipeError:
            _forget(sys.stdout)

    def error(self, error: BaseException, facts: Mapping[str, Any]) -> None:
        """Print an error on stderr; with ``--json`` as an object on stdout, too."""
        if self._verbose:
            for line in "".join(traceback.format_exception(error)).splitlines():
                self.say(line)
        self.say(f"{PROGRAM}: {facts['message']}")
        if self._as_json:
            message = self.redaction.of(facts["message"])
            self.report({"error": {**facts, "message": message}}, "")

    def say(self, text: str) -> None:
        """Print a line on stderr, escaped and without secrets."""
        try:
            print(printable(self.redaction.of(text)), file=sys.stderr, flush=True)  # noqa: T201
        except BrokenPipeError:
            _forget(sys.stderr)

    def ask(self, preview: str) -> bool:
        """Show what would be done and ask; on stderr where stdout is for JSON."""
        stream = sys.stderr if self._as_json else sys.stdout
        print(preview, "Go ahead? [y/N] ", sep="\n", end="", file=stream, flush=True)
        return sys.stdin.readline().strip().lower() in YES

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Send the library's log lines to stderr."""
        library = logging.getLogger("table_writer")
        before = library.level
        handler = _Lines(self)
        library.addHandler(handler)
        library.setLevel(logging.INFO if self._verbose else logging.WARNING)
        try:
            yield
        finally:
            library.removeHandler(handler)
            library.setLevel(before)


class _Lines(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._output.say(f"{record.levelname} {record.name}: {record.getMessage()}")
        except Exception:  # noqa: BLE001  # as every handler: a log line never ends the work
            self.handleError(record)


def _forget(stream: TextIO) -> None:
    """Let what is still buffered go nowhere: Python flushes at its end and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
