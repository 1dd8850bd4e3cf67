"""Can one metastore call of a reader see half of a switch? Measured, for the database behind a Hive 2.3.10 metastore.

A writer moves all partitions of a table from generation to generation, each time in ONE ``alter_partitions``. A reader
asks for all partitions in one call. An answer whose locations are of two generations is mixed.

Run: ``python benchmarks/metastore_isolation.py --database derby|postgresql|mariadb``. Derby runs in memory. For
the others a private server is started and removed again, if its programs are installed (Debian packages ``postgresql``
and ``mariadb-server``). Or name an *empty* database of your own with ``--jdbc-url`` and ``--jdbc-user``, the password
in ``METASTORE_DB_PASSWORD``. The JDBC driver is downloaded unless ``--jdbc-jar`` names it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pwd
import re
import secrets
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.errors import TableWriterError
from table_writer.metastore.connection import Connection
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import Partition, PartitionChange, Table, TableName
from table_writer.testing import MetastoreServer
from table_writer.testing.jars import find_java, spark_home
from table_writer.testing.processes import LOCALHOST, ChildProcess, LakehouseError, ReservedPort, ScratchDirectory

SERVER_START_SECONDS: Final = 60
CALL_TIMEOUT_SECONDS: Final = 300  # on Derby, readers can make the writer wait for as long as they go on
ALL: Final = -1
PROGRAM_DIRECTORIES: Final = (*map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), "/usr/sbin")
READY: Final = re.compile(r"ready (to accept|for) connections")
FELL_BACK: Final = re.compile(r".*(?:direct SQL is disabled|Falling back to ORM).*", flags=re.IGNORECASE)
FIGURES: Final = {"numFiles": "1", "totalSize": "1"}  # with these, the metastore lists no location
PARQUET: Final = "org.apache.hadoop.hive.ql.io.parquet"
Read: TypeAlias = Callable[[], Iterable[str]]  # gives the locations of all partitions


# useMysqlMetadata: Hive 2.3 knows a database by the name that its driver tells, and does not know "MariaDB".
URLS: Final = {
    "postgresql": "jdbc:postgresql://{address}/postgres",
    "mariadb": "jdbc:mariadb://{address}/metastore?useMysqlMetadata=true",
}
MARIADB: Final = "org.mariadb.jdbc"
DRIVERS: Final = {"postgresql": "org.postgresql.Driver", "mariadb": f"{MARIADB}.Driver"}
JARS: Final = {"postgresql": "org.postgresql:postgresql:42.7.4", "mariadb": f"{MARIADB}:mariadb-java-client:2.7.12"}


@dataclass(slots=True)
class Calls:
    answered: int = 0
    mixed: int = 0
    failed: int = 0


def program(name: str) -> str:
    if found := shutil.which(name) or shutil.which(name, path=os.pathsep.join(PROGRAM_DIRECTORIES)):
        return found
    raise SystemExit(f"no program {name}: install Debian's postgresql or mariadb-server, or give --jdbc-url")


def as_user(user: str) -> list[str]:
    """Return what to put before a command, since these servers refuse to run as root."""
    if os.getuid() != 0:
        return []
    return [program("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups", "--pdeathsig=KILL", "--"]


def data_directory(scratch: Path, user: str) -> Path:
    """Make a directory that ``user`` owns and can reach."""
    directory = scratch / "server"
    directory.mkdir(mode=0o700)
    if os.getuid() == 0:
        scratch.chmod(0o711)
        os.chown(directory, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    return directory


def run(command: Sequence[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LakehouseError(f"{command} failed\n{(done.stdout + done.stderr)[-4000:]}")


def postgresql_command(directory: Path, port: int, password: str) -> list[str]:
    """Make the files of a server, and return how to start it."""
    secret = directory.parent / "password"
    secret.write_text(password)
    shutil.chown(secret, directory.owner())
    options = ["--username=metastore", f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]
    run([*as_user("postgres"), program("initdb"), "-D", str(directory / "data"), *options], directory)
    options = ["-c", f"listen_addresses={LOCALHOST}", "-c", "unix_socket_directories="]
    return [*as_user("postgres"), program("postgres"), "-D", str(directory / "data"), "-p", str(port), *options]


def mariadb_command(directory: Path, port: int, password: str) -> list[str]:
    """Make the files of a server, and return how to start it; latin1 as Hive asks for, else its keys are too long."""
    start = directory.parent / "start.sql"
    account = f"metastore@'{LOCALHOST}'"
    start.write_text(
        "CREATE DATABASE metastore CHARACTER SET latin1;\n"
        f"CREATE USER {account} IDENTIFIED BY '{password}';\nGRANT ALL ON metastore.* TO {account};\n"
    )
    start.chmod(0o600)
    shutil.chown(start, directory.owner())
    data = ["--no-defaults", f"--datadir={directory / 'data'}"]
    install = [program("mariadb-install-db"), *data, "--auth-root-authentication-method=socket", "--skip-test-db"]
    run([*as_user("mysql"), *install], directory)
    options = [f"--port={port}", f"--bind-address={LOCALHOST}", "--skip-name-resolve", f"--init-file={start}"]
    options += [f"--socket={directory / 'socket'}", f"--pid-file={directory / 'pid'}"]
    return [*as_user("mysql"), program("mariadbd"), *data, *options]


@contextmanager
def private_server(name: str) -> Iterator[tuple[str, str]]:
    """Start a server of our own on a free port, and take all of it away again; yields its address and password."""
    password = secrets.token_hex()
    user, command_for = {"postgresql": ("postgres", postgresql_command), "mariadb": ("mysql", mariadb_command)}[name]
    with ExitStack() as undo:
        scratch = ScratchDirectory(name)
        undo.callback(scratch.remove)
        port = ReservedPort()
        undo.callback(port.release)
        directory = data_directory(scratch.path, user)
        command = command_for(directory, port.number, password)
        server = ChildProcess(name, scratch.path / "server.log")
        undo.callback(server.stop)
        server.launch(command, directory=directory)
        server.wait_until_ready(lambda: READY.search(server.log_path.read_text()), timeout_seconds=SERVER_START_SECONDS)
        yield f"{LOCALHOST}:{port.number}", password


def download(coordinate: str, directory: Path) -> str:
    """Let the Ivy inside Spark fetch one jar."""
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    command = [find_java(), "-jar", str(ivy), "-dependency", *coordinate.split(":"), "-notransitive", "-warn"]
    command += ["-confs", "default", "-types", "jar", "bundle", "-retrieve", str(directory / "[artifact].[ext]")]
    run(command, directory)
    return str(next(directory.glob("*.jar")))


@contextmanager
def database(chosen: argparse.Namespace) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield what the metastore must know: settings and jars."""
    name = chosen.database
    if name == "derby":
        yield {}, []
        return
    with ExitStack() as undo:
        scratch = ScratchDirectory("jdbc")
        undo.callback(scratch.remove)
        jar = chosen.jdbc_jar or download(JARS[name], scratch.path)
        url, user, password = chosen.jdbc_url, chosen.jdbc_user, os.environ.get("METASTORE_DB_PASSWORD", "")
        if not url:
            address, password = undo.enter_context(private_server(name))
            url, user = URLS[name].format(address=address), "metastore"
        driver = chosen.jdbc_driver or DRIVERS[name]
        described = {"URL": url, "DriverName": driver, "UserName": user, "Password": password}
        yield {f"javax.jdo.option.Connection{one}": value for one, value in described.items()}, [jar]


