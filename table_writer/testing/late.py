"""Calls that reach a double late, when the client has given them up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Late(Exception):  # noqa: N818  # it is an instruction to a double, and reaches no caller
    """Raised by a hook before a call that changes something: the double keeps the call in its ``pending``.

    The client gets ``error`` instead of an answer. With ``None`` it sends the call again at once, which the hook sees
    as another call, so it is applied now, and once more later.
    """

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__(error)
        self.error = error


class _Double(Protocol):
    on_call: Any
    pending: list[Callable[[], object]]


Holder = TypeVar("Holder", bound=_Double)


def may_come_late(
    method: Callable[Concatenate[Holder, Arguments], Answer],
) -> Callable[Concatenate[Holder, Arguments], Answer]:
    """Let a hook keep a call of this method for later; keyword arguments are the client's and are not kept."""

    @wraps(method)
    def called(self: Holder, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
        try:
            return method(self, *arguments, **named)
        except Late as late:
            self.pending.append(partial(_unhooked, self, lambda: method(self, *arguments)))  # type: ignore[call-arg]
            if late.error is not None:
                raise late.error from None
            return called(self, *arguments, **named)

    return called


def _unhooked(double: _Double, call: Callable[[], object]) -> object:
    hook, double.on_call = double.on_call, None
    try:
        return call()
    finally:
        double.on_call = hook
