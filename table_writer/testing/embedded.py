"""The embedded lakehouse: a metastore, an S3 endpoint and a Spark session that know each other."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from table_writer.checked import checked
from table_writer.errors import require_extra
from table_writer.progress import current
from table_writer.reports.listeners import show_progress
from table_writer.testing.choices import BUILT_IN_HIVE, HiveVersion, S3ServerName
from table_writer.testing.connect import ConnectServer, write_spark_conf
from table_writer.testing.jars import (
    committer_jars,
    find_java,
    hive_client_settings,
    java_environment,
    s3a_jars,
    spark_home,
)
from table_writer.testing.processes import LOCALHOST, ChildProcess, LakehouseError, ScratchDirectory
from table_writer.testing.servers import MetastoreServer, S3Server

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_logger = logging.getLogger(__name__)
API_MODE: Final = "spark.api.mode"
URIS: Final = "spark.hadoop.hive.metastore.uris"
SPARK_LOG_NAME: Final = "spark.log"
Storage = Literal["s3", "file"]
START_TIMEOUT_SECONDS: Final = 120
GATEWAY_NAME: Final = "gateway"  # file in which Spark's Java says how to reach it
MAX_SOCKET_DIRECTORY_LENGTH: Final = 60  # Unix: 104 to 108 characters with the name, for which Spark takes 42
PLAIN_COMMITTERS: Final = {  # as without the jar, with which Spark 4.1 and later write all tables by S3A's committers
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.hadoop.fs.s3a.committer.name": "file",
}


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Lakehouse:
    """A running lakehouse, made by :func:`lakehouse`; a context manager that stops it.

    Attributes
    ----------
    spark
        A session with Hive support on that metastore.
    metastore
        The metastore's process: kill it, restart it.
    warehouse
        URI of the default database, without a trailing slash: ``s3a://lakehouse/warehouse`` or ``file:///…``.
    directory
        Temporary files and logs (``spark.log``); gone after :meth:`stop`.
    """

    spark: SparkSession
    metastore: MetastoreServer
    warehouse: str
    directory: Path
    _s3_server: S3Server | None
    _s3: S3Client | None
    _connect_server: ConnectServer | None
    _undo: ExitStack

    @property
    def metastore_uri(self) -> str:
        """``thrift://127.0.0.1:PORT``."""
        return self.metastore.uri

    @property
    def s3(self) -> S3Client:
        """A boto3 client for the S3 endpoint."""
        if self._s3 is None:
            raise LakehouseError('this lakehouse was started with storage="file": it has no S3')
        return self._s3

    @property
    def s3_server(self) -> S3Server:
        """The S3 endpoint: its URL and keys, more clients."""
        if self._s3_server is None:
            raise LakehouseError('this lakehouse was started with storage="file": it has no S3')
        return self._s3_server

    @property
    def connect_server(self) -> ConnectServer:
        """The Spark Connect server: its URL; kill it, restart it."""
        if self._connect_server is None:
            raise LakehouseError("this lakehouse has a classic Spark: start it with spark.api.mode=connect")
        return self._connect_server

    @property
    def bucket(self) -> str:
        """The name of the bucket that holds the warehouse."""
        return self.s3_server.bucket

    def __repr__(self) -> str:
        s3 = f", s3={self._s3_server!r}" if self._s3_server else ""
        return f"Lakehouse(warehouse={self.warehouse!r}, metastore={self.metastore!r}{s3}, spark={pyspark.__version__})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop Spark, its Java process, the metastore and S3, and remove all files. Does nothing the second time."""
        atexit.unregister(self.stop)
        self._undo.close()


