"""A real Hive metastore in its own process, from the jars that pyspark carries."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from xml.sax.saxutils import escape

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from table_writer.testing.jars import find_java, spark_home
from table_writer.testing.processes import LOCALHOST, ChildProcess, LakehouseError, ReservedPort, ScratchDirectory

START_TIMEOUT_SECONDS: Final = 120
PROBE_TIMEOUT_SECONDS: Final = 10
MAIN_CLASS: Final = "org.apache.hadoop.hive.metastore.HiveMetaStore"
FOREIGN_VARIABLES: Final = ("CLASSPATH", "HADOOP_CONF_DIR", "HIVE_CONF_DIR")  # of a cluster this host may belong to
LOG_SETTINGS: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
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


class MetastoreServer:
    """A Hive 2.3 metastore over Derby on a free port of 127.0.0.1.

    Parameters
    ----------
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

    Examples
    --------
    >>> from table_writer.testing import MetastoreServer
    >>> with MetastoreServer() as metastore:  # doctest: +SKIP
    ...     print(metastore.uri)
    thrift://127.0.0.1:40321
    """

    def __init__(
        self,
        *,
        warehouse: str | None = None,
        directory: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        jars: Sequence[str | Path] = (),
        audit_log: str | Path | None = None,
    ) -> None:
        self._warehouse = warehouse
        self._directory = None if directory is None else Path(directory).absolute()
        self._settings = dict(settings or {})
        self._jars = tuple(map(str, jars))
        self._audit_log = None if audit_log is None else Path(audit_log).absolute()
        self._scratch: ScratchDirectory | None = None
        self._port: ReservedPort | None = None
        self._process: ChildProcess | None = None

    def __repr__(self) -> str:
        if self._process is None or not self._process.running:
            return "MetastoreServer(not running)"
        return f"MetastoreServer({self.uri}, pid={self.pid})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def uri(self) -> str:
        """``thrift://127.0.0.1:PORT``, the same after :meth:`restart`."""
        if self._port is None:
            raise LakehouseError("the metastore was not started")
        return f"thrift://{LOCALHOST}:{self._port.number}"

    @property
    def pid(self) -> int:
        """The process id of the Java process."""
        if self._process is None:
            raise LakehouseError("the metastore was not started")
        return self._process.pid

    def start(self) -> None:
        """Start the process and return when it answers a call."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process without waiting for it."""
        java = find_java()
        if self._scratch is None:
            self._scratch = ScratchDirectory("metastore")
        if self._port is None:
            self._port = ReservedPort()
        directory = self._scratch.path
        if self._process is None:
            self._process = ChildProcess("Hive metastore", directory / "metastore.log")
        self._write_configuration(directory)
        class_path = os.pathsep.join([str(directory), str(spark_home() / "jars" / "*"), *self._jars])
        command = [java, "-Xmx512m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={directory}"]
        command += [f"-Dderby.system.home={directory}", "-cp", class_path, MAIN_CLASS, "-p", str(self._port.number)]
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
        self._process.launch(command, directory=directory, environment=environment)

    def wait_until_ready(self) -> None:
        """Return when the metastore answers a call; stop it and raise if that takes too long."""
        if self._process is None:
            raise LakehouseError("the metastore was not started")
        try:
            self._process.wait_until_ready(self._answers, timeout_seconds=START_TIMEOUT_SECONDS)
        except BaseException:  # Ctrl-C as well: no server stays behind
            self.stop()
            raise

    def kill(self) -> None:
        """End the process as a crash would (SIGKILL); :meth:`restart` brings it back on the same port."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """End the process if it runs, and start it again on the same port."""
        if self._process is not None:
            self._process.stop()
        self.start()

    def stop(self) -> None:
        """End the process and give up its port and temporary files. Does nothing if it does not run."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._port is not None:
            self._port.release()
            self._port = None
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    def _answers(self) -> bool:
        port = int(self.uri.rpartition(":")[2])
        try:
            socket.create_connection((LOCALHOST, port), timeout=PROBE_TIMEOUT_SECONDS).close()
        except OSError:
            return False  # cheaper than a Thrift call, which logs that nobody listens
        sock = TSocket(LOCALHOST, port)
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
            **self._settings,
        }
        lines = [
            f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
            for name, value in properties.items()
        ]
        (directory / "hive-site.xml").write_text("\n".join(["<configuration>", *lines, "</configuration>"]))
        audit = "" if self._audit_log is None else AUDIT_SETTINGS.format(path=self._audit_log)
        (directory / "hive-log4j2.properties").write_text(LOG_SETTINGS + audit)
        (directory / "derby.properties").write_text(DERBY_SETTINGS)