def create_table(backdoor: Connection, metastore: HiveMetastore, root: str, partition_count: int) -> Table:
    name = TableName("default", f"t{uuid.uuid4().hex[:12]}")
    storage = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("id", "bigint", None)],
        location=f"{root}/table",
        inputFormat=f"{PARQUET}.MapredParquetInputFormat",
        outputFormat=f"{PARQUET}.MapredParquetOutputFormat",
        serdeInfo=ttypes.SerDeInfo(None, f"{PARQUET}.serde.ParquetHiveSerDe", {}),
    )
    native = ttypes.Table(tableName=name.name, dbName=name.database, owner="", tableType="EXTERNAL_TABLE", sd=storage)
    native.partitionKeys, native.parameters = [ttypes.FieldSchema("dt", "string", None)], {"EXTERNAL": "TRUE"}
    backdoor.change("create_table", native, table=str(name))
    table = metastore.get_table(name)
    assert table is not None
    new = [Partition(values=(f"d{n:06}",), location=f"{root}/g0/", parameters=FIGURES) for n in range(partition_count)]
    metastore.add_partitions(table, new)
    return table


def read_until(stop: threading.Event, reads: Mapping[str, Read], results: Mapping[str, Calls], count: int) -> None:
    """Read in turns; several readers at once would take the writer's share of a small machine."""
    for method, read in itertools.cycle(reads.items()):
        if stop.is_set():
            return
        calls = results[method]
        try:
            locations = list(read())
        except TableWriterError as error:
            calls.failed += 1
            print(f"a reader: {str(error)[:300]}", file=sys.stderr)
            continue
        if len(locations) != count:
            raise AssertionError(f"{len(locations)} partitions instead of {count}")  # ends the reader, loudly
        calls.answered += 1
        calls.mixed += len(set(locations)) > 1


