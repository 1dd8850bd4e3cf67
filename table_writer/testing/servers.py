"""The servers of a lakehouse, each in its own process: S3 (moto or versitygw), and a metastore of some Hive."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args
from xml.sax.saxutils import escape

import boto3
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ParamValidationError,
)
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from table_writer.errors import require_extra
from table_writer.testing.choices import BUILT_IN_HIVE, HiveVersion, S3ServerName
from table_writer.testing.jars import java_environment, metastore_class_path, metastore_java
from table_writer.testing.processes import LOCALHOST, LakehouseError, ServerProcess

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REGION: Final = "us-east-1"
VERSITYGW_VARIABLE: Final = "TABLE_WRITER_VERSITYGW"
VERSITYGW_INSTALL: Final = "go install github.com/versity/versitygw/cmd/versitygw@latest"
PROBE_TIMEOUT_SECONDS: Final = 10
MAIN_CLASS: Final = "org.apache.hadoop.hive.metastore.HiveMetaStore"
LOG_SETTINGS: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p [%t] %c{2}: %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
AUDIT_SETTINGS: Final = """\
appender.audit.type = File
appender.audit.name = audit
appender.audit.fileName = {path}
appender.audit.layout.type = PatternLayout
appender.audit.layout.pattern = %d{{ISO8601}} %m%n
logger.audit.name = org.apache.hadoop.hive.metastore.HiveMetaStore.audit
logger.audit.level = info
logger.audit.additivity = false
logger.audit.appenderRef.audit.ref = audit
"""
DERBY_SETTINGS: Final = """\
derby.locks.deadlockTimeout=1
derby.locks.waitTimeout=10
"""  # seconds instead of 20 and 60: the metastore tries again by itself, so two writers at once take no half a minute
ASKING: Final = (
    "hive.metastore.sasl.enabled",
    "hive.metastore.use.SSL",
    "metastore.authentication",
    "metastore.server.thrift.transport.mode",
)
LOG_SETTINGS_NAMES: Final = ("hive-log4j2.properties", "metastore-log4j2.properties", "log4j2.properties")
OF_NEWER_HIVE: Final = {
    "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
    "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    "metastore.event.db.notification.api.auth": "false",
    "datanucleus.autoStartMechanismMode": "ignored",
}
JAVA_OF_NEWER_HIVE: Final = (
    "-Xss16m",  # Hive 4 adds 600 partitions by one INSERT, which overflows Derby's stack
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "net", "nio", "util")),
)


class S3Server(ServerProcess):
    """A local S3 endpoint with one bucket, gone with all its objects after :meth:`stop`.

    Parameters
    ----------
    server
        ``"moto"`` comes with pip and keeps objects in memory. ``"versitygw"`` is faster and closer to S3 in how
        multipart uploads end; its binary is found through the environment variable ``TABLE_WRITER_VERSITYGW``,
        ``PATH``, or ``~/go/bin``.
    bucket
        Made at the start; 3 or more characters.

    Examples
    --------
    >>> from table_writer.testing import S3Server
    >>> with S3Server(bucket="example") as s3:  # doctest: +SKIP
    ...     s3.client().put_object(Bucket="example", Key="hello", Body=b"world")
    """

    START_TIMEOUT_SECONDS = 60

    def __init__(self, server: S3ServerName = "moto", *, bucket: str = "lakehouse") -> None:
        if server not in ("moto", "versitygw"):
            raise LakehouseError(f"S3 server {server!r} is unknown: choose moto or versitygw")
        if server == "moto":
            require_extra("testing", "the S3 server moto", "moto", "flask")
        super().__init__(f"S3 server {server}")
        self.server: Final = server
        self.bucket: Final = bucket
        self.access_key: Final = "lakehouse"
        self.secret_key: Final = secrets.token_hex(16)

    def __repr__(self) -> str:
        where = self.endpoint_url if self.running else "not running"
        return f"S3Server(server={self.server!r}, bucket={self.bucket!r}, {where})"

    @property
    def endpoint_url(self) -> str:
        """``http://127.0.0.1:PORT``."""
        return f"http://{LOCALHOST}:{self.port}"

    def client(self) -> S3Client:
        """Return a new boto3 client for this server."""
        return self._client(Config(s3={"addressing_style": "path"}, proxies={}))

    def hadoop_settings(self) -> dict[str, str]:
        """Return the properties with which Hadoop reads ``s3a://`` and ``s3://`` from this server."""
        return {
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "fs.s3a.endpoint": self.endpoint_url,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "fs.s3a.bucket.probe": "0",
            "fs.s3a.directory.marker.retention": "keep",  # as Hadoop 3.4 has it: 3.3 may wait for ever to delete one
        }

    def environment(self) -> dict[str, str]:
        """Return the variables in which AWS's own tools find the keys."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def _client(self, config: Config) -> S3Client:
        session = boto3.session.Session()
        return session.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=config,
        )

    def _answers(self) -> bool:
        once = Config(s3={"addressing_style": "path"}, proxies={}, connect_timeout=5, retries={"total_max_attempts": 1})
        client = self._client(once)
        try:
            client.create_bucket(Bucket=self.bucket)
        except client.exceptions.BucketAlreadyOwnedByYou:
            return True
        except (EndpointConnectionError, ConnectTimeoutError, HTTPClientError):
            return False  # nobody listens yet
        except (ClientError, ParamValidationError) as error:
            raise LakehouseError(f"{self.server} does not make a bucket named {self.bucket!r}: {error}") from error
        finally:
            client.close()
        return True

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        if self.server == "moto":
            program = Path(__file__).with_name("moto_server.py")  # by its path: it needs nothing of this package
            command = [sys.executable, "-P", str(program), "-H", LOCALHOST, "-p", str(self.port)]
            return command, dict(os.environ)
        memory = Path("/dev/shm")  # noqa: S108 - only a parent of a private directory
        data = self._make_directory("s3-data", parent=memory if memory.is_dir() else None)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VGW_")}
        environment |= {"ROOT_ACCESS_KEY_ID": self.access_key, "ROOT_SECRET_ACCESS_KEY": self.secret_key}
        command = [_find_versitygw(), "--port", f"{LOCALHOST}:{self.port}", "--keep-alive", "--quiet"]
        return [*command, "--access-log", str(directory / "access.log"), "posix", str(data)], environment


def _find_versitygw() -> str:
    chosen = os.environ.get(VERSITYGW_VARIABLE)
    found = chosen or shutil.which("versitygw") or shutil.which("versitygw", path=Path("~/go/bin").expanduser())
    if found is None or not Path(found).is_file():
        where = f"at {VERSITYGW_VARIABLE}={chosen}" if chosen else f"by {VERSITYGW_VARIABLE}, in PATH or ~/go/bin"
        raise LakehouseError(f"versitygw is not there {where}: {VERSITYGW_INSTALL}")
    return found


class MetastoreServer(ServerProcess):
    """A Hive metastore over Derby on a free port of 127.0.0.1.

    Parameters
    ----------
    hive
        The version of Hive. ``"2.3.10"`` comes with pyspark; the jars of ``"3.1.3"`` (26 MB), ``"4.0.1"`` (80 MB) and
        ``"4.2.0"`` (170 MB, and a Java 21) are downloaded at the first use.
    warehouse
        URI of the default database's directory; by default a temporary directory.
    directory
        Where Derby keeps its files, so that they survive :meth:`kill` and this object. By default Derby runs in memory
        and every end of the process forgets everything.
    settings
        More properties for its ``hive-site.xml``: file systems, another database than Derby.
    jars
        More jars on its class path.
    audit_log
        A file to which the metastore appends a line for each call: ``ugi=…  ip=…  cmd=get_table : db=… tbl=…``.

    Attributes
    ----------
    java_options
        More options for its Java, to be set before the start: ``-Djava.security.krb5.conf=…`` for one.

    Notes
    -----
    With settings that ask for a login or TLS, the server counts as started once it takes connections.

    Examples
    --------
    >>> from table_writer.testing import MetastoreServer
    >>> with MetastoreServer() as metastore:  # doctest: +SKIP
    ...     print(metastore.uri)
    thrift://127.0.0.1:40321
    """

    START_TIMEOUT_SECONDS = 120

    def __init__(
        self,
        *,
        hive: HiveVersion = BUILT_IN_HIVE,
        warehouse: str | None = None,
        directory: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        jars: Sequence[str | Path] = (),
        audit_log: str | Path | None = None,
    ) -> None:
        if hive not in get_args(HiveVersion):
            raise LakehouseError(f"Hive {hive!r} is unknown: choose from {', '.join(get_args(HiveVersion))}")
        super().__init__("Hive metastore")
        self.java_options: Sequence[str] = ()
        self._hive: HiveVersion = hive
        self._warehouse = warehouse
        self._directory = None if directory is None else Path(directory).absolute()
        self._settings = dict(settings or {})
        self._jars = tuple(map(str, jars))
        self._audit_log = None if audit_log is None else Path(audit_log).absolute()

    def __repr__(self) -> str:
        return f"MetastoreServer({self.uri}, pid={self.pid})" if self.running else "MetastoreServer(not running)"

    @property
    def uri(self) -> str:
        """``thrift://127.0.0.1:PORT``, the same after :meth:`restart`."""
        return f"thrift://{LOCALHOST}:{self.port}"

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        java = metastore_java(self._hive)
        self._write_configuration(directory)
        class_path = os.pathsep.join([str(directory), *metastore_class_path(self._hive), *self._jars])
        command = [java, "-Xmx512m", f"-Djava.io.tmpdir={directory}"]
        command += () if self._hive == BUILT_IN_HIVE else JAVA_OF_NEWER_HIVE
        command += self.java_options
        command += [f"-Dderby.system.home={directory}", "-cp", class_path, MAIN_CLASS, "-p", str(self.port)]
        return command, java_environment()

    def _answers(self) -> bool:
        try:
            socket.create_connection((LOCALHOST, self.port), timeout=PROBE_TIMEOUT_SECONDS).close()
        except OSError:
            return False  # cheaper than a Thrift call, which logs that nobody listens
        if any(self._settings.get(name, "").upper() not in ("", "FALSE", "NONE") for name in ASKING):
            return True
        sock = TSocket(LOCALHOST, self.port)
        sock.setTimeout(PROBE_TIMEOUT_SECONDS * 1000)  # milliseconds
        transport = TBufferedTransport(sock)
        try:
            transport.open()
            ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport)).get_database("default")
        except TException:
            return False
        finally:
            transport.close()
        return True

    def _write_configuration(self, directory: Path) -> None:
        database = f"memory:{directory.name}" if self._directory is None else f";databaseName={self._directory}"
        properties = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:{database};create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            # Spark lacks the jar of the default pool; without a pool DROP DATABASE fails after its commit.
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.schema.verification": "false",
            "hive.async.log.enabled": "false",
            "hive.stats.autogather": "false",
            "hadoop.tmp.dir": str(directory),
            "hive.metastore.warehouse.dir": self._warehouse or (directory / "warehouse").as_uri(),
            **({} if self._hive == BUILT_IN_HIVE else OF_NEWER_HIVE),
            **self._settings,
        }
        lines = [
            f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
            for name, value in properties.items()
        ]
        names = ["hive-site.xml", "metastore-site.xml"]  # 2.3 reads the first one, newer ones both
        if any(name.startswith("hadoop.security.") for name in self._settings):
            names.append("core-site.xml")  # Hadoop's login reads no other
        for name in names:
            (directory / name).write_text("\n".join(["<configuration>", *lines, "</configuration>"]))
        audit = "" if self._audit_log is None else AUDIT_SETTINGS.format(path=self._audit_log)
        for name in LOG_SETTINGS_NAMES:
            (directory / name).write_text(LOG_SETTINGS + audit)
        (directory / "derby.properties").write_text(DERBY_SETTINGS)
