"""Kerberos for SASL, through the system's own GSSAPI library by ctypes: no Python package is needed.

The ticket is the one that ``kinit`` left (``KRB5CCNAME``), or the library gets one with a keytab
(``KRB5_CLIENT_KTNAME``); ``KRB5_CONFIG`` counts too. Nothing of either passes through Python.
"""

from __future__ import annotations

import ctypes
import functools
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, ClassVar, Final

from table_writer.errors import InvalidInputError
from table_writer.metastore.sasl import CHEAPEST_FIRST, MAX_MESSAGE_BYTES, MOST_BYTES_TO_US, Login, hadoops
from table_writer.metastore.wire import LoginError
from table_writer.model.process import this_process

LIBRARIES: Final = ("libgssapi_krb5.so.2",)
INSTALL: Final = "install libgssapi-krb5-2 (Debian, Ubuntu), krb5-libs (Red Hat, Amazon Linux) or krb5 (Alpine)"
CONTINUE_NEEDED: Final = 1
FAILED: Final = 0xFF_FF_00_00  # RFC 2744: calling errors and routine errors
OUT_OF_ORDER: Final = 2 | 4 | 8 | 16  # a message is repeated, too old, not the next one, or some are missing
MUTUAL: Final = 2
REPLAY: Final = 4  # RFC 4752: who wants messages protected wants these two as well
SEQUENCE: Final = 8
CONFIDENTIAL: Final = 16
INTEGRITY: Final = 32
OF_ROUTINE: Final = 1  # of gss_display_status
OF_MECHANISM: Final = 2
LAYERS: Final = {"auth": 1, "auth-int": 2, "auth-conf": 4}  # RFC 4752
KRB5: Final = bytes.fromhex("2a864886f712010202")
PRINCIPAL_NAME: Final = bytes.fromhex("2a864886f71201020201")
PRINCIPAL: Final = re.compile(r"([^/@\s]+)/([^/@\s]+)@([^/@\s]+)")
NUMBER: Final = re.compile(r"[\d.]+|.*:.*")  # an address that is no name
EXAMPLE: Final = "hive/_HOST@EXAMPLE.COM"
SERVICE: Final = "hive.metastore.kerberos.principal"
ADVICE: Final = (  # what MIT's library says, whether it says so of any metastore, and what helps
    ("krbtgt/.* not found", False, f"the KDC does not know the realm of {SERVICE}"),
    ("Client .* not found", True, "the KDC does not know the user of this ticket or keytab"),
    ("not found in Kerberos database", False, f"{SERVICE} is not the metastore's, or its _HOST is an alias"),
    ("entry in database has expired|[Pp]assword has expired", True, "ask the administrator of the KDC to renew it"),
    ("expired", True, "renew the ticket: kinit, or set KRB5_CLIENT_KTNAME to a keytab"),
    ("Decrypt integrity|Preauthentication failed", True, "the keytab's key is not the user's: make it again"),
    ("[Cc]lock skew", True, "this machine's clock and the KDC's or the metastore's differ: synchronise them"),
    ("contact any KDC", True, "no KDC answers: look into krb5.conf (KRB5_CONFIG) and the network"),
    ("find KDC|realm", False, f"krb5.conf (KRB5_CONFIG) does not know the realm of {SERVICE}"),
    (
        "[Nn]o Kerberos credentials|[Cc]redentials? cache|No credentials|No such file|[Kk]eytab|[Kk]ey table",
        True,
        "there is no ticket: run kinit, or set KRB5_CLIENT_KTNAME to a keytab",
    ),
)


class _Buffer(Structure):
    _fields_: ClassVar = [("length", c_size_t), ("value", c_void_p)]


class _Oid(Structure):
    _fields_: ClassVar = [("length", c_uint32), ("elements", c_char_p)]


