"""Nothing that was opened survives a fork: real forks of every kind of service object."""

from __future__ import annotations

import copy
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import table_writer
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import ConflictError
from table_writer.jobs.running_write import RunningWrite
from table_writer.maintenance import Maintenance
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.process import PerProcess
from table_writer.model.table import Column, Table, TableName
from table_writer.progress import Progress, WriteProgress, current, report_progress
from table_writer.protocol.table.services import Services
from table_writer.reports.listeners import BarListener
from table_writer.storage.local.store import LocalStore
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.settings import S3Settings, StaticKeys
from table_writer.storage.s3.store import S3Store
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.memory_store import MemoryStore
from tests.forked import MetastoreOfNames, StoreOfNames, in_child, serving
from tests.publish.world import MetastoreDouble

ROUNDS = 5


def name(text: str) -> TableName:
    return TableName("mart", text)


@pytest.fixture
def hive(tmp_path: Path) -> Iterator[MetastoreOfNames]:
    with serving(MetastoreOfNames(f"file:{tmp_path}")) as fake:
        yield fake


@pytest.fixture
def s3() -> Iterator[StoreOfNames]:
    with serving(StoreOfNames()) as fake:
        yield fake


@pytest.fixture
def metastore(hive: MetastoreOfNames) -> Iterator[HiveMetastore]:
    with HiveMetastore(MetastoreSettings(uris=(hive.uri,))) as metastore:
        yield metastore


@pytest.fixture
def store(s3: StoreOfNames) -> S3Store:
    keys = StaticKeys(access_key="AKIAME", secret_key="hush")
    settings = S3Settings(
        bucket="mart",
        endpoint_url=s3.url,
        region="us-east-1",
        path_style=True,
        credentials=(keys,),
        requests=RequestSettings(max_attempts=1),
    )
    return S3Store(settings)


def names(metastore: HiveMetastore, table: str) -> str:
    return metastore.get_partition_names(name(table))[0][0]


def body(store: S3Store, key: str) -> str:
    stored = store.get(key)
    assert stored is not None
    return stored.body.decode()


def test_two_forked_processes_never_share_a_connection(hive: MetastoreOfNames, metastore: HiveMetastore) -> None:
    names(metastore, "parent")
    for number in range(ROUNDS):
        with ThreadPoolExecutor(1) as pool:
            mine = pool.submit(lambda: [names(metastore, "parent") for _ in range(20)])
            theirs = in_child(lambda n=number: {names(metastore, f"child{n}") for _ in range(20)})  # type: ignore[misc]
            assert set(mine.result()) == {"parent"}
        assert theirs == f"{{'child{number}'}}"
    assert len(hive.ports("parent")) == 1, "the parent goes on with its own, which no child has ended"
    assert len(hive.ports("child")) == ROUNDS
    assert not hive.ports("parent") & hive.ports("child")


def test_a_child_says_nothing_on_its_parents_connection_when_it_closes_and_ends(
    hive: MetastoreOfNames, metastore: HiveMetastore
) -> None:
    names(metastore, "parent")
    (port,) = hive.ports()
    in_child(metastore.close)
    in_child(lambda: metastore.__exit__(None, None, None))
    names(metastore, "parent")
    assert hive.ports() == {port}
    assert port not in hive.ended


def test_a_child_has_no_copy_of_its_parents_connection(hive: MetastoreOfNames, metastore: HiveMetastore) -> None:
    """A copy would keep the server's end open when the parent has closed its own."""
    names(metastore, "parent")

    def sockets() -> set[str]:
        return {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}

    ours = {one for one in sockets() if one.startswith("socket:")}
    (wire,) = [line.wire for line in metastore._connection._lines.own_values()]
    assert wire is not None
    inode = f"socket:[{os.fstat(wire._socket.fileno()).st_ino}]"
    assert inode in ours
    assert in_child(lambda: inode in sockets()) == "False"


def test_a_child_forked_while_another_thread_waits_for_an_answer_asks_for_itself(
    hive: MetastoreOfNames, metastore: HiveMetastore
) -> None:
    with hive.busy_with("slow", lambda: names(metastore, "slow")) as answers:
        assert in_child(lambda: (names(metastore, "child"), metastore.call_counts()["get_partition_names"])) == (
            "('child', 2)"
        )
        assert not answers
    assert answers == ["slow"]
    assert hive.ports("slow") | hive.ports("child") == hive.ports()
    assert len(hive.ports()) == 2


