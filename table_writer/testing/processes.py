"""Child processes, ports and directories that never outlive the Python process that made them."""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeAlias

from table_writer.model.process import PerProcess
from table_writer.progress import current

LOCALHOST: Final = "127.0.0.1"
LOG_TAIL_LINES: Final = 30
POLL_SECONDS: Final = 0.05
_SCRATCH_PREFIX: Final = "table_writer-"
_LOCK_NAME: Final = ".lock"
_Process: TypeAlias = subprocess.Popen[bytes]

# Run by a small Python that turns into the real program and keeps its process id. Linux then kills the program
# when the thread that started it ends, in whatever way (prctl 1 is PR_SET_PDEATHSIG). A preexec_fn could do the
# same, but is unsafe in a process with threads.
_DIE_WITH_PARENT: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent process ended first")
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class LakehouseError(RuntimeError):
    """The embedded lakehouse can't start, or is used after its end; the message says what to do."""


class ReservedPort:
    """A free TCP port on 127.0.0.1 that stays ours while the server behind it restarts.

    On Linux the socket stays bound without listening: a server that sets ``SO_REUSEADDR`` (all of ours do) can bind
    the port as well, and the kernel gives it to nobody else.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOCALHOST, 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self._socket.close()

    def release(self) -> None:
        """Give the port back."""
        self._socket.close()


class ChildProcess:
    """One server process and its log file.

    It ends with :meth:`stop` or :meth:`kill`, at the exit of the interpreter, and on Linux also when this Python
    process is killed. Ctrl-C in the terminal does not reach it: the Python process decides.
    """

    def __init__(self, name: str, log_path: Path) -> None:
        self.name = name
        self.log_path = log_path
        self._process: _Process | None = None

    def __repr__(self) -> str:
        return f"ChildProcess(name={self.name!r}, pid={self.pid if self.running else None})"

    @property
    def running(self) -> bool:
        """Return whether the process was launched and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the program itself, not of a wrapper."""
        if self._process is None:
            raise LakehouseError(f"{self.name} was not started")
        return self._process.pid

    def launch(self, command: Sequence[str], *, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start the process and return without waiting for it to be ready."""
        if self.running:
            raise LakehouseError(f"{self.name} is running already")
        environment = dict(os.environ if environment is None else environment)
        self._process = _spawner.get().spawn(command, directory, environment, self.log_path)

    def wait_until_ready(self, is_ready: Callable[[], bool], *, timeout_seconds: float) -> None:
        """Poll ``is_ready`` until it is true; if the process ends or the time is up, raise with the end of its log."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            if not self.running:
                raise LakehouseError(f"{self.name} ended while it was starting\n{self._log_tail()}")
            if is_ready():
                return
            if time.monotonic() > deadline:
                raise LakehouseError(f"{self.name} was not ready after {timeout_seconds:.0f} s\n{self._log_tail()}")
            time.sleep(POLL_SECONDS)

    def stop(self, *, grace_seconds: float = 5) -> None:
        """End the process: SIGTERM, after ``grace_seconds`` SIGKILL. Does nothing if it has ended."""
        if self._process is not None and self.running:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_seconds)
        self.kill()

    def kill(self) -> None:
        """End the process at once, as a crash would (SIGKILL). Does nothing if it has ended."""
        if self._process is not None:
            _kill(self._process)

    def _log_tail(self) -> str:
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError as error:
            return f"(no log: {error})"
        telling = [line for line in lines if not line.startswith(("\tat ", "\t... "))]  # frames of Java hide causes
        return "\n".join(["the end of its log:", *telling[-LOG_TAIL_LINES:]])


class ScratchDirectory:
    """A private temporary directory that goes with :meth:`remove`, at the exit of the interpreter, or later.

    Later: a killed process leaves its directories behind, and the next process that makes one removes them. A file
    lock, which ends with its process in whatever way, tells those from directories in use.
    """

    def __init__(self, purpose: str, *, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        _remove_abandoned(parent)
        new = Path(tempfile.mkdtemp(prefix=f".{_SCRATCH_PREFIX}", dir=parent))
        self._owner_pid = os.getpid()
        self._lock = (new / _LOCK_NAME).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = new.rename(parent / f"{_SCRATCH_PREFIX}{purpose}-{new.name.rpartition('-')[2]}")  # now it is locked
        atexit.register(self.remove)

    def remove(self) -> None:
        """Remove the directory and all in it. Does nothing the second time, or in a fork of the owner."""
        if os.getpid() != self._owner_pid:
            return
        atexit.unregister(self.remove)
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


class ServerProcess(ABC):
    """A server in its own process on a free port of 127.0.0.1; gone with its temporary files after :meth:`stop`."""

    START_TIMEOUT_SECONDS: ClassVar[float]

    def __init__(self, name: str) -> None:
        self._name = name
        self._scratch: list[ScratchDirectory] = []
        self._port: ReservedPort | None = None
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Return whether the process was started and has not ended."""
        return self._process is not None and self._process.running

    @property
    def port(self) -> int:
        """Its port, the same after :meth:`restart`."""
        if self._port is None:
            raise LakehouseError(f"{self._name} is not running")
        return self._port.number

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._required_process().pid

    def start(self) -> None:
        """Start the process and return when it answers."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self.running:
            raise LakehouseError(f"{self._name} is running already")
        try:
            directory = self._scratch[0].path if self._scratch else self._make_directory()
            self._port = self._port or ReservedPort()
            self._process = self._process or ChildProcess(self._name, directory / "server.log")
            command, environment = self._command(directory)
            self._process.launch(command, directory=directory, environment=environment)
        except BaseException:  # Ctrl-C as well: no server stays behind
            self.stop()
            raise

    def wait_until_ready(self) -> None:
        """Return when the server answers; stop it and raise if that takes too long."""
        process = self._required_process()
        current().begin(f"starting the {self._name}")
        try:
            process.wait_until_ready(self._answers, timeout_seconds=self.START_TIMEOUT_SECONDS)
        except BaseException:  # Ctrl-C as well: no server stays behind
            self.stop()
            raise

    def kill(self) -> None:
        """End the process as a crash would (SIGKILL); :meth:`restart` brings it back on the same port."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """End the process if it runs, and start it again on the same port."""
        if self._process is not None:
            self._process.stop()
        self.start()

    def stop(self) -> None:
        """End the process and give up its port and temporary files. Does nothing if it does not run."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._port is not None:
            self._port.release()
            self._port = None
        while self._scratch:
            self._scratch.pop().remove()

    @abstractmethod
    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        """Put what the server reads into the directory, and return command line and environment."""

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether the server answers; called until it does."""

    def _make_directory(self, purpose: str = "server", parent: Path | None = None) -> Path:
        """Make a temporary directory that goes with :meth:`stop`."""
        self._scratch.append(ScratchDirectory(purpose, parent=parent))
        return self._scratch[-1].path

    def _required_process(self) -> ChildProcess:
        if self._process is None:
            raise LakehouseError(f"{self._name} is not running")
        return self._process


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(f"{_SCRATCH_PREFIX}*"):
        try:
            with (directory / _LOCK_NAME).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
        except OSError:
            continue  # in use, another user's, or gone meanwhile


class _Spawner:
    """Starts processes from a thread that lives as long as this Python process.

    Linux ties a child to the *thread* that started it, and the caller's thread may end early.
    """

    def __init__(self) -> None:
        self._owner_pid = os.getpid()
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._processes: list[_Process] = []
        threading.Thread(target=self._run, name="table_writer-spawner", daemon=True).start()

    def spawn(self, command: Sequence[str], directory: Path, environment: dict[str, str], log_path: Path) -> _Process:
        """Start ``command`` and return when it has its process id."""
        future: Future[_Process] = Future()
        self._calls.put(functools.partial(self._fulfil, future, command, directory, environment, log_path))
        try:
            return future.result()
        except KeyboardInterrupt:
            future.add_done_callback(_kill_unclaimed)
            raise

    def _run(self) -> None:
        while True:
            self._calls.get()()

    def _fulfil(self, future: Future[_Process], *call: Any) -> None:
        try:
            process = _popen(*call)
        except OSError as error:
            future.set_exception(error)
        else:
            self._processes.append(process)
            atexit.register(self._kill_all)  # each time, so that it runs before what was registered until now
            future.set_result(process)

    def _kill_all(self) -> None:
        if os.getpid() == self._owner_pid:  # a fork leaves them alone
            for process in self._processes:
                _kill(process)


def _kill_unclaimed(future: Future[_Process]) -> None:
    if future.exception() is None:
        _kill(future.result())


def _kill(process: _Process) -> None:
    """End the process and what it has started; each process here leads a group of its own."""
    if process.stdin is not None and not process.stdin.closed:  # else this was done
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdin.close()
    process.wait()


def _popen(command: Sequence[str], directory: Path, environment: dict[str, str], log_path: Path) -> _Process:
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
    with log_path.open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,  # stays open: Spark's Java ends when it is closed
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C goes to the terminal's process group
        )


_spawner: Final = PerProcess(_Spawner)  # a fork has no thread of its parent's