_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {  # after the minor status, which is the first of all
    "gss_import_name": (POINTER(_Buffer), POINTER(_Oid), POINTER(c_void_p)),
    "gss_init_sec_context": (
        *(c_void_p, POINTER(c_void_p), c_void_p, POINTER(_Oid), c_uint32, c_uint32, c_void_p, POINTER(_Buffer)),
        *(c_void_p, POINTER(_Buffer), POINTER(c_uint32), c_void_p),
    ),
    "gss_wrap": (c_void_p, c_int, c_uint32, POINTER(_Buffer), POINTER(c_int), POINTER(_Buffer)),
    "gss_unwrap": (c_void_p, POINTER(_Buffer), POINTER(_Buffer), POINTER(c_int), c_void_p),
    "gss_wrap_size_limit": (c_void_p, c_int, c_uint32, c_uint32, POINTER(c_uint32)),
    "gss_display_status": (c_uint32, c_int, POINTER(_Oid), POINTER(c_uint32), POINTER(_Buffer)),
    "gss_delete_sec_context": (POINTER(c_void_p), c_void_p),
    "gss_release_name": (POINTER(c_void_p),),
    "gss_release_buffer": (POINTER(_Buffer),),
}


@functools.cache
def _library() -> ctypes.CDLL:
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        for function, arguments in _SIGNATURES.items():
            declared = getattr(library, function)
            declared.argtypes = (POINTER(c_uint32), *arguments)
            declared.restype = c_uint32
        return library
    what = f"Kerberos needs the system's GSSAPI library ({LIBRARIES[0]}), which is not here"
    raise LoginError(f"{what}: {INSTALL}", everywhere=True)


class Gssapi:
    """A Kerberos login; messages are signed, sealed or neither: the first of ``protections`` that the server allows."""

    name: ClassVar = "GSSAPI"

    def __init__(self, principal: str, protections: Sequence[str] = CHEAPEST_FIRST) -> None:
        self._principal = principal
        self._protections = protections
        self._home = this_process()
        self._context, self._target = c_void_p(), c_void_p()
        self._has_context = False
        self._layer = ""  # what was agreed upon
        self._message_bytes = MAX_MESSAGE_BYTES
        self._gss = _library()
        self._call(
            "gss_import_name", byref(_buffer(principal.encode())), byref(_oid(PRINCIPAL_NAME)), byref(self._target)
        )

    @property
    def is_complete(self) -> bool:
        return self._layer != ""

    @property
    def message_bytes(self) -> int:
        return self._message_bytes

    def answer(self, challenge: bytes) -> bytes:
        if not self._has_context:
            return self._step(challenge)
        return self._choose_layer(challenge) if challenge else b""

    def _step(self, challenge: bytes) -> bytes:
        out, flags, wanted = _Buffer(), c_uint32(), MUTUAL | REPLAY | SEQUENCE | CONFIDENTIAL | INTEGRITY
        major = self._call(
            *("gss_init_sec_context", None, byref(self._context), self._target, byref(_oid(KRB5)), wanted, 0, None),
            *(byref(_buffer(challenge)), None, byref(out), byref(flags), None),
        )
        self._has_context = not major & CONTINUE_NEEDED
        if self._has_context and not flags.value & MUTUAL:
            raise LoginError("Kerberos: the metastore has not proved who it is")
        return self._take(out)

    def _choose_layer(self, challenge: bytes) -> bytes:
        """Answer the last challenge: a byte of layers and the most bytes that the server takes at once."""
        offer, ours = self._opened_message(challenge), 0
        allowed = [layer for layer, bit in LAYERS.items() if len(offer) == 4 and offer[0] & bit]
        layer = next((protection for protection in self._protections if protection in allowed), "")
        if not layer:
            raise LoginError(
                f"Kerberos: the metastore allows {hadoops(allowed)}, this client wants {hadoops(self._protections)}:"
                " make the two settings agree"
            )
        if layer != "auth":
            most, ours = c_uint32(), MOST_BYTES_TO_US
            taken = min(int.from_bytes(offer[1:], "big"), MAX_MESSAGE_BYTES)
            self._call("gss_wrap_size_limit", self._context, layer == "auth-conf", 0, taken, byref(most))
            self._message_bytes = max(1, most.value)
        answer = self._sealed_message(bytes([LAYERS[layer]]) + ours.to_bytes(3, "big"), seals=False)
        self._layer = layer
        return answer

    def wrap(self, data: bytes) -> bytes:
        return data if self._layer == "auth" else self._sealed_message(data, seals=self._layer == "auth-conf")

    def unwrap(self, data: bytes) -> bytes:
        return data if self._layer == "auth" else self._opened_message(data, is_sealed=self._layer == "auth-conf")

    def _sealed_message(self, data: bytes, *, seals: bool) -> bytes:
        out, sealed = _Buffer(), c_int()
        self._call("gss_wrap", self._context, seals, 0, byref(_buffer(data)), byref(sealed), byref(out))
        wrapped = self._take(out)
        if seals and not sealed.value:
            raise LoginError(
                "Kerberos: this ticket's cipher cannot seal messages, as hadoop.rpc.protection=privacy wants"
            )
        return wrapped

    def _opened_message(self, data: bytes, *, is_sealed: bool = False) -> bytes:
        out, sealed = _Buffer(), c_int()
        major = self._call("gss_unwrap", self._context, byref(_buffer(data)), byref(out), byref(sealed), None)
        message = self._take(out)
        if major & OUT_OF_ORDER:
            raise ConnectionError("a message from the metastore was repeated on its way, or is not the next one")
        if is_sealed and not sealed.value:
            raise LoginError("Kerberos: the metastore sent a message in clear that was to be sealed")
        return message

    def explain(self, refusal: str) -> str:
        del refusal  # always "GSS initiate failed"
        return (
            f"it does not take the ticket for {self._principal}: another key in its keytab, another principal, clocks"
            " that differ by more than five minutes; its log says which"
        )

    def _take(self, buffer: _Buffer) -> bytes:
        data = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
        self._gss.gss_release_buffer(byref(c_uint32()), byref(buffer))
        return data

    def _call(self, function: str, *arguments: Any) -> int:
        minor = c_uint32()
        major = int(getattr(self._gss, function)(byref(minor), *arguments))
        if major & FAILED:
            texts = self._texts(minor.value, OF_MECHANISM) if minor.value else self._texts(major, OF_ROUTINE)
            said = ": ".join(texts)
            known = ((everywhere, helps) for pattern, everywhere, helps in ADVICE if re.search(pattern, said))
            everywhere, advice = next(known, (False, ""))
            message = f"Kerberos, for {self._principal}: {said}" + (f"; {advice}" if advice else "")
            raise LoginError(message, everywhere=everywhere)
        return major

    def _texts(self, code: int, kind: int) -> list[str]:
        texts, more = [], c_uint32()
        while True:
            text = _Buffer()
            failed = self._gss.gss_display_status(
                byref(c_uint32()), code, kind, byref(_oid(KRB5)), byref(more), byref(text)
            )
            texts.append(self._take(text).decode(errors="replace"))
            if failed or not more.value:
                return texts

    def __del__(self) -> None:
        if getattr(self, "_gss", None) is None or self._home is not this_process():
            return  # a fork has copies, and perhaps the library's locks as another thread held them
        if self._context:
            self._gss.gss_delete_sec_context(byref(c_uint32()), byref(self._context), None)
        if self._target:
            self._gss.gss_release_name(byref(c_uint32()), byref(self._target))


