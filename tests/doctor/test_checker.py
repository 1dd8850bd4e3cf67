"""The checker of histories: an honest one holds, and each way to break a promise is called by its name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from table_writer.doctor import checker
from table_writer.doctor.certify import split_reads

Event = dict[str, Any]


def begin(at: float, write: str, kind: str = "overwrite", **rows: int) -> Event:
    return {"event": "begin", "t": at, "write": write, "kind": kind, "rows": rows or {"p": 2}}


def end(at: float, write: str, how: str = "published") -> Event:
    return {"event": how, "t": at, "write": write}


def read(began: float, at: float, **rows: Sequence[str]) -> Event:
    return {"event": "read", "began": began, "t": at, "rows": rows, "error": ""}


def of(*writes: str) -> list[str]:
    return [f"{write}/{number}" for write in writes for number in range(2)]


HONEST: list[Event] = [
    begin(1, "one"),
    end(2, "one"),
    read(3, 4, p=of("one")),
    begin(5, "two"),
    begin(5, "add", "append"),
    read(5.1, 6, p=of("one")),
    end(7, "add"),
    read(6, 7.5, p=of("one", "add")),
    end(8, "two", "refused"),
    begin(9, "dead"),
    end(9.5, "dead", "killed"),
    read(10, 11, p=of("one", "add")),
    read(12, 13, p=of("dead")),  # a recovery has finished it
    begin(14, "late"),
    read(14.1, 15, p=of("late")),  # before its writer was told
    end(15.5, "late"),
    {"event": "settled", "t": 16},
    read(17, 18, p=of("late")),
    {"event": "gone", "t": 19, "mark": "dead", "found": []},
    read(20, 21, p=of("late")),
]

BROKEN: dict[str, tuple[str, list[Event]]] = {
    "half of a write": ("each write is seen whole", [read(17, 17.5, p=["late/0"])]),
    "a row twice": ("each write is seen whole", [read(17, 17.5, p=[*of("late"), "late/1"])]),
    "rows of nobody": ("each write is seen whole", [read(17, 17.5, p=[*of("late"), "nobody/0"])]),
    "rows of the future": ("each write is seen whole", [read(3.1, 3.2, p=of("late"))]),
    "two overwrites at once": ("readers see old rows or new rows", [read(12, 12.5, p=of("dead", "one"))]),
    "an append that was replaced": ("readers see old rows or new rows", [read(17, 17.1, p=of("late", "add"))]),
    "an append that is not there": ("no published row is lost", [read(8, 8.5, p=of("one"))]),
    "no rows at all": ("no published row is lost", [read(17, 17.5)]),
    "older rows than were published": ("no published row is lost", [read(15.6, 15.9, p=of("one", "add"))]),
    "back to older rows": ("no reader goes back", [read(15.6, 15.9, p=of("one", "add"))]),
    "rows that were refused": ("what was refused is never seen", [read(12, 12.5, p=of("two"))]),
    "a file that is missing": (
        "nothing live is deleted or damaged",
        [{"event": "read", "began": 17, "t": 17.5, "rows": {}, "error": "FileNotFoundError", "damaged": True}],
    ),
    "a log that a writer cannot read": (
        "nothing live is deleted or damaged",
        [begin(17, "next"), {**end(18, "next", "refused"), "error": "entries are lost", "damaged": True}],
    ),
    "other rows after the end": ("what is resolved stays", [read(21, 22, p=of("dead"))]),
    "a trace of what was erased": (
        "what is erased is gone",
        [{"event": "gone", "t": 22, "mark": "dead", "found": ["data/x.parquet"]}],
    ),
}


ONE = [begin(1, "one"), end(2, "one")]
DEAD = [begin(3, "dead"), end(3.5, "dead", "killed")]
ADD = [begin(3, "add", "append"), end(3.5, "add", "killed")]
TWO = {"p": 2, "q": 2}
BOTH = [begin(1, "one", **TWO), end(2, "one")]

OF_UNKNOWN_OUTCOME: dict[str, list[Event]] = {
    "a killed overwrite, and then older rows": [*ONE, *DEAD, read(4, 5, p=of("dead")), read(6, 7, p=of("one"))],
    "a killed overwrite comes back": [
        *(*ONE, *DEAD, read(4, 5, p=of("dead")), begin(6, "w"), end(7, "w")),
        *(read(8, 9, p=of("w")), read(10, 11, p=of("dead"))),
    ],
    "two overwrites take turns": [
        *(begin(1, "a"), begin(2, "b"), end(5, "a"), end(6, "b")),
        *(read(7, 8, p=of("a")), read(9, 10, p=of("b")), read(11, 12, p=of("a"))),
    ],
    "a killed append goes again": [*ONE, *ADD, read(4, 5, p=of("one", "add")), read(6, 7, p=of("one"))],
    "an append on two bases": [
        *(*ONE, begin(3, "add", "append"), begin(3.1, "o"), end(6, "add"), read(4, 5, p=of("one", "add"))),
        *(end(8, "o"), read(9, 10, p=of("o", "add"))),
    ],
    "half of a killed write at rest": [
        *(*BOTH, begin(3, "dead", **TWO), end(3.5, "dead", "killed"), {"event": "settled", "t": 5}),
        *(read(6, 7, p=of("dead"), q=of("one")), read(8, 9, p=of("dead"), q=of("one"))),
    ],
    "two writes of two partitions, each in one, at rest": [
        *(begin(1, "x", **TWO), begin(1, "y", **TWO), end(3, "x"), end(3, "y"), {"event": "settled", "t": 5}),
        read(6, 7, p=of("x"), q=of("y")),
    ],
    "a published append is gone between two reads that show it, beside a base that it had come to": [
        *(*ONE, begin(2, "k"), begin(3, "add", "append"), end(4, "add"), end(9, "k")),
        *(read(5, 10.5, p=of("k", "add")), read(10, 11, p=of("k")), read(12, 13, p=of("k", "add"))),
    ],
    "a published overwrite is back after a killed one, and reads overlap": [
        *(begin(1, "k"), end(2, "k", "killed"), begin(3, "b"), end(4, "b")),
        *(read(5, 7, p=of("b")), read(6, 8, p=of("k")), read(9, 10, p=of("b"))),
    ],
    "an append without the append that was published before it began": [
        *(*ONE, begin(3, "a1", "append"), end(4, "a1"), begin(5, "a2", "append"), end(6, "a2")),
        read(2.5, 9, p=of("one", "a2")),
    ],
    "rows in a partition that no write names": [*ONE, read(3, 4, p=of("one"), z=["nobody/0"])],
}
HONEST_AND_ODD: dict[str, list[Event]] = {
    "told at the moment of a read": [*ONE, begin(3, "w"), end(4, "w"), read(4, 5, p=of("one"))],
    "a metastore that does not answer": [
        *ONE,
        {"event": "read", "began": 3, "t": 4, "rows": {}, "error": "MetastoreError: timed out"},
    ],
    "finished late, after another has begun": [
        *(*ONE, *DEAD, begin(4, "w"), read(5, 6, p=of("dead")), end(7, "w"), read(8, 9, p=of("w")))
    ],
    "finished late, over another": [
        *(*ONE, begin(3, "dead"), begin(4, "w"), end(5, "w"), read(5.5, 5.6, p=of("w")), read(8, 9, p=of("dead")))
    ],
    "an append is lost under an overwrite at the same time": [
        *(*ONE, begin(3, "add", "append"), begin(3.1, "o"), end(4, "add"), read(4.1, 4.2, p=of("one", "add"))),
        *(end(5, "o"), read(6, 7, p=of("o"))),
    ],
    "a long read beside a short one": [
        *(*ONE, begin(3, "w"), read(3.1, 9, p=of("one")), read(4, 5, p=of("w")), end(4.5, "w"))
    ],
    "partitions that switch one by one": [
        *(*BOTH, begin(3, "w", **TWO), read(4, 5, p=of("w"), q=of("one")), read(5.1, 6, p=of("w"), q=of("one"))),
        *(end(7, "w"), read(8, 9, p=of("w"), q=of("w"))),
    ],
}


def judged(events: Sequence[Event]) -> dict[str, list[str]]:
    _, found = checker.judge(events)
    assert all(state == "broken" if broken else state != "broken" for state, broken in found.values())
    return {promise: broken for promise, (_, broken) in found.items() if broken}


def states_of(events: Sequence[Event]) -> dict[str, str]:
    _, found = checker.judge(events)
    return {promise: state for promise, (state, _) in found.items()}


def test_an_honest_history_holds() -> None:
    assert judged(HONEST) == {}
    assert judged(HONEST[::-1]) == {}, "whatever the order of its lines"


@pytest.mark.parametrize("how", BROKEN)
def test_what_breaks_a_promise_is_called_by_its_name(how: str) -> None:
    promise, events = BROKEN[how]
    assert promise in judged([*HONEST, *events])


def test_every_promise_can_be_broken() -> None:
    assert {promise for promise, _ in BROKEN.values()} == checker.CHECKS.keys()


@pytest.mark.parametrize("how", OF_UNKNOWN_OUTCOME)
def test_what_was_seen_counts_whoever_was_told(how: str) -> None:
    assert judged(OF_UNKNOWN_OUTCOME[how])


@pytest.mark.parametrize("how", HONEST_AND_ODD)
def test_what_an_honest_table_may_show_is_not_called_broken(how: str) -> None:
    assert judged(HONEST_AND_ODD[how]) == {}


def test_no_other_words_are_taken_for_events(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Published"):
        checker.judge([*ONE, end(3, "one", "Published")])
    nothing_tried = "\n".join(map(json.dumps, [*ONE, read(3, 4, p=of("one"))]))
    texts = {"empty": "", "torn": '{"event": "be', "list": "[1]", "timeless": '{"event": "gone"}', "few": nothing_tried}
    for name, text in {**texts, "deep": "[" * 100_000}.items():
        (tmp_path / name).write_text(text)
        assert checker.main([str(tmp_path / name)]) == 2
    assert checker.main([str(tmp_path / "no such file")]) == 2
    assert checker.main([]) == 2
    (tmp_path / "gone").write_text(json.dumps({"event": "gone", "t": 1, "mark": "x", "found": ["data/x.parquet"]}))
    assert checker.main([str(tmp_path / "gone")]) == 1


def test_what_nobody_tried_is_not_called_held() -> None:
    assert set(states_of(ONE).values()) == {"not tried"}
    reads = [read(10 + at, 10.5 + at, p=of("one")) for at in range(3)]
    held = {promise for promise, state in states_of([*ONE, *reads]).items() if state == "held"}
    assert held == {"each write is seen whole", "no published row is lost", "nothing live is deleted or damaged"}
    two = [begin(3, "two"), end(4, "two"), *(read(10 + at, 10.5 + at, p=of("two")) for at in range(3))]
    assert states_of([*ONE, *two])["readers see old rows or new rows"] == "held"
    assert states_of([*ONE, *two])["no reader goes back"] == "held"
    assert states_of([*ONE, *reads, {"event": "settled", "t": 11}])["what is resolved stays"] == "not tried"
    assert states_of([*ONE, *reads, {"event": "settled", "t": 9}])["what is resolved stays"] == "held"
    assert set(states_of(reads).values()) == {"not tried", "broken"}


def test_other_orders_of_the_same_rows_are_the_same() -> None:
    settled = {"event": "settled", "t": 3}
    assert judged([*ONE, settled, read(4, 5, p=of("one")), read(6, 7, p=of("one")[::-1])]) == {}


@pytest.mark.parametrize("missing", [event["write"] for event in HONEST if event["event"] == "published"])
def test_a_writer_who_was_not_told_may_be_seen_or_not(missing: str) -> None:
    """Without its end a write's outcome is not known: nothing that was right becomes wrong."""
    events = [event for event in HONEST if (event["event"], event.get("write")) != ("published", missing)]
    assert judged(events) == {}


