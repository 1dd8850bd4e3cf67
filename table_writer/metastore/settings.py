"""Settings of the metastore, its address and how to talk to it: complete and valid at construction."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from table_writer.checked import checked
from table_writer.errors import InvalidInputError
from table_writer.metastore.gssapi import EXAMPLE, kerberos_login
from table_writer.metastore.http_wire import DEFAULT_PATH, HttpRequest
from table_writer.metastore.sasl import CHEAPEST_FIRST, PROTECTION, DigestMd5, Login, Plain, Token
from table_writer.metastore.wire import LoginError
from table_writer.model.location import without_login

DEFAULT_PORT: Final = 9083
DEFAULT_TIMEOUT_SECONDS: Final = 60.0
TIMEOUT: Final = "hive.metastore.client.socket.timeout"
MAX_PARTITION_BATCH: Final = 30_000  # below the i16 of Thrift's older list calls; servers often cap lower

SECONDS_PER_UNIT: Final[Mapping[str, float]] = {
    "": 1,  # HiveConf: this setting's bare number is seconds
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("l", "ms", "msec", "msecs", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "usec", "usecs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"), 1e-9),
}

POSITIVE: Final = (
    *("timeout_seconds", "connect_timeout_seconds", "login_timeout_seconds", "max_idle_seconds", "read_attempts"),
)
THRIFT_URIS: Final = "metastore.thrift.uris"
SASL: Final = "hive.metastore.sasl.enabled"
PRINCIPAL: Final = "hive.metastore.kerberos.principal"
AUTH_MODE: Final = "hive.metastore.client.auth.mode"
PLAIN_USER: Final = "hive.metastore.client.plain.username"
TRANSPORT: Final = "hive.metastore.client.thrift.transport.mode"
HTTP_HEADERS: Final = "hive.metastore.client.http.additional.headers"
RPC_PROTECTION: Final = "hadoop.rpc.protection"
TLS: Final = "hive.metastore.use.SSL"
IN_CLEAR: Final = "metastore_password_in_clear=True in the TableWriterConfig (the command line has no such option)"
HTTP_PATH: Final = "hive.metastore.client.thrift.http.path"
JWT_VARIABLE: Final = "HMS_JWT"  # Hive's own client takes its token from there, and only from there
StaleStatistics = Literal["keep", "delete"]
GLUE_SCHEME: Final = "glue://"
FACTORIES: Final = ("hive.metastore.client.factory.class", "hive.imetastoreclient.factory.class")
GLUE_BATCH: Final = 100  # Glue: partitions in one BatchCreatePartition or BatchUpdatePartition
UNSUPPORTED: Final = (  # setting, pattern of the values refused, what that asks for, what to do instead
    ("hive.metastore.thrift.compact.protocol.enabled", "true", "the compact protocol", "use a binary one"),
    ("hive.metastore.service.discovery.mode", "zookeeper", "discovery through ZooKeeper", "list the metastores"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """The parts of a login that Hadoop's settings do not hold."""

    token: Callable[[], Token] | None = field(default=None, repr=False)  # returns a valid one, for each connection
    password: str = field(default="", repr=False)
    password_in_clear: bool = False  # whether a password may go over a connection without TLS