def test_a_change_that_was_under_way_at_the_fork_is_never_sent_by_the_child(
    hive: MetastoreOfNames, metastore: HiveMetastore
) -> None:
    """The child is forked by the very thread that is about to send."""
    table = metastore.get_table(name("orders"))
    assert table is not None
    found: list[str] = []

    def fork() -> None:
        found.append(in_child(lambda: names(metastore, "child")))

    with pytest.raises(Exception, match="drop_partition"):  # which the fake does not know
        metastore.drop_partition(table, ("1",), before_send=fork)
    assert found == ["child"]
    assert not hive.ports("orders") & hive.ports("child")


def test_two_forked_processes_never_share_a_client_of_s3(s3: StoreOfNames, store: S3Store) -> None:
    body(store, "parent")
    for number in range(2):
        assert in_child(lambda n=number: {body(store, f"child{n}") for _ in range(5)}) == f"{{'child{number}'}}"  # type: ignore[misc]
        assert body(store, "parent") == "parent"
    assert len(s3.ports("parent")) == 1
    assert not s3.ports("parent") & s3.ports("child")


def test_a_child_forked_while_another_thread_waits_for_an_object_gets_its_own(s3: StoreOfNames, store: S3Store) -> None:
    with s3.busy_with("slow", lambda: body(store, "slow")) as answers:
        assert in_child(lambda: (body(store, "child"), store.request_counts()["GetObject"])) == "('child', 2)"
    assert answers == ["slow"]
    assert not s3.ports("slow") & s3.ports("child")


def test_services_and_maintenance_open_their_own_after_a_fork(
    hive: MetastoreOfNames, s3: StoreOfNames, tmp_path: Path
) -> None:
    keeper = Maintenance(hive.uri)
    services = Services(
        SessionSettings(hadoop={"hive.metastore.uris": hive.uri}, application_id=""), TableWriterConfig()
    )
    assert keeper.history("mart.parent").versions == ()
    opened = services.open_table(name("parent"))

    def child() -> object:
        again = services.open_table(name("child"))
        assert again.store is opened.store, "what is opened is its own, the rest is shared as before"
        return keeper.history("mart.child").versions, opened.identity["pid"] == str(os.getpid())

    assert in_child(child) == "((), True)"
    assert opened.identity["pid"] == str(os.getpid())
    assert not hive.ports("parent") & hive.ports("child")
    assert len(hive.ports("parent")) == 2


