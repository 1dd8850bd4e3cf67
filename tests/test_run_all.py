"""Many items in parallel: all are done, or all that began is taken back."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from table_writer.errors import StorageError
from table_writer.jobs.complete import run_all

THREADS = [1, 3, 8]


class Ledger:
    """What was called on which item; one chosen item fails."""

    def __init__(self, failing: int | None = None, error: BaseException | None = None, broken: str = "") -> None:
        self.calls: list[tuple[str, int]] = []
        self.failing = failing
        self.error = error or StorageError("no")
        self.broken = broken  # a compensation that fails as well

    def do(self, item: int) -> None:
        self.calls.append(("do", item))
        if item == self.failing:
            raise self.error

    def undo(self, item: int) -> None:
        self.calls.append(("undo", item))
        if self.broken == "undo":
            raise RuntimeError("undo is broken")

    def skip(self, item: int) -> None:
        self.calls.append(("skip", item))
        if self.broken == "skip":
            raise RuntimeError("skip is broken")

    def run(self, count: int, threads: int) -> None:
        run_all(range(count), do=self.do, undo=self.undo, skip=self.skip, threads=threads)

    def items(self, kind: str) -> set[int]:
        return {item for called, item in self.calls if called == kind}


def assert_each_item_handled_once(ledger: Ledger, count: int) -> None:
    handled = Counter(item for kind, item in ledger.calls if kind != "do")
    assert handled == Counter(range(count))
    assert ledger.items("undo") == ledger.items("do")
    assert ledger.items("skip") == set(range(count)) - ledger.items("do")


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("count", [0, 1, 2, 12])
def test_without_a_failure_everything_is_done_once_and_nothing_undone(count: int, threads: int) -> None:
    ledger = Ledger()
    ledger.run(count, threads)
    assert Counter(ledger.calls) == Counter(("do", item) for item in range(count))


@pytest.mark.parametrize("broken", ["", "undo", "skip"])
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("failing", range(12))
def test_a_failure_at_any_item_undoes_the_started_and_skips_the_rest(failing: int, threads: int, broken: str) -> None:
    ledger = Ledger(failing, broken=broken)
    with pytest.raises(StorageError) as caught:
        ledger.run(12, threads)
    assert caught.value is ledger.error
    assert failing in ledger.items("undo")
    assert_each_item_handled_once(ledger, 12)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), ValueError("not one of ours")], ids=repr)
@pytest.mark.parametrize("threads", THREADS)
def test_whatever_do_raises_is_taken_back_and_raised(error: BaseException, threads: int) -> None:
    ledger = Ledger(4, error)
    with pytest.raises(type(error)) as caught:
        ledger.run(12, threads)
    assert caught.value is error
    assert_each_item_handled_once(ledger, 12)


def test_with_one_thread_nothing_starts_after_the_failure() -> None:
    ledger = Ledger(4)
    with suppress(StorageError):
        ledger.run(12, 1)
    assert ledger.items("do") == {0, 1, 2, 3, 4}


def test_of_several_failures_the_first_is_raised_and_the_others_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    both_started, first_failed = threading.Barrier(2), threading.Event()

    def do(item: int) -> None:
        both_started.wait(60)
        if item == 1:
            first_failed.wait(60)
            time.sleep(0.05)
            raise StorageError("second")
        first_failed.set()
        raise StorageError("first")

    with pytest.raises(StorageError, match="first"):
        run_all([0, 1], do=do, undo=lambda _: None, skip=lambda _: None, threads=2)
    assert caplog.messages == ["failed as well: second"]


def test_items_in_flight_are_waited_for_before_the_first_compensation() -> None:
    others_started, events = threading.Barrier(3), []

    def do(item: int) -> None:
        others_started.wait(60)
        if item == 0:
            raise StorageError("no")
        time.sleep(0.1)
        events.append(("done", item))

    with pytest.raises(StorageError):
        run_all(
            range(9),
            do=do,
            undo=lambda item: events.append(("undo", item)),
            skip=lambda item: events.append(("skip", item)),
            threads=3,
        )
    assert set(events[:2]) == {("done", 1), ("done", 2)}
    assert Counter(kind for kind, _ in events) == {"done": 2, "undo": 3, "skip": 6}


@pytest.mark.parametrize("threads", THREADS)
def test_ctrl_c_waits_for_items_in_flight_then_undoes_them(threads: int) -> None:
    ledger, running = Ledger(), threading.Semaphore(0)
    finished: list[int] = []

    def do(item: int) -> None:
        ledger.do(item)
        running.release()
        time.sleep(0.2)
        finished.append(item)

    def interrupt() -> None:
        for _ in range(threads):
            running.acquire()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    press = threading.Thread(target=interrupt, daemon=True)
    press.start()
    with pytest.raises(KeyboardInterrupt):
        run_all(range(50), do=do, undo=ledger.undo, skip=ledger.skip, threads=threads)
    press.join()
    assert set(finished) == ledger.items("do") != set(range(50))
    assert_each_item_handled_once(ledger, 50)


def test_a_failing_compensation_is_logged_with_its_item(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(1, broken="undo")
    with pytest.raises(StorageError):
        run_all([0, 1], do=ledger.do, undo=ledger.undo, skip=ledger.skip, threads=1, describe="file {}".format)
    assert [record.message for record in caplog.records] == ["undo failed for file 0", "undo failed for file 1"]


def test_an_item_that_cannot_be_made_is_a_failure_like_another() -> None:
    ledger = Ledger()

    def items() -> Iterator[int]:
        yield from (1, 2)
        raise StorageError("damaged")

    class Damaged(list[int]):
        def __iter__(self) -> Iterator[int]:
            return items()

    with pytest.raises(StorageError, match="damaged"):
        run_all(Damaged(), do=ledger.do, undo=ledger.undo, skip=ledger.skip, threads=2)
    assert ledger.items("undo") == ledger.items("do")
