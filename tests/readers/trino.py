"""A real Trino in a process of its own: the last version for Java 17, from what is in Maven's repository.

``python -m tests.readers.trino`` fetches its files, 260 MB once per user, as the fixtures do at their first use.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import trino

from table_writer.testing import Lakehouse
from table_writer.testing.jars import MIN_JAVA_VERSION, find_java, java_environment, resolve_jars
from table_writer.testing.processes import LOCALHOST, ServerProcess

VERSION: Final = "435"
ENGINE: Final = Path(__file__).with_name("trino_jars.txt")
START: Final = """\
/** Starts Trino as its own launcher does, whose jar is in no repository; compiled without it, for any Java. */
public class Start {
    public static void main(String[] args) throws Exception {
        Class<?> server = Class.forName("io.trino.server.Server");
        server.getMethod("start", String.class).invoke(server.getConstructor().newInstance(), args[0]);
    }
}
"""
CACHE_SECONDS: Final = int(os.environ.get("TRINO_CACHE_SECONDS", "12"))  # people set minutes
HIVE: Final = {
    "connector.name": "hive",
    "hive.metastore": "thrift",
    "hive.parquet.time-zone": "UTC",
    "hive.orc.time-zone": "UTC",
    "hive.timestamp-precision": "MICROSECONDS",
}
CATALOGS: Final[Mapping[str, Mapping[str, str]]] = {
    "hive": HIVE,  # its caches at their defaults: what the metastore says of statistics stays for five minutes
    "remembers_partitions": {**HIVE, "hive.metastore-cache-ttl": f"{CACHE_SECONDS}s"},
    "remembers_tables": {
        **HIVE,
        "hive.metastore-cache-ttl": f"{CACHE_SECONDS}s",
        "hive.metastore-cache.cache-partitions": "false",
    },
    "remembers_files": {
        **HIVE,
        "hive.file-status-cache-tables": "*",
        "hive.file-status-cache-expire-time": f"{CACHE_SECONDS}s",
    },
}
"""Catalogs over one metastore, with more properties of each."""


class TrinoServer(ServerProcess):
    """A coordinator that is its own worker, with some catalogs over a lakehouse's metastore and S3."""

    START_TIMEOUT_SECONDS = 240
    VERSION: ClassVar[str] = VERSION
    JAVA: ClassVar[int] = MIN_JAVA_VERSION
    CATALOGS: ClassVar[Mapping[str, Mapping[str, str]]] = CATALOGS

    def __init__(self, lake: Lakehouse) -> None:
        super().__init__("Trino")
        self._lake = lake

    def connect(self, catalog: str = "hive") -> trino.dbapi.Connection:
        """Return a new connection; one is for one thread."""
        return trino.dbapi.connect(
            host=LOCALHOST, port=self.port, user="reader", catalog=catalog, schema="default", timezone="UTC"
        )

    def rows(self, sql: str, catalog: str = "hive") -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, as Python's values."""
        for _ in range(60):  # it answers before it has found itself as a worker
            try:
                with self.connect(catalog) as connection:
                    return [tuple(row) for row in connection.cursor().execute(sql).fetchall()]
            except trino.exceptions.TrinoQueryError as error:
                if error.error_name != "NO_NODES_AVAILABLE":
                    raise
            time.sleep(0.5)
        raise AssertionError("Trino has found no worker in half a minute")

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        engine, plugins = self._jars(directory)
        (directory / "Start.java").write_text(START)
        compiler = [find_java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "Start.java"]
        subprocess.run(compiler, cwd=directory, env=java_environment(), capture_output=True, check=True)
        (directory / "catalog").mkdir(exist_ok=True)
        _write(directory / "config.properties", self._server_properties(directory, plugins))
        for name, more in self.CATALOGS.items():
            _write(directory / "catalog" / f"{name}.properties", self._catalog_properties() | more)
        options = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "nio")]
        options += ["-Djdk.attach.allowAttachSelf=true", "-Duser.timezone=UTC", f"-Djava.io.tmpdir={directory}"]
        options += ["-Xmx1500m", f"-Dconfig={directory / 'config.properties'}"]
        class_path = ":".join(map(str, (directory, *engine)))
        return [find_java(self.JAVA), *options, "-cp", class_path, "Start", self.VERSION], java_environment()

    def _jars(self, directory: Path) -> tuple[Sequence[Path], Path]:
        return fetched()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOCALHOST}:{self.port}/v1/info", timeout=5) as answer:
                return not json.load(answer)["starting"]
        except OSError:
            return False

    def _server_properties(self, directory: Path, plugins: Path) -> dict[str, str]:
        return {
            "node.environment": "reader",
            "node.id": "reader",
            "node.internal-address": LOCALHOST,
            "node.bind-ip": LOCALHOST,
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(self.port),
            "discovery.uri": f"http://{LOCALHOST}:{self.port}",
            "plugin.dir": str(plugins),
            "catalog.config-dir": str(directory / "catalog"),
            "query.max-memory": "500MB",
            "query.max-memory-per-node": "300MB",
            "memory.heap-headroom-per-node": "200MB",
        }

    def _catalog_properties(self) -> dict[str, str]:
        s3 = self._lake.s3_server
        return {
            "hive.metastore.uri": self._lake.metastore_uri,
            "fs.hadoop.enabled": "false",
            "fs.native-s3.enabled": "true",
            "s3.endpoint": s3.endpoint_url,
            "s3.aws-access-key": s3.access_key,
            "s3.aws-secret-key": s3.secret_key,
            "s3.path-style-access": "true",
            "s3.region": "us-east-1",
        }


def fetched() -> tuple[Sequence[Path], Path]:
    """Return the engine's jars and the directory of its plugins."""
    engine = resolve_jars("trino", ENGINE.read_text().split(), transitive=False)
    (packed,) = resolve_jars("trino-hive", [f"io.trino:trino-hive:{VERSION}:zip"], transitive=False)
    plugins = packed.parent.with_name(f"{packed.parent.name}-unpacked")
    if not plugins.is_dir():
        work = plugins.with_name(f"{plugins.name}.tmp")
        shutil.rmtree(work, ignore_errors=True)
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(work)
        work.rename(plugins)
    return engine, plugins


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


if __name__ == "__main__":
    print(fetched()[1])
