"""Which S3 operation an HTTP request is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

# Method, whether it names a key, a word of its query, a header: the first line that fits a request is what it is.
_OPERATIONS: Final = (
    ("PUT", True, "partNumber", "x-amz-copy-source", "UploadPartCopy"),
    ("PUT", True, "partNumber", "", "UploadPart"),
    ("PUT", True, "", "x-amz-copy-source", "CopyObject"),
    ("PUT", True, "", "", "PutObject"),
    ("PUT", False, "", "", "CreateBucket"),
    ("POST", True, "uploads", "", "CreateMultipartUpload"),
    ("POST", True, "uploadId", "", "CompleteMultipartUpload"),
    ("POST", False, "delete", "", "DeleteObjects"),
    ("GET", True, "uploadId", "", "ListParts"),
    ("GET", True, "tagging", "", "GetObjectTagging"),
    ("GET", True, "", "", "GetObject"),
    ("GET", False, "uploads", "", "ListMultipartUploads"),
    ("GET", False, "list-type", "", "ListObjectsV2"),
    ("GET", False, "location", "", "GetBucketLocation"),
    ("GET", False, "versioning", "", "GetBucketVersioning"),
    ("GET", False, "", "", "ListObjects"),
    ("HEAD", True, "", "", "HeadObject"),
    ("HEAD", False, "", "", "HeadBucket"),
    ("DELETE", True, "uploadId", "", "AbortMultipartUpload"),
    ("DELETE", True, "", "", "DeleteObject"),
    ("DELETE", False, "", "", "DeleteBucket"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the first lines of a request say."""

    operation: str
    path: str  # /bucket/key, decoded
    upload_id: str = ""
    part: int = 0
    copied_from: str = ""  # /bucket/key, decoded
    copied_range: tuple[int, int] | None = None  # first and last byte
    object_bytes: int = 0  # of the object or part in the body; chunk signatures do not count


def parse_request(method: str, target: str, headers: Mapping[str, str]) -> Request:
    """Return what a request asks for; names of headers are lower case."""
    address = urlsplit(target)
    query = dict(parse_qsl(address.query, keep_blank_values=True))
    path = unquote(address.path)
    has_key = len(path.strip("/").split("/", 1)) == 2
    source = headers.get("x-amz-copy-source", "")
    return Request(
        operation=_operation(method, query, headers, has_key=has_key),
        path=path,
        upload_id=query.get("uploadId", ""),
        part=int(query.get("partNumber", 0)),
        copied_from=f"/{unquote(source.split('?')[0]).lstrip('/')}" if source else "",
        copied_range=_range(headers.get("x-amz-copy-source-range", "")),
        object_bytes=int(headers.get("x-amz-decoded-content-length", headers.get("content-length", 0))),
    )


def _operation(method: str, query: Mapping[str, str], headers: Mapping[str, str], *, has_key: bool) -> str:
    for of_method, of_key, word, header, operation in _OPERATIONS:
        fits = (of_method, of_key) == (method, has_key)
        if fits and (not word or word in query) and (not header or header in headers):
            return operation
    return f"{method} other"


def _range(header: str) -> tuple[int, int] | None:
    first, dash, last = header.removeprefix("bytes=").partition("-")
    return (int(first), int(last)) if dash else None
