"""Check the arguments of public calls against their annotations, before the first line of the call.

The annotations are the only place where a parameter's type is said: ``@checked`` on a function, or on a class for all
its public methods, reads them once, at the first call. What lies inside a type, such as a range, the callee says.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cached_property, wraps
from inspect import Parameter, Signature, isfunction, signature
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import Any, Final, Literal, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints, is_typeddict

from table_writer.errors import InvalidInputError, printable

Target = TypeVar("Target", bound=Callable[..., Any])
LONGEST_AGE: Final = timedelta(days=36_525)  # a hundred years: Python still has a date so far from now
LONGEST_SHOWN: Final = 60  # a longer text may hold anything
MAX_SHOWN: Final = 10**18
SLIP: Final = 0.8  # the similarity of a name to its misspelling
HARMFUL: Final = frozenset(
    (
        *("accept_loss", "abort", "adopt", "all", "discard", "drop", "erase", "force", "handover"),
        *("overwrite_table", "publish", "recover", "replace", "restore", "rollback", "vacuum", "yes"),
    )
)
"""Names of commands, of options and of their values with which a call replaces or deletes more, or asks less."""

SEVERAL: Final = (Sequence, Collection, Iterable, tuple)
PLAIN: Final[Mapping[Any, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a finite number",
    bool: "True or False",
    datetime: "a datetime with a time zone, for example datetime.now(UTC)",
    timedelta: "a timedelta, for example timedelta(hours=24)",
    NoneType: "None",
    Callable: "a function",
}


def checked(target: Target) -> Target:
    """Refuse calls of a function, or of a class and its public methods, whose arguments do not fit the annotations.

    Examples
    --------
    >>> @checked
    ... def vacuum(table: str, *, older_than: timedelta | None = None) -> None: ...
    >>> vacuum("mart.orders", older_than=24)
    Traceback (most recent call last):
    table_writer.errors.InvalidInputError: older_than=24: expected a timedelta, for example timedelta(hours=24), or None
    >>> vacuum(tabel="mart.orders")
    Traceback (most recent call last):
    table_writer.errors.InvalidInputError: vacuum has no parameter tabel; did you mean table? It takes table, older_than
    """
    if isfunction(target):
        return _checked(target)  # type: ignore[return-value]  # it has the same signature
    secret = (
        frozenset(field.name for field in fields(target) if not field.repr) if is_dataclass(target) else frozenset()
    )
    for name, member in tuple(vars(target).items()):
        if isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(target, name, _checked(member, secret))
    return target


def require_age(name: str, age: timedelta) -> None:
    """Refuse a span of time that is negative, or so long that no time lies that far away."""
    if not timedelta(0) <= age <= LONGEST_AGE:
        raise InvalidInputError(f"{name}={age}: expected a span that is not negative, and of 100 years at most")


def nearest(name: str, known_names: Iterable[str]) -> str:
    """Return a question for the nearest known name, as the end of a sentence; empty if none is near.

    Examples
    --------
    >>> nearest("retentions", ["root", "retention"])
    '; did you mean retention?'
    """
    question = did_you_mean(name, known_names)
    return f"; {question}" if question else ""


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return a question for the nearest known names; a harmful one comes last, and only if a letter or two differ.

    Names may be spelled as options are.

    Examples
    --------
    >>> did_you_mean("restor", ["restore", "report"]), did_you_mean("--before", ["--force"])
    ('did you mean report or restore?', '')
    """
    # without their dashes: two of them make short options alike
    plain_names = {name.lstrip("-").replace("-", "_"): name for name in known_names}
    word = name.lstrip("-").replace("-", "_")
    harmless = get_close_matches(word, [name for name in plain_names if name not in HARMFUL], n=1)
    harmful = get_close_matches(word, [name for name in plain_names if name in HARMFUL], n=1, cutoff=SLIP)
    suggestions = [plain_names[name] for name in (*harmless, *harmful)]
    return f"did you mean {' or '.join(suggestions)}?" if suggestions else ""


def _checked(function: Callable[..., Any], secret: frozenset[str] = frozenset()) -> Callable[..., Any]:
    require = _Arguments(function, secret)

    def call(*positional: Any, **keywords: Any) -> Any:
        require(positional, keywords)
        return function(*positional, **keywords)

    # with the globals of the function's own module, by which doctest finds the module of a function
    return wraps(function)(FunctionType(call.__code__, function.__globals__, closure=call.__closure__))