def measure(uri: str, root: str, partition_count: int, seconds: float) -> tuple[Mapping[str, Calls], int, int]:
    """Return what became of the readers' calls, and how many generations were written and refused."""
    settings = MetastoreSettings(uris=(uri,), timeout_seconds=CALL_TIMEOUT_SECONDS, partition_batch=partition_count)
    writer, backdoor = HiveMetastore(settings), Connection(settings)
    table = create_table(backdoor, writer, root, partition_count)
    values = [(f"d{n:06}",) for n in range(partition_count)]
    partitions = list(writer.get_partitions(table, values).values())
    name = (table.name.database, table.name.name)

    def by_names() -> Read:
        reader = HiveMetastore(settings)
        return lambda: (one.location for one in reader.get_partitions(table, values).values())

    def by(method: str, *arguments: Any) -> Read:
        reader = Connection(settings)
        return lambda: (one.sd.location for one in reader.read(method, *name, *arguments, table=str(table.name)))

    reads = {
        "get_partitions_by_names": by_names(),
        "get_partitions": by("get_partitions", ALL),
        "get_partitions_by_filter": by("get_partitions_by_filter", 'dt >= "d"', ALL),
    }
    results = {method: Calls() for method in reads}
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)  # also if the writer hangs
    timer.start()
    reader = threading.Thread(target=read_until, args=(stop, reads, results, partition_count), daemon=True)
    reader.start()
    tried = refused = 0
    try:
        while not stop.is_set():
            tried += 1
            location = f"{root}/g{tried}/"
            try:
                changes = [PartitionChange(partition=one, location=location, set_parameters={}) for one in partitions]
                writer.alter_partitions(table, changes)
            except TableWriterError as error:
                refused += 1
                print(f"the writer: {str(error)[:300]}", file=sys.stderr)
    finally:
        stop.set()
        timer.cancel()
        reader.join()
    backdoor.change("drop_table", *name, False, table=str(table.name))
    return results, tried - refused, refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["derby", "postgresql", "mariadb"], default="derby")
    parser.add_argument("--isolation", choices=["default", "repeatable-read"], default="default")
    parser.add_argument("--direct-sql", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--setting", action="append", default=[], help="one more of hive-site.xml, name=value")
    parser.add_argument("--json", action="store_true", help="instead of a table, with figures by method")
    for option in ("url", "driver", "user", "jar"):
        parser.add_argument(f"--jdbc-{option}", default="")
    chosen = parser.parse_args()
    settings = {"hive.metastore.try.direct.sql": str(chosen.direct_sql).lower()}
    if chosen.isolation != "default":
        settings["datanucleus.transactionIsolation"] = chosen.isolation
    settings |= dict(entry.split("=", 1) for entry in chosen.setting)
    with database(chosen) as (connection, jars), MetastoreServer(settings=connection | settings, jars=jars) as server:
        if jars:
            server.restart()  # at repeatable-read, MariaDB fails reads of tables that were made a moment ago
        log = server._process.log_path
        start = log.stat().st_size
        root = (log.parent / "data").as_uri()
        results, generations, refused = measure(server.uri, root, chosen.partitions, chosen.seconds)
        fell_back = FELL_BACK.findall(log.read_bytes()[start:].decode(errors="replace"))
    direct_sql = "off" if not chosen.direct_sql else f"on, given up {len(fell_back)} times" if fell_back else "on"
    row = {"database": chosen.database, "isolation": chosen.isolation, "direct SQL": direct_sql}
    sys.stderr.writelines(f"{line[:300]}\n" for line in fell_back)
    row["reader calls"] = sum(calls.answered for calls in results.values())
    row["mixed"] = sum(calls.mixed for calls in results.values())
    row["failed"] = sum(calls.failed for calls in results.values()) + refused
    row["generations"] = generations
    if chosen.json:
        print(json.dumps({**row, "by method": {name: asdict(calls) for name, calls in results.items()}}))
    else:
        print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}\n| {' | '.join(map(str, row.values()))} |")


if __name__ == "__main__":
    main()
