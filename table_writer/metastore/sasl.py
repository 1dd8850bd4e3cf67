"""Logging in at a metastore: SASL under Thrift, and the mechanisms of delegation tokens and passwords.

After a handshake every message has its length before it, and is signed or sealed if client and server agreed so. A
handshake that fails is a :class:`LoginError`: no call was sent, whatever went over the wire.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import xor
from typing import Any, ClassVar, Final, NoReturn, Protocol

from table_writer.metastore.http_wire import HttpRequest
from table_writer.metastore.wire import Layer, LoginError, Wire, protocol_hint

START: Final = 1  # status bytes of Thrift's TSaslTransport
OK: Final = 2
BAD: Final = 3
ERROR: Final = 4
COMPLETE: Final = 5
HEADER: Final = struct.Struct(">BI")
LENGTH: Final = struct.Struct(">I")
MAX_HANDSHAKE_BYTES: Final = 1 << 20  # of one frame; a ticket with the groups of a large directory has some 64 KiB
MAX_MESSAGE_BYTES: Final = 1 << 20  # of one frame that is sent as it is
MAX_REASON_CHARACTERS: Final = 300
MOST_BYTES_TO_US: Final = 0xFF_FF_FF  # three bytes: the most that SASL can say
MD5: Final = partial(hashlib.md5, usedforsecurity=False)  # what the protocol has, also where a policy forbids it else
PROTECTION: Final[Mapping[str, str]] = {"auth": "authentication", "auth-int": "integrity", "auth-conf": "privacy"}
"""Names of SASL, and Hadoop's for the same in ``hadoop.rpc.protection``; the cheapest first."""

CHEAPEST_FIRST: Final = tuple(PROTECTION)


def hadoops(protections: Iterable[str]) -> str:
    """Spell what protects messages as Hadoop's setting does.

    Examples
    --------
    >>> hadoops(["auth-conf", "auth"])
    'hadoop.rpc.protection=privacy,authentication'
    """
    return f"hadoop.rpc.protection={','.join(PROTECTION.get(protection, protection) for protection in protections)}"


class Mechanism(Protocol):
    """One login over one connection."""

    name: ClassVar[str]

    @property
    def is_complete(self) -> bool:
        """Return whether this side has all that it wants, the server's proof included."""

    @property
    def message_bytes(self) -> int:
        """Return how many bytes can be wrapped at once."""

    def answer(self, challenge: bytes) -> bytes:
        """Answer the server; the first challenge is empty."""

    def wrap(self, data: bytes) -> bytes:
        """Protect what is sent after the handshake."""

    def unwrap(self, data: bytes) -> bytes:
        """Take off what protects a received message; ``ConnectionError`` if somebody changed or repeated it."""

    def explain(self, refusal: str) -> str:
        """Say what a server's refusal probably means, and what helps."""


class Login:
    """Makes a mechanism, or what HTTP says, with fresh credentials for each new connection, given the server's host.

    What it knows is never shown, and neither copied nor pickled.
    """

    def __init__(self, kind: str, make: Callable[[str], Mechanism | HttpRequest]) -> None:
        self._kind = kind
        self._make = make

    def __call__(self, host: str) -> Mechanism | HttpRequest:
        return self._make(host)

    def __repr__(self) -> str:
        return f"Login({self._kind!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a login at the metastore is not pickled or copied: it may hold a password")


@dataclass(frozen=True, slots=True)
class Token:
    """Hadoop's delegation token; its repr says only that it is one."""

    identifier: bytes
    password: bytes

    def __repr__(self) -> str:
        return "Token(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a delegation token is not pickled or copied")


class _InTheClear:
    """Messages go as they are."""

    @property
    def message_bytes(self) -> int:
        return MAX_MESSAGE_BYTES

    def wrap(self, data: bytes) -> bytes:
        return data

    def unwrap(self, data: bytes) -> bytes:
        return data


class Plain(_InTheClear):
    """User and password, sent as they are: only for a connection that TLS protects."""

    name: ClassVar = "PLAIN"
    is_complete: Final = True  # the server proves nothing; TLS has

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password

    def __reduce__(self) -> NoReturn:
        raise TypeError("a password is not pickled or copied")

    def answer(self, challenge: bytes) -> bytes:
        del challenge
        return f"\0{self._user}\0{self._password}".encode()

    def explain(self, refusal: str) -> str:
        del refusal
        return f"user {self._user} or its password is wrong, or the metastore takes no passwords"


