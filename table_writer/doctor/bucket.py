"""Checks of the bucket: lifecycle rules that would kill writes or delete live data, and old versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from table_writer.display.reports import Finding
from table_writer.doctor.patient import Patient, error, note, ok, warning
from table_writer.log.history import History
from table_writer.model.entry import Operation
from table_writer.storage.bucket_checks import LifecycleRule, bucket_versioning, incomplete_upload_rules
from table_writer.storage.s3 import S3Store

__all__ = ["lifecycle", "lifecycle_findings", "longest_write", "versioning"]

WANTED_DAYS: Final = 7
WRITE_ID_TIME: Final = "%Y%m%dT%H%M%S"
SHORT_OF: Final = 2  # a rule shorter than this many times the longest write is too close


def lifecycle(patient: Patient) -> Iterable[Finding]:
    """Look at the rules that abort pending uploads or expire objects at the table's root."""
    store = patient.services.store
    if not isinstance(store, S3Store):
        return ()
    rules = incomplete_upload_rules(store, patient.services.layout.root.key)
    if rules is None:
        return [
            note(
                "lifecycle rules",
                f"the rules of bucket {store.bucket} cannot be read, or its store knows none: they are not checked",
                f"allow s3:GetLifecycleConfiguration on arn:aws:s3:::{store.bucket}, or ask who owns the bucket",
            )
        ]
    return lifecycle_findings(rules, patient.services.layout.root.key, longest_write(patient.history()))


def lifecycle_findings(rules: Iterable[LifecycleRule], root_key: str, longest: timedelta) -> list[Finding]:
    """Judge the rules that meet a table's root, whose longest write took so long."""
    rules = tuple(rules)
    found = [*_expiring(rules, root_key), *_aborting(rules, longest)]
    covering = [rule for rule in rules if rule.days and root_key.startswith(rule.prefix) and not rule.is_limited]
    if covering:
        days = min(rule.days or 0 for rule in covering)
        return found or [
            ok("lifecycle rules", f"pending uploads are aborted after {days} day(s); no rule expires objects")
        ]
    rule = (
        f'{{"ID": "abort-uploads", "Status": "Enabled", "Filter": {{"Prefix": "{root_key}"}},'
        f' "AbortIncompleteMultipartUpload": {{"DaysAfterInitiation": {WANTED_DAYS}}}}}'
    )
    return [
        *found,
        warning(
            "lifecycle rules",
            "no rule aborts pending uploads of the whole table: those of dead executors and drivers are paid for until"
            " a vacuum runs",
            f"add this rule to those of the bucket: {rule}",
        ),
    ]


def _expiring(rules: Iterable[LifecycleRule], root_key: str) -> Iterator[Finding]:
    for rule in rules:
        if rule.expiration_days is None and rule.expiration_date is None:
            continue
        when = f"after {rule.expiration_days} day(s)" if rule.expiration_days else f"from {rule.expiration_date} on"
        advice = f"remove the expiration of rule {_named(rule)}, or give it a prefix that does not meet {root_key!r}"
        if rule.is_limited:
            yield warning(
                "lifecycle rules",
                f"rule {_named(rule)} deletes objects with certain tags or sizes {when}; files of this table may be"
                " among them",
                advice,
            )
        else:
            yield error(
                "lifecycle rules",
                f"rule {_named(rule)} deletes all objects {when}: live rows and the log as well, since a rule knows"
                " nothing of partitions",
                advice,
            )


def _aborting(rules: Iterable[LifecycleRule], longest: timedelta) -> Iterator[Finding]:
    for rule in rules:
        if rule.days is None:
            continue
        age = timedelta(days=rule.days)
        advice = f"set DaysAfterInitiation of rule {_named(rule)} to {max(WANTED_DAYS, 1 + SHORT_OF * longest.days)}"
        says = f"rule {_named(rule)} aborts pending uploads after {rule.days} day(s)"
        if age < timedelta(days=1):
            yield error("lifecycle rules", f"{says}: that kills running writes", advice)
        elif age < longest:
            yield error("lifecycle rules", f"{says}, and a write of this table took {_hours(longest)}", advice)
        elif age < SHORT_OF * longest:
            yield warning(
                "lifecycle rules", f"{says}, and a write of this table took {_hours(longest)}: that is close", advice
            )


def longest_write(history: History) -> timedelta:
    """Return how long the longest write took from its plan to its claim, both by its own writer's clock."""
    longest = timedelta(0)
    for record in history.records:
        if record.entry.operation is Operation.WRITE:
            try:
                planned = datetime.strptime(record.entry.write_id.partition("-")[0], WRITE_ID_TIME).replace(tzinfo=UTC)
            except ValueError:  # an id that the caller gave
                continue
            longest = max(longest, record.entry.created_at - planned)
    return longest


def versioning(patient: Patient) -> Iterable[Finding]:
    """Say whether deleted objects stay as old versions."""
    store = patient.services.store
    if not isinstance(store, S3Store):
        return ()
    state = bucket_versioning(store)
    if state == "Unversioned":
        return [ok("bucket versioning", "the bucket keeps no old versions: what vacuum deletes is gone")]
    if state is None:
        return [
            note(
                "bucket versioning",
                f"whether bucket {store.bucket} keeps old versions cannot be read, or its store does not know them",
                f"allow s3:GetBucketVersioning on arn:aws:s3:::{store.bucket}, or ask who owns the bucket",
            )
        ]
    return [
        note(
            "bucket versioning",
            f"versioning is {state.lower()}: what vacuum deletes stays as an old version, and is paid for",
            f'add a rule {{"NoncurrentVersionExpiration": {{"NoncurrentDays": {WANTED_DAYS}}}}}: it takes old versions'
            " only",
        )
    ]


def _named(rule: LifecycleRule) -> str:
    return f"{rule.rule_id or '(without an ID)'!r} (prefix {rule.prefix!r})"


def _hours(time: timedelta) -> str:
    return f"{time.total_seconds() / 3600:.1f} h"
