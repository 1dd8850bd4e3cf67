"""One Thrift connection to one of several metastores, and what became of each call on it.

A call ends in one of four ways, and only this file tells them apart: answered; refused (the server answered with an
exception); not sent; sent and not answered. Reads are sent again in the last two, changing calls never.
"""

from __future__ import annotations

import logging
import random
import re
import ssl
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TTransportException

from table_writer.errors import LostResponseError, MetastoreError
from table_writer.metastore.http_wire import HttpRequest, HttpWire, TurnedAwayError
from table_writer.metastore.protocol import nothing
from table_writer.metastore.sasl import SaslWire
from table_writer.metastore.settings import MetastoreSettings
from table_writer.metastore.wire import SILENT_SECONDS, LoginError, Stream, Wire
from table_writer.model.location import without_s3_logins
from table_writer.model.process import PerProcess

SETTING: Final = "metastore_timeout_seconds of the TableWriterConfig"  # how long an answer may take
MAX_REASON_CHARACTERS: Final = 300  # Hive quotes whole partitions, with all their columns, in its messages
logger = logging.getLogger(__name__)

PARAMETERS: Final = re.compile(r"(parameters:\{).*", re.IGNORECASE | re.DOTALL)  # they may hold a login
NEVER_STARTED: Final = (
    TApplicationException.UNKNOWN_METHOD,
    TApplicationException.INVALID_MESSAGE_TYPE,
    TApplicationException.WRONG_METHOD_NAME,
    TApplicationException.INVALID_PROTOCOL,
)


class RefusedError(MetastoreError):
    """The server answered the call with an exception, the ``reason``: the call is over."""

    def __init__(self, message: str, *, table: str, reason: TException) -> None:
        super().__init__(message, table=table)
        self.reason = reason


class _NoAnswerError(Exception):
    """A call broke off; ``has_sent`` tells whether the server may have it."""

    def __init__(self, reason: str, *, has_sent: bool) -> None:
        super().__init__(reason)
        self.has_sent = has_sent


class _NumberedProtocol(TBinaryProtocolAccelerated):  # type: ignore[misc]  # Thrift has no types
    """Numbers the calls of a connection: an answer that came twice is not that of the next call.

    Thrift's own client numbers none and looks at no number; every server sends that of the call back.
    """

    def __init__(self, transport: object) -> None:
        super().__init__(transport)
        self._number = 0

    def writeMessageBegin(self, name: str, kind: int, _number: int) -> None:  # noqa: N802  # Thrift's
        self._number += 1
        super().writeMessageBegin(name, kind, self._number)

    def readMessageBegin(self) -> tuple[str, int, int]:  # noqa: N802
        name, kind, number = super().readMessageBegin()
        if number != self._number:
            raise TProtocolException(
                TProtocolException.INVALID_DATA, f"an answer to call {number} of this connection, and not to this one"
            )
        return name, kind, number


class _Line:
    """The connection of one process: the socket, Thrift's client on it, and the lock of the thread that uses them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wire: Stream | None = None
        self.transport: Any = None  # with what was received and not read
        self.client: Any = None
        self.awaited_call = "the login"  # what an answer is waited for

    def __del__(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """Close the socket: this process's copy of it, without a word to the server."""
        if self.wire is not None:
            self.wire.close()
        self.wire = self.transport = self.client = None

    def has_more(self) -> bool:
        """Return whether more was received than was read: an answer to no call."""
        received = None if self.transport is None else self.transport.cstringio_buf
        return received is not None and received.tell() < len(received.getvalue())


