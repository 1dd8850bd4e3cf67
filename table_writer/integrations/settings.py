"""Settings of a task without Spark, by the names of the command line's options, and the tables that it names."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from table_writer.checked import nearest
from table_writer.cli.arguments import SHARED
from table_writer.cli.configuration import read_configuration
from table_writer.errors import InvalidInputError

if TYPE_CHECKING:
    from table_writer.config import TableWriterConfig

Value = TypeVar("Value")
OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    option.removeprefix("--").replace("-", "_"): keywords
    for group, options in SHARED.items()
    if group != "output"
    for option, keywords in options.items()
}
"""The settings that a task may name, with what the command line says of each."""


def read_settings(given: Mapping[str, Any]) -> tuple[str, TableWriterConfig]:
    """Return the metastore's address and the settings; what is given wins over the environment and Hadoop's files.

    Raises ``InvalidInputError`` for an unknown or unreadable setting.
    """
    return read_configuration(_arguments(given))


def _arguments(given: Mapping[str, Any]) -> Namespace:
    """Return the settings as the command line's parser would have read them."""
    for name in given:
        if name not in OPTIONS:
            raise InvalidInputError(
                f"no setting {name}{nearest(name, OPTIONS) or '.'} Settings take {', '.join(OPTIONS)}"
            )
    found = {name: keywords.get("default") for name, keywords in OPTIONS.items()}
    for name, value in given.items():
        keywords = OPTIONS[name]
        read = _switch if keywords.get("action") == "store_true" else keywords.get("type")
        found[name] = parsed_value(read, name, value) if read and name != "conf" else value
    found["conf"] = [(name.removeprefix("spark.hadoop."), str(value)) for name, value in (found["conf"] or {}).items()]
    if isinstance(found["conf_dir"], str):
        found["conf_dir"] = [found["conf_dir"]]
    return Namespace(**found)


def _switch(text: str) -> bool:
    """Read the value of an option that takes none on the command line."""
    if text.lower() not in ("true", "false"):
        raise ArgumentTypeError(f"expected true or false, not {text!r}")
    return text.lower() == "true"


def parsed_value(read: Callable[[str], Value], name: str, value: object) -> Value:
    """Read a value as the command line reads its option: templates make texts of everything."""
    try:
        return read(str(value))
    except (ArgumentTypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: {error}") from None


def named_tables(
    tables: str | Sequence[str] | None, database: str | Sequence[str] | None, *, all_tables: bool
) -> list[str] | None:
    """Return the tables that a task names, ``None`` for those of a database, or all: nothing named is never all."""
    names = [tables] if isinstance(tables, str) else list(tables or ())
    if sum([bool(names and all(names)), bool(database), all_tables]) != 1:
        raise InvalidInputError(
            f"tables={tables!r}, database={database!r}, all_tables={all_tables}: give exactly one of them. Nothing was"
            " done"
        )
    return names or None
