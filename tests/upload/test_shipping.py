"""When executors are prepared, and what is said of those that cannot run a write."""

from __future__ import annotations

import json
import os
import pickle
import re
import site
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from importlib.metadata import requires
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import grimp
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from table_writer.jobs.upload.task import map_function
from table_writer.model.partition_value import Spellings
from table_writer.model.upload_spec import UploadSpec
from table_writer.spark import executors, shipping
from table_writer.spark.executors import REQUIRED, workers_are_like_us
from table_writer.spark.shipping import NOT_OF_WRITES, package_of_streams, package_of_tasks
from table_writer.storage.azure.settings import AccountKey, AzureSettings
from table_writer.storage.gcs.settings import GcsSettings, UserLogin
from table_writer.storage.kinds import KINDS
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.parquet_rows import row_reader
from table_writer.storage.s3.settings import S3Settings, StaticKeys
from table_writer.version import FILES_OF_TASKS

ROOT = Path(__file__).parents[2]
PROBE = """
from pyspark.sql import SparkSession
from table_writer.spark.executors import prepare_executors
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
prepare_executors(spark.sparkContext)
"""

ON_EXECUTORS = """
import sys
import time
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import table_writer.storage.worker, table_writer.jobs.upload.task
"""

ENTRIES = (
    "table_writer.jobs.upload.task",
    "table_writer.storage.worker",
    "table_writer.storage.parquet_rows",
    "table_writer.version",
    "table_writer.model.partition_value",
)  # tasks unpack these names
OF_STORES = tuple(f"{kind.package}.{module}" for kind in KINDS for module in ("settings", "store"))  # opened by package
LIBRARIES_OF_WORKERS = (
    *("pyspark", "py4j", "pyarrow", "botocore"),
    *("jmespath", "dateutil", "six", "urllib3"),  # of botocore
)
MOST_BYTES_OF_TASKS = 450_000
READY_MADE = ("__init__.py", "settings.py")  # of a store that was not opened, all that a task has of it
MAKE_ROWS = """
import sys
import pyarrow as pa
n = range(3000)
columns = {"id": n, "x": [i / 7 for i in n], "s": [f"order {i % 50}" for i in n], "tags": [[str(i)] for i in n]}
columns |= {"place": [{"lat": i, "lon": 1.5} for i in n], "dt": [f"d{i % 5}" for i in n], "h": ["1" for _ in n]}
rows = pa.record_batch(columns)
with pa.ipc.new_stream(sys.stdout.buffer, rows.schema) as stream:
    stream.write_batch(rows)
"""
UNNEEDED = ("pandas", "boto3", "s3transfer")
ONE_TASK = """
import pickle, sys
import pyarrow as pa
import table_writer.storage.s3.client
from table_writer import version
from table_writer.model.message import CommitMessage
from table_writer.jobs.upload.arrays import one_binary
from table_writer.jobs.upload.task import upload_rows
spec = pickle.loads({packed})
class Store:
    def request_counts(self): return {{}}
    def create_upload(self, key): return key
    def upload_part(self, key, upload_id, number, body):
        from table_writer.model.message import UploadedPart
        return UploadedPart(number=number, etag="e", size_bytes=len(body))
(rows,) = pa.ipc.open_stream(sys.stdin.buffer.read())
rows = rows.select([*spec.data_columns, *spec.partition_columns])
message = upload_rows([rows], spec, Store(), task_index=0, attempt_id=1)
found = [name for name in {unneeded} if name in sys.modules]
assert not found, found
assert version.CODE and "__version__" not in vars(version)
print(CommitMessage.from_bytes(one_binary(message)[0].as_py()).row_count, "rows")
"""
LOADED = """
import json, sys
sys.path[:0] = {paths}
{code}
modules = [(name, module) for name, module in sys.modules.items() if name.partition(".")[0] == "table_writer"]
print(json.dumps({{name: module.__file__ for name, module in modules}}))
"""


@pytest.mark.parametrize(
    ("master", "python", "alike"),
    [
        ("local[2]", sys.executable, True),
        ("local", sys.executable, True),
        ("local[2]", "/usr/bin/false", False),
        ("local[2]", "no-such-python", False),
        ("local-cluster[2,1,1024]", sys.executable, False),
        ("spark://host:7077", sys.executable, False),
    ],
)
def test_only_local_workers_with_our_interpreter_need_no_preparation(master: str, python: str, alike: bool) -> None:
    context = SimpleNamespace(master=master, pythonExec=python)
    assert workers_are_like_us(context) is alike  # type: ignore[arg-type]