@checked
def lakehouse(
    *,
    storage: Storage = "s3",
    s3_server: S3ServerName = "moto",
    hive: HiveVersion = BUILT_IN_HIVE,
    metastore_directory: str | Path | None = None,
    spark_conf: Mapping[str, str] | None = None,
    master: str = "local[2]",
) -> Lakehouse:
    """Start a real metastore, an S3 endpoint and a Spark session, for the length of a ``with`` block.

    The start shows what it does, as a write does: a bar in a terminal or a notebook, else a line for each step. The
    variable ``TABLE_WRITER_PROGRESS=off`` silences both.

    All of it is gone afterwards, whatever ends the block. Without ``with`` (notebooks) it runs until
    :meth:`Lakehouse.stop` or the end of the interpreter. There can be one at a time in a Python process, and no other
    Spark session beside it.

    Parameters
    ----------
    storage
        ``"file"`` puts the warehouse into a temporary directory instead of S3, for a Spark without S3A jars.
    s3_server
        ``"moto"`` or ``"versitygw"``, see :class:`~table_writer.testing.S3Server`.
    hive
        The metastore's version: ``"2.3.10"``, ``"3.1.3"``, ``"4.0.1"`` or ``"4.2.0"``, see
        :class:`~table_writer.testing.MetastoreServer`. With Hive 4 Spark is given the client that it needs.
    metastore_directory
        Keeps the metastore's database there; by default it is in memory.
    spark_conf
        Spark settings, stronger than the defaults here. With ``spark.api.mode=connect`` the session is one of Spark
        Connect, with a server (Spark 4.1 or newer) in a process of its own; that needs ``pyspark[connect]``. Such a
        session hides the keys of S3: until the stop, they are in this process's environment, ``AWS_ACCESS_KEY_ID`` and
        ``AWS_SECRET_ACCESS_KEY``.
    master
        Spark's master; ``local-cluster[2,1,1024]`` runs executors in processes of their own.

    Raises
    ------
    LakehouseError
        If something is missing or does not start; the message says what to do.

    Examples
    --------
    >>> from table_writer.testing import lakehouse
    >>> with lakehouse() as lake:  # doctest: +SKIP
    ...     lake.spark.sql("CREATE TABLE t USING parquet AS SELECT 1 AS x")
    ...     lake.s3.list_objects_v2(Bucket=lake.bucket)["KeyCount"]
    """
    _refuse_second_spark()
    find_java()  # else Spark's own error is the first to show
    if (spark_conf or {}).get(API_MODE) == "connect":
        require_extra("connect", "a session of Spark Connect", "grpc", "grpc_status")
    with ExitStack() as undo, show_progress("auto", table="lakehouse", mode="start"):
        scratch = ScratchDirectory("lakehouse")
        undo.callback(scratch.remove)
        s3 = S3Server(s3_server) if storage == "s3" else None
        jars = s3a_jars() if s3 else ()
        warehouse = f"s3a://{s3.bucket}/warehouse" if s3 else (scratch.path / "warehouse").as_uri()
        if s3:
            undo.callback(s3.stop)
            s3.launch()
        hadoop = s3.hadoop_settings() if s3 else {}
        metastore = MetastoreServer(
            hive=hive, warehouse=warehouse, directory=metastore_directory, settings=hadoop, jars=jars
        )
        settings = _spark_settings(master, warehouse, jars + (committer_jars() if s3 else ()), hadoop, scratch.path)
        settings |= hive_client_settings(hive) | dict(spark_conf or {})
        # each start below goes on while the next ones begin
        started = _launch_spark(scratch.path, settings, s3, undo)
        if s3:
            s3.wait_until_ready()  # the metastore makes its warehouse there
        undo.callback(metastore.stop)
        metastore.launch()
        spark, server = started(metastore.uri)
        metastore.wait_until_ready()
        client = undo.enter_context(closing(s3.client())) if s3 else None
        lake = Lakehouse(
            spark=spark,
            metastore=metastore,
            warehouse=warehouse,
            directory=scratch.path,
            _s3_server=s3,
            _s3=client,
            _connect_server=server,
            _undo=undo.pop_all(),
        )
    atexit.register(lake.stop)
    return lake


def _refuse_second_spark() -> None:
    if SparkContext._active_spark_context is not None:
        raise LakehouseError("a Spark session runs in this process already: stop it first, the lakehouse has its own")
    if SparkContext._gateway is not None:  # idle: left by a session that was stopped, with its settings
        process = SparkContext._gateway.proc
        _forget_gateway(SparkContext._gateway)
        if process is not None:
            process.stdin.close()  # which ends it
            process.wait()


def _spark_settings(
    master: str, warehouse: str, jars: Sequence[Path], hadoop: Mapping[str, str], directory: Path
) -> dict[str, str]:
    settings = {
        "spark.master": master,
        "spark.app.name": "lakehouse",
        "spark.driver.host": LOCALHOST,
        "spark.driver.bindAddress": LOCALHOST,
        "spark.driver.defaultJavaOptions": f"-Djava.io.tmpdir={directory} -Dderby.system.home={directory}",
        "spark.local.dir": str(directory),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": warehouse,
        "spark.hadoop.hadoop.tmp.dir": str(directory),
        "spark.hadoop.hive.exec.scratchdir": str(directory / "hive"),
        **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
    }
    if jars:
        settings |= {"spark.jars": ",".join(map(str, jars)), **PLAIN_COMMITTERS}
    version = tuple(map(int, pyspark.__version__.split(".")[:2]))
    if version >= (4, 1) and len(str(directory)) < MAX_SOCKET_DIRECTORY_LENGTH:
        settings["spark.python.unix.domain.socket.enabled"] = "true"
    return settings


