"""The words of the command line: parsing, types, help."""

from __future__ import annotations

import math
import re
from argparse import ArgumentParser, ArgumentTypeError  # no click, no typer: no dependency for a layer this thin
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, Final, NoReturn

from table_writer.checked import nearest
from table_writer.cli.configuration import METASTORE_VARIABLE, USER_INFO, is_secret
from table_writer.errors import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    SchemaMismatchError,
    StorageError,
    TableWriterError,
)
from table_writer.model.defaults import DIRECTORY_NAME, METASTORE_TIMEOUT_SECONDS

PROGRAM: Final = "table-writer"
Options = Mapping[str, Mapping[str, Any]]
"""By name: the keywords of ``add_argument``."""

AGE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([dhm])")
UNITS: Final = {"d": "days", "h": "hours", "m": "minutes"}
LONGEST_TIMEOUT_SECONDS: Final = 43_000  # a claim lasts twice as long, and at most a day
CREDENTIALS_HINT: Final = (
    "options show in process lists; use the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, --profile NAME,"
    " or a file in --conf-dir"
)


class UsageError(Exception):
    """The arguments are not those of a command."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.message = message
        self.usage = usage


CHOICE: Final = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)


class Parser(ArgumentParser):
    """Raises instead of ending the process, and repeats nothing that may be a secret typed at the wrong place."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.color = False  # else Python 3.14 colours what is escaped before it is shown

    def error(self, message: str) -> NoReturn:
        found = CHOICE.search(message)
        if found is not None:
            choices = re.findall(r"[\w-]+", found[2])
            said = f"not a choice{nearest(found[1], choices)} (choose from {', '.join(choices)})"
            message = f"{message[: found.start()]}{said}"
        raise UsageError(message, self.format_usage())