class _Arguments:
    """The check of one function's arguments; values of secret ones are never shown."""

    def __init__(self, function: Callable[..., Any], secret: frozenset[str]) -> None:
        self._function = function
        self._secret = secret
        # the name that callers have used
        self._name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    def __call__(self, positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Raise ``InvalidInputError`` for wrong arguments."""
        for name in keywords:
            if name not in self._parameter_names:
                hint, names = nearest(name, self._parameter_names) or ".", ", ".join(self._parameter_names) or "none"
                raise InvalidInputError(f"{self._name} has no parameter {printable(name)}{hint} It takes {names}")
        try:
            bound = self._signature.bind(*positional, **keywords)
        except TypeError:
            raise self._unbound(positional, keywords) from None
        for name, value in self._values(bound.arguments):
            parameter = name.partition("[")[0]
            fault = _fault(name, value, self._hints[parameter]) if parameter in self._hints else None
            if fault is not None:
                raise InvalidInputError(fault.text(is_secret=parameter in self._secret))

    @cached_property
    def _signature(self) -> Signature:
        return signature(self._function)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        """Return the type of each parameter; keywords that a TypedDict describes count as parameters."""
        hints = _parameter_types(self._function)
        for name, hint in tuple(hints.items()):
            if get_origin(hint) is Unpack and is_typeddict(get_args(hint)[0]):
                del hints[name]
                hints |= get_type_hints(get_args(hint)[0])
        return hints

    @cached_property
    def _parameter_names(self) -> tuple[str, ...]:
        """Return the names of all parameters in order, without ``*args``."""
        variadic = {
            parameter.name
            for parameter in self._signature.parameters.values()
            if parameter.kind is Parameter.VAR_POSITIONAL
        }
        return tuple(name for name in self._hints if name not in variadic)

    def _values(self, bound: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in bound.items():
            kind = self._signature.parameters[name].kind
            if kind is Parameter.VAR_KEYWORD:
                yield from value.items()
            elif kind is Parameter.VAR_POSITIONAL:
                yield from ((f"{name}[{position}]", item) for position, item in enumerate(value))
            else:
                yield name, value

    def _unbound(self, positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> InvalidInputError:
        """Return the error for arguments that cannot be bound: one is missing, or too many are given by position."""
        parameters = [
            parameter for parameter in self._signature.parameters.values() if parameter.name in self._parameter_names
        ]
        by_position = [parameter.name for parameter in parameters if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]
        is_bound = next(iter(self._signature.parameters), "") == "self"  # then the first argument is the object
        given_names = {*by_position[: len(positional) - is_bound], *keywords}
        missing_names = [
            parameter.name
            for parameter in parameters
            if parameter.default is Parameter.empty and parameter.name not in given_names
        ]
        if missing_names:
            words = "; ".join(f"{name}: {_words(self._hints[name])}" for name in missing_names)
            return InvalidInputError(f"{self._name} needs {words}")
        return InvalidInputError(
            f"{self._name} takes {', '.join(by_position) or 'nothing'} by position, each once; give the others by their"
            " names"
        )


def _parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of each parameter; a name that the module does not have yet is asked of its ``__getattr__``."""
    annotations = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    names: dict[str, Any] = dict(getattr(function, "__globals__", {}))
    if "__getattr__" in names:
        texts = [hint for hint in annotations.values() if isinstance(hint, str)]
        named = {name for text in texts for name in compile(text, "<annotation>", "eval").co_names}
        names |= {name: names["__getattr__"](name) for name in named - names.keys() - vars(builtins).keys()}
    return get_type_hints(SimpleNamespace(__annotations__=annotations), names)


@dataclass(frozen=True, slots=True)
class _Fault:
    """A value that is not of the expected type, and its place in the call."""

    where: str
    value: object
    hint: Any

    def text(self, *, is_secret: bool) -> str:
        words = _words(self.hint)
        value_text = None if is_secret else _value_text(self.value)
        if value_text is None:
            return f"{self.where}: expected {words}, got {_kind(self.value)}"
        if not isinstance(self.value, str):
            return f"{self.where}={value_text}: expected {words}"
        wants_several = any((get_origin(kind) or kind) in SEVERAL for kind in _alternatives(self.hint))
        write = f": write {self.where}=[{value_text}]" if wants_several else ""
        choices = [
            choice for kind in _alternatives(self.hint) if get_origin(kind) is Literal for choice in get_args(kind)
        ]
        return f"{self.where}={value_text}: expected {words}{write}{nearest(self.value, map(str, choices))}"


def _fault(where: str, value: object, hint: Any) -> _Fault | None:
    """Return the fault of a value, or the first fault inside of it; ``None`` if there is none."""
    alternatives = _alternatives(hint)
    if len(alternatives) > 1:
        faults = [_fault(where, value, alternative) for alternative in alternatives]
        inner = [fault for fault in faults if fault is not None and fault.where != where]
        return None if None in faults else inner[0] if inner else _Fault(where, value, hint)
    origin, inside = get_origin(hint) or hint, get_args(hint)
    if origin in SEVERAL:
        kind = Sequence if origin is tuple else origin
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, kind):
            return _Fault(where, value, hint)
        items = enumerate(value) if isinstance(value, Collection) else ()  # an iterator can be read only once
        faulty = (_fault(f"{where}[{position}]", item, inside[0]) for position, item in items if inside)
        return next((fault for fault in faulty if fault is not None), None)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return _Fault(where, value, hint)
        pairs = (
            found
            for key, item in value.items()
            for found in (_fault(f"a name in {where}", key, inside[0]), _fault(f"{where}[{key!r}]", item, inside[1]))
        )
        return next((fault for fault in pairs if fault is not None), None)
    return None if _is_of_type(value, origin, inside) else _Fault(where, value, hint)


