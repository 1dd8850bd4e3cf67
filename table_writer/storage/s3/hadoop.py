"""Settings of a bucket of S3 from the ``fs.s3a.*`` settings that a Spark session has anyway."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location, without_login
from table_writer.storage.hadoop_values import HadoopValues, layer
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.settings import (
    ACLS,
    NO_OVERRIDES,
    AssumedRole,
    CredentialSource,
    Profile,
    Provider,
    S3Overrides,
    S3Settings,
    StaticKeys,
)
from table_writer.storage.store_kind import Renames, Tuning

AWS_ENDPOINT: Final = re.compile(r"https://s3(?:[.-](?!fips)([a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?/?")
AWS_REGION: Final = re.compile(  # in a host of AWS: of a VPC endpoint, FIPS, dual stack, China, GovCloud
    r"\b((?:af|ap|ca|cn|eu|il|me|mx|sa|us)(?:-gov|-iso[a-z]*)?-[a-z]+-\d+)\.(?:vpce\.)?(?:amazonaws\.com|c2s|sc2s|api\.aws)"
)
SSE: Final = {"AES256": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
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
AWS_CHAIN: Final = f"{SDK2}DefaultCredentialsProvider"
Sources = tuple[CredentialSource, ...]
PREFIX: Final = "fs.s3a."
PROVIDER: Final = "aws.credentials.provider"
KEY_NAMES: Final = ("access.key", "secret.key", "session.token")
IN_ENVIRONMENT: Final = dict(
    zip(KEY_NAMES, ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), strict=True)
)
RENAMED: Final = {  # old name to new, as org.apache.hadoop.fs.s3a.S3AUtils reads both
    "server-side-encryption-algorithm": "encryption.algorithm",
    "server-side-encryption.key": "encryption.key",
}


def s3_settings(location: Location, hadoop: Mapping[str, str], overrides: S3Overrides = NO_OVERRIDES) -> S3Settings:
    """Return how to open the bucket of an ``s3a://`` location; the ``overrides`` of the writer's config win.

    Raises ``InvalidInputError`` for a setting that this library can't honour.
    """
    values = bucket_values(hadoop, location.bucket)
    endpoint_url, region = _endpoint(values, overrides)
    path_style, acl = overrides.path_style, values.text("acl.default")
    return S3Settings(
        bucket=values.text("accesspoint.arn", location.bucket),
        endpoint_url=endpoint_url,
        region=region,
        path_style=values.flag("path.style.access", default=False) if path_style is None else path_style,
        credentials=overrides.credentials() or credential_sources(values),
        checksum="CRC32" if overrides.checksums else None,
        acl=ACLS.get(acl, acl),
        storage_class=values.text("create.storage.class").upper(),
        requester_pays=values.flag("requester.pays.enabled", default=False),
        fips=values.flag("endpoint.fips", default=False),
        proxy_url=_proxy(values),
        requests=_requests(values, overrides),
        verify_tls=True if overrides.verify_tls is None else overrides.verify_tls,
        **_encryption(values),
    )


def _requests(values: HadoopValues, overrides: S3Overrides) -> RequestSettings:
    given: dict[str, Any] = {
        "connect_timeout_seconds": overrides.connect_timeout_seconds or values.seconds("connection.establish.timeout"),
        "read_timeout_seconds": overrides.read_timeout_seconds or values.seconds("connection.timeout"),
        "max_attempts": overrides.max_attempts or values.number("attempts.maximum"),
        "max_connections": overrides.max_connections or values.number("connection.maximum"),
    }
    return RequestSettings(**{name: value for name, value in given.items() if value})


def without_spark(hadoop: Mapping[str, str]) -> Mapping[str, str]:
    """Let the AWS SDK find credentials where no setting names any: profiles and SSO too, as the AWS CLI does."""
    is_named = any(name.endswith((".access.key", f".{PROVIDER}")) for name in hadoop)
    return {} if is_named else {f"{PREFIX}{PROVIDER}": AWS_CHAIN}


class S3Tuning(Tuning):
    """``fs.s3a.multipart.size`` and ``fs.s3a.committer.threads`` of one bucket."""

    def __init__(self, values: HadoopValues) -> None:
        self._values = values

    @property
    def part_bytes(self) -> int | None:
        """Bytes of each uploaded part but a file's last; ``None`` when unset."""
        return self._values.size_bytes("multipart.size")

    @property
    def committer_threads(self) -> int | None:
        """Threads that complete uploads; ``None`` when unset, or negative: that many per core, to Hadoop."""
        threads = self._values.number("committer.threads")
        return threads if threads is not None and threads > 0 else None