class DigestMd5:
    """A delegation token, or any user and password that both sides know, by RFC 2831.

    ``auth``, ``auth-int`` and, with RC4, ``auth-conf``: the first of ``protections`` that the server allows.
    """

    name: ClassVar = "DIGEST-MD5"

    def __init__(
        self,
        user: str,
        password: str,
        protections: Sequence[str] = CHEAPEST_FIRST,
        *,
        uri: str = "null/default",
        cnonce: str = "",
    ) -> None:
        self._user, self._password, self._uri = user, password, uri
        self._protections = protections
        self._cnonce = cnonce or os.urandom(16).hex()
        self._proof = b""  # what the server answers if it knows the password
        self._layer: _Signed | None = None
        self._message_bytes = MAX_MESSAGE_BYTES
        self.is_complete = False

    @classmethod
    def of_token(cls, token: Token, protections: Sequence[str]) -> DigestMd5:
        """Spell a token as Hadoop does."""
        user, password = (base64.b64encode(part).decode() for part in (token.identifier, token.password))
        return cls(user, password, protections)

    @property
    def message_bytes(self) -> int:
        return self._message_bytes

    def answer(self, challenge: bytes) -> bytes:
        if not challenge:
            return b""
        if self._proof:
            if not hmac.compare_digest(challenge, self._proof):
                raise LoginError("the server does not know the token's password: it is not the metastore of this token")
            self.is_complete = True
            return b""
        said = _directives(challenge)
        if "nonce" not in said:
            raise LoginError("the server's challenge has no nonce: it is no metastore that takes delegation tokens")
        qop = self._chosen_protection(said)
        realm, nonce = said.get("realm", ""), said["nonce"]
        secret = _md5(_md5(self._user, realm, self._password).digest(), nonce, self._cnonce)
        body = "" if qop == "auth" else ":" + "0" * 32

        def proof(verb: str) -> str:
            about = _md5(verb, self._uri + body).hexdigest()
            return str(_md5(secret.hexdigest(), nonce, "00000001", self._cnonce, qop, about).hexdigest())

        self._proof = f"rspauth={proof('')}".encode()
        if qop != "auth":
            self._layer = _Signed(secret.digest(), seals=qop == "auth-conf")
            self._message_bytes = max(
                1, min(int(said.get("maxbuf", "65536")), MAX_MESSAGE_BYTES) - _Signed.OVERHEAD_BYTES
            )
        cipher = ",cipher=rc4" if qop == "auth-conf" else ""
        return (
            f'charset=utf-8,username="{self._user}",realm={_quoted_text(realm)},nonce={_quoted_text(nonce)},nc=00000001,'
            f'cnonce="{self._cnonce}",digest-uri="{self._uri}",maxbuf={MOST_BYTES_TO_US},'
            f"response={proof('AUTHENTICATE')},qop={qop}{cipher}"
        ).encode()

    def _chosen_protection(self, said: Mapping[str, str]) -> str:
        offered = [word.strip() for word in said.get("qop", "auth").split(",")]
        ciphers = [word.strip() for word in said.get("cipher", "").split(",")]
        for qop in self._protections:
            if qop in offered and (qop != "auth-conf" or "rc4" in ciphers):
                return qop
        raise LoginError(
            f"the metastore wants qop={','.join(offered)} ({hadoops(offered)}) with"
            f" cipher={','.join(ciphers) or 'none'}, and this client takes {hadoops(self._protections)}, privacy with"
            " cipher=rc4 alone: make the two settings"
            " agree, or use Maintenance with a Kerberos ticket, which speaks all three"
        )

    def wrap(self, data: bytes) -> bytes:
        return data if self._layer is None else self._layer.wrap(data)

    def unwrap(self, data: bytes) -> bytes:
        return data if self._layer is None else self._layer.unwrap(data)

    def explain(self, refusal: str) -> str:
        if "acquiring password" in refusal:
            return "the delegation token is expired, cancelled or of another metastore: restart the job with a new one"
        if "response" in refusal:
            return "the delegation token's password is wrong: it is a token of another metastore"
        return "the metastore's log says why it does not take this delegation token"


class _Signed:
    """Each message with a number and a code of both, in clear or sealed with RC4 (RFC 2831, 2.3 and 2.4)."""

    OVERHEAD_BYTES: Final = 16
    KEY: Final = "Digest session key to {}-to-{} signing key magic constant"
    SEAL: Final = "Digest H(A1) to {}-to-{} sealing key magic constant"

    def __init__(self, secret: bytes, *, seals: bool) -> None:
        def key(text: str, *way: str) -> bytes:
            return bytes(_md5(secret + text.format(*way).encode()).digest())

        out, into = ("client", "server"), ("server", "client")
        self._keys = key(self.KEY, *out), key(self.KEY, *into)
        self._sent_count = self._received_count = 0
        self._streams = (_rc4(key(self.SEAL, *out)), _rc4(key(self.SEAL, *into))) if seals else None

    def wrap(self, data: bytes) -> bytes:
        number = LENGTH.pack(self._sent_count)
        self._sent_count += 1
        signed = data + _code(self._keys[0], number, data)
        return (_with_key_stream(signed, self._streams[0]) if self._streams else signed) + b"\0\1" + number

    def unwrap(self, data: bytes) -> bytes:
        body, tail, number = data[:-6], data[-6:], LENGTH.pack(self._received_count)
        self._received_count += 1
        plain = _with_key_stream(body, self._streams[1]) if self._streams else body
        message, code = plain[:-10], plain[-10:]
        if tail != b"\0\1" + number or not hmac.compare_digest(code, _code(self._keys[1], number, message)):
            raise ConnectionError("a message was changed on its way from the metastore, or repeated")
        return message


