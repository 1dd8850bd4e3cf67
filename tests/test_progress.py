"""What is shown of a write on its way: one bar, or lines of a log; never before a second, never in the way."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from table_writer import progress
from table_writer.config import TableWriterConfig
from table_writer.errors import InvalidInputError, StorageError
from table_writer.jobs.complete import Completer
from table_writer.model.message import PendingUpload
from table_writer.progress import Progress, Stopwatch, WriteProgress, current, report_progress
from table_writer.reports import listeners
from table_writer.reports.listeners import BarListener, LogListener, listener, show_progress
from table_writer.spark import open_gateway
from table_writer.spark.classic import run_interruptibly
from table_writer.spark.executors import ITEMS_PER_TASK, Executors
from table_writer.testing.embedded import Lakehouse
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.writer import TableWriter

HOSTILE = "db.\x1b[2J\u202e{n}%|x\nname"


class Told:
    """A listener that remembers, and lets others wait for what they want to see."""

    def __init__(self) -> None:
        self.all: list[Progress] = []
        self._more = threading.Condition()

    def __call__(self, now: Progress) -> None:
        with self._more:
            self.all.append(now)
            self._more.notify_all()

    def until(self, holds: Callable[[Progress], bool]) -> Progress:
        with self._more:
            assert self._more.wait_for(lambda: any(map(holds, self.all)), timeout=30)
            return next(filter(holds, self.all))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a second short."""
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def now(**facts: Any) -> Progress:
    return Progress(**{"table": "mart.orders", "mode": "append", "step": "upload", "seconds": 3.0, **facts})


def last_line(stream: io.StringIO) -> str:
    return stream.getvalue().rsplit("\r", 1)[-1].strip()


def test_a_write_of_less_than_a_second_tells_nobody() -> None:
    told = Told()
    with report_progress(WriteProgress(told, table="t", mode="append")):
        current().begin("upload")
        current().count("uploads", 2)
        current().advance()
    assert told.all == []


def test_nobody_to_tell_is_no_thread() -> None:
    with show_progress("off", table="t", mode="append"):
        assert not [one for one in threading.enumerate() if "progress" in one.name]


@pytest.mark.usefixtures("_impatient")
def test_each_step_is_told_with_its_counts_and_then_the_end() -> None:
    told = Told()
    watch = Stopwatch(MemoryMetastore())
    with show_progress(told, table="mart.orders", mode="append"):
        told.until(lambda one: one.step == "plan" and one.total is None)
        with watch.step("complete"):
            current().name("w1")
            current().count("uploads", 3)
            current().advance()
            told.until(lambda one: (one.step, one.done, one.total, one.unit) == ("complete", 1, 3, "uploads"))
        with watch.step("check"):
            shown = told.until(lambda one: one.step == "check")
            assert (shown.done, shown.total, shown.unit, shown.write_id) == (0, None, "", "w1")
    assert [one.state for one in told.all].count("running") == len(told.all) - 1
    assert told.all[-1].state == "done"
    assert [one.seconds for one in told.all] == sorted(one.seconds for one in told.all)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("error", [StorageError("no"), KeyboardInterrupt(), SystemExit()], ids=repr)
def test_an_error_and_ctrl_c_end_it_as_failed_and_go_on_their_way(error: BaseException) -> None:
    told = Told()

    def write() -> None:
        with show_progress(told, table="t", mode="append"):
            current().begin("upload")
            told.until(lambda one: one.step == "upload")
            raise error

    with pytest.raises(type(error)):
        write()
    assert (told.all[-1].state, told.all[-1].activity) == ("failed", "failed in upload")
    assert current() is progress.NOBODY