def _buffer(data: bytes) -> _Buffer:
    buffer = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    buffer.data = data  # as long as the buffer points at it
    return buffer


def _oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), elements)


def kerberos_login(principal: str, protections: Sequence[str]) -> Login:
    """Log in by Kerberos at a service principal, in which ``_HOST`` stands for the server's name.

    Raises ``InvalidInputError`` for a principal that is none.
    """
    if PRINCIPAL.fullmatch(principal) is None:
        raise InvalidInputError(
            f"hive.metastore.kerberos.principal={principal!r} is not a service principal;"
            f" expected for example {EXAMPLE}"
        )
    return Login("Kerberos", lambda host: Gssapi(principal_at(principal, host), protections))


def principal_at(principal: str, host: str) -> str:
    """Put the server's own name, in lower case, where a principal has ``_HOST``.

    A full name is taken as the address has it, as Hive 2's client does; a short one and a number are looked up, as
    Hive 3's client does.

    Examples
    --------
    >>> principal_at("hive/_HOST@EXAMPLE.COM", "Metastore.example.com")
    'hive/metastore.example.com@EXAMPLE.COM'
    >>> principal_at("hive/metastore.example.com@EXAMPLE.COM", "10.0.0.1")
    'hive/metastore.example.com@EXAMPLE.COM'
    """
    found = PRINCIPAL.fullmatch(principal)
    if found is None or found[2] != "_HOST":
        return principal
    if NUMBER.fullmatch(host) or "." not in host:
        with suppress(OSError):  # nobody knows a name for it
            host = socket.gethostbyaddr(host)[0]
    return f"{found[1]}/{host.lower()}@{found[3]}"
