"""Exit codes, questions, errors: what every command has in common."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from table_writer.cli.arguments import MEANINGS, ExitCode, age, exit_code_of
from table_writer.cli.main import Output
from table_writer.errors import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionExistsError,
    SchemaMismatchError,
    StorageError,
)
from table_writer.reports.history_reports import HistoryReport
from tests.cli.shell import TABLE, Shell, Terminal
from tests.publish.world import Fault, World

ERRORS = [
    (InvalidInputError("no"), 2, "invalid_input"),
    (SchemaMismatchError("no"), 2, "schema_mismatch"),
    (CheckFailedError("no"), 2, "check_failed"),
    (ConflictError("no"), 3, "conflict"),
    (StorageError("no"), 4, "storage"),
    (MetastoreError("no"), 4, "metastore"),
    (PartitionExistsError("no"), 4, "partition_exists"),
    (LostResponseError("no"), 5, "lost_response"),
    (OutcomeUnknownError("no"), 5, "outcome_unknown"),
    (KeyError("bug"), 5, "internal"),
    (KeyboardInterrupt(), 130, "interrupted"),
]


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def history(self, *_: Any, **__: Any) -> HistoryReport:
        raise self.error


@pytest.mark.parametrize(("error", "code", "name"), ERRORS, ids=lambda one: type(one).__name__)
def test_each_error_has_its_exit_code_and_its_json(shell: Shell, error: Exception, code: int, name: str) -> None:
    shell.keeper = lambda: Failing(error)
    plain = shell.run("history", TABLE)
    assert (plain.code, plain.out) == (code, "")
    assert plain.err.startswith("table-writer: ")
    assert "Traceback" not in plain.err
    found = shell.run("history", TABLE, "--json")
    assert found.code == code
    assert list(found.json) == ["error"]
    assert list(found.json["error"]) == ["code", "message", "table", "write_id"]
    assert (found.json["error"]["code"], found.json["error"]["table"]) == (name, TABLE)
    assert found.err == plain.err


def test_an_error_names_the_write(shell: Shell) -> None:
    shell.keeper = lambda: Failing(StorageError("no", table="mart.other", write_id="w1"))
    facts = shell.run("history", TABLE, "--json").json["error"]
    assert (facts["table"], facts["write_id"]) == ("mart.other", "w1")


def test_every_exit_code_has_a_meaning_that_help_shows(shell: Shell) -> None:
    assert set(MEANINGS) == set(ExitCode)
    for words in (["--help"], ["vacuum", "--help"]):
        ran = shell.run_raw(*words)
        assert ran.code == 0
        assert all(f"{code.value:>3}  {MEANINGS[code]}" in ran.out for code in ExitCode)


def test_a_traceback_is_shown_to_who_asks(shell: Shell) -> None:
    shell.keeper = lambda: Failing(StorageError("no"))
    assert "Traceback" in shell.run("history", TABLE, "--verbose").err


def test_storage_that_fails_ends_with_4(world: World, shell: Shell) -> None:
    world.write({"d1": frozenset({1})})
    with world.inject(Fault("store", "list_page", 1, "before", Exception)):
        assert shell.run("history", TABLE).code == 4
    with world.inject(Fault("metastore", "get_table", 1, "before", Exception)):
        assert shell.run("history", TABLE).code == 4


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["frob"],
        ["history"],
        ["history", TABLE, "--frob"],
        ["history", TABLE, "--lim", "3"],
        ["history", TABLE, "--limit", "x"],
        ["show", TABLE, "-1"],
        ["show", TABLE, "1.5"],
        ["rollback", TABLE],
        ["rollback", TABLE, "--version", "1", "--write-id", "w"],
        ["rollback", TABLE, "--version", "1.5"],
        ["rollback", TABLE, "--version", "nan"],
        ["history", TABLE, "--limit", "1e3"],
        ["vacuum", TABLE, "--older-than", "-1d"],
        ["vacuum", TABLE, "--older-than", "nan"],
        ["uploads", TABLE, "--older-than", "inf"],
        ["history", TABLE, "--metastore-timeout", "nan"],
        ["history", TABLE, "--metastore-timeout", "50000"],
        ["history", TABLE, "--endpoint-url", "127.0.0.1:9000"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(shell: Shell, words: list[str]) -> None:
    ran = shell.run_raw(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "usage: table-writer" in ran.err
    facts = shell.run_raw(*words, "--json").json["error"]
    assert facts["code"] == "usage"
    assert shell.made == []


@pytest.mark.parametrize("age", ["7", "1w", "d", "1d2h", "1e3d", "\u0667d", "999999999999d"])
def test_an_age_without_a_unit_is_refused_by_name(shell: Shell, age: str) -> None:
    ran = shell.run("vacuum", TABLE, "--older-than", age)
    assert ran.code == 2
    assert "is not an age: write days, hours or minutes, such as 7d, 36h, 90m, or 0" in ran.err or "longer" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["history", TABLE, "--limit", "0"], "limit=0: expected 1 or more"),
        (["history", TABLE, "--limit", "-1"], "limit=-1: expected 1 or more"),
        (["vacuum", TABLE, "--older-than", "40000d"], "100 years"),
        (["uploads", TABLE, "--older-than", "40000d"], "100 years"),
        (["show", TABLE, "99999"], "has no version 99999"),
        (["rollback", TABLE, "--version", "99999", "--yes"], "has no version 99999"),
        (["rollback", TABLE, "--write-id", "", "--yes"], "no entry of it"),
        (["publish", TABLE, "", "--yes"], "no write has such a name"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_a_value_that_no_call_takes_ends_with_2_and_says_why(
    world: World, shell: Shell, words: list[str], said: str
) -> None:
    world.write({"d1": frozenset({1})})
    ran = shell.run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize("age", ["7d", "36h", "1440m", "1.5d", "0"])
def test_ages_have_units(world: World, shell: Shell, age: str) -> None:
    world.write({"d1": frozenset({1})})
    assert shell.run("vacuum", TABLE, "--older-than", age, "--force").code == 0


ASKING = [
    ("rollback", TABLE, "--version", "1"),
    ("vacuum", TABLE, "--older-than", "0", "--force"),
    ("restore", TABLE),
    ("uploads", TABLE, "--abort"),
]


def state(world: World) -> tuple[object, ...]:
    return {info.key: info.etag for info in world.store.list("")}, world.partitions()


@pytest.fixture
def changed(world: World) -> World:
    for number in range(3):
        world.write({"d1": frozenset({number}), "d2": frozenset({number})})
    world.metastore.drop_partition(world.table, ("d2",))
    return world


@pytest.mark.parametrize("answer", ["\n", "n\n", "", "yess\n"])
@pytest.mark.parametrize("words", ASKING, ids=lambda words: words[0])
def test_without_a_yes_nothing_changes(changed: World, shell: Shell, words: tuple[str, ...], answer: str) -> None:
    if words[0] == "rollback":
        words = (*words, "--partition", "dt=d1")
    before = state(changed)
    ran = shell.run_at_terminal(*words, answer=answer)
    assert ran.code == 130
    assert f"{TABLE}: " in ran.out
    assert ran.out.endswith("Go ahead? [y/N] ")
    assert ran.err == "table-writer: nothing was changed\n"
    assert state(changed) == before


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_with_a_yes_it_is_done(changed: World, shell: Shell, answer: str) -> None:
    ran = shell.run_at_terminal("restore", TABLE, answer=answer)
    assert ran.code == 0
    assert "1 partition would be added" in ran.out
    assert "1 partition added" in ran.out
    assert set(changed.partitions()) == {"d1", "d2"}


@pytest.mark.parametrize(("words", "answer", "code"), [((), "n\n", 130), ((), "y\n", 0), (("--yes",), "", 0)])
def test_accepting_a_loss_is_asked_about_too(
    changed: World, shell: Shell, words: tuple[str, ...], answer: str, code: int
) -> None:
    before = state(changed)
    ran = shell.run_at_terminal("adopt", TABLE, "--accept-loss", *words, answer=answer)
    assert ran.code == code
    assert ("Go ahead?" in ran.out) is (not words)
    assert code == 0 or state(changed) == before


def test_with_json_the_question_stands_on_stderr(changed: World, shell: Shell) -> None:
    ran = shell.run_at_terminal("restore", TABLE, "--json", answer="y\n")
    assert ran.json["dry_run"] is False
    assert "Go ahead?" in ran.err


@pytest.mark.parametrize("words", [("--yes",), ("--dry-run",)])
def test_no_question_where_it_is_answered_already(changed: World, shell: Shell, words: tuple[str, ...]) -> None:
    assert "Go ahead?" not in shell.run_at_terminal("restore", TABLE, *words, answer="").out


def test_no_question_where_nothing_changes(changed: World, shell: Shell) -> None:
    assert "Go ahead?" not in shell.run_at_terminal("uploads", TABLE, answer="").out
    assert "Go ahead?" not in shell.run_at_terminal("history", TABLE, answer="").out


@pytest.mark.parametrize("stdin", [None, io.StringIO()])
def test_a_script_is_never_asked(
    changed: World, shell: Shell, monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO | None
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    assert shell.run("restore", TABLE).code == 0


def test_no_question_where_the_output_goes_into_a_file(
    changed: World, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert shell.run("restore", TABLE).code == 0


def test_log_lines_go_to_stderr_and_more_of_them_if_asked(changed: World, shell: Shell) -> None:
    library = logging.getLogger("table_writer")
    before = library.level, list(library.handlers)
    ran = shell.run("rollback", TABLE, "--version", "1", "--partition", "dt=d1", "--json", "--verbose")
    assert ran.json["to_version"] == 1
    assert "INFO table_writer.protocol.log.slots: write_id=" in ran.err
    assert shell.run("rollback", TABLE, "--version", "2", "--partition", "dt=d1").err == ""
    assert (library.level, library.handlers) == before


def test_a_name_that_the_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    Output(as_json=False, verbose=False).report({}, "dt=\u044f …")
    assert raw.getvalue() == b"dt=\\u044f \\u2026\n"


def python(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], check=False, text=True, stderr=subprocess.PIPE, **options)


def test_the_module_is_the_command() -> None:
    assert python("-m", "table_writer", "--version", stdout=subprocess.PIPE).stdout.startswith("table-writer ")
    ran = python("-m", "table_writer", "vacuum", stdout=subprocess.PIPE)
    assert ran.returncode == 2
    assert "table-writer: the following arguments are required: TABLE" in ran.stderr


def test_a_reader_that_has_gone_is_silent() -> None:
    code = (
        "from table_writer.cli.main import Output\n"
        "Output(as_json=False, verbose=False).report({}, 'x\\n' * 100_000)\n"
        "print('more')"
    )
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = python("-c", code, stdout=writing)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_age_has_a_unit_unless_it_is_zero() -> None:
    assert (age("36h"), age("0")) == (timedelta(hours=36), timedelta(0))


@pytest.mark.parametrize("error", [LostResponseError("no answer"), KeyError("bug")], ids=repr)
def test_after_a_lost_answer_or_a_bug_the_outcome_is_unknown(error: Exception) -> None:
    assert exit_code_of(error) is ExitCode.UNKNOWN


NEVER = {
    "pyspark",
    "pyarrow",
    "boto3",
    "botocore",
    "azure",
    "google",
    "table_writer.metastore.glue",
    "table_writer.storage.s3.store",
}
OF_OTHER_COMMANDS = {
    *(
        "table_writer.doctor",
        "table_writer.reports.page",
        "table_writer.protocol.vacuum",
        "table_writer.protocol.operations",
        "table_writer.many",
    ),
    *("table_writer.jobs", "table_writer.version", "importlib.metadata", "shtab", "http.client"),
}
OF_EVERY_CALL = {
    *("table_writer.config", "table_writer.protocol", "table_writer.metastore", "table_writer.storage"),
    *("table_writer.reports", "table_writer.events", "hmsclient", "thrift", "msgspec"),
}


@pytest.mark.parametrize(
    ("words", "code", "not_loaded"),
    [
        (["--help"], 0, NEVER | OF_OTHER_COMMANDS | OF_EVERY_CALL),
        (["history", "--help"], 0, NEVER | OF_OTHER_COMMANDS | OF_EVERY_CALL),
        (["history"], 2, NEVER | OF_OTHER_COMMANDS | OF_EVERY_CALL),
        (["history", TABLE, "--metastore-uri", "thrift://127.0.0.1:1"], 4, NEVER | OF_OTHER_COMMANDS),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_command_loads_what_it_needs_and_no_more(words: list[str], code: int, not_loaded: set[str]) -> None:
    """Loading is what a person waits for: without this a page of help took a second."""
    program = (
        "import sys\nfrom table_writer.cli.main import main\n"
        f"code = main({words})\nprint('loaded:', int(code), *sys.modules)"
    )
    printed = python("-c", program, stdout=subprocess.PIPE).stdout.splitlines()[-1]
    name, ended_with, *loaded = printed.split()
    assert (name, int(ended_with)) == ("loaded:", code)
    assert sorted(not_loaded.intersection(loaded)) == []
