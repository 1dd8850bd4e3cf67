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

    ``examples`` are lines without the program's name and what each does, ``see_also`` are other commands, ``note`` is
    what only the command line has; the rest is the docstring of the call.
    """

    examples: Mapping[str, str]
    see_also: tuple[str, ...] = ()
    note: str = ""


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
        examples={
            "tables": "all tables of all databases",
            "tables --database mart --json": "those of one database, for a script",
        },
        see_also=("report", "vacuum", "recover"),
    ),
    "report": Manual(
        examples={
            "report mart.orders --html orders.html": "a page with pictures",
            "report mart.orders --html - | ssh web 'cat > orders.html'": "the same on stdout",
            "report mart.orders --limit 50": "in the terminal, with the 50 newest versions",
        },
        note="With --html it is one page with pictures that needs nothing else, to open, send or print.",
        see_also=("history", "tables", "vacuum"),
    ),
    "history": Manual(
        examples={
            "history mart.orders": "all versions",
            "history mart.orders --limit 5 --json": "the newest five, for a script",
        },
        note="Reads only. Partitions are counted as added (+), replaced (~), appended to (>), compacted (=) or"
        " dropped (-).",
        see_also=("show", "changes", "report"),
    ),
    "show": Manual(
        examples={"show mart.orders 42": "version 42", "show mart.orders 42 --all": "with all of its partitions"},
        note="Reads only.",
        see_also=("history", "changes"),
    ),
    "partitions": Manual(
        examples={
            "partitions mart.orders": "all partitions",
            "partitions mart.orders --partition dt=2024-01-01 --json": "one of them, for a script",
        },
        note="Reads only.",
        see_also=("history", "show"),
    ),
    "changes": Manual(
        examples={
            "changes mart.orders 41 42": "what version 42 has changed",
            "changes mart.orders 0 42": "all that has changed since the beginning",
        },
        note="Reads only.",
        see_also=("show", "rollback"),
    ),
    "recover": Manual(
        examples={
            "recover mart.orders --dry-run": "what is in doubt",
            "recover mart.orders": "resolve it",
            "recover --all": "of all tables",
        },
        see_also=("history", "doctor"),
    ),
    "rollback": Manual(
        examples={
            "rollback mart.orders --version 41 --dry-run": "what would be put back",
            "rollback mart.orders --version 41": "do it, after a question",
            "rollback mart.orders --as-of '2024-01-31 12:00' --partition dt=2024-01-30": "one partition, by time",
        },
        see_also=("history", "changes", "restore"),
    ),
    "vacuum": Manual(
        examples={
            "vacuum mart.orders --dry-run": "what would be deleted, and what stays, and why",
            "vacuum --all --yes": "all tables, from a schedule",
            "vacuum mart.orders --older-than 7d": "keep replaced data for a week",
        },
        see_also=("report", "uploads", "tables"),
    ),
    "erase": Manual(
        examples={
            "erase --all --where 'user_id = 7' --dry-run": "which tables have such rows, and how many",
            "erase --all --where 'user_id = 7' --json": "erase them, and print the certificates, to be kept",
            "erase mart.users --where 'id = 7' --spark-conf /etc/spark/conf/spark-defaults.conf": "one table",
        },
        note="It starts Spark on this machine with Hadoop's settings, and stops it at the end; spark.master in"
        " --spark-conf lets it run elsewhere.",
        see_also=("erasure", "vacuum", "tables"),
    ),
    "erasure": Manual(
        examples={
            "erasure mart.users --write-id 20240102T030405-62ea350e97a31ae4": "what is gone, and what is not",
            "erasure mart.users --json": "of the newest erasure, to be kept",
            "erasure mart.users mart.orders --predicate-sha256 HASH": "of one predicate, after the vacuum",
        },
        note="Reads only.",
        see_also=("erase", "vacuum", "history"),
    ),
    "mirror": Manual(
        examples={
            "mirror mart.orders --as delta": "make it, or bring it to the newest version",
            "mirror mart.orders --as delta --check": "compare it with the table",
        },
        note="Without --check it writes below the table's root; rows of the table stay as they are.",
        see_also=("handover", "vacuum"),
    ),
    "handover": Manual(
        examples={
            "handover mart.orders --to iceberg": "let the Iceberg mirror go on as the table",
            "handover mart.orders --undo": "make it a mirror again, while nobody else has written",
        },
        note="The Hive table stays as it is, and readable.",
        see_also=("mirror", "recover"),
    ),
    "uploads": Manual(
        examples={
            "uploads mart.orders": "list them",
            "uploads mart.orders --abort --older-than 48h": "give writes up that died two days ago",
        },
        see_also=("vacuum",),
    ),
    "staged": Manual(
        examples={
            "staged mart.orders": "list them, newest first",
            "staged mart.orders 20240102T030405-62ea350e97a31ae4": "show one",
        },
        note="Reads only. With WRITE_ID it shows that one: its partitions, its checks, what is known of its columns.",
        see_also=("publish", "discard"),
    ),
    "publish": Manual(
        examples={
            "publish mart.orders 20240102T030405-62ea350e97a31ae4 --dry-run": "whether anything is in the way",
            "publish mart.orders 20240102T030405-62ea350e97a31ae4": "do it, after a question",
        },
        see_also=("staged", "discard", "rollback"),
    ),
    "discard": Manual(
        examples={"discard mart.orders 20240102T030405-62ea350e97a31ae4": "delete it, after a question"},
        see_also=("staged", "publish"),
    ),
    "restore": Manual(
        examples={
            "restore mart.orders --dry-run": "what would be added",
            "restore mart.orders --partition dt=2024-01-30": "one partition",
        },
        see_also=("adopt", "recover"),
    ),
    "leave": Manual(
        examples={"leave mart.orders": "what stays, what a vacuum deletes, and what can be deleted at last"},
        note="Reads only.",
        see_also=("vacuum", "recover"),
    ),
    "adopt": Manual(examples={"adopt mart.orders": "after ALTER TABLE ... RENAME"}, see_also=("restore", "doctor")),
    "doctor": Manual(
        examples={
            "doctor mart.orders": "metastore, store, bucket, table",
            "doctor --store s3a://bucket/prefix": "a store before its first write: one line for each thing it must do",
            "doctor mart.orders --spark-conf /etc/spark/conf/spark-defaults.conf": "the settings of Spark jobs, too",
        },
        see_also=("recover", "report"),
    ),
    "certify": Manual(
        examples={
            "certify s3://bucket/prefix --metastore-uri thrift://host:9083": "store and metastore, in some minutes",
            "certify s3://bucket/prefix": "the store alone, where no metastore is named",
            "certify s3://bucket/prefix --history history.jsonl --json": "with the history, for a checker of your own",
        },
        note="It needs neither Spark nor Java.",
        see_also=("doctor",),
    ),
}
PURPOSE: Final = (
    "Looks after tables that table_writer writes: without Spark, safe while writers are at work. It reads the metastore"
    " and the storage with the settings of Hadoop, and asks at a terminal before it changes anything."
)
OVERVIEW: Final = Manual(
    examples={
        "tables": "how all tables are",
        "history mart.orders": "who published what, when",
        "report mart.orders --html orders.html": "the same as a page with pictures",
        "vacuum --all --yes": "daily: delete what is past its retention",
        "rollback mart.orders --version 41": "put readers back to version 41",
    }
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


def filled_text(text: str) -> str:
    """Return text above the options."""
    return fill(text, COLUMNS - 2)


def _indented_text(text: str) -> str:
    return indent(fill(text, COLUMNS - 8), "      ")
