"""Calls of :class:`~table_writer.Maintenance` as commands: signatures make the options, docstrings their help."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from datetime import timedelta
from inspect import Parameter, getdoc, signature
from typing import Any, Final

from table_writer.cli.arguments import Options, age, moment, version_number
from table_writer.maintenance import Maintenance

SECTION: Final = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
EXPLANATION: Final = re.compile(r"^(\w.*)\n((?:[ ]{4}.*\n)+)", re.MULTILINE)
END_OF_SENTENCE: Final = re.compile(r"\.(?:\s+(?=[A-Z])|$)")
MARKUP: Final = re.compile(r":\w+:`~?(?:\w+\.)*(\w+)`|``\"?(.*?)\"?``")
DEFAULT: Final = "Default: "  # begins the sentence of a docstring that says what no value means
IN_ALL_CALLS: Final[Mapping[str, str]] = {"dry_run": "check everything and change nothing"}
NOT_TYPED: Final = frozenset({"table", "tables", "spark"})
CONDITION: Final = "where"  # an option, though it has to be given
VERSIONS: Final = frozenset({"version", "from_version", "to_version"})
METAVARS: Final = {
    "where": "PREDICATE",
    "history": "FILE",
    "predicate_sha256": "HASH",
    "salt": "SALT",
    **dict.fromkeys(("as_", "to"), "KIND"),
}
KINDS: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "bool": ({"action": "store_true"}, ""),
    "int": ({"type": int, "metavar": "N"}, ""),
    "float": ({"type": float, "metavar": "N"}, ""),
    "str": ({"metavar": "ID"}, ""),
    "timedelta": ({"type": age, "metavar": "AGE"}, ", such as 7d, 36h, 90m"),
    "datetime": ({"type": moment, "metavar": "TIME"}, "; UTC without an offset"),
    "Collection[str]": ({"action": "append", "metavar": "NAME"}, "; can be repeated"),
    "str | Collection[str]": ({"action": "append", "metavar": "DB"}, "; can be repeated"),
    "Mapping[str, str]": ({"metavar": "FILE"}, ""),
}
"""How a value of each type is typed at a prompt: keywords of ``add_argument``, and words for the help."""


class Call:
    """One call, by its name, with the parts of its docstring as a terminal shows them."""

    def __init__(self, name: str) -> None:
        self.name = name
        function = getattr(Maintenance, name)
        text, *sections = SECTION.split(f"{getdoc(function) or ''}\n")  # Python may run without docstrings
        self.summary, self.promises = (*map(_plain, text.strip().split("\n\n")), "")[:2]
        explanations = EXPLANATION.findall(dict(zip(sections[::2], sections[1::2], strict=True)).get("Parameters", ""))
        self._sentences = {
            parameter: END_OF_SENTENCE.split(_plain(words))
            for names, words in explanations
            for parameter in names.split(", ")
        }
        parameters = signature(function).parameters
        self.parameters = {name: parameter for name, parameter in parameters.items() if name != "self"}

    def make(self, keeper: Maintenance, arguments: Namespace, **others: Any) -> Any:
        """Make the call with what was typed, and what cannot be typed."""
        typed = {name: getattr(arguments, name) for name in self.parameters if name not in others}
        return getattr(keeper, self.name)(**typed, **others)

    def options(self) -> Options:
        """Return the options, and the words without dashes, with their keywords; tables and a session are left out."""
        chosen = (parameter for name, parameter in self.parameters.items() if name not in NOT_TYPED)
        return dict(map(self._option, chosen))

    def _option(self, parameter: Parameter) -> tuple[str, Mapping[str, Any]]:
        name, default = parameter.name, parameter.default
        keywords, hint = KINDS[parameter.annotation.removesuffix(" | None")]
        if name in VERSIONS:
            keywords = {**keywords, "type": version_number}
        if name in METAVARS:
            keywords = {**keywords, "metavar": METAVARS[name]}
        sentences = self._sentences.get(name) or [IN_ALL_CALLS.get(name, "")]
        text = sentences[0][:1].lower() + sentences[0][1:]
        if default is Parameter.empty and (parameter.kind is Parameter.KEYWORD_ONLY or name == CONDITION):
            return option_of(name), {**keywords, "dest": name, "required": True, "help": text}
        if default is Parameter.empty:
            return name, {**keywords, "metavar": name.removesuffix("_version").upper(), "help": text}
        default_text = next((words.removeprefix(DEFAULT) for words in sentences if words.startswith(DEFAULT)), "")
        if isinstance(default, timedelta):
            default_text = f"{default // timedelta(hours=1)}h"
        elif default and isinstance(default, int | float):
            default_text = f"{default:g}"
        elif default and isinstance(default, str):
            default_text = default
        text += hint + (f" (default: {default_text})" if default_text else "")
        return option_of(name), {**keywords, "dest": name, "default": default, "help": text}


def option_of(parameter_name: str) -> str:
    """Return a parameter as an option; one that takes several partitions takes them one at a time.

    Examples
    --------
    >>> option_of("older_than"), option_of("partitions"), option_of("as_")
    ('--older-than', '--partition', '--as')
    """
    return f"--{parameter_name.rstrip('_').replace('_', '-').replace('partitions', 'partition')}"


def _plain(text: str) -> str:
    """Return text of a docstring without its markup, as one line."""
    return MARKUP.sub(lambda found: found[1] or found[2], " ".join(text.split()))
