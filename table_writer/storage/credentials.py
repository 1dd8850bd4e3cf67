"""Credentials, found where the store is opened: the first source that can provide wins."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import botocore.session
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    AssumeRoleWithWebIdentityProvider,
    ContainerProvider,
    CredentialProvider,
    Credentials,
    EnvProvider,
    InstanceMetadataProvider,
    RefreshableCredentials,
)
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import InstanceMetadataFetcher

from table_writer.errors import InvalidInputError
from table_writer.storage.s3_errors import storage_error
from table_writer.storage.settings import (
    Anonymous,
    AssumedRole,
    Container,
    CredentialSource,
    DefaultChain,
    Environment,
    InstanceMetadata,
    Profile,
    StaticKeys,
    WebIdentity,
)

__all__ = ["resolve"]

METADATA_TIMEOUT_SECONDS: Final = 1
METADATA_ATTEMPTS: Final = 3
MACHINE_METHODS: Final = frozenset({InstanceMetadataProvider.METHOD, ContainerProvider.METHOD})


def resolve(sources: Sequence[CredentialSource], *, bucket: str, region: str) -> Credentials | None:
    """Return the first credentials that can be had, ``None`` for anonymous access.

    Raises
    ------
    InvalidInputError
        No source can provide; the message lists what was tried.
    StorageError
        STS refused to hand out an assumed role.
    """
    tried = []
    for source in sources:
        if isinstance(source, Anonymous):
            return None
        try:
            found = _load(source, bucket=bucket, region=region)
        except (BotoCoreError, ClientError) as error:  # passed over, as in S3A's own list
            tried.append(f"{type(source).__name__}: {error}")
            continue
        if found is not None:
            return found
        tried.append(f"{type(source).__name__}: nothing there")
    raise InvalidInputError(
        f"no S3 credentials for bucket {bucket} (tried {'; '.join(tried)}). Set fs.s3a.access.key and "
        "fs.s3a.secret.key, or fs.s3a.aws.credentials.provider, or give access_key and "
        "secret_key, or profile, in the writer's config. Keys in a "
        "Hadoop credential file (hadoop.security.credential.provider.path) are not read."
    )


def _load(source: CredentialSource, *, bucket: str, region: str) -> Credentials | None:
    if isinstance(source, StaticKeys):
        return Credentials(source.access_key, source.secret_key, source.session_token or None)
    if isinstance(source, AssumedRole):
        return _assume(source, bucket=bucket, region=region)
    if isinstance(source, Profile):
        return _from_profile(source)
    if isinstance(source, DefaultChain):
        found: Credentials | None = botocore.session.Session().get_credentials()
        return found
    loaded: Credentials | None = _provider(source, region).load()
    return loaded


def _provider(source: CredentialSource, region: str) -> CredentialProvider:
    if isinstance(source, Environment):
        return EnvProvider()
    if isinstance(source, Container):
        return ContainerProvider()
    if isinstance(source, InstanceMetadata):
        return InstanceMetadataProvider(
            InstanceMetadataFetcher(timeout=METADATA_TIMEOUT_SECONDS, num_attempts=METADATA_ATTEMPTS)
        )
    if isinstance(source, WebIdentity):
        session = botocore.session.Session()
        return AssumeRoleWithWebIdentityProvider(
            load_config=lambda: session.full_config,
            client_creator=functools.partial(session.create_client, region_name=region),
            profile_name=session.get_config_variable("profile") or "default",
        )
    raise InvalidInputError(f"{source!r} is not a source of credentials")


def _from_profile(source: Profile) -> Credentials | None:
    session = botocore.session.Session(profile=source.name or os.environ.get("AWS_PROFILE") or "default")
    found = session.get_credentials()
    return (
        None if found is None or found.method in MACHINE_METHODS else found
    )  # the machine's role is not the profile's


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
    session = botocore.session.Session()
    create: Callable[..., Any] = functools.partial(
        session.create_client,
        region_name=source.sts_region or region,
        endpoint_url=source.sts_endpoint_url or None,
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