def held_by_another_thread(lock: Any) -> Callable[[], None]:
    """Let another thread hold a lock; returns how to end that."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait(60)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert held.wait(60)

    def end() -> None:
        over.set()
        thread.join()

    return end


def counting_store(tmp_path: Path) -> tuple[Any, Callable[[], object]]:
    store = LocalStore()
    return store._counter._lock, lambda: store.put(f"{str(tmp_path)[1:]}/a", b"1")


def memory_store(tmp_path: Path) -> tuple[Any, Callable[[], object]]:
    store = MemoryStore()
    return store._lock, lambda: store.put("a", b"1")


def memory_metastore(tmp_path: Path) -> tuple[Any, Callable[[], object]]:
    metastore = MemoryMetastore()
    return metastore._lock, lambda: metastore.get_table(name("orders"))


def nobodys_progress(tmp_path: Path) -> tuple[Any, Callable[[], object]]:
    return current()._lock, current().advance


def own_progress(tmp_path: Path) -> tuple[Any, Callable[[], object]]:
    progress = WriteProgress(print)
    return progress._lock, lambda: progress.end("failed")


@pytest.mark.parametrize("made", [counting_store, memory_store, memory_metastore, nobodys_progress, own_progress])
def test_a_lock_that_another_thread_held_at_the_fork_stops_no_child(
    made: Callable[[Path], tuple[Any, Callable[[], object]]], tmp_path: Path
) -> None:
    lock, use = made(tmp_path)
    end = held_by_another_thread(lock.get())
    try:
        in_child(use)
    finally:
        end()
    use()


def test_a_value_that_another_thread_was_making_at_the_fork_is_made_again_in_the_child() -> None:
    begun, over = threading.Event(), threading.Event()

    def make() -> int:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert over.wait(60)
        return os.getpid()

    holder = PerProcess(make)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(holder.get)
        assert begun.wait(60)
        assert in_child(lambda: holder.get() == os.getpid()) == "True"
        over.set()
        assert made.result() == holder.get() == os.getpid()


@pytest.fixture
def world(tmp_path: Path) -> MetastoreDouble:
    """Files, which parent and child both see."""
    root = f"file://{tmp_path}/orders/"
    world = MetastoreDouble(store=LocalStore(), metastore=MemoryMetastore(), root=root)
    world.metastore.create_table(
        Table(
            name=world.name,
            kind="EXTERNAL_TABLE",
            location=root,
            columns=(Column("id", "bigint"),),
            partition_columns=(Column("dt", "string"),),
        )
    )
    return world


@pytest.mark.parametrize("ending", [SystemExit, ValueError, KeyboardInterrupt])
def test_a_child_that_leaves_a_running_write_leaves_it_to_its_parent(
    world: MetastoreDouble, ending: type[BaseException]
) -> None:
    signs: list[list[str]] = []

    def registrations() -> list[str]:
        return [info.key for info in world.store.list(world.layout.registrations.key)]

    def fork_and_fail() -> None:
        signs.append(registrations())
        in_child(lambda: leave(ending, write))
        signs.append(registrations())

    with RunningWrite(world.services(), plan := world.plan()) as write:
        messages = (world._upload(plan, {"d1": frozenset({1})}),)
        write.complete(messages)
        fork_and_fail()
        files = [info.key for info in world.store.list(plan.data_location.key)]
    assert len(files) == 1, "the child discarded nothing"
    assert len(signs[0]) == 1
    assert signs[1] == signs[0], "the write is still registered"
    assert registrations() == []


def leave(ending: type[BaseException], write: RunningWrite) -> None:
    """Do what the block does into which the child was forked."""
    raised = ending()
    write.__exit__(ending, raised, None)


def test_a_child_never_publishes_its_parents_write(world: MetastoreDouble) -> None:
    def publish_in_child() -> object:
        with pytest.raises(ConflictError, match="fork"), write.claiming(None):  # type: ignore[arg-type]
            pass
        return "refused"

    with RunningWrite(world.services(), world.plan()) as write:
        assert in_child(publish_in_child) == "refused"


def test_a_child_shows_nothing_of_its_parents_write(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    bar = BarListener()
    bar(Progress(table="t", mode="append", step="upload", done=1, total=3, unit="tasks"))
    drawn = bar._bar.get()

    def child() -> object:
        told.clear()
        drawn.close()  # what its destructor does
        progress.end("failed")
        return told, drawn.disable, bar._bar.own_values()

    progress = WriteProgress(lambda now: told.append(now.state))
    capfd.readouterr()
    with report_progress(progress):
        progress._tell()
        assert in_child(child) == "([], True, ())"
        assert capfd.readouterr().err == ""
    assert told == ["running", "done"]
    bar(Progress(table="t", mode="append", step="publish", state="done"))


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_what_a_process_has_opened_cannot_be_handed_to_another(
    copied: Callable[[object], object], metastore: HiveMetastore, store: S3Store, hive: MetastoreOfNames
) -> None:
    for one in (metastore, store, LocalStore()):
        with pytest.raises(TypeError, match="hand over the settings"):
            copied(one)
    for one in (Maintenance(hive.uri), MemoryStore(), MemoryMetastore(), WriteProgress(None)):
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            copied(one)


LOCAL_TO_A_CALL = {
    "model/process.py": "the holder itself, which makes a new one",
    "jobs/complete.py": "of one completion",
    "jobs/upload/parts.py": "of one task of an executor",
    "protocol/log/registration.py": "asked only by the process that made it",
    "progress.py": "asked only by the process that made it",
    "metastore/connection.py": "of a line, which a process holds",
    "storage/s3/credentials.py": "of a client, which a process holds",
    "doctor/certify_actors.py": "of one certification, which is refused in a child",
    "many/round.py": "the event of one call; a fork in the middle of it has none of its threads",
}
"""Where locks, events, pools and threads are made without a PerProcess, and why a fork does them no harm."""


def test_every_lock_that_outlives_a_call_is_held_by_a_process() -> None:
    package = Path(table_writer.__file__).parent
    made = re.compile(r"threading\.(Lock|RLock|Condition|Event|Semaphore)\(")
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "testing" not in path.parts and made.search(path.read_text())
    }
    assert found == set(LOCAL_TO_A_CALL)
