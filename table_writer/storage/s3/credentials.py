"""Credentials of S3: the first source that has any, looked at again when the store refuses them."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import botocore.session
from botocore.credentials import AssumeRoleCredentialFetcher, Credentials, ReadOnlyCredentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError

from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.storage.s3.causes import EXPIRED, REFUSED_KEYS, storage_error
from table_writer.storage.s3.settings import AssumedRole, CredentialSource, Profile, Provider, StaticKeys

logger = logging.getLogger(__name__)
MACHINE_METHODS: Final = frozenset({"iam-role", "container-role"})
MAY_BE_EXPIRED: Final = frozenset({"400", "403"})  # a HEAD has no body that says more
LOOK_AGAIN_SECONDS: Final = 30.0  # such an answer is most often about something else
ROTATED_ATTEMPTS: Final = 3  # of one request with other credentials each


class RotatedCredentials(Credentials):
    """Credentials that somebody may replace while this process runs.

    A file or the environment does not say when its keys expire, and botocore reads it once. So the sources are looked
    at again when the store refuses what they gave; a request that finds other credentials there is sent again.
    """

    def __init__(
        self,
        current: Credentials,
        look: Callable[[], Credentials | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._current = current
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = self._rotated_at = clock() - LOOK_AGAIN_SECONDS
        frozen = current.get_frozen_credentials()
        super().__init__(frozen.access_key or "", frozen.secret_key or "", frozen.token, method=current.method)

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Return the keys that requests are signed with now."""
        return self._current.get_frozen_credentials()

    def are_others(self, code: str) -> bool:
        """Return whether there are other credentials now than those that the store refused with this error code."""
        if code not in EXPIRED | REFUSED_KEYS | MAY_BE_EXPIRED:
            return False
        with self._lock:
            now = self._clock()
            if now - self._rotated_at < LOOK_AGAIN_SECONDS:
                return True  # by another thread, while this request was under way
            if code in MAY_BE_EXPIRED and now - self._looked_at < LOOK_AGAIN_SECONDS:
                return False
            self._looked_at = now
            try:
                found = self._look()
                is_other = found is not None and found.get_frozen_credentials() != self.get_frozen_credentials()
            except (BotoCoreError, ClientError, TableWriterError) as error:
                logger.warning("the store refused the credentials, and there are no others: %s", error)
                return False
            if is_other and found is not None:
                logger.info("the credentials were rotated: requests go on with the new ones")
                self._current, self._rotated_at = found, now
            return is_other

    def retry_with_others(self, *, response: Any, attempts: int, **_: object) -> Any:
        """Send a request again, at once, that was refused for credentials which others have replaced."""
        code = "" if response is None else str(response[1].get("Error", {}).get("Code", ""))
        return 0.0 if attempts < ROTATED_ATTEMPTS and self.are_others(code) else None


def resolve(sources: Sequence[CredentialSource], *, bucket: str, region: str) -> Credentials | None:
    """Return the first credentials that can be had, ``None`` for anonymous access.

    Raises ``InvalidInputError``, with what was tried, if no source can provide; ``StorageError`` if STS refused a role.
    """
    tried = []
    for source in sources:
        if source is Provider.ANONYMOUS:
            return None
        try:
            found = _load(source, bucket=bucket, region=region)
        except (BotoCoreError, ClientError) as error:  # passed over, as in S3A's own list
            tried.append(f"{_name(source)}: {error}")
            continue
        if found is not None:
            return found
        tried.append(f"{_name(source)}: nothing there")
    raise InvalidInputError(
        f"no S3 credentials for bucket {bucket} (tried {'; '.join(tried)}). Set fs.s3a.access.key and "
        "fs.s3a.secret.key, or fs.s3a.aws.credentials.provider, or give access_key and "
        "secret_key, or profile, in the writer's config. Without Spark also: AWS_PROFILE, or --profile NAME of the"
        " command, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
    )


def _load(source: CredentialSource, *, bucket: str, region: str) -> Credentials | None:
    if isinstance(source, StaticKeys):
        return Credentials(source.access_key, source.secret_key, source.session_token or None)
    if isinstance(source, AssumedRole):
        return _assume(source, bucket=bucket, region=region)
    if isinstance(source, Profile):
        # always named, since botocore lets environment keys win over a profile that it finds by itself
        profile = _session(region, source.name or os.environ.get("AWS_PROFILE") or "default").get_credentials()
        return None if profile is not None and profile.method in MACHINE_METHODS else profile  # a machine's own role
    session = _session(region)
    loaded: Credentials | None = (
        session.get_credentials()
        if source is Provider.DEFAULT_CHAIN
        else session.get_component("credential_provider").get_provider(source.value).load()
    )
    return loaded


def _name(source: CredentialSource) -> str:
    """Return a provider's name in messages: ``InstanceMetadata``, ``Profile``."""
    return source.name.title().replace("_", "") if isinstance(source, Provider) else type(source).__name__


def _session(region: str, profile: str | None = None) -> botocore.session.Session:
    session = botocore.session.Session(profile=profile)
    session.set_config_variable("region", region)
    return session


def _assume(source: AssumedRole, *, bucket: str, region: str) -> Credentials:
    base = resolve(source.sources, bucket=bucket, region=region)
    if base is None:
        raise InvalidInputError("an assumed role cannot be taken anonymously: fs.s3a.assumed.role.credentials.provider")
    arguments = {
        "RoleSessionName": source.session_name,
        "DurationSeconds": source.duration_seconds,
        "Policy": source.policy,
        "ExternalId": source.external_id,
    }
    session = _session(region)
    create: Callable[..., Any] = functools.partial(
        session.create_client, region_name=source.sts_region or region, endpoint_url=source.sts_endpoint_url or None
    )
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=create,
        source_credentials=base,
        role_arn=source.arn,
        extra_args={name: value for name, value in arguments.items() if value},
    )
    try:
        metadata = fetcher.fetch_credentials()
    except (BotoCoreError, ClientError) as error:
        raise storage_error(error, bucket, "") from error
    return RefreshableCredentials.create_from_metadata(metadata, fetcher.fetch_credentials, "assume-role")
