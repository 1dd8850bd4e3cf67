"""Children, ports and directories go with the process that made them, whatever ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from table_writer.testing.processes import LOCALHOST, ChildProcess, LakehouseError, ReservedPort, ScratchDirectory

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="children are tied to their parent by Linux's prctl")

PARENT = """
import os, sys, time
from pathlib import Path
from table_writer.testing.processes import ChildProcess, ScratchDirectory
scratch = ScratchDirectory("test", parent=Path(sys.argv[1]))
child = ChildProcess("sleeper", scratch.path / "log")
child.launch([sys.executable, "-c", "import time; time.sleep(600)"], directory=scratch.path)
print(child.pid, scratch.path, flush=True)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def start_parent(parent_directory: Path, last_line: str) -> tuple[subprocess.Popen[str], int, Path]:
    command = [sys.executable, "-c", PARENT + last_line, str(parent_directory)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert parent.stdout is not None
    with parent.stdout as lines:
        pid, path = lines.readline().split()
    return parent, int(pid), Path(path)


def launched(tmp_path: Path, name: str = "sleeper", command: list[str] = SLEEP) -> ChildProcess:
    child = ChildProcess(name, tmp_path / "log")
    child.launch(command, directory=tmp_path)
    return child


@LINUX_ONLY
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=str)
def test_a_child_ends_when_its_parent_is_signalled(how: signal.Signals, tmp_path: Path) -> None:
    # Short sleeps: a signal that comes just before a system call waits for the end of the call.
    parent, pid, _ = start_parent(tmp_path, "while True: time.sleep(0.1)")
    assert alive(pid)
    parent.send_signal(how)
    parent.wait(60)
    assert wait_for(lambda: not alive(pid))


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "raise RuntimeError", "1 / 0"])
def test_nothing_is_left_when_the_interpreter_exits(ending: str, tmp_path: Path) -> None:
    parent, pid, path = start_parent(tmp_path, ending)
    parent.wait(60)
    assert wait_for(lambda: not alive(pid))
    assert not path.exists()


def test_a_fork_that_exits_leaves_its_parents_children_and_directories_alone(tmp_path: Path) -> None:
    fork = "pid = os.fork()\nif pid: os.waitpid(pid, 0); print(child.running and scratch.path.is_dir(), flush=True)"
    command = [sys.executable, "-W", "ignore", "-c", PARENT + fork, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "True"


def test_a_child_outlives_the_thread_that_started_it_and_no_ctrl_c_in_the_terminal_reaches_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        child = pool.submit(launched, tmp_path).result()
    time.sleep(0.3)
    assert child.running
    assert os.getpgid(child.pid) != os.getpgid(0)
    child.stop()
    assert not child.running


def test_stop_ends_a_child_that_ignores_sigterm(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    child = launched(tmp_path, "stubborn", [sys.executable, "-c", code])
    assert wait_for(lambda: (tmp_path / "log").read_text() == "1\n")
    child.stop(grace_seconds=0.1)
    assert not child.running
    child.stop()


def test_a_child_that_ends_early_or_is_never_ready_is_an_error(tmp_path: Path) -> None:
    child = launched(tmp_path, "failing", [sys.executable, "-c", "raise SystemExit('no such option')"])
    with pytest.raises(LakehouseError, match=r"(?s)failing ended while it was starting.*no such option"):
        child.wait_until_ready(lambda: False, timeout_seconds=20)
    silent = launched(tmp_path, "silent")
    with pytest.raises(LakehouseError, match="silent was not ready after 0 s"):
        silent.wait_until_ready(lambda: False, timeout_seconds=0.1)
    silent.kill()


def test_a_program_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    child = ChildProcess("missing", tmp_path / "log")
    try:
        child.launch(["/does/not/exist"], directory=tmp_path)
    except FileNotFoundError:
        return  # where no launcher stands between
    with pytest.raises(LakehouseError, match=r"(?s)missing ended.*/does/not/exist|No such file"):
        child.wait_until_ready(lambda: False, timeout_seconds=20)


@LINUX_ONLY
def test_a_reserved_port_is_free_for_a_server_and_given_to_nobody_else() -> None:
    port = ReservedPort()
    try:
        with socket.create_server((LOCALHOST, port.number)) as first:
            assert first.getsockname()[1] == port.number
        with socket.create_server((LOCALHOST, port.number)):
            pass  # a restart
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((LOCALHOST, port.number))
    finally:
        port.release()


def test_a_directory_of_a_killed_process_goes_with_the_next_one(tmp_path: Path) -> None:
    parent, _, abandoned = start_parent(tmp_path, "time.sleep(600)")
    in_use = ScratchDirectory("test", parent=tmp_path)
    assert abandoned.is_dir()
    parent.kill()
    parent.wait(60)
    next_one = ScratchDirectory("test", parent=tmp_path)
    assert not abandoned.exists()
    assert in_use.path.is_dir()
    assert in_use.path.stat().st_mode & 0o077 == 0, "it is private"
    in_use.remove()
    next_one.remove()
    next_one.remove()
    assert list(tmp_path.iterdir()) == []
