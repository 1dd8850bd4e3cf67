"""S3A's credential providers, one by one, as sources of this library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.storage.hadoop_values import HadoopValues
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

__all__ = ["credential_sources"]

S3A: Final = "org.apache.hadoop.fs.s3a."
SDK1: Final = "com.amazonaws.auth."
SDK2: Final = "software.amazon.awssdk.auth.credentials."

DEFAULT_PROVIDERS: Final = (  # fs.s3a.aws.credentials.provider in Hadoop's core-default.xml
    f"{S3A}TemporaryAWSCredentialsProvider",
    f"{S3A}SimpleAWSCredentialsProvider",
    f"{SDK2}EnvironmentVariableCredentialsProvider",
    f"{S3A}auth.IAMInstanceCredentialsProvider",
)
ASSUMED_ROLE_DEFAULT_PROVIDERS: Final = (  # fs.s3a.assumed.role.credentials.provider
    f"{S3A}SimpleAWSCredentialsProvider",
    f"{SDK2}EnvironmentVariableCredentialsProvider",
)
ASSUMED_ROLE: Final = f"{S3A}auth.AssumedRoleCredentialProvider"
SESSION_DURATION_SECONDS: Final = 1800  # fs.s3a.assumed.role.session.duration: 30m

Sources = tuple[CredentialSource, ...]


def credential_sources(values: HadoopValues) -> Sources:
    """Return the sources of ``fs.s3a.aws.credentials.provider`` in order; those without keys are left out.

    Raises
    ------
    InvalidInputError
        A class is not known here, or no source is left.
    """
    names = _class_names(values.text("aws.credentials.provider")) or DEFAULT_PROVIDERS
    sources = tuple(source for name in names for source in _sources_of(name, values))
    if not sources:
        raise InvalidInputError(
            f"none of the credential providers {', '.join(names)} can provide: fs.s3a.access.key and fs.s3a.secret.key "
            "are not set. Set them, or give access_key and secret_key or profile in the writer's config."
        )
    return sources


def _simple(values: HadoopValues) -> Sources:
    access_key, secret_key = values.text("access.key"), values.text("secret.key")
    return (StaticKeys(access_key=access_key, secret_key=secret_key),) if access_key and secret_key else ()


def _temporary(values: HadoopValues) -> Sources:
    access_key, secret_key = values.text("access.key"), values.text("secret.key")
    token = values.text("session.token")
    complete = access_key and secret_key and token
    return (StaticKeys(access_key=access_key, secret_key=secret_key, session_token=token),) if complete else ()


def _profile(values: HadoopValues) -> Sources:
    if values.text("auth.profile.file"):
        raise InvalidInputError("fs.s3a.auth.profile.file is not supported: set AWS_SHARED_CREDENTIALS_FILE instead")
    return (Profile(values.text("auth.profile.name")),)


def _assumed_role(values: HadoopValues) -> Sources:
    names = _class_names(values.text("assumed.role.credentials.provider")) or ASSUMED_ROLE_DEFAULT_PROVIDERS
    if ASSUMED_ROLE in names:
        raise InvalidInputError(f"fs.s3a.assumed.role.credentials.provider may not name {ASSUMED_ROLE} itself")
    duration = values.seconds("assumed.role.session.duration", unit="s")
    endpoint = values.text("assumed.role.sts.endpoint")
    return (
        AssumedRole(
            arn=values.text("assumed.role.arn"),
            sources=tuple(source for name in names for source in _sources_of(name, values)),
            session_name=values.text("assumed.role.session.name", "table_writer"),
            duration_seconds=int(duration or SESSION_DURATION_SECONDS),
            policy=values.text("assumed.role.policy"),
            external_id=values.text("assumed.role.external.id"),
            sts_endpoint_url=endpoint if "://" in endpoint or not endpoint else f"https://{endpoint}",
            sts_region=values.text("assumed.role.sts.endpoint.region"),
        ),
    )


MAPPED: Final[Mapping[str, Callable[[HadoopValues], Sources]]] = {
    f"{S3A}SimpleAWSCredentialsProvider": _simple,
    f"{S3A}TemporaryAWSCredentialsProvider": _temporary,
    f"{S3A}auth.ProfileAWSCredentialsProvider": _profile,
    ASSUMED_ROLE: _assumed_role,
}
FIXED: Final[Mapping[str, Sources]] = {
    f"{S3A}SharedInstanceCredentialProvider": (Container(), InstanceMetadata()),
    f"{S3A}AnonymousAWSCredentialsProvider": (Anonymous(),),
    f"{S3A}auth.IAMInstanceCredentialsProvider": (Container(), InstanceMetadata()),
    f"{SDK1}AnonymousAWSCredentials": (Anonymous(),),
    f"{SDK1}EnvironmentVariableCredentialsProvider": (Environment(),),
    f"{SDK1}InstanceProfileCredentialsProvider": (InstanceMetadata(),),
    f"{SDK1}ContainerCredentialsProvider": (Container(),),
    f"{SDK1}EC2ContainerCredentialsProviderWrapper": (Container(), InstanceMetadata()),
    f"{SDK1}WebIdentityTokenCredentialsProvider": (WebIdentity(),),
    f"{SDK1}DefaultAWSCredentialsProviderChain": (DefaultChain(),),
    f"{SDK1}profile.ProfileCredentialsProvider": (Profile(),),
    f"{SDK2}AnonymousCredentialsProvider": (Anonymous(),),
    f"{SDK2}EnvironmentVariableCredentialsProvider": (Environment(),),
    f"{SDK2}InstanceProfileCredentialsProvider": (InstanceMetadata(),),
    f"{SDK2}ContainerCredentialsProvider": (Container(),),
    f"{SDK2}WebIdentityTokenFileCredentialsProvider": (WebIdentity(),),
    f"{SDK2}DefaultCredentialsProvider": (DefaultChain(),),
    f"{SDK2}ProfileCredentialsProvider": (Profile(),),
}


def _sources_of(name: str, values: HadoopValues) -> Sources:
    if name in MAPPED:
        return MAPPED[name](values)
    if name in FIXED:
        return FIXED[name]
    raise InvalidInputError(
        f"credential provider {name} (fs.s3a.aws.credentials.provider) is Java code that this library can't run. "
        "Give credentials in the writer's config: access_key and secret_key, or profile"
    )


def _class_names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)
