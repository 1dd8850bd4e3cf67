"""Deleting many objects: in batches, each answer inspected key by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from table_writer.errors import StorageError
from table_writer.storage.object_store import PAGE_KEYS
from table_writer.storage.s3_errors import translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

__all__ = ["delete_objects"]

DELETE_ATTEMPTS: Final = 5
TRANSIENT: Final = frozenset({"InternalError", "SlowDown", "ServiceUnavailable", "OperationAborted", "503", "500"})
NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, section 2.2


def delete_objects(
    client: S3Client, bucket: dict[str, Any], keys: Sequence[str], *, pause: Callable[[int], None]
) -> None:
    """Delete all keys; a refused one keeps no other from being deleted and is raised in the end."""
    batched = [key for key in keys if not NOT_IN_XML.search(key)]
    refused: dict[str, str] = {}
    for start in range(0, len(batched), PAGE_KEYS):
        refused |= _delete_batch(client, bucket, batched[start : start + PAGE_KEYS], pause)
    for key in (key for key in keys if NOT_IN_XML.search(key)):  # a batch is an XML document and can't name these
        with translated(bucket["Bucket"], key):
            client.delete_object(**bucket, Key=key)
    if refused:
        key, reason = next(iter(refused.items()))
        hint = "; the credentials need s3:DeleteObject there" if reason.startswith("AccessDenied") else ""
        first = f"s3://{bucket['Bucket']}/{key}"
        raise StorageError(f"{len(refused)} of {len(keys)} objects could not be deleted, first {first}: {reason}{hint}")


def _delete_batch(
    client: S3Client, bucket: dict[str, Any], keys: Sequence[str], pause: Callable[[int], None]
) -> dict[str, str]:
    """Delete one batch; return the keys that were refused, with the reason."""
    refused: dict[str, str] = {}
    unfinished = dict.fromkeys(keys, "")
    for attempt in range(DELETE_ATTEMPTS):
        pause(attempt)
        with translated(bucket["Bucket"], next(iter(unfinished))):
            objects: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in unfinished]
            answer = client.delete_objects(**bucket, Delete={"Objects": objects, "Quiet": True})
        unfinished = {}
        for item in answer.get("Errors", []):
            code = item.get("Code", "")
            if code != "NoSuchKey":
                (unfinished if code in TRANSIENT else refused)[item["Key"]] = f"{code}: {item.get('Message', '')}"
        if not unfinished:
            break
    return refused | unfinished
