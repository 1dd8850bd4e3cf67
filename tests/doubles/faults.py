"""Faults between a client and a metastore: a TCP proxy that cuts a connection at a chosen call."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from table_writer.testing.processes import LOCALHOST

Cut = Literal["before", "middle", "after", "silence"]

# how the binary protocol begins a call; the length and the method's name follow
STRICT_CALL: Final = b"\x80\x01\x00\x01"

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class CuttingProxy:
    """Stands between a client and a metastore, and fails one call on request.

    ======== ============================================ ==================== =================
    cut      what the server receives of the call          the change is        the client sees
    ======== ============================================ ==================== =================
    before   nothing                                      not applied          an end of stream
    middle   a part of it                                 not applied          an end of stream
    after    all of it; it answers, the answer is dropped applied              an end of stream
    silence  as after                                     applied              a timeout
    ======== ============================================ ==================== =================

    Parameters
    ----------
    target_uri
        ``thrift://host:port`` of the metastore.
    """

    def __init__(self, target_uri: str) -> None:
        address = urlsplit(target_uri)
        self._target = (str(address.hostname), int(address.port or 0))
        self._listener = socket.create_server((LOCALHOST, 0))
        self._open: set[socket.socket] = set()
        self._cuts: dict[str, Cut] = {}
        self.cut_count = 0
        """How many calls were cut so far."""
        threading.Thread(target=self._accept, name="cutting-proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def uri(self) -> str:
        """The address to give to the client."""
        return f"thrift://{LOCALHOST}:{self._listener.getsockname()[1]}"

    def cut_next(self, method: str, cut: Cut) -> None:
        """Fail the next call of this Thrift method, once."""
        self._cuts[method] = cut

    def disconnect(self) -> None:
        """End all open connections, as a server does with idle ones; new ones are accepted."""
        for end in tuple(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening and end all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._listener.close()
        self.disconnect()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), name="cutting-proxy", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._target) as server:
            ends = {client, server}
            self._open |= ends
            try:
                _Exchange(self, client, server).run()
            finally:
                self._open -= ends

    def _take_cut(self, data: bytes) -> Cut | None:
        """Return the cut ordered for the call that these bytes begin."""
        if not data.startswith(STRICT_CALL):
            return None
        (length,) = struct.unpack_from(">i", data, 4)
        cut = self._cuts.pop(data[8 : 8 + length].decode(), None)
        self.cut_count += cut is not None
        return cut


@dataclass
class _Exchange:
    """One connection: a thread for each direction, since a big call and its early refusal may overlap."""

    _proxy: CuttingProxy
    _client: socket.socket
    _server: socket.socket
    _cut: Cut | None = None

    def run(self) -> None:
        """Forward both directions until an end closes or a cut is due."""
        answers = threading.Thread(target=self._forward_answers, name="cutting-proxy", daemon=True)
        answers.start()
        with contextlib.suppress(OSError):
            self._forward_calls()
        if self._cut != "after":  # then the answer ends it
            self._end()
        answers.join()

    def _forward_calls(self) -> None:
        while data := self._client.recv(1 << 16):
            self._cut = self._cut or self._proxy._take_cut(data)
            if self._cut == "before":
                return
            if self._cut == "middle":
                self._server.sendall(data[: len(data) // 2])
                return
            self._server.sendall(data)

    def _forward_answers(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(1 << 16):
                if self._cut == "after":
                    break
                if self._cut != "silence":
                    self._client.sendall(data)
        self._end()

    def _end(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


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
