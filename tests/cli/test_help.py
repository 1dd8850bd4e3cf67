"""What a person at a prompt is helped by: pages with examples, near names, completion."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from table_writer.cli.commands import BY_NAME, COMMANDS, SHELLS, build_parser, parse
from table_writer.cli.main import main
from table_writer.cli.manual import ENVIRONMENT, MANUALS, OVERVIEW, PURPOSE, Manual
from tests.cli.shell import TABLE, Shell

PAGES = {"": OVERVIEW, **MANUALS}
SECTIONS = ("options:", "examples:", "exit codes:", "environment:", "see also:")
SECRET = "AKIAIOSFODNN7EXAMPLE"


def helped(shell: Shell, command: str) -> str:
    shell.monkeypatch.setenv("COLUMNS", "80")
    ran = shell.run_raw(*filter(None, [command]), "--help")
    assert (ran.code, ran.err) == (0, "")
    return ran.out


def test_every_command_has_a_page_and_no_page_is_of_none() -> None:
    assert list(MANUALS) == [command.name for command in COMMANDS]


@pytest.mark.parametrize(("name", "manual"), PAGES.items(), ids=lambda one: one if isinstance(one, str) else "")
def test_every_example_is_a_command(name: str, manual: Manual) -> None:
    assert manual.examples
    for line in manual.examples:
        words = shlex.split(line.partition("|")[0])
        assert parse(words).command == (name or words[0])
    assert set(manual.see_also) <= set(MANUALS) - {name}


@pytest.mark.parametrize("name", PAGES)
def test_help_has_all_its_parts_and_fits_a_terminal(shell: Shell, name: str) -> None:
    page = helped(shell, name)
    found = [page.index(f"\n{section}\n") for section in SECTIONS]
    assert found == sorted(found)
    assert all(variable in page for names in ENVIRONMENT for variable in names.split(", "))
    lines = [line for line in page.splitlines() if not line.startswith("  table-writer ")]
    assert max(map(len, lines)) <= 80, "examples are copied, and are one line each"
    text = f"{BY_NAME[name].call.summary} {BY_NAME[name].call.promises}" if name else PURPOSE
    assert text.strip() in " ".join(page.split())


def test_every_option_says_what_it_is_in_one_sentence() -> None:
    chosen = next(action.choices for action in build_parser()._actions if isinstance(action.choices, dict))
    helps = {(name, action.dest): action.help or "" for name, one in chosen.items() for action in one._actions}
    assert [option for option, text in helps.items() if not text or re.search(r"\.(\s+[A-Z]|$)|``", text)] == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["histroy", TABLE], "history"),
        (["vaccum", TABLE], "vacuum"),
        (["history", TABLE, "--limt", "3"], "--limit"),
        (["history", TABLE, "--limt=3"], "--limit"),
        (["vacuum", TABLE, "--froce"], "--force"),
        (["rollback", TABLE, "--verison", "3"], "--version"),
        (["--jsno", "history", TABLE], "--json"),
        (["history", "--porfile", "prod", TABLE], "--profile"),
        (["--print-completion", "zhs"], "zsh"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_a_near_name_is_suggested(shell: Shell, words: list[str], meant: str) -> None:
    ran = shell.run_raw(*words)
    assert ran.code == 2
    assert f"did you mean {meant}?" in ran.err


@pytest.mark.parametrize("words", [["--limt", "3"], ["--html", "-", "--json"], ["extra"]], ids=" ".join)
def test_an_error_of_a_command_shows_how_that_command_is_used(shell: Shell, words: list[str]) -> None:
    ran = shell.run_raw("report", TABLE, *words)
    assert (ran.code, ran.err.startswith("usage: table-writer report [--html FILE]")) == (2, True)


@pytest.mark.parametrize(
    "words",
    [["frobnicate", TABLE], ["history", TABLE, "--ful"], ["history", TABLE, "--secret-key", SECRET], [SECRET, TABLE]],
)
def test_a_word_that_is_near_nothing_is_neither_suggested_nor_repeated(shell: Shell, words: list[str]) -> None:
    ran = shell.run_raw(*words)
    assert ran.code == 2
    assert "did you mean" not in ran.err
    assert SECRET not in ran.err


def test_bash_completes_commands_options_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    assert main(["--print-completion", "bash"]) == 0
    (tmp_path / "table-writer.bash").write_text(capsys.readouterr().out)
    (tmp_path / "orders.html").touch()
    asks = """
    source ./table-writer.bash
    ask() {
      COMP_WORDS=(table-writer "$@") COMP_CWORD=$# COMPREPLY=()
      "$(complete -p table-writer | sed 's/.*-F \\([^ ]*\\) .*/\\1/')"
      echo "${COMPREPLY[*]}"
    }
    ask hi
    ask history mart.orders --li
    ask report mart.orders --html ord
    ask --print-completion z
    """
    ran = subprocess.run([bash, "--norc", "-c", asks], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ran.stdout.splitlines(), ran.stderr) == (["history", "--limit", "orders.html", "zsh"], "")


@pytest.mark.parametrize("shell_name", SHELLS)
def test_there_is_a_script_for_every_shell(shell: Shell, shell_name: str) -> None:
    ran = shell.run_raw("--print-completion", shell_name)
    assert ran.code == 0
    assert all(command.name in ran.out for command in COMMANDS)


def test_without_shtab_the_command_says_how_to_get_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    ran = shell.run_raw("--print-completion", "bash")
    assert ran.code == 2
    assert "pip install 'hive-table-writer[completion]'" in ran.err