class Connection:
    """Calls to the metastore, from any thread, one at a time; a forked process opens a connection of its own.

    An address that fails is left for the next one; the first that answers is kept.
    """

    def __init__(self, settings: MetastoreSettings) -> None:
        self._settings = settings
        self._uris = list(settings.uris)
        if settings.shuffle_uris:
            random.shuffle(self._uris)
        self._counts: Counter[str] = Counter()
        self._lines = PerProcess(_Line, let_go=_Line.hang_up)

    @property
    def uri(self) -> str:
        """The address in use, or the one to be tried next."""
        return self._uris[0]

    def counts(self) -> Mapping[str, int]:
        """Return how many calls were sent, by method, those repeated included."""
        with self._lines.get().lock:
            return dict(self._counts)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        line = self._lines.get()
        with line.lock:
            line.hang_up()

    def read(self, method: str, *arguments: object, table: str) -> Any:
        """Call a method that changes nothing, again on a new connection if this one breaks.

        Raises ``RefusedError`` if the server answered with an exception, and ``MetastoreError`` if no server could be
        reached, or none answered in ``read_attempts`` attempts.
        """
        line = self._lines.get()
        with line.lock:
            for attempt in range(1, self._settings.read_attempts + 1):
                self._ensure_connected(line, table)
                uri = self.uri
                try:
                    return self._call(line, method, arguments, table)
                except _NoAnswerError as broken:
                    logger.info("%s at %s for %s broke off (%s), attempt %d", method, uri, table, broken, attempt)
                    last = broken
                    self._rotate()
        raise MetastoreError(
            f"metastore at {uri} did not answer {method}: {last}; nothing was changed, retry, "
            "and look into the metastore's log if it happens again",
            table=table,
        ) from last

    def change(self, method: str, *arguments: object, table: str, before_send: Callable[[], None] = nothing) -> None:
        """Send a changing call exactly once, on a connection that was open a moment ago.

        ``before_send`` is called after all waiting for the lock and for a connection. ``RefusedError``: the server
        answered with an exception. ``LostResponseError``: the call was sent, at least in part, and no answer came. Any
        other ``MetastoreError``: it was not sent.
        """
        line = self._lines.get()
        with line.lock:
            self._ensure_connected(line, table)
            before_send()
            uri = self.uri
            try:
                self._call(line, method, arguments, table)
            except RefusedError as refused:
                if not isinstance(refused.reason, TApplicationException) or refused.reason.type in NEVER_STARTED:
                    raise
                # a proxy whose own server went away answers like this too: it says nothing of the change
                raise _lost_response(
                    f"{uri} answered {method} with an error of its own: {refused.message}", table
                ) from refused
            except _NoAnswerError as broken:
                if not broken.has_sent:
                    raise MetastoreError(
                        f"{method} could not be sent to the metastore at {uri}: {broken}; nothing was changed, retry",
                        table=table,
                    ) from broken
                raise _lost_response(f"{uri} did not answer {method}: {broken}", table) from broken

    def _call(self, line: _Line, method: str, arguments: tuple[object, ...], table: str) -> Any:
        """Send one call on the open connection; only a whole answer leaves the connection open."""
        wire = line.wire
        assert wire is not None  # noqa: S101 - callers connect first
        self._counts[method] += 1
        line.awaited_call = method
        wire.has_sent = False
        whole_answer = False
        try:
            answer = getattr(line.client, method)(*arguments)
            whole_answer = True
        except Exception as error:
            # Whatever the socket, Thrift or its decoder raise: a call that was sent must not pass for one that was not.
            if isinstance(error, TException) and not isinstance(error, TProtocolException | TTransportException):
                whole_answer = True
                raise self._refusal(method, error, table) from error
            if isinstance(error, TurnedAwayError):
                message = f"metastore at {self.uri} turned {method} away: {error}; nothing was changed"
                raise MetastoreError(message, table=table) from error
            hint = wire.hint() if wire.has_sent and not isinstance(error, TimeoutError) else ""
            late = f"no answer within {self._settings.timeout_seconds:g} s, which is {SETTING}"
            said = late if isinstance(error, TimeoutError) else _describe(error)
            raise _NoAnswerError(said + hint, has_sent=wire.has_sent) from error
        finally:  # also for KeyboardInterrupt: half an answer must not be read as the next call's
            if not whole_answer:
                line.hang_up()
        return answer

    def _refusal(self, method: str, error: TException, table: str) -> RefusedError:
        kind, text = type(error).__name__, str(getattr(error, "message", None) or error)
        if isinstance(error, TApplicationException) and error.type == TApplicationException.UNKNOWN_METHOD:
            advice = "this metastore does not know that call; table_writer needs Hive 2.3 or newer"
        else:
            advice = "the cause is in the metastore's log"
        text = PARAMETERS.sub(r"\1…", without_s3_logins(text))
        if hasattr(error, "message"):
            error.message = text  # the chain of causes is shown as well
        reason = text.strip().partition("\n")[0][:MAX_REASON_CHARACTERS]
        return RefusedError(
            f"metastore at {self.uri} refused {method}: {kind}: {reason}; {advice}", table=table, reason=error
        )

    def _ensure_connected(self, line: _Line, table: str) -> None:
        """Keep the connection if it is open and quiet, else open one to the first address that takes it."""
        wire = line.wire
        is_fresh = wire is not None and wire.idle_seconds() < self._settings.max_idle_seconds and wire.is_quiet()
        if is_fresh and not line.has_more():
            return
        line.hang_up()
        tried: list[str] = []
        refused = False
        for _ in self._settings.uris:
            try:
                self._open(line, self.uri)
            except (OSError, UnicodeError, _NoAnswerError) as error:
                tried.append(f"{self.uri}: {_describe(error)}")
                failure = error
                refused |= isinstance(error, LoginError)
                self._rotate()
                if isinstance(error, LoginError) and error.everywhere:
                    break
            else:
                return
        if refused:
            raise MetastoreError(
                f"no login at the metastore: {'; '.join(tried)}; nothing was changed", table=table
            ) from failure
        raise MetastoreError(
            f"metastore not reachable at {'; '.join(tried)}. Start it or set hive.metastore.uris; nothing was changed",
            table=table,
        ) from failure

    def _open(self, line: _Line, uri: str) -> None:
        settings, address = self._settings, urlsplit(uri)
        host, port = str(address.hostname), int(address.port or 0)
        waiter = weakref.proxy(line)  # the socket is to close with the line, and not wait for a collector of circles
        login = None if settings.login is None else settings.login(host)
        first = b"" if login is None or isinstance(login, HttpRequest) else login.answer(b"")  # a ticket takes seconds
        wire = Wire.connect(
            host,
            port,
            tls=ssl.create_default_context(cafile=settings.ca_file) if settings.tls else None,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            timeout_seconds=settings.timeout_seconds,
            on_silence=lambda timeout_seconds: _say_silent(uri, waiter.awaited_call, timeout_seconds),
        )
        line.awaited_call = "the login"
        try:
            if login is None:
                line.wire = wire
            elif isinstance(login, HttpRequest):
                line.wire = HttpWire(wire, login, address.netloc)
            else:
                with wire.answer_timeout(settings.login_timeout_seconds):
                    line.wire = SaslWire(wire, login, first)
        except BaseException:  # Ctrl-C as well: a connection with half a handshake takes no call
            wire.close()
            raise
        transport = TFramedTransport(line.wire) if settings.framed else TBufferedTransport(line.wire)
        line.transport, line.client = transport, ThriftHiveMetastore.Client(_NumberedProtocol(transport))
        if settings.user:
            try:
                self._call(line, "set_ugi", (settings.user, [settings.user]), "")
            except RefusedError as refused:  # Hive's own client goes on without it, too
                logger.info("going on without a user name: %s", refused)

    def _rotate(self) -> None:
        self._uris = [*self._uris[1:], self._uris[0]]  # in one step: other threads read it without the lock


def _lost_response(what: str, table: str) -> LostResponseError:
    return LostResponseError(
        f"metastore at {what}; the change may or may not have been applied, read it back before doing anything else",
        table=table,
    )


def _say_silent(uri: str, asked: str, timeout_seconds: float) -> None:
    logger.warning(
        "still waiting: the metastore at %s has not answered %s for %.0f s; it is given %.0f s",
        uri,
        asked,
        SILENT_SECONDS,
        timeout_seconds,
    )


def _describe(error: Exception) -> str:
    """Say in a few words what a socket or Thrift complained about."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
        return f"{error}; hive.metastore.use.SSL=true, but the port may not speak TLS"
    return str(error).partition("\n")[0] or type(error).__name__