@dataclass(frozen=True, kw_only=True, slots=True)
class MetastoreSettings:
    """Settings to reach a Hive metastore over Thrift.

    Examples
    --------
    >>> MetastoreSettings(uris=("thrift://metastore",)).uris
    ('thrift://metastore:9083',)
    """

    uris: tuple[str, ...]  # ``thrift://host:port``, tried in this order; the port defaults to 9083
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """For each answer. Switching 5,000 partitions takes a Hive 2.3 metastore about 15 seconds."""
    connect_timeout_seconds: float = 10  # for each address to accept a connection
    user: str = ""  # sent once a connection with ``set_ugi``, as Hive's own client does; empty sends nothing
    framed: bool = False  # whether the metastore speaks Thrift's framed transport
    shuffle_uris: bool = False  # try the addresses in random order, which spreads clients over metastores
    tls: bool = False
    ca_file: str = ""  # PEM file of the certificates that TLS trusts; the host name is verified
    login: Login | None = field(default=None, repr=False, compare=False)  # without one nobody asks who calls
    login_timeout_seconds: float = 20  # for each answer of the handshake; a server without SASL gives none
    partition_batch: int = 250  # partitions read in one call
    max_idle_seconds: float = 60  # load balancers forget idle connections in silence; AWS after 350
    read_attempts: int = 3  # in all, while connections break; changing calls are sent once, whatever this says

    def __post_init__(self) -> None:
        """Spell the addresses in full and refuse what cannot work."""
        if isinstance(self.uris, str):
            shown = without_login(self.uris)
            raise InvalidInputError(f"uris is a tuple of addresses, not text: write uris=({shown!r},)")
        object.__setattr__(self, "uris", tuple(map(_full_uri, self.uris)))
        if not self.uris:
            raise InvalidInputError(
                "no metastore is configured: set hive.metastore.uris to thrift://host:9083, or give it as metastore_uri"
                " where a call takes one (a Spark session without it runs a private metastore inside its own process,"
                " which nobody else can reach)"
            )
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be greater than 0")
        if not 1 <= self.partition_batch <= MAX_PARTITION_BATCH:
            raise InvalidInputError(f"partition_batch is {self.partition_batch}; use 1 to {MAX_PARTITION_BATCH}")
        if self.tls and not Path(self.ca_file or "/nonexistent").is_file():
            raise InvalidInputError(
                f"TLS to the metastore needs ca_file, a PEM file of what to trust (given: {self.ca_file!r}). Java's "
                "truststore cannot be read; export it: keytool -exportcert -rfc -keystore TRUSTSTORE -alias ALIAS"
            )

    @classmethod
    def from_hadoop(
        cls, conf: Mapping[str, str], *, ca_file: str = "", credentials: Credentials | None = None
    ) -> MetastoreSettings:
        """Read the settings that Spark and Hive use themselves, names without ``spark.hadoop.``.

        ``ca_file`` is for ``hive.metastore.use.SSL=true``, ``credentials`` are for a metastore that wants to know who
        calls; without them Kerberos is asked. Raises ``InvalidInputError`` if ``hive.metastore.uris`` is missing, a
        login lacks something, or a setting asks for what this client does not speak.

        Examples
        --------
        >>> settings = MetastoreSettings.from_hadoop({
        ...     "hive.metastore.uris": "thrift://h1:9083, thrift://h2", "hive.metastore.client.socket.timeout": "10m"})
        >>> settings.uris, settings.timeout_seconds
        (('thrift://h1:9083', 'thrift://h2:9083'), 600.0)
        """
        conf = as_hive_2(conf)
        for name, refused, what, advice in UNSUPPORTED:
            if re.fullmatch(refused, conf.get(name, "").strip(), flags=re.IGNORECASE):
                raise InvalidInputError(
                    f"{name}={conf[name]}: {what} is not supported; {advice} in hive.metastore.uris"
                )
        timeout = conf.get(TIMEOUT, "").strip()
        login = _login(conf, credentials or Credentials())
        return cls(
            uris=tuple(uri for uri in re.split(r"[,\s]+", conf.get("hive.metastore.uris", "")) if uri),
            timeout_seconds=_seconds(TIMEOUT, timeout) if timeout else DEFAULT_TIMEOUT_SECONDS,
            # with a login neither: it says who calls, and its messages are frames already
            user="" if login or not _is_set(conf, "hive.metastore.execute.setugi", default=True) else _user(),
            framed=login is None and _is_set(conf, "hive.metastore.thrift.framed.transport.enabled"),
            shuffle_uris=conf.get("hive.metastore.uri.selection", "RANDOM").strip().upper() != "SEQUENTIAL",
            tls=_is_set(conf, TLS),
            ca_file=ca_file,
            login=login,
        )


def as_hive_2(conf: Mapping[str, str]) -> dict[str, str]:
    """Spell the names that Hive 3 has given its settings as Hive 2 does; where both are set, Hive 2's count.

    Examples
    --------
    >>> as_hive_2({"metastore.sasl.enabled": "true"})["hive.metastore.sasl.enabled"]
    'true'
    """
    newer = {f"hive.{name}": value for name, value in conf.items() if name.startswith("metastore.")}
    uris = {"hive.metastore.uris": conf[THRIFT_URIS]} if THRIFT_URIS in conf else {}
    return {**newer, **uris, **conf}


def _login(conf: Mapping[str, str], credentials: Credentials) -> Login | None:
    """Return how to log in, by the settings of Hive's own client: HTTP goes before a password, that before Kerberos."""
    if conf.get(TRANSPORT, "").strip().lower() == "http":
        return _http_login(conf, credentials)
    if conf.get(AUTH_MODE, "").strip().upper() == "PLAIN":
        return _password_login(conf, credentials)
    if not is_kerberized(conf):
        return None
    token, protections = credentials.token, _protections(conf)
    if token is not None:
        return Login("delegation token", lambda _: DigestMd5.of_token(token(), protections))
    principal = conf.get(PRINCIPAL, "").strip()
    if not principal:
        raise InvalidInputError(f"{SASL}=true needs {PRINCIPAL}, the metastore's own, for example {EXAMPLE}")
    return kerberos_login(principal, protections)


