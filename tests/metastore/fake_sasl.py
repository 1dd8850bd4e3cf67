"""A metastore in this process that wants a login by SASL, and breaks off where it is told to."""

from __future__ import annotations

import hashlib
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from table_writer.metastore import sasl
from tests.bare_server import BareServer

Cut = Literal[
    "", "at once", "after start", "in the challenge", "after the answer", "in the end", "in a call", "after a call"
]
IN_THE_HANDSHAKE: tuple[Cut, ...] = ("at once", "after start", "in the challenge", "after the answer", "in the end")
AFTER_IT: tuple[Cut, ...] = ("in a call", "after a call")
USER, PASSWORD = "aWRlbnRpZmllcg==", "c2VjcmV0IHBhc3N3b3Jk"
NONCE = "n0nce"


class _BrokenOffError(Exception):
    pass


def md5(*parts: str | bytes) -> Any:
    return hashlib.md5(b":".join(one if isinstance(one, bytes) else one.encode() for one in parts))  # noqa: S324


@dataclass
class FakeMetastore:
    """Knows a user and a few calls; ``dropped`` are the tables of the calls that it has carried out."""

    cut: Cut = ""
    qop: str = "auth"
    ciphers: str = "3des,rc4"
    password: str = PASSWORD
    max_buffer: str = "4096"
    refusal: str = ""
    proves: bool = True  # whether it shows that it knows the password, too
    dropped: list[str] = field(default_factory=list)
    uri: str = ""
    frames: list[int] = field(default_factory=list)  # how long the messages of calls were
    plain_login: bytes = b""

    def drop_table(self, _database: str, name: str, _deletes: bool) -> None:
        self.dropped.append(name)

    def get_all_databases(self) -> list[str]:
        return ["default", "x" * 100_000]


@contextmanager
def running(fake: FakeMetastore) -> Iterator[FakeMetastore]:
    def converse(end: socket.socket) -> None:
        end.settimeout(10)
        with suppress(_BrokenOffError, TTransportException, OSError, EOFError):
            if fake.cut != "at once":
                _talk(_Server(end, fake))

    with BareServer(converse) as server:
        fake.uri = f"thrift://127.0.0.1:{server.port}"
        yield fake


@contextmanager
def answering(data: bytes, *, closes: bool = True) -> Iterator[str]:
    """Run a server that answers whatever it is asked with the same bytes; yields its address."""

    def converse(end: socket.socket) -> None:
        end.recv(1 << 16)
        end.sendall(data)
        while not closes and end.recv(1 << 16):
            pass

    with BareServer(converse) as server:
        yield f"thrift://127.0.0.1:{server.port}"


def _talk(server: _Server) -> None:
    server.shake_hands()
    if server.fake.cut == "in a call":
        server.read(1)
        return
    protocol = TBinaryProtocol(TBufferedTransport(server))
    processor = ThriftHiveMetastore.Processor(server.fake)
    while True:
        processor.process(protocol, protocol)


class _Server:
    """The server's end, a transport for Thrift after the handshake."""

    def __init__(self, accepted: socket.socket, fake: FakeMetastore) -> None:
        self._socket, self.fake = accepted, fake
        self._layer: Any = None
        self._left = b""

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def frame(self) -> bytes:
        _, size = struct.unpack(">BI", self.receive(5))
        return self.receive(size)

    def send(self, status: int, payload: bytes) -> None:
        self._socket.sendall(struct.pack(">BI", status, len(payload)) + payload)

    def cut(self, here: Cut) -> None:
        if self.fake.cut == here:
            raise _BrokenOffError

    def shake_hands(self) -> None:
        fake, mechanism, first = self.fake, self.frame(), self.frame()
        self.cut("after start")
        if mechanism == b"PLAIN":
            fake.plain_login = first
            is_right = first == f"\0{USER}\0{fake.password}".encode()
            self.send(sasl.COMPLETE if is_right else sasl.BAD, b"" if is_right else b"Error validating the login")
            return
        challenge = (
            f'realm="default",nonce="{NONCE}",qop="{fake.qop}",charset=utf-8,cipher="{fake.ciphers}",maxbuf={fake.max_buffer},'
            "algorithm=md5-sess"
        )
        if fake.cut == "in the challenge":
            self._socket.sendall(struct.pack(">BI", sasl.OK, len(challenge)) + challenge[:9].encode())
            raise _BrokenOffError
        self.send(sasl.OK, challenge.encode())
        said = dict(re.findall(r'([\w-]+)="?([^",]*)"?', self.frame().decode()))
        self.cut("after the answer")
        secret = md5(md5(said["username"], "default", fake.password).digest(), NONCE, said["cnonce"])
        body = "" if said["qop"] == "auth" else ":" + "0" * 32

        def proof(verb: str) -> str:
            about = md5(verb, said["digest-uri"] + body).hexdigest()
            return str(md5(secret.hexdigest(), NONCE, "00000001", said["cnonce"], said["qop"], about).hexdigest())

        if fake.refusal or said["response"] != proof("AUTHENTICATE"):
            wrong = "DIGEST-MD5: digest response format violation. Mismatched response."
            self.send(sasl.BAD, (fake.refusal or wrong).encode())
            raise _BrokenOffError
        self.cut("in the end")
        if said["qop"] != "auth":
            self._layer = sasl._Signed(secret.digest(), seals=said["qop"] == "auth-conf")
            self._layer._keys = self._layer._keys[::-1]
            self._layer._streams = self._layer._streams and self._layer._streams[::-1]
        self.send(sasl.COMPLETE, f"rspauth={proof('')}".encode() if fake.proves else b"")

    def read(self, size: int) -> bytes:
        while not self._left:
            (length,) = struct.unpack(">I", self.receive(4))
            self.fake.frames.append(length)
            message = self.receive(length)
            self._left = self._layer.unwrap(message) if self._layer else message
        data, self._left = self._left[:size], self._left[size:]
        return data

    def readAll(self, size: int) -> bytes:  # noqa: N802
        data = b""
        while len(data) < size:
            data += self.read(size - len(data))
        return data

    def write(self, data: bytes) -> None:
        self.cut("after a call")
        message = self._layer.wrap(data) if self._layer else data
        self._socket.sendall(struct.pack(">I", len(message)) + message)

    def flush(self) -> None:
        pass