@pytest.mark.usefixtures("_impatient")
def test_a_listener_that_fails_is_logged_once_and_fails_no_write(caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()

    def failing(shown: Progress) -> None:
        called.set()
        raise RuntimeError("no terminal")

    with show_progress(failing, table="t", mode="append", write_id="w1"):
        assert called.wait(30)
    assert [one.getMessage() for one in caplog.records] == ["write_id=w1: its progress is not shown any more"]


@pytest.mark.usefixtures("_impatient")
def test_a_listener_that_hangs_does_not_hold_the_write(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LAST_TICK_SECONDS", 0.01)
    called, free = threading.Event(), threading.Event()

    def hanging(shown: Progress) -> None:
        called.set()
        free.wait(30)

    with show_progress(hanging, table="t", mode="append", write_id="w1"):
        assert called.wait(30)
    thread = next(one for one in threading.enumerate() if one.name == "table_writer-progress")
    free.set()
    thread.join(30)
    assert "w1: who shows its progress does not return" in caplog.text


@pytest.mark.usefixtures("_impatient")
def test_what_is_asked_for_is_shown_while_the_block_lasts_and_a_failing_question_is_asked_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = Told()
    answers = iter([(1, 4, "tasks")])
    with show_progress(told, table="t", mode="append", write_id="w1"):
        current().begin("upload")
        with current().asking(lambda: next(answers)):
            told.until(lambda one: (one.done, one.total, one.unit) == (1, 4, "tasks"))
            told.until(lambda one: "cannot be counted" in caplog.text)
        current().begin("publish")
        assert told.until(lambda one: one.step == "publish").total is None
    assert caplog.text.count("cannot be counted") == 1


@pytest.mark.usefixtures("_impatient")
def test_two_writes_at_once_are_two() -> None:
    tellers = [Told(), Told()]
    both = threading.Barrier(2)

    def write(number: int) -> None:
        with show_progress(tellers[number], table=f"t{number}", mode="append"):
            current().begin("upload")
            current().count("uploads", 10 + number)
            both.wait(30)
            tellers[number].until(lambda one: one.total == 10 + number)

    threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [{one.table for one in teller.all} for teller in tellers] == [{"t0"}, {"t1"}]
    assert [{one.total for one in teller.all} - {None} for teller in tellers] == [{10}, {11}]


class Store:
    """Completes, and says nothing."""

    def complete_upload(self, key: str, upload_id: str, parts: Any) -> None:
        pass


def test_completions_are_counted() -> None:
    uploads = tuple(
        PendingUpload(key=f"t/data/w/{n}", upload_id=str(n), parts=(), size_bytes=1, row_count=1, partition_values=())
        for n in range(5)
    )
    with report_progress(WriteProgress(None)):
        Completer(Store(), threads=2)._complete_here("w", uploads)  # type: ignore[arg-type]
        assert current().snapshot.done == 5


def test_a_log_tells_at_most_every_some_seconds_and_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "table_writer")
    log = LogListener(seconds=1000)
    for done in range(5):
        log(now(write_id="w1", done=done, total=5, unit="tasks"))
    log(now(write_id="w1", state="failed"))
    assert [(one.name, one.getMessage()) for one in caplog.records] == [
        ("table_writer", "write_id=w1 mart.orders: upload, 0 of 5 tasks, 3 s"),
        ("table_writer", "write_id=w1 mart.orders: failed in upload, 3 s"),
    ]


def test_a_log_has_a_line_for_each_step(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "table_writer")
    log = LogListener(seconds=1000)
    for step in ("plan", "plan", "upload", "upload", "publish"):
        log(now(step=step))
    assert [one.getMessage() for one in caplog.records] == [
        f"mart.orders: {step}, 3 s" for step in ("plan", "upload", "publish")
    ]


@pytest.mark.parametrize(
    ("stream", "shown"),
    [(io.StringIO(), "mart.orders: upload, 3 s\n"), (Terminal(), "\r\x1b[Kmart.orders: upload, 3 s\n"), (None, "")],
    ids=["file", "terminal", "none"],
)
def test_where_nobody_has_configured_logging_the_lines_go_to_standard_error(
    stream: io.StringIO | None, shown: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "table_writer")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(logging.getLogger("table_writer"), "hasHandlers", lambda: False)
    LogListener()(now())
    assert (stream.getvalue() if stream else "") == shown
    assert not caplog.records


def test_names_in_a_line_hide_nothing() -> None:
    assert str(now(table=HOSTILE)) == "db.\\x1b[2J\\u202e{n}%|x\\nname: upload, 3 s"


def test_a_bar_shows_counts_and_ends_its_line(terminal: Terminal) -> None:
    bar = BarListener(stream=terminal)
    bar(now(done=50, total=200, unit="tasks"))
    assert last_line(terminal).startswith("mart.orders: upload  25%|")
    assert "50/200 tasks [00:03]" in last_line(terminal)
    bar(now(step="publish", seconds=4.0))
    assert last_line(terminal).startswith("mart.orders: publish [00:0")
    bar(now(step="publish", state="done"))
    assert terminal.getvalue().endswith("\n")
    assert "mart.orders: done [00:0" in terminal.getvalue()


def test_a_bar_of_a_failed_write_says_in_which_step(terminal: Terminal) -> None:
    bar = BarListener(stream=terminal)
    bar(now(done=50, total=200, unit="tasks"))
    bar(now(state="failed"))
    assert "mart.orders: failed in upload [" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


def test_hostile_names_draw_a_bar_and_nothing_else(terminal: Terminal) -> None:
    bar = BarListener(stream=terminal)
    bar(now(table=HOSTILE, done=1, total=2, unit="tasks"))
    bar(now(table=HOSTILE, state="done"))
    assert "\x1b[2J" not in terminal.getvalue()
    assert "\u202e" not in terminal.getvalue()
    assert "db.\\x1b[2J\\u202e{n}%|x\\nname: done" in terminal.getvalue()


class Broken(Terminal):
    """A pipe whose reader has gone."""

    is_broken = False

    def write(self, text: str) -> int:
        if self.is_broken:
            raise BrokenPipeError
        return super().write(text)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("how", ["closed", "broken"])
def test_a_terminal_that_goes_away_is_drawn_on_no_more_and_fails_no_write(how: str) -> None:
    stream, told = Broken(), Told()
    bar = BarListener(stream=stream)

    def both(shown: Progress) -> None:
        try:
            bar(shown)
        finally:
            told(shown)

    with report_progress(WriteProgress(both, table="t", mode="append", write_id="w1")):
        told.until(lambda one: one.step == "plan")
        stream.close() if how == "closed" else setattr(stream, "is_broken", True)
        current().begin("upload")
        told.until(lambda one: one.step == "upload")
    later = Terminal()
    BarListener(stream=later)(now())  # every bar of a process has the same lock, which must be free again
    assert "mart.orders: upload" in later.getvalue()


@pytest.mark.parametrize("stream", [None, io.StringIO(), "closed"], ids=["none", "file", "closed"])
def test_without_a_terminal_a_log_is_told(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if stream == "closed":
        stream = io.StringIO()
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert isinstance(listener("auto"), LogListener)


def test_nobody_is_told_or_whoever_was_given() -> None:
    assert listener("off") is None
    assert listener(print) is print


@pytest.mark.not_quick  # ipywidgets
def test_in_a_terminal_and_in_a_notebook_a_bar_is_drawn(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    chosen = listener("auto")
    assert isinstance(chosen, BarListener)
    assert not chosen._widget
    monkeypatch.setattr(listeners, "_in_notebook", lambda: True)
    chosen = listener("auto", spark_has_bar=True)
    assert isinstance(chosen, BarListener)
    assert chosen._widget


@pytest.mark.parametrize("choice", ["off", "log", "bar"])
def test_the_environment_says_it_for_programs_that_do_not(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_WRITER_PROGRESS", choice)
    chosen = listener("auto")
    assert type(chosen) is {"off": type(None), "log": LogListener, "bar": BarListener}[choice]
    assert isinstance(listener("bar"), BarListener)
    monkeypatch.setenv("TABLE_WRITER_PROGRESS", "")  # as good as none
    assert isinstance(listener("auto"), LogListener)
    monkeypatch.setenv("TABLE_WRITER_PROGRESS", "quiet")
    with pytest.raises(InvalidInputError, match="TABLE_WRITER_PROGRESS='quiet': expected one of auto, bar, log, off"):
        listener("auto")


def test_where_spark_draws_a_bar_in_the_terminal_a_log_is_told_unless_a_bar_was_asked_for(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    assert isinstance(listener("auto", spark_has_bar=True), LogListener)
    assert isinstance(listener("bar", spark_has_bar=True), BarListener)


@pytest.mark.parametrize("choice", ["auto", "bar", "log", "off", print])
def test_every_choice_is_a_setting(choice: Any) -> None:
    assert TableWriterConfig(progress=choice).progress == choice


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        *((text, "one of auto, bar, log, off, or a listener") for text in ("", "Bar", "rich")),
        *((value, "a text, or a function") for value in (None, 3)),
    ],
)
def test_another_choice_is_a_wrong_setting(choice: Any, expected: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"progress=.*: expected {expected}"):
        TableWriterConfig(progress=choice)


@pytest.mark.not_quick
def test_a_notebook_with_ipywidgets_has_a_widget() -> None:
    bar = BarListener(widget=True)
    bar(now(done=50, total=200, unit="tasks"))
    words, gauge, count = bar._bar.get().container.children
    assert words.value.replace("\u2007", " ").startswith("mart.orders: upload")
    assert (gauge.value, gauge.max) == (0.25, 1)
    assert "50/200 tasks" in count.value.replace("\u2007", " ")
    bar(now(table="<b>", step="publish"))
    assert "&lt;b&gt;" in words.value
    bar(now(state="failed"))
    assert "failed" in words.value
    assert gauge.bar_style == "danger"


class Releasing(Told):
    """Lets waiting tasks go on once it has been told that one of them is done."""

    def __init__(self, gate: Path, done: int) -> None:
        super().__init__()
        self._gate, self._done = gate, done

    def __call__(self, now: Progress) -> None:
        super().__call__(now)
        if now.done == self._done:
            self._gate.touch()


def waiting(gate: str) -> Callable[[Iterable[int]], Iterator[tuple[dict[str, int], int]]]:
    def work(numbers: Iterable[int]) -> Iterator[tuple[dict[str, int], int]]:
        for number in numbers:
            while number and not os.path.exists(gate):  # noqa: PTH110 - runs on an executor
                time.sleep(0.01)
            yield {"HeadObject": 1}, number

    return work


@pytest.mark.usefixtures("_impatient")
def test_the_tasks_of_a_job_are_counted_while_it_runs_and_not_those_of_earlier_ones(
    lakehouse: Lakehouse, tmp_path: Path
) -> None:
    context = lakehouse.spark.sparkContext
    told = Releasing(tmp_path / "gate", done=1)
    run_interruptibly(context, context.parallelize(range(5), 5).collect, tag="table_writer-counted")
    job = context.parallelize(range(2), 2).mapPartitions(waiting(str(tmp_path / "gate")))
    with report_progress(WriteProgress(told, table="t", mode="append")):
        current().begin("upload")
        run_interruptibly(context, job.collect, tag="table_writer-counted")
    assert told.until(lambda one: one.done == 1).total == 2
    assert {one.unit for one in told.all if one.total} == {"tasks"}


@pytest.mark.usefixtures("_impatient")
def test_what_executors_complete_is_counted_in_uploads(lakehouse: Lakehouse, tmp_path: Path) -> None:
    told = Releasing(tmp_path / "gate", done=100 + ITEMS_PER_TASK)
    executors = Executors(open_gateway(lakehouse.spark), None, "counted", lambda counts: None)
    with report_progress(WriteProgress(told, table="t", mode="append")):
        current().begin("complete")
        current().count("uploads", 1000)
        for _ in range(100):
            current().advance()
        executors.run([0, 1], waiting(str(tmp_path / "gate")), task_count=2)
    shown = told.until(lambda one: one.done == 100 + ITEMS_PER_TASK)
    assert (shown.total, shown.unit) == (1000, "uploads")
    assert max(one.done for one in told.all) <= 1000


def test_a_write_is_told_of_step_by_step(
    lakehouse: Lakehouse, lakehouse_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)
    told: list[Progress] = []
    spark, table = lakehouse.spark, f"{lakehouse_database}.watched"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer = TableWriter(spark, config=TableWriterConfig(progress=told.append))
    result = writer.append(spark.range(100).selectExpr("id", "'a' AS dt").repartition(4), table)
    seen = list(dict.fromkeys(one.step for one in told))
    assert seen[:2] == ["plan", "upload"]
    assert seen[-1] == "publish"
    assert any(one.unit == "tasks" and one.total for one in told)
    assert {one.write_id for one in told if one.step == "publish"} == {result.write_id}
    assert told[-1].state == "done"
    told.clear()
    with writer.stage(
        spark.range(10).selectExpr("id", "'b' AS dt"), table, checks=[lambda df: df.count() == 10]
    ) as staged:
        assert "check" in {one.step for one in told}
        staged.publish()
    assert {one.write_id for one in told if one.step == "publish"} == {staged.write_id}
