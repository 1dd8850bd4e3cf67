"""Whatever ends a lakehouse, no process, no file and no line but its own on the terminal is left.

Each lakehouse here runs in a Python of its own, marked by an environment variable that all its processes inherit.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")]

TABLE = "lake.spark.sql('CREATE TABLE t USING parquet AS SELECT 1 AS x'); assert lake.spark.table('t').count() == 1"


class Script:
    """A Python script under test, in an empty working directory and with an empty temporary directory."""

    def __init__(self, root: Path, code: str) -> None:
        self.directory, self.temporary = root / "cwd", Path("/tmp") / f"tw-{uuid.uuid4().hex[:8]}"  # noqa: S108
        self.directory.mkdir()
        self.temporary.mkdir()
        self.mark = f"TABLE_WRITER_TEST={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        paths = os.pathsep.join(filter(None, sys.path))
        environment = os.environ | {name: value, "TMPDIR": str(self.temporary), "PYTHONPATH": paths}
        header = "import os, time\nfrom table_writer.testing import LakehouseError, lakehouse\n"
        self.process = subprocess.Popen(
            [sys.executable, "-c", header + code],
            cwd=self.directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def finish(self, seconds: float = 300) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err

    def processes(self) -> list[str]:
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (directory / "environ").read_bytes():
                    found.append((directory / "cmdline").read_text().replace("\0", " ")[:100])
            except OSError:
                continue  # ended meanwhile, or not ours
        return found

    def wait_until_alone(self, seconds: float = 15) -> list[str]:
        deadline = time.monotonic() + seconds
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.processes()

    def remove(self) -> None:
        assert self.wait_until_alone() == []
        shutil.rmtree(self.temporary)


def test_a_lakehouse_leaves_no_trace_and_the_next_one_in_the_same_process_is_independent(tmp_path: Path) -> None:
    code = f"""
with lakehouse() as lake:
    {TABLE}
    first = lake.spark.sparkContext
os.environ["TABLE_WRITER_PROGRESS"] = "off"
with lakehouse(storage="file", spark_conf={{"spark.sql.session.timeZone": "Asia/Tokyo"}}) as lake:
    {TABLE}
    assert lake.spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert lake.warehouse.startswith("file:///")
    try:
        lake.s3
    except LakehouseError:
        pass
    else:
        raise AssertionError
lake.stop()
"""
    script = Script(tmp_path, code)
    status, out, err = script.finish()
    assert (status, out) == (0, "")
    shown = [re.sub(r", \d+ s$", "", line) for line in err.splitlines()]  # of the first one, and nothing else
    assert shown[-1] == "lakehouse: done"
    assert f"lakehouse: starting Spark {pyspark.__version__}" in shown
    assert shown.count("lakehouse: done") == 1
    assert all(line.startswith("lakehouse: ") for line in shown)
    assert script.processes() == []
    assert list(script.directory.iterdir()) == []
    assert list(script.temporary.iterdir()) == []
    script.remove()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=str)
def test_all_processes_end_with_their_parent(how: signal.Signals, tmp_path: Path) -> None:
    script = Script(tmp_path, f"lake = lakehouse()\n{TABLE}\nprint(1, flush=True)\ntime.sleep(600)")
    assert script.wait_for_line() == "1"
    assert len(script.processes()) >= 4  # Python, Spark's Java, the metastore, S3
    script.process.send_signal(how)
    script.finish()
    script.remove()


@pytest.mark.parametrize("seconds", [0.7, 1.5, 2.5, 4, 6])
def test_ctrl_c_while_it_starts_leaves_no_trace(seconds: float, tmp_path: Path) -> None:
    script = Script(tmp_path, "print(1, flush=True)\nwith lakehouse():\n    time.sleep(600)")
    assert script.wait_for_line() == "1"
    time.sleep(seconds)
    script.process.send_signal(signal.SIGINT)
    code, _, err = script.finish()
    assert code != 0
    assert "KeyboardInterrupt" in err
    assert script.wait_until_alone() == []
    assert list(script.temporary.glob("table_writer-*")) == []
    script.remove()


def test_a_lakehouse_whose_java_was_killed_still_stops_and_the_next_one_starts(tmp_path: Path) -> None:
    code = f"""
import os, signal
try:
    with lakehouse() as lake:
        os.kill(lake.spark._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
        lake.metastore.kill()
        raise LookupError("the error of the test")
except LookupError:
    print("seen")
with lakehouse(storage="file") as lake:
    {TABLE}
"""
    script = Script(tmp_path, code)
    code_, out, _ = script.finish()
    assert (code_, out) == (0, "seen\n")
    script.remove()


def test_a_lakehouse_that_is_never_stopped_ends_with_the_interpreter(tmp_path: Path) -> None:
    script = Script(tmp_path, 'lake = lakehouse(storage="file")')
    code, out, err = script.finish()
    assert (code, out) == (0, "")
    assert [line for line in err.splitlines() if not line.startswith("lakehouse: ")] == []
    assert script.processes() == []
    assert list(script.temporary.iterdir()) == []
    script.remove()


def test_executors_in_their_own_processes_read_and_write_s3(tmp_path: Path) -> None:
    script = Script(tmp_path, f'with lakehouse(master="local-cluster[2,1,1024]") as lake:\n    {TABLE}')
    assert script.finish()[0] == 0
    script.remove()
