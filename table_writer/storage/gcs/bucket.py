"""The calls of Google's JSON API that this library makes, each one request; of a listing or a long copy, several."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from table_writer.storage.answers import field_of, unreadable
from table_writer.storage.gcs.causes import RefusedError, storage_error
from table_writer.storage.gcs.client import Answer, GcsClient, Request, Upload
from table_writer.storage.object_store import PAGE_KEYS, nothing

Query = Mapping[str, str | int]
FIELDS: Final = "name,size,generation,updated,timeCreated"
ABSENT: Final[Query] = {"ifGenerationMatch": 0}
NO_QUERY: Final[Query] = {}
CONTENT_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Piece:
    """One generation of an object: exactly what one write has made."""

    key: str
    generation: str

    @property
    def name(self) -> str:
        """What its key ends with."""
        return self.key.rpartition("/")[2]


class GcsBucket:
    """One bucket, behind a client of the JSON API. ``RefusedError`` says what Google has not done, and why."""

    def __init__(self, name: str, client: GcsClient) -> None:
        self._name = name
        self._client = client
        self._path = f"/b/{quote(name, safe='')}/o"

    def where(self, key: str) -> str:
        """Return a key for people."""
        return f"gs://{self._name}/{key}"

    def insert(
        self,
        kind: str,
        key: str,
        body: bytes | memoryview,
        query: Query = NO_QUERY,
        metadata: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Store an object, with an MD5 by which Google refuses damaged bytes, and return what it says of it."""
        described = {"name": key, "md5Hash": md5(body), **({"metadata": dict(metadata)} if metadata else {})}
        path = f"/upload/storage/v1{self._path}"
        return self._send(kind, "POST", path, key, {"uploadType": "multipart", **query}, Upload(described, body)).json()

    def media(
        self,
        key: str,
        query: Query = NO_QUERY,
        headers: Mapping[str, str] | None = None,
        refuse_size: Callable[[int], None] | None = None,
    ) -> Answer:
        """Return the bytes of an object, or some of them."""
        return self._client.send(
            Request(
                kind="GetObject",
                method="GET",
                path=f"/download/storage/v1{self._of(key)}",
                where=self.where(key),
                query={"alt": "media", **query},
                headers=headers or {},
                refuse_size=refuse_size,
            )
        )

    def metadata(self, key: str) -> dict[str, Any] | None:
        """Return what Google says of an object, ``None`` when there is none; other refusals are ``StorageError``."""
        query = {"fields": f"{FIELDS},metadata"}
        try:
            return self._send("HeadObject", "GET", f"/storage/v1{self._of(key)}", key, query).json()
        except RefusedError as refused:
            if refused.is_missing:
                return None
            raise storage_error(refused, self.where(key)) from refused

    def delete(self, key: str, generation: str) -> None:
        """Delete one generation of an object; without one, whatever is there."""
        query = {"generation": generation} if generation else NO_QUERY
        answer = self._send("DeleteObject", "DELETE", f"/storage/v1{self._of(key)}", key, query)
        if answer.body.lstrip().startswith(b"<"):  # a page is no success
            raise unreadable(answer.where, "it is a page")

    def rewrite(
        self, kind: str, source: Piece, key: str, query: Query = NO_QUERY, before_send: Callable[[], object] = nothing
    ) -> None:
        """Let Google copy exactly one generation; where it wants several requests for it, send them all."""
        path = f"/storage/v1{self._of(source.key)}/rewriteTo{self._of(key)}"
        token: dict[str, str] = {}
        while True:
            before_send()
            answer = self._send(kind, "POST", path, key, {"sourceGeneration": source.generation, **query, **token})
            document = answer.json()
            if document.get("done") is True:
                return
            token = {"rewriteToken": str(field_of(document, "rewriteToken", answer.where))}

    def compose(self, pieces: Sequence[Piece], key: str, metadata: Mapping[str, str]) -> Piece:
        """Make a new object of others, which must be exactly these, and return it; sent once."""
        sources = [
            {
                "name": piece.key,
                "generation": piece.generation,
                "objectPreconditions": {"ifGenerationMatch": piece.generation},
            }
            for piece in pieces
        ]
        destination = {"contentType": CONTENT_TYPE, "metadata": dict(metadata)}
        document = json.dumps({"sourceObjects": sources, "destination": destination}).encode()
        path = f"/storage/v1{self._of(key)}/compose"
        answer = self._client.send(
            Request(
                kind="UploadPartCopy",
                method="POST",
                path=path,
                where=self.where(key),
                query=ABSENT,
                data=document,
                is_repeatable=False,
            )
        )
        return Piece(key, str(field_of(answer.json(), "generation", answer.where)))

    def listing(self, kind: str, prefix: str, query: Query = NO_QUERY) -> dict[str, Any]:
        """Return one page of a listing; a refusal is ``StorageError``."""
        fields = f"kind,items({FIELDS}),prefixes,nextPageToken"
        sent = {"prefix": prefix, "maxResults": PAGE_KEYS, "fields": fields, **query}
        try:
            document = self._send(kind, "GET", f"/storage/v1{self._path}", prefix, sent).json()
        except RefusedError as refused:
            raise storage_error(refused, self.where(prefix)) from refused
        if document.get("kind") != "storage#objects":
            raise unreadable(self.where(prefix), "it is no listing")
        return document

    def listings(self, kind: str, prefix: str, query: Query = NO_QUERY) -> Iterator[dict[str, Any]]:
        """Iterate over all pages of a listing, by Google's tokens."""
        token: dict[str, str] = {}
        while True:
            document = self.listing(kind, prefix, {**query, **token})
            yield document
            if not document.get("nextPageToken"):
                return
            token = {"pageToken": str(document["nextPageToken"])}

    def items(self, kind: str, prefix: str) -> Iterator[dict[str, Any]]:
        """Iterate over all that is said of the objects below a prefix."""
        for document in self.listings(kind, prefix):
            yield from (item for item in document.get("items", []) if text_of(item, "name").startswith(prefix))

    def _of(self, key: str) -> str:
        return f"{self._path}/{quote(key, safe='')}"

    def _send(
        self, kind: str, method: str, path: str, key: str, query: Query, data: bytes | Upload | None = None
    ) -> Answer:
        return self._client.send(
            Request(kind=kind, method=method, path=path, where=self.where(key), query=query, data=data)
        )


def text_of(item: Mapping[str, Any], name: str) -> str:
    """Return a field as text, empty where it is not there."""
    return str(item.get(name, ""))


def md5(body: bytes | memoryview) -> str:
    """Return the MD5 of an object's bytes as Google writes it."""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
