"""Requests that a service applies later than its client believes: how the doubles keep them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

__all__ = ["Late", "may_come_late"]

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Late(Exception):  # noqa: N818  # it is an instruction to a double, and reaches no caller
    """Raised by a hook before a call that changes something: the double keeps the call in its ``pending``.

    Parameters
    ----------
    error
        What the client gets instead of an answer. ``None``: the client sends the call again at once, which the hook
        sees as another call, so it is applied now, and once more later.
    """

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__(error)
        self.error = error


class _Double(Protocol):
    on_call: Any
    pending: list[Callable[[], object]]


Self = TypeVar("Self", bound=_Double)


def may_come_late(
    method: Callable[Concatenate[Self, Arguments], Answer],
) -> Callable[Concatenate[Self, Arguments], Answer]:
    """Let a hook keep a call of this method for later; keyword arguments are the client's and are not kept.

    Examples
    --------
    >>> from table_writer.testing.memory_store import MemoryStore
    >>> from table_writer.errors import StorageError
    >>> store = MemoryStore()
    >>> def lose(operation, phase, key):
    ...     raise Late(StorageError("no answer"))
    >>> store.on_call = lose
    >>> store.put("a", b"1")
    Traceback (most recent call last):
    table_writer.errors.StorageError: no answer
    >>> store.on_call = None
    >>> store.head("a") is None, store.pending.pop()(), store.head("a").size_bytes
    (True, None, 1)
    """

    @wraps(method)
    def called(self: Self, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
        try:
            return method(self, *arguments, **named)
        except Late as late:
            self.pending.append(_unhooked(self, lambda: method(self, *arguments)))  # type: ignore[call-arg]
            if late.error is not None:
                raise late.error from None
            return called(self, *arguments, **named)

    return called


def _unhooked(double: _Double, call: Callable[[], Answer]) -> Callable[[], Answer]:
    def apply() -> Answer:
        hook, double.on_call = double.on_call, None
        try:
            return call()
        finally:
            double.on_call = hook

    return apply