def _launch_spark(
    directory: Path, settings: dict[str, str], s3: S3Server | None, undo: ExitStack
) -> Callable[[str], tuple[SparkSession, ConnectServer | None]]:
    """Begin to start Spark; returns what waits for it, and takes the metastore's address."""
    if settings.pop(API_MODE, "") == "connect":
        return lambda uri: _connect(settings | {URIS: uri}, s3, undo)
    java = _launch_java(directory, settings, undo)
    return lambda uri: (_start_spark(java, directory, uri, undo), None)


def _launch_java(directory: Path, settings: Mapping[str, str], undo: ExitStack) -> ChildProcess:
    """Launch the Java that Spark will run in, as ``pyspark`` would, but as a child that surely ends."""
    write_spark_conf(directory, settings)
    environment = java_environment() | {
        "SPARK_CONF_DIR": str(directory),
        "SPARK_LOCAL_IP": LOCALHOST,
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": sys.executable,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(directory / GATEWAY_NAME),
    }
    home = spark_home()
    if settings["spark.master"].startswith("local-cluster"):
        home = _link_spark_home(home, directory / "spark")
        environment["SPARK_HOME"] = str(home)
    java = ChildProcess("Spark's Java", directory / SPARK_LOG_NAME)
    undo.callback(java.stop)
    java.launch([str(home / "bin" / "spark-submit"), "pyspark-shell"], directory=Path.cwd(), environment=environment)
    return java


def _link_spark_home(home: Path, links: Path) -> Path:
    """Make a Spark home of links, for a local cluster: it works in ``work/`` there, not inside the installed Spark."""
    links.mkdir()
    for entry in home.iterdir():
        if entry.name != "work":
            (links / entry.name).symlink_to(entry)
    return links


def _start_spark(java: ChildProcess, directory: Path, metastore_uri: str, undo: ExitStack) -> SparkSession:
    current().begin(f"starting Spark {pyspark.__version__}")
    connection = directory / GATEWAY_NAME
    java.wait_until_ready(connection.is_file, timeout_seconds=START_TIMEOUT_SECONDS)
    with connection.open("rb") as file:
        port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
    connection.unlink()
    if threading.current_thread() is threading.main_thread():
        undo.callback(_restore_interrupt, signal.getsignal(signal.SIGINT))  # Spark sets its own
    environment = {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": secret,
        "PYSPARK_PYTHON": sys.executable,
    }
    with _environment(environment):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        undo.callback(_forget_gateway, gateway)
        conf = SparkConf(loadDefaults=False).set(URIS, metastore_uri)
        context = SparkContext(conf=conf, gateway=gateway)
    undo.callback(context.stop)
    session = SparkSession.builder.getOrCreate()
    undo.callback(_stop_spark, session)
    return session


def _connect(
    settings: Mapping[str, str], s3: S3Server | None, undo: ExitStack
) -> tuple[SparkSession, ConnectServer | None]:
    """Start a server, and a session of it; PySpark then takes every session of this process for one of Connect."""
    server = ConnectServer(settings)
    undo.enter_context(_environment(s3.environment() if s3 else {}))  # a client's session hides keys
    undo.callback(server.stop)
    server.start()
    undo.callback(os.environ.pop, "SPARK_CONNECT_MODE_ENABLED", None)
    builder: Any = SparkSession.builder  # whose type in Spark 3.5 has no remote()
    session: SparkSession = builder.remote(server.url).getOrCreate()
    undo.callback(_stop_client, session)
    return session, server


def _stop_client(session: Any) -> None:
    """End the session; where the server has ended, PySpark would try to tell it for ten minutes."""
    session.client._retry_policies = []
    session.stop()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a block, and leave alone what else is set in it: Spark keeps settings there."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _restore_interrupt(handler: Any) -> None:
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _stop_spark(session: SparkSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Spark's, when its Java process has ended
        try:
            session.stop()
        except (Py4JError, OSError):
            _logger.warning("Spark had ended before it was stopped", exc_info=True)
            SparkSession._instantiatedSession = None
            SparkSession._activeSession = None


def _forget_gateway(gateway: Any) -> None:
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
