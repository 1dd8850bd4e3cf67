"""Credentials, found where the store is opened: the first source that can provide wins."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import botocore.session
from botocore.credentials import AssumeRoleCredentialFetcher, Credentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError

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

PROVIDERS: Final[Mapping[type, str]] = {  # what botocore calls them
    Environment: "env",
    Container: "container-role",
    InstanceMetadata: "iam-role",
    WebIdentity: "assume-role-with-web-identity",
}
MACHINE_METHODS: Final = frozenset({"iam-role", "container-role"})


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
        "secret_key, or profile, in the writer's config."
    )


def _load(source: CredentialSource, *, bucket: str, region: str) -> Credentials | None:
    if isinstance(source, StaticKeys):
        return Credentials(source.access_key, source.secret_key, source.session_token or None)
    if isinstance(source, AssumedRole):
        return _assume(source, bucket=bucket, region=region)
    # a profile is always named, since botocore lets environment keys win over one that it finds by itself
    profile = (source.name or os.environ.get("AWS_PROFILE") or "default") if isinstance(source, Profile) else None
    session = _session(region, profile)
    if isinstance(source, Profile | DefaultChain):
        loaded: Credentials | None = session.get_credentials()
    else:
        loaded = session.get_component("credential_provider").get_provider(PROVIDERS[type(source)]).load()
    if isinstance(source, Profile) and loaded is not None and loaded.method in MACHINE_METHODS:
        return None  # the machine's own role is not the profile's
    return loaded


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
