"""A real Hive metastore in its own process, from the jars that pyspark carries."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from table_writer.testing.jars import find_java, java_environment, spark_home
from table_writer.testing.processes import LOCALHOST, ServerProcess

PROBE_TIMEOUT_SECONDS: Final = 10
MAIN_CLASS: Final = "org.apache.hadoop.hive.metastore.HiveMetaStore"
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


class MetastoreServer(ServerProcess):
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

    START_TIMEOUT_SECONDS = 120

    def __init__(
        self,
        *,
        warehouse: str | None = None,
        directory: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        jars: Sequence[str | Path] = (),
        audit_log: str | Path | None = None,
    ) -> None:
        super().__init__("Hive metastore")
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
        java = find_java()
        self._write_configuration(directory)
        class_path = os.pathsep.join([str(directory), str(spark_home() / "jars" / "*"), *self._jars])
        command = [java, "-Xmx512m", f"-Djava.io.tmpdir={directory}"]
        command += [f"-Dderby.system.home={directory}", "-cp", class_path, MAIN_CLASS, "-p", str(self.port)]
        return command, java_environment()

    def _answers(self) -> bool:
        try:
            socket.create_connection((LOCALHOST, self.port), timeout=PROBE_TIMEOUT_SECONDS).close()
        except OSError:
            return False  # cheaper than a Thrift call, which logs that nobody listens
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
