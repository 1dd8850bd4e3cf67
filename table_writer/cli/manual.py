"""The text of ``--help`` beside the options: what a command promises, examples, exit codes, environment, see also."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import fill, indent
from typing import Final

from table_writer.cli.arguments import MEANINGS, PROGRAM, ExitCode
from table_writer.cli.configuration import (
    DIRECTORY_VARIABLES,
    LISTENERS_VARIABLE,
    METASTORE_VARIABLE,
    PASSWORD_VARIABLE,
)

COLUMNS: Final = 80  # of a terminal that nobody has made wider
DOCUMENTATION: Final = "https://github.com/table-writer/table_writer/blob/main/docs/index.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manual:
    """The page of one command.

    ``promises`` stands above the options, ``examples`` are lines without the program's name and what each does,
    ``see_also`` are other commands.
    """

    promises: str
    examples: Mapping[str, str]
    see_also: tuple[str, ...]


ENVIRONMENT: Final[Mapping[str, str]] = {
    METASTORE_VARIABLE: "the metastore, where --metastore-uri is not given",
    PASSWORD_VARIABLE: "password of a metastore that asks for one",
    "HMS_JWT": "token of a metastore over HTTP",
    ", ".join(DIRECTORY_VARIABLES): "where core-site.xml, hdfs-site.xml and hive-site.xml are, without --conf-dir",
    "AWS_PROFILE": "a profile of ~/.aws, where --profile is not given",
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN": "keys, where no profile and no setting has any",
    "AWS_REGION": "where --region and Hadoop's settings name none",
    LISTENERS_VARIABLE: "who is told of what commands do, as module:object,module:object",
    "TABLE_WRITER_PROGRESS": "bar, log or off: how a command on many tables shows how far it is",
}

MANUALS: Final[Mapping[str, Manual]] = {
    "tables": Manual(
        promises="Reads only. Tables that this library has not written are passed over and counted. One that cannot be"
        " looked at keeps no other from being looked at.",
        examples={
            "tables": "all tables of all databases",
            "tables --database mart --json": "those of one database, for a script",
        },
        see_also=("report", "vacuum", "recover"),
    ),
    "report": Manual(
        promises="Reads only. One look at a table: versions, partitions, sizes, checks, what is in doubt, what a vacuum"
        " would free. With --html it is one page with pictures that needs nothing else, to open, send or print.",
        examples={
            "report mart.orders --html orders.html": "a page with pictures",
            "report mart.orders --html - | ssh web 'cat > orders.html'": "the same on stdout",
            "report mart.orders --limit 50": "in the terminal, with the 50 newest versions",
        },
        see_also=("history", "tables", "vacuum"),
    ),
    "history": Manual(
        promises="Reads only. Partitions are counted as added (+), replaced (~), appended to (>), compacted (=) or"
        " dropped (-).",
        examples={
            "history mart.orders": "all versions",
            "history mart.orders --limit 5 --json": "the newest five, for a script",
        },
        see_also=("show", "changes", "report"),
    ),
    "show": Manual(
        promises="Reads only. With the checks of its write, its tags, and who wrote it.",
        examples={"show mart.orders 42": "version 42", "show mart.orders 42 --all": "with all of its partitions"},
        see_also=("history", "changes"),
    ),
    "partitions": Manual(
        promises="Reads only. Of a partition that another tool has written or moved, the log knows no version.",
        examples={
            "partitions mart.orders": "all partitions",
            "partitions mart.orders --partition dt=2024-01-01 --json": "one of them, for a script",
        },
        see_also=("history", "show"),
    ),
    "changes": Manual(
        promises="Reads only, and by the log alone: no file is opened. What a rollback has put back has not changed.",
        examples={
            "changes mart.orders 41 42": "what version 42 has changed",
            "changes mart.orders 0 42": "all that has changed since the beginning",
        },
        see_also=("show", "rollback"),
    ),
    "recover": Manual(
        promises="Safe at any time, and running it again changes nothing. It waits for a publish whose claim is not"
        " over. Partitions that another tool has moved are left alone and named.",
        examples={
            "recover mart.orders --dry-run": "what is in doubt",
            "recover mart.orders": "resolve it",
            "recover --all": "of all tables",
        },
        see_also=("history", "doctor"),
    ),
    "rollback": Manual(
        promises="Readers see all of the old rows or all of the new ones. Refused, changing nothing, if a file is gone"
        " or another tool has moved a partition. A rollback can itself be rolled back.",
        examples={
            "rollback mart.orders --version 41 --dry-run": "what would be put back",
            "rollback mart.orders --version 41": "do it, after a question",
            "rollback mart.orders --as-of '2024-01-31 12:00' --partition dt=2024-01-30": "one partition, by time",
        },
        see_also=("history", "changes", "restore"),
    ),
    "vacuum": Manual(
        promises="What readers look at, or may look at, stays, however old. Interrupted and run again, it ends the"
        " same. An age under 24 hours, or under the table's own retention, needs --force: running queries may fail"
        " then.",
        examples={
            "vacuum mart.orders --dry-run": "what would be deleted, and what stays, and why",
            "vacuum --all --yes": "all tables, from a schedule",
            "vacuum mart.orders --older-than 7d": "keep replaced data for a week",
        },
        see_also=("report", "uploads", "tables"),
    ),
    "uploads": Manual(
        promises="Uploads of running writes and of other tools are never touched.",
        examples={
            "uploads mart.orders": "list them",
            "uploads mart.orders --abort --older-than 48h": "give writes up that died two days ago",
        },
        see_also=("vacuum",),
    ),
    "staged": Manual(
        promises="Reads only. Of one write: its partitions, its checks, and what is known of its columns.",
        examples={
            "staged mart.orders": "list them, newest first",
            "staged mart.orders 20240102T030405-62ea350e97a31ae4": "show one",
        },
        see_also=("publish", "discard"),
    ),
    "publish": Manual(
        promises="What was published already is left as it is, and the command succeeds: a job may run it again."
        " Refused if a check of severity error has failed, or its files are not as they were staged.",
        examples={
            "publish mart.orders 20240102T030405-62ea350e97a31ae4 --dry-run": "whether anything is in the way",
            "publish mart.orders 20240102T030405-62ea350e97a31ae4": "do it, after a question",
        },
        see_also=("staged", "discard", "rollback"),
    ),
    "discard": Manual(
        promises="A write that was published is left alone.",
        examples={"discard mart.orders 20240102T030405-62ea350e97a31ae4": "delete it, after a question"},
        see_also=("staged", "publish"),
    ),
    "restore": Manual(
        promises="For a metastore whose database was lost. Partitions that the metastore has stay as they are; one"
        " whose files are not all there is named and left out.",
        examples={
            "restore mart.orders --dry-run": "what would be added",
            "restore mart.orders --partition dt=2024-01-30": "one partition",
        },
        see_also=("adopt", "recover"),
    ),
    "adopt": Manual(
        promises="Log and data stay as they are. Needed only where a write says so.",
        examples={"adopt mart.orders": "after ALTER TABLE ... RENAME"},
        see_also=("restore", "doctor"),
    ),
    "doctor": Manual(
        promises="Changes nothing that stays.",
        examples={
            "doctor mart.orders": "metastore, store, bucket, table",
            "doctor --store s3a://bucket/prefix": "a store before its first write: one line for each thing it must do",
            "doctor mart.orders --spark-conf /etc/spark/conf/spark-defaults.conf": "the settings of Spark jobs, too",
        },
        see_also=("recover", "report"),
    ),
}
OVERVIEW: Final = Manual(
    promises="Looks after tables that table_writer writes: without Spark, safe while writers are at work. It reads the"
    " metastore and the storage with the settings of Hadoop, and asks at a terminal before it changes anything.",
    examples={
        "tables": "how all tables are",
        "history mart.orders": "who published what, when",
        "report mart.orders --html orders.html": "the same as a page with pictures",
        "vacuum --all --yes": "daily: delete what is past its retention",
        "rollback mart.orders --version 41": "put readers back to version 41",
    },
    see_also=(),
)


def epilog(manual: Manual) -> str:
    """Return the text below the options."""
    examples = (f"  {PROGRAM} {line}\n      {what}" for line, what in manual.examples.items())
    codes = (f"  {code.value:>3}  {MEANINGS[code]}" for code in ExitCode)
    variables = (f"  {names}\n{_indented_text(what)}" for names, what in ENVIRONMENT.items())
    see = [*(f"  {PROGRAM} {name} --help" for name in manual.see_also), f"  {DOCUMENTATION}"]
    parts: tuple[tuple[str, Iterable[str]], ...] = (
        ("examples", examples),
        ("exit codes", codes),
        ("environment", variables),
        ("see also", see),
    )
    return "\n\n".join("\n".join([f"{title}:", *lines]) for title, lines in parts)


def description(help_line: str, manual: Manual) -> str:
    """Return the text above the options."""
    return fill(f"{help_line} {manual.promises}".strip(), COLUMNS - 2)


def _indented_text(text: str) -> str:
    return indent(fill(text, COLUMNS - 8), "      ")