def tuning(location: Location, hadoop: Mapping[str, str]) -> S3Tuning:
    """Return what Hadoop's settings say of uploads to the location's bucket."""
    return S3Tuning(bucket_values(hadoop, location.bucket))


def renames(location: Location, hadoop: Mapping[str, str], missing_jar: str) -> Renames:
    """Return why Spark's own writer renames files at a location, and what helps.

    Only S3A is known here: elsewhere a rename copies nothing, or the store's connector has a committer of its own. The
    classic committer's first algorithm, Spark's default, renames when a task ends and when the job ends.

    Examples
    --------
    >>> renames(Location.parse("s3a://mart/orders"), {}, "org.apache.spark:spark-hadoop-cloud_2.13:4.1.2").why
    'spark-hadoop-cloud_2.13 is not on the class path, so S3 copies each file twice'
    """
    if location.scheme != "s3a":
        return Renames(
            why="no committer that renames nothing is known for this scheme",
            advice="make the table over s3a://",
            is_certain=False,
        )
    times = "once" if hadoop.get("mapreduce.fileoutputcommitter.algorithm.version") == "2" else "twice"
    cost = f", so S3 copies each file {times}"
    if not bucket_values(hadoop, location.bucket).flag("committer.magic.enabled", default=True):
        advice = "set spark.hadoop.fs.s3a.committer.magic.enabled=true"
        return Renames(why=f"fs.s3a.committer.magic.enabled=false{cost}", advice=advice)
    if missing_jar:
        advice = f"put {missing_jar}, without what it depends on, on Spark's class path (spark.jars)"
        return Renames(why=f"{missing_jar.split(':')[1]} is not on the class path{cost}", advice=advice)
    return Renames(is_magic=True)


def _endpoint(values: HadoopValues, overrides: S3Overrides) -> tuple[str, str]:
    """Return endpoint URL and region; AWS's own endpoints become the region, and botocore picks the host."""
    url = overrides.endpoint_url if overrides.endpoint_url is not None else without_login(values.text("endpoint"))
    if url and "://" not in url:
        secure = values.flag("connection.ssl.enabled", default=True)
        url = f"{'https' if secure else 'http'}://{url}"
    region = overrides.region or values.text("endpoint.region")
    aws = AWS_ENDPOINT.fullmatch(url)
    if aws:
        return "", region or aws[1] or ""
    in_host = AWS_REGION.search(url)
    return url.rstrip("/"), region or (in_host[1] if in_host else "")


def _encryption(values: HadoopValues) -> dict[str, Any]:
    algorithm = values.text("encryption.algorithm")
    if not algorithm:
        return {}
    if algorithm not in SSE:
        raise InvalidInputError(
            f"fs.s3a.encryption.algorithm {algorithm} is not supported: this library can't write with keys that "
            f"S3 does not hold. Supported: {', '.join(SSE)}"
        )
    if algorithm == "AES256":
        return {"encryption": "AES256"}
    context = values.text("encryption.context")
    pairs = dict(pair.strip().split("=", 1) for pair in context.split(",") if "=" in pair)
    encoded = base64.b64encode(json.dumps(pairs).encode()).decode() if pairs else ""
    return {"encryption": SSE[algorithm], "kms_key_id": values.text("encryption.key"), "kms_context": encoded}


def _proxy(values: HadoopValues) -> str:
    host = values.text("proxy.host")
    if not host:
        return ""
    scheme = "https" if values.flag("proxy.ssl.enabled", default=False) else "http"
    user, password = values.text("proxy.username"), values.text("proxy.password")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    port = values.number("proxy.port") or (443 if scheme == "https" else 80)
    return f"{scheme}://{login}{host}:{port}"


def credential_sources(values: HadoopValues) -> Sources:
    """Return the sources of ``fs.s3a.aws.credentials.provider`` in order; those without keys are left out.

    Raises ``InvalidInputError`` if a class is not known here, or no source is left.
    """
    names = _class_names(values.text("aws.credentials.provider")) or DEFAULT_PROVIDERS
    sources = tuple(source for name in names for source in _sources_of(name, values))
    if not sources:
        raise InvalidInputError(
            f"none of the credential providers {', '.join(names)} can provide: fs.s3a.access.key and fs.s3a.secret.key "
            "are not set. Set them, or give access_key and secret_key or profile in the writer's config."
        )
    return sources


