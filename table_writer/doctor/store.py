"""Checks of the store, by trying: each with objects and uploads of its own, which are gone afterwards."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from table_writer.display.reports import Finding
from table_writer.doctor.patient import Patient, error, note, ok, warning
from table_writer.errors import StorageError, TableWriterError
from table_writer.model.location import Location

__all__ = ["clock", "conditional_put", "permissions"]

Answer = TypeVar("Answer")

MAX_SKEW_SECONDS: Final = 60  # S3 itself refuses requests from 15 minutes on

ACTIONS: Final = {  # what was tried: the policy action, and whether it is the bucket's
    "put an object": ("s3:PutObject", False),
    "get an object": ("s3:GetObject", False),
    "see that an object is not there": ("s3:ListBucket", True),  # without it S3 answers 403 instead of 404
    "list objects": ("s3:ListBucket", True),
    "delete an object": ("s3:DeleteObject", False),
    "create an upload": ("s3:PutObject", False),
    "upload a part": ("s3:PutObject", False),
    "list uploads": ("s3:ListBucketMultipartUploads", True),
    "abort an upload": ("s3:AbortMultipartUpload", False),
}
LEAVES_TRACES: Final = frozenset({"delete an object", "abort an upload"})


def conditional_put(patient: Patient) -> Iterable[Finding]:
    """Put twice on condition that the key does not exist: the second put must be refused."""
    store = patient.services.store
    with _own_directory(patient) as directory:
        key = f"{directory}claim"
        first = store.put_if_absent(key, b"first")
        second = store.put_if_absent(key, b"second")
    if first and not second:
        yield ok("conditional put", "the store refuses a second conditional put: one of two writers gets the entry")
    else:
        yield error(
            "conditional put",
            f"the store accepts a second conditional put (If-None-Match) below {patient.services.layout.root}: two"
            " writers can overwrite each other's entries",
            "write nothing with this store; use AWS S3, MinIO, or Ceph from Squid on, and no proxy that drops the"
            " If-None-Match header",
        )


def permissions(patient: Patient) -> Iterable[Finding]:
    """Try every kind of request that writes and maintenance send."""
    with _own_directory(patient) as directory:
        trial = _Trial(patient, f"{directory}object", directory)
        findings = [*trial.objects(), *trial.uploads()]
    tried = f"all {len(ACTIONS)} kinds of request are allowed below {patient.services.layout.own}"
    return findings or [ok("permissions", tried)]


def clock(patient: Patient) -> Iterable[Finding]:
    """Compare the store's clock with this machine's. Ages never depend on it, but signatures and people do."""
    store = patient.services.store
    with _own_directory(patient) as directory:
        store.put(f"{directory}clock", b"tick")
        before = datetime.now(UTC)
        stored = store.get(f"{directory}clock")
        after = datetime.now(UTC)
    if stored is None:
        raise StorageError(f"{directory}clock was put a moment ago and is not there")
    there = stored.info.modified_at + timedelta(seconds=stored.age_seconds)
    skew_seconds = max((there - after).total_seconds(), (before - there).total_seconds(), 0.0)
    if skew_seconds <= MAX_SKEW_SECONDS:
        yield ok("clock", "this machine and the store agree on the time")
    else:
        yield note(
            "clock",
            f"this machine's clock is {skew_seconds:,.0f} s away from the store's. No decision depends on it; S3"
            " refuses requests from 900 s on, and times in the history are this machine's",
            "synchronise the clock of this machine (NTP)",
        )


@dataclass
class _Trial:
    patient: Patient
    key: str
    directory: str

    def objects(self) -> Iterator[Finding]:
        store = self.patient.services.store
        _, failed = self._try("put an object", lambda: store.put(self.key, b"probe"))
        yield from failed
        for what, request in (
            ("get an object", lambda: store.get(self.key)),
            ("see that an object is not there", lambda: store.get(f"{self.directory}missing")),
            ("list objects", lambda: [found.key for found in store.list(self.directory)]),
            ("delete an object", lambda: store.delete([self.key])),
        ):
            yield from self._try(what, request)[1]

    def uploads(self) -> Iterator[Finding]:
        store = self.patient.services.store
        upload_id, failed = self._try("create an upload", lambda: store.create_upload(self.key))
        yield from failed
        if upload_id is not None:
            yield from self._try("upload a part", lambda: store.upload_part(self.key, upload_id, 1, b"probe"))[1]
        listed, failed = self._try("list uploads", lambda: [u.upload_id for u in store.list_uploads(self.directory)])
        yield from failed
        if upload_id is not None:
            if listed is not None and upload_id not in listed:
                yield _no_uploads_listed()
            yield from self._try("abort an upload", lambda: store.abort_upload(self.key, upload_id))[1]

    def _try(self, what: str, request: Callable[[], Answer]) -> tuple[Answer | None, list[Finding]]:
        try:
            return request(), []
        except TableWriterError as failure:
            left = f" (left behind: {self.directory})" if what in LEAVES_TRACES else ""
            return None, [error("permissions", f"cannot {what}: {failure}{left}", _advice(self.patient, what))]


def _no_uploads_listed() -> Finding:
    return warning(
        "permissions",
        "the store lists no uploads below a directory (ListMultipartUploads by prefix): vacuum cannot find what dead"
        " writes leave, and it is paid for",
        'add a lifecycle rule {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}} to the bucket, or use the'
        " store's own setting for stale uploads",
    )


def _advice(patient: Patient, what: str) -> str:
    own: Location = patient.services.layout.own
    if own.scheme == "file":
        return f"let this user read and write {own}"
    action, of_bucket = ACTIONS[what]
    resource = f"arn:aws:s3:::{own.bucket}" if of_bucket else f"arn:aws:s3:::{own.bucket}/{own.key}*"
    return f"allow {action} on {resource}, if this role is to write or to maintain the table"


@contextmanager
def _own_directory(patient: Patient) -> Iterator[str]:
    """Give a directory below ``_table_writer/`` that nobody else uses, and empty it."""
    store = patient.services.store
    directory = f"{patient.services.layout.own.key}probe-{secrets.token_hex(8)}/"
    try:
        yield directory
    finally:
        with contextlib.suppress(TableWriterError):  # what is forbidden here was found by the check itself
            store.delete([found.key for found in store.list(directory)])
        with contextlib.suppress(TableWriterError):
            for upload in store.list_uploads(directory):
                store.abort_upload(upload.key, upload.upload_id)