def age(text: str) -> timedelta:
    """Read an age with its unit."""
    if text == "0":
        return timedelta(0)
    match = AGE.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not an age: write days, hours or minutes, such as 7d, 36h, 90m, or 0")
    try:
        return timedelta(**{UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise ArgumentTypeError(f"{text!r} is longer than any table has been there") from None


def version_number(text: str) -> int:
    """Read the number of a version; 0 is the state before the first."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ArgumentTypeError(f"{text!r} is not the number of a version; `{PROGRAM} history` shows them")
    return int(text)


def moment(text: str) -> datetime:
    """Read a time, in UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is no time: write it as 2024-01-31T12:00:00, which is UTC, or with an offset such as +02:00"
        ) from None
    return found if found.utcoffset() is not None else found.replace(tzinfo=UTC)


def _setting(text: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``; messages never repeat the value."""
    name, equals, value = text.partition("=")
    name = name.strip().removeprefix("spark.hadoop.")
    if is_secret(name):
        shown = name if equals else "a secret"
        raise ArgumentTypeError(f"{shown} is refused: {CREDENTIALS_HINT}")
    if not equals or not name:
        raise ArgumentTypeError("expected NAME=VALUE, such as fs.s3a.endpoint=http://127.0.0.1:9000")
    if USER_INFO.search(value):
        raise ArgumentTypeError(f"{name} has a login in its address and is refused: {CREDENTIALS_HINT}")
    if name == "hive.metastore.uris":
        raise ArgumentTypeError("hive.metastore.uris has an option of its own: --metastore-uri")
    return name, value


def _endpoint(text: str) -> str:
    if USER_INFO.search(text):
        raise ArgumentTypeError(f"a login in the address is refused: {CREDENTIALS_HINT}")
    if not text.startswith(("http://", "https://")):
        raise ArgumentTypeError("it must start with http:// or https://")
    return text


def _timeout(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_TIMEOUT_SECONDS:
        raise ArgumentTypeError(f"{text!r} is no number of seconds from above 0 to {LONGEST_TIMEOUT_SECONDS:,}")
    return seconds


def _mark_success(text: str) -> bool | str:
    known: dict[str, bool | str] = {"true": True, "false": False, "partitions": "partitions"}
    if text.lower() not in known:
        raise ArgumentTypeError(f"expected true, false or partitions, not {text!r}")
    return known[text.lower()]


def switch(text: str) -> Mapping[str, Any]:
    """Return the keywords of an option that takes no value."""
    return {"action": "store_true", "default": False, "help": text}


SHARED: Final[Mapping[str, Options]] = {
    "output": {
        "--json": switch("print exactly one JSON object on stdout"),
        "--all": {
            **switch("show all rows, not only the first 12; of vacuum, recover, erase, erasure and tables: all tables"),
            "dest": "all_rows",
        },
        "--verbose": switch("say on stderr what is done; tracebacks of errors"),
    },
    "metastore and configuration": {
        "--metastore-uri": {
            "metavar": "URI",
            "help": "thrift://host:port, several separated by commas, or glue://REGION/CATALOG_ID"
            f" (default: {METASTORE_VARIABLE}, then hive.metastore.uris)",
        },
        "--metastore-timeout": {
            "type": _timeout,
            "metavar": "SECONDS",
            "default": METASTORE_TIMEOUT_SECONDS,
            "help": "how long one metastore call may take (default: %(default)g)",
        },
        "--sees-everything": switch(
            "the role sees all tables, partitions and columns: on AWS Glue a vacuum deletes other tools' files only so"
        ),
        "--metastore-ca-file": {"metavar": "PEM", "default": "", "help": "what to trust, for a metastore with TLS"},
        "--conf-dir": {
            "action": "append",
            "metavar": "DIR",
            "help": "directory of core-site.xml, hdfs-site.xml, hive-site.xml; can be repeated"
            " (default: HADOOP_CONF_DIR, HIVE_CONF_DIR, SPARK_CONF_DIR)",
        },
        "--conf": {
            "action": "append",
            "type": _setting,
            "default": [],
            "metavar": "NAME=VALUE",
            "help": "a Hadoop setting such as fs.s3a.endpoint=...; wins over files; no secrets; can be repeated",
        },
        "--directory-name": {
            "metavar": "NAME",
            "default": DIRECTORY_NAME,
            "help": "as the table's writers have it (default: %(default)s)",
        },
        "--mark-success": {
            "type": _mark_success,
            "metavar": "true|false|partitions",
            "help": "_SUCCESS, as the table's writers have it (default: as Hadoop's settings say)",
        },
        "--report-directory": {"metavar": "URI", "help": "where a report of each call that changes rows is put"},
    },
    "S3, where Hadoop's settings do not say it": {
        "--endpoint-url": {"type": _endpoint, "metavar": "URL", "help": "for stores other than AWS"},
        "--region": {"metavar": "NAME", "help": "of the bucket, and of AWS Glue (default: AWS_REGION)"},
        "--profile": {"metavar": "NAME", "help": "a profile of the AWS configuration files (default: AWS_PROFILE)"},
        "--path-style": {**switch("the bucket in the path, not in the host"), "default": None},
    },
}
"""Options that every command takes, by group."""


class ExitCode(IntEnum):
    """Outcomes that a script can tell from ``$?``."""

    DONE = 0
    LEFT = 1
    WRONG_CALL = 2
    CONFLICT = 3
    FAILED = 4
    UNKNOWN = 5
    INTERRUPTED = 130


MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "done",
    ExitCode.LEFT: "done, but something is left to look at: the report names it",
    ExitCode.WRONG_CALL: "wrong usage, or the call was refused; nothing changed",
    ExitCode.CONFLICT: "somebody else published the same partitions; nothing changed",
    ExitCode.FAILED: "storage or metastore failed; what was not done can be tried again",
    ExitCode.UNKNOWN: "it is not known whether it took effect: run `table-writer recover TABLE`",
    ExitCode.INTERRUPTED: "Ctrl-C or SIGTERM, or the question was not answered with yes",
}

EXIT_CODES: Final[Mapping[type[BaseException], ExitCode]] = {
    InvalidInputError: ExitCode.WRONG_CALL,
    SchemaMismatchError: ExitCode.WRONG_CALL,
    CheckFailedError: ExitCode.WRONG_CALL,
    ConflictError: ExitCode.CONFLICT,
    StorageError: ExitCode.FAILED,
    MetastoreError: ExitCode.FAILED,
    LostResponseError: ExitCode.UNKNOWN,  # a MetastoreError whose call may have been applied
    OutcomeUnknownError: ExitCode.UNKNOWN,
    KeyboardInterrupt: ExitCode.INTERRUPTED,
}


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the code of the nearest class that has one; a bug of ours leaves the outcome unknown."""
    return next((EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES), ExitCode.UNKNOWN)


def exit_code_named(code: str) -> ExitCode:
    """Return the exit code of an error that is known by its ``code`` alone."""
    kinds: list[type[BaseException]] = [TableWriterError]
    while kinds:
        kind = kinds.pop()
        if getattr(kind, "code", "") == code:
            return exit_code_of(kind(""))
        kinds += kind.__subclasses__()
    return ExitCode.INTERRUPTED if code == "interrupted" else ExitCode.UNKNOWN