@pytest.mark.slow
def test_workers_without_the_packages_are_named_with_the_fix(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(bare / "bin" / "python")}
    environment.pop("PYTHONPATH", None)
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "InvalidInputError" in last
    assert "cannot import pyarrow" in last
    assert "spark.pyspark.python" in last


def test_tasks_need_none_of_the_requirements_that_executors_are_not_asked_for() -> None:
    required = {re.split(r"[^\w-]", one)[0] for one in requires("hive-table-writer") or () if "extra ==" not in one}
    absent = {*required, "thrift"} - {"pyspark", *(name for name, _ in REQUIRED)}
    assert {"hmsclient", "msgspec"} <= absent
    subprocess.run([sys.executable, "-c", ON_EXECUTORS.format(absent=absent)], check=True, cwd=ROOT)


def test_a_task_loads_no_library_that_it_can_do_without(spec: Callable[..., UploadSpec]) -> None:
    """Each new worker would pay for it: pandas 0.25 seconds, boto3's own part 0.1, a look at what is installed 0.2."""
    made = subprocess.run([sys.executable, "-c", MAKE_ROWS], check=True, capture_output=True).stdout
    for partition_columns in ((), ("dt",), ("dt", "h")):
        work = spec(
            data_columns=("id", "x", "s", "tags", "place"), partition_columns=partition_columns, store=LocalSettings()
        )
        script = ONE_TASK.format(packed=pickle.dumps(work), unneeded=UNNEEDED)
        done = subprocess.run([sys.executable, "-c", script], input=made, capture_output=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().split() == ["3000", "rows"]


def test_executors_need_the_library_of_a_store_once_one_there_was_opened() -> None:
    script = (
        "from table_writer.spark.executors import required_of_executors as required\n"
        "print([name for name, _ in required()])\n"
        "import table_writer.storage.gcs.store\n"
        "print([name for name, _ in required()])\n"
        "import table_writer.storage.azure.store\n"
        "print([name for name, _ in required()])\n"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == [
        "['pyarrow', 'botocore']",
        "['pyarrow', 'botocore', 'google.auth']",
        "['pyarrow', 'botocore', 'azure.storage.blob', 'google.auth']",
    ]


def files_behind(*entries: str) -> set[str]:
    """Return the files of this package that modules import, in a function or not, directly or through others."""
    graph = grimp.build_graph("table_writer", exclude_type_checking_imports=True, cache_dir=None)
    modules: set[str] = set()
    found = {*entries}
    while found:
        module = found.pop()
        modules.add(module)
        packages = {module.rpartition(".")[0]} - {""}  # Python imports them first
        found |= (packages | graph.find_modules_directly_imported_by(module)) - modules
    paths = (module.replace(".", "/") for module in modules)
    files = (f"{path}/__init__.py" if (ROOT / path).is_dir() else f"{path}.py" for path in paths)
    return {file.removeprefix("table_writer/") for file in files}


def files_in(package: BytesIO | Path) -> set[str]:
    names = ZipFile(package).namelist()
    return {name.removeprefix("table_writer/") for name in names if name.startswith("table_writer/")}


def modules_loaded(package: Path, code: str, *places: str) -> dict[str, str]:
    """Run code where only a package and these places are to be had; return this package's modules with their files."""
    script = LOADED.format(paths=[str(package), *places], code=code)
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    modules: dict[str, str] = json.loads(ran.stdout)
    return modules


def test_executors_are_sent_what_tasks_import_and_nothing_else() -> None:
    package = package_of_tasks()
    assert files_in(package) == set(FILES_OF_TASKS) == files_behind(*ENTRIES, *OF_STORES)
    assert package.stat().st_size < MOST_BYTES_OF_TASKS


class NamesOfModules(pickle.Unpickler):
    """Notes from which modules a task unpacks its work."""

    def __init__(self, packed: bytes) -> None:
        super().__init__(BytesIO(packed))
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        return super().find_class(module, name)


@pytest.mark.parametrize(
    "store",
    [
        S3Settings(bucket="lake", credentials=(StaticKeys(access_key="a", secret_key="b"),)),
        AzureSettings(account="abc", container="abc", account_url="https://a.b", credential=AccountKey("aGk=")),
        GcsSettings(bucket="abc", credential=UserLogin(client_id="a", client_secret="b", refresh_token="c")),
        LocalSettings(),
    ],
)
def test_tasks_unpack_only_what_executors_are_sent(spec: Callable[..., UploadSpec], store: object) -> None:
    work = map_function(spec(store=store, existing=Spellings.of([("1",)], ["int"])))
    names = NamesOfModules(cloudpickle.dumps([work, row_reader(store, pa.schema([("id", pa.int64())]), 1)]))
    names.load()
    ours = {module for module in names.modules if module.partition(".")[0] == "table_writer"}
    assert "table_writer.model.partition_value" in ours
    assert {f"{module.replace('.', '/')}.py".removeprefix("table_writer/") for module in ours} <= set(FILES_OF_TASKS)


def test_tasks_run_with_what_executors_are_sent_and_pyarrow_and_botocore(tmp_path: Path) -> None:
    for name in LIBRARIES_OF_WORKERS:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        place = origin.parent if origin.name == "__init__.py" else origin
        (tmp_path / place.name).symlink_to(place)
    package = package_of_tasks()
    of_a_store = ("table_writer.storage.s3.store", "table_writer.storage.s3.rules")  # as one is opened
    settings = (name for name in OF_STORES if name.endswith(".settings"))
    code = f"import {', '.join((*ENTRIES, *settings, *of_a_store))}"
    loaded = modules_loaded(package, code, str(tmp_path))
    found = {path.partition("table_writer_package.zip/table_writer/")[2] for path in loaded.values()}
    other = [kind.package.replace(".", "/").removeprefix("table_writer/") for kind in KINDS if kind.name != "S3"]
    closed = {name for name in FILES_OF_TASKS if name.startswith(tuple(other)) and not name.endswith(READY_MADE)}
    assert found == set(FILES_OF_TASKS) - closed


def test_a_stream_is_sent_what_a_write_imports(tmp_path: Path) -> None:
    package = tmp_path / "sent.zip"
    package.write_bytes(package_of_streams())
    names = files_in(package)
    assert files_behind("table_writer.jobs.batches") <= names
    assert {name for name in names if name.split("/")[0] in NOT_OF_WRITES} == set()
    loaded = modules_loaded(package, "import table_writer.jobs.batches", *site.getsitepackages())
    assert {module for module, path in loaded.items() if not path.startswith(str(package))} == set()


def test_a_stream_sends_executors_the_same_bytes_as_its_session_did(tmp_path: Path) -> None:
    package = tmp_path / "sent.zip"
    package.write_bytes(package_of_streams())
    code = (
        "from zlib import crc32\nfrom table_writer.spark.shipping import package_of_tasks\n"
        f"assert crc32(package_of_tasks().read_bytes()) == {zlib.crc32(package_of_tasks().read_bytes())}"
    )
    modules_loaded(package, code, *site.getsitepackages())


def test_the_driver_imports_nothing_from_what_executors_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def add(path: str) -> None:
        sent.append(path)
        sys.path.insert(1, path)  # as Spark does

    context: Any = SimpleNamespace(applicationId="app", master="spark://host:7077", pythonExec="", addPyFile=add)
    monkeypatch.setattr(executors, "probe_executors", lambda *_: None)
    monkeypatch.setattr(executors, "_prepared", set())
    before = list(sys.path)
    executors.prepare_executors(context)
    executors.prepare_executors(context)
    assert ([Path(path).name for path in sent], sys.path) == (["table_writer_package.zip"], before)


def test_the_version_is_known_where_the_package_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "__version__", "1.2.3.dev4+g0a1b2c3")
    sent = f"import sys; sys.path.insert(0, {str(package_of_tasks())!r})"
    alone = [sys.executable, "-I", "-S", "-c", f"{sent}; import table_writer; print(table_writer.__version__)"]
    done = subprocess.run(alone, capture_output=True, text=True, check=True)
    assert done.stdout == "1.2.3.dev4+g0a1b2c3\n"


def test_a_session_that_is_sent_the_package_twice_gets_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = package_of_tasks()
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(2_000_000_000))
    second = package_of_tasks()
    assert first != second
    assert first.read_bytes() == second.read_bytes()