def test_it_runs_by_itself_and_imports_nothing_of_this_library(tmp_path: Path) -> None:
    path = Path(checker.__file__)
    assert len(path.read_text().splitlines()) <= 250
    for name, events, code in (("honest", HONEST, 0), ("broken", [*HONEST, *BROKEN["no rows at all"][1]], 1)):
        history = tmp_path / f"{name}.jsonl"
        history.write_text("\n".join(map(json.dumps, events)))
        told = "import runpy, sys; sys.argv = sys.argv[1:]\ntry: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        told += "finally: assert not any(name.startswith('table_writer') for name in sys.modules)"
        ran = subprocess.run(
            [sys.executable, "-I", "-c", told, str(path), str(history)], capture_output=True, text=True, check=False
        )
        assert ran.returncode == code, ran.stderr
        assert ("BROKEN" in ran.stdout) == bool(code)


def test_a_read_that_saw_half_of_a_switch_is_named() -> None:
    history, _ = checker.judge(HONEST_AND_ODD["partitions that switch one by one"])
    assert split_reads(history) == ["w in p and not in q", "w in p and not in q"]
    for name, events in {"honest": HONEST, **HONEST_AND_ODD}.items():
        if name != "partitions that switch one by one":
            assert split_reads(checker.judge(events)[0]) == [], name
