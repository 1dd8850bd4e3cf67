"""A Spark Connect server in its own process: what a client's session talks to."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from table_writer.testing.jars import java_environment, spark_home
from table_writer.testing.processes import LOCALHOST, ServerProcess
from table_writer.testing.servers import LOG_SETTINGS

MAIN_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
PROBE_TIMEOUT_SECONDS: Final = 5


class ConnectServer(ServerProcess):
    """A Spark Connect server (Spark 4.1 or newer) on a free port of 127.0.0.1; its sessions are gone with its process.

    Parameters
    ----------
    settings
        Spark's settings; they go into a file that only this user can read, so that no key shows on a command line.

    Examples
    --------
    >>> from table_writer.testing.connect import ConnectServer
    >>> with ConnectServer({"spark.master": "local[2]"}) as server:  # doctest: +SKIP
    ...     print(server.url)
    sc://127.0.0.1:40321
    """

    START_TIMEOUT_SECONDS = 120

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__("Spark Connect server")
        self.settings: Final = dict(settings)

    def __repr__(self) -> str:
        return f"ConnectServer({self.url}, pid={self.pid})" if self.running else "ConnectServer(not running)"

    @property
    def url(self) -> str:
        """``sc://127.0.0.1:PORT``, the same after :meth:`restart`."""
        return f"sc://{LOCALHOST}:{self.port}"

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        binding = {"spark.connect.grpc.binding.address": LOCALHOST, "spark.connect.grpc.binding.port": str(self.port)}
        write_spark_conf(directory, self.settings | binding)
        environment = java_environment() | {
            "SPARK_CONF_DIR": str(directory),
            "SPARK_LOCAL_IP": LOCALHOST,
            "PYSPARK_PYTHON": sys.executable,
        }
        for name in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"):  # which are the client's
            environment.pop(name, None)
        return [str(spark_home() / "bin" / "spark-submit"), "--class", MAIN_CLASS], environment

    def _answers(self) -> bool:
        try:
            socket.create_connection((LOCALHOST, self.port), timeout=PROBE_TIMEOUT_SECONDS).close()
        except OSError:
            return False
        return True


def write_spark_conf(directory: Path, settings: Mapping[str, str]) -> None:
    """Put what Spark reads at its start into its SPARK_CONF_DIR."""
    lines = [f"{name} {_escape_property(value)}\n" for name, value in settings.items()]
    (directory / "spark-defaults.conf").write_text("".join(lines))  # in a file, keys don't show up on a command line
    (directory / "log4j2.properties").write_text(LOG_SETTINGS)


def _escape_property(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