def is_kerberized(conf: Mapping[str, str]) -> bool:
    """Return whether the metastore takes Kerberos tickets and delegation tokens, going by the settings."""
    return _is_set(conf, SASL)


def _protections(conf: Mapping[str, str]) -> tuple[str, ...]:
    """Return the protections that messages may have, by choice: any, cheapest first, if nobody has chosen."""
    names = {hadoop: sasl for sasl, hadoop in PROTECTION.items()}
    chosen = [word for word in re.split(r"[,\s]+", conf.get(RPC_PROTECTION, "").lower()) if word]
    if unknown := [word for word in chosen if word not in names]:
        raise InvalidInputError(f"{RPC_PROTECTION}={unknown[0]!r}: expected {', '.join(names)}")
    if _is_set(conf, TLS):  # protects everything, and Hive's own client asks for no second time
        return ("auth",)
    return tuple(names[word] for word in chosen) or CHEAPEST_FIRST


def _http_login(conf: Mapping[str, str], credentials: Credentials) -> Login:
    """Say over HTTP who calls: by a token, or by a name that the metastore believes."""
    path = conf.get(HTTP_PATH, "").strip() or DEFAULT_PATH
    pairs = (pair.split("=", 1) for pair in conf.get(HTTP_HEADERS, "").split(",") if "=" in pair)
    more = {name.strip(): value.strip() for name, value in pairs}
    if conf.get(AUTH_MODE, "").strip().upper() != "JWT":
        named = {"x-actor-username": conf.get(PLAIN_USER, "").strip() or _user(), **more}
        return Login("HTTP", lambda _: HttpRequest(path, lambda: named))
    if not (_is_set(conf, TLS) or credentials.password_in_clear):
        raise InvalidInputError(
            f"{AUTH_MODE}=JWT without TLS would show the token to whoever listens: set {TLS}=true and"
            f" metastore_ca_file, or, on a network that you trust, {IN_CLEAR}"
        )

    def headers() -> Mapping[str, str]:
        token = os.environ.get(JWT_VARIABLE, "").strip()
        if not token.isascii() or not token.isprintable() or not token:
            raise LoginError(f"{AUTH_MODE}=JWT: the variable {JWT_VARIABLE} holds no token", everywhere=True)
        return {**more, "Authorization": f"Bearer {token}"}

    return Login("JWT", lambda _: HttpRequest(path, headers))