def _is_of_type(value: object, kind: Any, inside: tuple[Any, ...]) -> bool:
    """Return whether a value is of a plain type: True and NaN are no numbers, half a surrogate pair is no text."""
    if kind in (Any, object):
        return True
    if kind is Literal:
        return any(type(value) is type(choice) and value == choice for choice in inside)
    if kind is str:
        return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)
    if kind in (int, float):
        kinds = int if kind is int else int | float
        return isinstance(value, kinds) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if kind is Callable or getattr(kind, "_is_protocol", False):
        return callable(value) or not (kind is Callable or "__call__" in vars(kind))
    return isinstance(value, kind) or _is_of_connect(value, kind)


def _is_of_connect(value: object, kind: Any) -> bool:
    """Return whether a value is of Spark Connect's class of the same name, which is no subclass of the classic one."""
    ancestors = type(value).__mro__
    of_connect = (each.__name__ for each in ancestors if each.__module__.startswith("pyspark.sql.connect."))
    return kind.__module__.startswith("pyspark.sql.") and kind.__name__ in of_connect


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _words(hint: Any) -> str:
    """Describe an expected type in words."""
    alternatives = _alternatives(hint)
    if len(alternatives) > 1:
        *first, last = (_words(alternative) for alternative in alternatives)
        return f"{', '.join(first)}, or {last}"
    origin, inside = get_origin(hint) or hint, get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, inside))}"
    if origin in SEVERAL:
        return f"a list{_of(inside[:1])}"
    if origin is Mapping:
        return f"a dict{_of(inside[1:])}"
    is_callable = getattr(origin, "_is_protocol", False) and "__call__" in vars(origin)
    return PLAIN[Callable] if is_callable else PLAIN.get(origin) or _class_text(origin)


def _class_text(kind: type) -> str:
    """Name a class, with its library where that is another one: DataFrames there are of several kinds."""
    library = kind.__module__.partition(".")[0]
    foreign = library not in {__name__.partition(".")[0], "builtins"}
    maker = ", which spark.createDataFrame(...) makes" if kind.__name__ == "DataFrame" else ""
    return f"a {library} {kind.__name__}{maker}" if foreign else f"a {kind.__name__}"


def _of(inside: tuple[Any, ...]) -> str:
    """Describe the items of a list or a dict."""
    kinds = [alternative for alternative in inside if alternative not in (Any, object)]
    return f", each item {_words(kinds[0])}" if kinds and kinds[0] is not str else " of texts" if kinds else ""


def _value_text(value: object) -> str | None:
    """Spell a value that is short and can be no secret, such as a login in an address; ``None`` for all others."""
    if isinstance(value, str):
        return repr(value) if len(value) <= LONGEST_SHOWN and "@" not in value else None
    is_small = isinstance(value, int) and abs(value) < MAX_SHOWN
    is_short = is_small or value is None or isinstance(value, float | timedelta)
    return repr(value) if is_short and type(value).__module__ in {"builtins", "datetime"} else None


def _kind(value: object) -> str:
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
