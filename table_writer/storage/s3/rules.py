"""What a bucket of S3 does to files by itself: its lifecycle rules and its versioning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from table_writer.storage.bucket_rules import LifecycleRule, Versioning
from table_writer.storage.s3.causes import DENIED, error_code, http_status, storage_error

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import LifecycleRuleOutputTypeDef

NO_RULES: Final = "NoSuchLifecycleConfiguration"
UNKNOWN_TO_STORE: Final = frozenset({"NotImplemented", "MethodNotAllowed", "UnsupportedOperation", "405", "501"})


class S3Rules:
    """Tells of one bucket's rules, where the credentials have the right to read them."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def lifecycle(self, prefix: str) -> tuple[LifecycleRule, ...] | None:
        try:
            answer = self._client.get_bucket_lifecycle_configuration(Bucket=self.bucket)
        except (BotoCoreError, ClientError) as error:
            if error_code(error) == NO_RULES:
                return ()
            if _is_withheld(error):
                return None
            raise storage_error(error, self.bucket, "") from error
        rules = [_rule(item) for item in answer.get("Rules", []) if item["Status"] == "Enabled"]
        nothing = (None, None, None)  # but transitions, old versions or delete markers
        acting = (rule for rule in rules if (rule.days, rule.expiration_days, rule.expiration_date) != nothing)
        return tuple(rule for rule in acting if rule.prefix.startswith(prefix) or prefix.startswith(rule.prefix))

    def versioning(self) -> Versioning | None:
        try:
            return self._client.get_bucket_versioning(Bucket=self.bucket).get("Status", "Unversioned")
        except (BotoCoreError, ClientError) as error:
            if _is_withheld(error):
                return None
            raise storage_error(error, self.bucket, "") from error


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