def _password_login(conf: Mapping[str, str], credentials: Credentials) -> Login:
    user = conf.get(PLAIN_USER, "").strip()
    if not user:
        raise InvalidInputError(f"{AUTH_MODE}=PLAIN needs {PLAIN_USER}, the user whose password is sent")
    password = credentials.password or conf.get(user, "")  # Hive's client keeps it under the user's name
    if not password:
        raise InvalidInputError(
            f"{AUTH_MODE}=PLAIN: there is no password of {PLAIN_USER}={user}. Give metastore_password in the"
            " TableWriterConfig, for the command line the variable TABLE_WRITER_METASTORE_PASSWORD, or keep it as"
            f" {user} in a store that hadoop.security.credential.provider.path names to Spark"
        )
    if not (_is_set(conf, TLS) or credentials.password_in_clear):
        raise InvalidInputError(
            f"{AUTH_MODE}=PLAIN without TLS would show the password to whoever listens: set {TLS}=true and"
            f" metastore_ca_file, or, on a network that you trust, {IN_CLEAR}"
        )
    return Login("password", lambda _: Plain(user, password))


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class GlueSettings:
    """Settings to reach AWS Glue's Data Catalog. Credentials are those that the AWS SDK finds, or of ``profile``.

    Parameters
    ----------
    region
        Default: the address ``glue://REGION``, ``aws.region``, then what the AWS SDK finds.
    catalog_id
        The AWS account whose catalog it is. Default: ``hive.metastore.glue.catalogid``, then the caller's own.
    endpoint_url
        Default: ``aws.glue.endpoint``, then that of the region.
    profile
        A profile of the AWS configuration files.
    skip_archive
        Keep no old version of an unpartitioned table in Glue when a write moves it. The log has every version, and Glue
        counts them against a quota. ``False`` keeps them.
    column_statistics
        Glue's own, which it keeps for rows that were replaced. ``"delete"`` removes those of what a write has switched,
        which takes a read for each partition, and a call for each column that has some.

    Examples
    --------
    >>> GlueSettings().completed_from({"aws.region": "eu-west-1"}, "glue:///123456789012").uri
    'glue://eu-west-1/123456789012'
    """

    region: str = ""
    catalog_id: str = ""
    endpoint_url: str = ""
    profile: str = ""
    skip_archive: bool = True
    column_statistics: StaleStatistics = "keep"
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS  # for each answer
    change_batch: int = GLUE_BATCH  # partitions in one changing call

    def __post_init__(self) -> None:
        """Refuse what no catalog could be reached with."""
        if not 1 <= self.change_batch <= GLUE_BATCH:
            raise InvalidInputError(f"change_batch={self.change_batch}: expected 1 to {GLUE_BATCH}")
        if not self.timeout_seconds > 0:
            raise InvalidInputError(f"timeout_seconds={self.timeout_seconds}: expected more than 0")
        object.__setattr__(self, "endpoint_url", without_login(self.endpoint_url))

    @property
    def uri(self) -> str:
        """The address, ``glue://REGION/CATALOG``, as far as it is known."""
        return f"{GLUE_SCHEME}{self.region}{'/' if self.catalog_id else ''}{self.catalog_id}"

    @staticmethod
    def are_meant(conf: Mapping[str, str], uris: Sequence[str]) -> bool:
        """Return whether an address of Glue is named; without one, whether the session's own client asks Glue."""
        if uris:
            return uris[0].startswith(GLUE_SCHEME)
        return any("glue" in conf.get(name, "").lower() for name in FACTORIES)

    def completed_from(self, conf: Mapping[str, str], uri: str = GLUE_SCHEME) -> GlueSettings:
        """Return the settings with what the address says, and then Hadoop's settings, where they say nothing."""
        region, _, catalog_id = uri.removeprefix(GLUE_SCHEME).partition("/")
        if not uri.startswith(GLUE_SCHEME) or not re.fullmatch(r"[a-z0-9-]*", region) or "/" in catalog_id:
            raise InvalidInputError(
                f"{without_login(uri)!r} is no address of AWS Glue: expected glue://REGION/CATALOG_ID"
            )
        return replace(
            self,
            region=region or self.region or conf.get("aws.region", ""),
            catalog_id=catalog_id or self.catalog_id or conf.get("hive.metastore.glue.catalogid", ""),
            endpoint_url=self.endpoint_url or conf.get("aws.glue.endpoint", ""),
        )


def unusable_client(client: str, server: str) -> str:
    """Say why Spark's own Hive client can do nothing with a metastore, and what helps; empty where it can.

    Examples
    --------
    >>> unusable_client("2.3.10", "3"), unusable_client("4.0.1", "4.0.1")
    ('', '')
    >>> unusable_client("2.3.10", "4.0.1").partition(";")[0]
    "this session's Hive client 2.3.10 can neither read, make nor alter a table of Hive 4.0.1"
    """
    if not server.startswith("4.") or not client.startswith("2."):
        return ""
    return (
        f"this session's Hive client {client} can neither read, make nor alter a table of Hive {server}; set"
        " spark.sql.hive.metastore.version=4.0.1, spark.sql.hive.metastore.jars=path and"
        " spark.sql.hive.metastore.jars.path to hive-exec 4.0.1 with the jars that it needs"
    )


def _full_uri(text: str) -> str:
    """Return ``thrift://host:port``."""
    text = without_login(text)
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not a metastore address: {error}; expected thrift://host:9083") from error
    if parts.scheme != "thrift" or not host:
        raise InvalidInputError(f"{text!r} is not a metastore address; expected thrift://host:9083")
    return f"thrift://[{host}]:{port}" if ":" in host else f"thrift://{host}:{port}"


def _seconds(name: str, text: str) -> float:
    """Read a duration as HiveConf spells it: ``600``, ``600s``, ``10m``, ``500ms``."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text, flags=re.IGNORECASE)
    if match is None or match[2].lower() not in SECONDS_PER_UNIT:
        raise InvalidInputError(f"{name}={text} is not a duration; expected for example 600s or 10m")
    return float(int(match[1]) * SECONDS_PER_UNIT[match[2].lower()])


def _is_set(conf: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Read a boolean as Hadoop does: anything that is neither true nor false is the default."""
    return {"true": True, "false": False}.get(conf.get(name, "").strip().lower(), default)


def _user() -> str:
    """Return the user that Hadoop's client would act as, empty where the system knows none."""
    try:
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    except (KeyError, OSError):  # a container that runs under a number without a name
        return ""
