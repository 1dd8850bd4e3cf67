"""Listeners of events: their protocol, their import by name, and the functions that tell them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from importlib import import_module
from inspect import iscoroutinefunction, isroutine
from typing import Any, Final, Protocol

from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.events.event import TableEvent

logger = logging.getLogger(__name__)
SLOW_SECONDS: Final = 10.0  # the caller waits for listeners: one that takes so long is named in the log


MakeEvent = Callable[[], TableEvent | None]  # called once the call is over; None: there is nothing to tell


class EventListener(Protocol):
    """A function that is told of each call on a table once it is over, in the process and thread of the call.

    Readers have switched by then. The call returns when all listeners have returned. Calls in several threads tell the
    listener at the same time. An ``Exception`` of a listener is logged and changes nothing. Other exceptions, such as
    ``KeyboardInterrupt`` and ``SystemExit``, end a process or a scheduler's task, and may come from a signal while a
    listener is at work: the call raises them, with a note that says how the call had ended. A listener is not told of
    its own calls.
    """

    def __call__(self, event: TableEvent, /) -> None:
        """Take an event."""


def require_listeners(listeners: Sequence[object]) -> None:
    """Refuse objects that cannot be called; ``InvalidInputError`` says what to write instead."""
    for position, listener in enumerate(listeners):
        where, kind = f"listeners[{position}]", type(listener).__name__
        if isinstance(listener, type):
            raise InvalidInputError(f"{where} is the class {listener.__name__}: make one of it, {listener.__name__}()")
        if iscoroutinefunction(listener) or iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004 - not whether
            raise InvalidInputError(f"{where} is a coroutine function, which nobody would await: {kind}")


def listeners_named(names: str, *, where: str) -> tuple[EventListener, ...]:
    """Import listeners, each named ``module:object``, separated by commas; a class is called without arguments.

    ``InvalidInputError`` says which cannot be had; ``where`` names the setting.
    """
    return tuple(_import_listener(name.strip(), where) for name in names.split(",") if name.strip())


def _import_listener(name: str, where: str) -> EventListener:
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise InvalidInputError(f"{where} names {name!r}: expected module:object, several separated by commas")
    try:
        target: Any = import_module(module)
        for name_part in path.split("."):
            target = getattr(target, name_part)
        listener: EventListener = target() if isinstance(target, type) else target
    except TableWriterError:
        raise
    except Exception as error:  # a module may raise anything
        raise InvalidInputError(
            f"{where} names {name}, which cannot be had: {type(error).__name__}: {error}"
        ) from error
    if not callable(listener):
        raise InvalidInputError(f"{where} names {name}, which is no function: {type(listener).__name__}")
    return listener


_at_work: Final[ContextVar[tuple[EventListener, ...]]] = ContextVar("table_writer_listeners_at_work", default=())
_resolutions: Final[ContextVar[list[MakeEvent] | None]] = ContextVar("table_writer_resolved", default=None)


def tell(listeners: Sequence[EventListener], event: TableEvent) -> None:
    """Tell every listener, each with a copy of the event. Only what ends the process stops it, such as Ctrl-C."""
    for listener in listeners:
        _tell(listener, event)


def _tell(listener: EventListener, event: TableEvent) -> None:
    at_work = _at_work.get()
    token, started_at = _at_work.set((*at_work, listener)), time.monotonic()
    try:
        if listener not in at_work:
            listener(replace(event))
    except Exception:  # a listener may raise what it likes, and the call does not fail because of it
        logger.exception("write_id=%s listener %s failed; nothing else is affected", event.write_id, _name(listener))
    except BaseException as stopped:  # Ctrl-C, SIGTERM as SystemExit, a scheduler's timeout: not the listener's own
        stopped.add_note(f"a listener was interrupted; before that: {in_short(event)}")
        raise
    finally:
        _at_work.reset(token)
    seconds = time.monotonic() - started_at
    if seconds > SLOW_SECONDS:
        logger.warning("write_id=%s listener %s took %.0f s", event.write_id, _name(listener), seconds)


def _name(listener: EventListener) -> str:
    """Name a listener without what it holds, which may be a key, and without asking it, which may fail."""
    kind: Any = listener if isroutine(listener) else type(listener)
    return f"{kind.__module__ or 'builtins'}.{kind.__qualname__}"


def in_short(event: TableEvent) -> str:
    """Say in one line what has happened."""
    version = f", version {event.version}" if event.version is not None else ""
    return f"{event.operation} of {event.table}: {event.outcome}{version}"


def note_resolution(make: MakeEvent) -> None:
    """Note that an entry in doubt was resolved; listeners are told when the call of this thread is over."""
    resolutions = _resolutions.get()
    if resolutions is not None:
        resolutions.append(make)


@contextmanager
def collect_resolutions() -> Iterator[list[MakeEvent]]:
    """Collect the resolutions that are noted within the block, as functions that make their events."""
    resolutions: list[MakeEvent] = []
    token = _resolutions.set(resolutions)
    try:
        yield resolutions
    finally:
        _resolutions.reset(token)


class JsonListener:
    """A listener that logs each event as one JSON object in one line.

    It logs, and writes no file of its own, so that handlers, rotation and shipping are those that you have: with the
    format ``%(message)s`` a line is an object. Levels are ``ERROR`` for what failed, ``WARNING`` where the outcome is
    unknown, else ``INFO``. The record has the event's object as its attribute ``table_event``.

    Parameters
    ----------
    logger
        Name of the logger.
    most_partitions
        How many partitions a line lists; ``partition_count`` says how many there are. What ships logs cuts long lines.

    Examples
    --------
    >>> JsonListener("etl.tables")
    JsonListener('etl.tables')
    """

    def __init__(self, logger: str = "table_writer.events.json", *, most_partitions: int = 100) -> None:
        self._name = logger
        self._most_partitions = most_partitions

    def __repr__(self) -> str:
        return f"JsonListener({self._name!r})"

    def __call__(self, event: TableEvent, /) -> None:
        """Log the event."""
        level = {"failed": logging.ERROR, "unknown": logging.WARNING}.get(event.outcome, logging.INFO)
        facts = event.to_dict()
        facts["partitions"] = facts["partitions"][: self._most_partitions]
        logging.getLogger(self._name).log(level, "%s", json.dumps(facts), extra={"table_event": facts})
