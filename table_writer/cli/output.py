"""Everything that the command line says: reports, errors, log lines, the question. Escaped, without secrets."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

from table_writer.cli.arguments import PROGRAM
from table_writer.cli.secrets import Redaction
from table_writer.display.render import Summary, summary_text

__all__ = ["Output"]

YES: Final = frozenset({"y", "yes"})


class Output:
    """What one run prints.

    Parameters
    ----------
    as_json
        One JSON object on stdout and nothing else there.
    verbose
        Log lines from INFO on, and tracebacks.
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
            print(_printable(self.redaction.of(text)), file=sys.stderr, flush=True)  # noqa: T201
        except BrokenPipeError:
            _forget(sys.stderr)

    def confirmed(self, preview: str) -> bool:
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


def _printable(text: str) -> str:
    """Escape control characters as reports do."""
    return summary_text(Summary(headline=text, headings=(), rows=(), lines=()))


def _forget(stream: TextIO) -> None:
    """Let what is still buffered go nowhere: Python flushes at its end and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