def _code(key: bytes, number: bytes, message: bytes) -> bytes:
    return hmac.new(key, number + message, MD5).digest()[:10]


def _with_key_stream(data: bytes, stream: Iterator[int]) -> bytes:
    return bytes(map(xor, data, stream))


def _rc4(key: bytes) -> Iterator[int]:
    """Yield the key stream. Weak, and what a metastore's Java offers beside 3DES; some MB a second at the most."""
    state, at = list(range(256)), 0
    for index in range(256):
        at = (at + state[index] + key[index % len(key)]) & 255
        state[index], state[at] = state[at], state[index]
    index = at = 0
    while True:
        index = (index + 1) & 255
        one = state[index]
        at = (at + one) & 255
        other = state[at]
        state[index], state[at] = other, one
        yield state[(one + other) & 255]


def _md5(*parts: str | bytes) -> Any:
    joined = b":".join(part.encode() if isinstance(part, str) else part for part in parts)
    return MD5(joined)


def _directives(challenge: bytes) -> dict[str, str]:
    """Read ``name="text",name=word``."""
    found = re.findall(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,\s]*))', challenge.decode(errors="replace"))
    return {name: re.sub(r"\\(.)", r"\1", quoted) or word for name, quoted, word in found}


def _quoted_text(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


class SaslWire(Layer):
    """A wire over which somebody has logged in; making one does the handshake.

    ``first`` is the mechanism's first answer. ``has_sent`` is false afterwards: nothing of a handshake is a call.
    """

    def __init__(self, wire: Wire, mechanism: Mechanism, first: bytes) -> None:
        super().__init__(wire)
        self._mechanism = mechanism
        self._message = io.BytesIO()
        self._unread_bytes = 0
        try:
            self._shake_hands(first)
        except LoginError:
            raise
        except TimeoutError as error:
            raise LoginError(
                f"no answer to the handshake of {mechanism.name}: a metastore without SASL waits for more. Is"
                " hive.metastore.sasl.enabled=true there, or its port another one?"
            ) from error
        except (OSError, ValueError) as error:
            raise LoginError(
                f"the connection broke off in the handshake of {mechanism.name} ({error}): the metastore's log says"
                " why, if it wants SASL at all"
            ) from error
        finally:
            wire.has_sent = False

    def _shake_hands(self, first: bytes) -> None:
        mechanism = self._mechanism
        self._send(START, mechanism.name.encode())
        self._send(OK, first)
        while True:
            status, payload = self._receive()
            if status in (BAD, ERROR):
                said = payload.decode(errors="replace").strip().partition("\n")[0][:MAX_REASON_CHARACTERS]
                raise LoginError(f"it refuses {mechanism.name}: {said or 'no reason given'}; {mechanism.explain(said)}")
            if status == OK:
                self._send(OK, mechanism.answer(payload))
                continue
            if payload:
                mechanism.answer(payload)
            if not mechanism.is_complete:
                raise LoginError(f"it ended the handshake of {mechanism.name} early, before it had proved who it is")
            return

    def _send(self, status: int, payload: bytes) -> None:
        self._wire.write(HEADER.pack(status, len(payload)) + payload)

    def _receive(self) -> tuple[int, bytes]:
        header = self._wire.readAll(HEADER.size)
        status, size = HEADER.unpack(header)
        if status not in (OK, BAD, ERROR, COMPLETE) or size > MAX_HANDSHAKE_BYTES:
            meant = protocol_hint(header) or "it does not speak SASL"
            raise LoginError(f"its answer to the handshake of {self._mechanism.name} is none: {meant}")
        return status, self._wire.readAll(size)

    def is_quiet(self) -> bool:
        return not self._unread_bytes and super().is_quiet()

    def read(self, size: int) -> bytes:
        """Receive up to ``size`` bytes, at least one."""
        while not self._unread_bytes:  # an empty message is none
            (length,) = LENGTH.unpack(self._wire.readAll(LENGTH.size))
            message = self._mechanism.unwrap(self._wire.readAll(length))
            self._message, self._unread_bytes = io.BytesIO(message), len(message)
        data = self._message.read(size)
        self._unread_bytes -= len(data)
        return data

    def write(self, data: bytes) -> None:
        """Send all bytes, in as many messages as it takes."""
        step, left = self._mechanism.message_bytes, memoryview(data)
        for at in range(0, len(left), step):
            message = self._mechanism.wrap(bytes(left[at : at + step]))
            self._wire.write(LENGTH.pack(len(message)) + message)
