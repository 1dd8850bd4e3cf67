"""What the bucket itself does to our files: lifecycle rules and versioning. For ``doctor``; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final, Literal

from botocore.exceptions import BotoCoreError, ClientError

from table_writer.storage.s3 import S3Store
from table_writer.storage.s3_client import DENIED, error_code, http_status, storage_error

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import LifecycleRuleOutputTypeDef

Versioning = Literal["Enabled", "Suspended", "Unversioned"]
NO_RULES: Final = "NoSuchLifecycleConfiguration"
UNKNOWN_TO_STORE: Final = frozenset({"NotImplemented", "MethodNotAllowed", "UnsupportedOperation", "405", "501"})


@dataclass(frozen=True, kw_only=True, slots=True)
class LifecycleRule:
    """An enabled lifecycle rule that aborts pending uploads, expires objects, or both."""

    rule_id: str
    prefix: str  # of the rule, empty for the whole bucket
    days: int | None  # after which pending uploads are aborted; None: they are not
    expiration_days: int | None  # after which objects are deleted; None: they are not, or from a date on
    expiration_date: date | None = None  # from which on all objects are deleted
    is_limited: bool = False  # it takes only objects with certain tags or sizes: whether ours, only S3 knows


def incomplete_upload_rules(store: S3Store, prefix: str) -> tuple[LifecycleRule, ...] | None:
    """Return the rules that abort pending uploads or expire objects, below the prefix or around it.

    They are in the bucket's order. ``None`` when it can't be told: the credentials lack
    ``s3:GetLifecycleConfiguration``, or the store does not know lifecycle rules.
    """
    try:
        answer = store.client.get_bucket_lifecycle_configuration(Bucket=store.bucket)
    except (BotoCoreError, ClientError) as error:
        if error_code(error) == NO_RULES:
            return ()
        if _is_withheld(error):
            return None
        raise storage_error(error, store.bucket, "") from error
    rules = [_rule(item) for item in answer.get("Rules", []) if item["Status"] == "Enabled"]
    return tuple(rule for rule in rules if _does_something(rule) and _overlap(rule.prefix, prefix))


def bucket_versioning(store: S3Store) -> Versioning | None:
    """Say whether deleted objects are kept as old versions, and paid for.

    ``"Suspended"`` keeps the versions from before. ``None`` when it can't be told: the credentials lack
    ``s3:GetBucketVersioning``, or the store does not know versions.
    """
    try:
        return store.client.get_bucket_versioning(Bucket=store.bucket).get("Status", "Unversioned")
    except (BotoCoreError, ClientError) as error:
        if _is_withheld(error):
            return None
        raise storage_error(error, store.bucket, "") from error


def _is_withheld(error: BotoCoreError | ClientError) -> bool:
    return error_code(error) in DENIED | UNKNOWN_TO_STORE or http_status(error) in (405, 501)


def _rule(item: LifecycleRuleOutputTypeDef) -> LifecycleRule:
    conditions: dict[str, Any] = {**item.get("Filter", {})}
    conditions |= conditions.pop("And", {})
    rule_prefix = conditions.pop("Prefix", item.get("Prefix", ""))  # the latter is how rules were written until 2016
    expiration = item.get("Expiration", {})
    expires_at = expiration.get("Date")
    return LifecycleRule(
        rule_id=item.get("ID", ""),
        prefix=rule_prefix or "",
        days=item.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation"),
        expiration_days=expiration.get("Days"),
        expiration_date=expires_at.date() if expires_at is not None else None,
        is_limited=bool(conditions),
    )


def _does_something(rule: LifecycleRule) -> bool:
    """Whether it is more than a rule for transitions, old versions or delete markers."""
    return (rule.days, rule.expiration_days, rule.expiration_date) != (None, None, None)


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