def _simple(values: HadoopValues, session_token: str = "") -> Sources:
    access_key, secret_key = values.text("access.key"), values.text("secret.key")
    keys = {"access_key": access_key, "secret_key": secret_key, "session_token": session_token}
    return (StaticKeys(**keys),) if access_key and secret_key else ()


def _temporary(values: HadoopValues) -> Sources:
    session_token = values.text("session.token")
    return _simple(values, session_token) if session_token else ()


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
    f"{S3A}SharedInstanceCredentialProvider": (Provider.CONTAINER, Provider.INSTANCE_METADATA),
    f"{S3A}AnonymousAWSCredentialsProvider": (Provider.ANONYMOUS,),
    f"{S3A}auth.IAMInstanceCredentialsProvider": (Provider.CONTAINER, Provider.INSTANCE_METADATA),
    f"{SDK1}AnonymousAWSCredentials": (Provider.ANONYMOUS,),
    f"{SDK1}EnvironmentVariableCredentialsProvider": (Provider.ENVIRONMENT,),
    f"{SDK1}InstanceProfileCredentialsProvider": (Provider.INSTANCE_METADATA,),
    f"{SDK1}ContainerCredentialsProvider": (Provider.CONTAINER,),
    f"{SDK1}EC2ContainerCredentialsProviderWrapper": (Provider.CONTAINER, Provider.INSTANCE_METADATA),
    f"{SDK1}WebIdentityTokenCredentialsProvider": (Provider.WEB_IDENTITY,),
    f"{SDK1}DefaultAWSCredentialsProviderChain": (Provider.DEFAULT_CHAIN,),
    f"{SDK1}profile.ProfileCredentialsProvider": (Profile(),),
    f"{SDK2}AnonymousCredentialsProvider": (Provider.ANONYMOUS,),
    f"{SDK2}EnvironmentVariableCredentialsProvider": (Provider.ENVIRONMENT,),
    f"{SDK2}InstanceProfileCredentialsProvider": (Provider.INSTANCE_METADATA,),
    f"{SDK2}ContainerCredentialsProvider": (Provider.CONTAINER,),
    f"{SDK2}WebIdentityTokenFileCredentialsProvider": (Provider.WEB_IDENTITY,),
    AWS_CHAIN: (Provider.DEFAULT_CHAIN,),
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


def with_environment(hadoop: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return settings of a session that hides credentials, with those of this process's environment in their place.

    Keys in ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY`` are what settings would have said, so that executors get
    them too. Without them, and unless the session names a provider that needs no hidden keys, each process looks for
    itself, in the order of AWS's own tools. Whoever names credentials in the overrides means these alone.
    """
    merged = {**hadoop, **overrides}
    if any(overrides.get(f"{PREFIX}{name}") for name in ("access.key", PROVIDER)):
        return merged
    found = {f"{PREFIX}{name}": os.environ.get(variable, "") for name, variable in IN_ENVIRONMENT.items()}
    access_key, secret_key, session_token = found.values()
    if access_key and secret_key:
        return {**merged, **found, f"{PREFIX}{PROVIDER}": DEFAULT_PROVIDERS[0 if session_token else 1]}
    named = _class_names(hadoop.get(f"{PREFIX}{PROVIDER}", ""))
    if any(MAPPED.get(class_name) not in {_simple, _temporary} for class_name in named):
        return merged
    return {**merged, f"{PREFIX}{PROVIDER}": AWS_CHAIN}


def _class_names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def bucket_values(hadoop: Mapping[str, str], bucket: str) -> HadoopValues:
    """Return the settings that hold for one bucket: ``fs.s3a.bucket.NAME.*`` over ``fs.s3a.*``, also by old names.

    Examples
    --------
    >>> bucket_values({"fs.s3a.endpoint": "a", "fs.s3a.bucket.my.mart.endpoint": "b"}, "my.mart").text("endpoint")
    'b'
    """
    return HadoopValues(PREFIX, _layer(hadoop, PREFIX) | _layer(hadoop, f"{PREFIX}bucket.{bucket}."))


def _layer(hadoop: Mapping[str, str], prefix: str) -> dict[str, str]:
    found = layer(hadoop, prefix)
    for old, new in RENAMED.items():
        if old in found:
            found.setdefault(new, found[old])
    return found
