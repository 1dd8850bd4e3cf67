"""`table-writer report`: text, a page, both for a script; the exit code says whether something is in doubt."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.shell import TABLE, Shell
from tests.publish.world import World

ROWS = {"d1": frozenset({1}), "d2": frozenset({2})}


def test_a_page_is_written_and_the_text_says_where(world: World, shell: Shell, tmp_path: Path) -> None:
    world.write(ROWS)
    file = tmp_path / "orders.html"
    ran = shell.run("report", TABLE, "--html", str(file))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{TABLE} version 1: ok, 2 partitions, 2 rows in 2 files")
    assert ran.out.endswith(f"  page written to {file}\n")
    assert file.read_text().endswith("</html>")


def test_the_page_alone_goes_to_stdout(world: World, shell: Shell) -> None:
    world.write(ROWS)
    ran = shell.run("report", TABLE, "--html", "-")
    assert ran.out.startswith("<!doctype html>")
    assert ran.out.endswith("</html>\n")
    assert shell.run("report", TABLE, "--html", "-", "--json").code == 2


def test_a_script_gets_the_facts_and_the_file(world: World, shell: Shell, tmp_path: Path) -> None:
    world.write(ROWS)
    file = tmp_path / "orders.html"
    found = json.loads(shell.run("report", TABLE, "--html", str(file), "--json").out)
    assert (found["version"], found["health"], found["html"], found["rows"]) == (1, "ok", str(file), 2)
    assert "html" not in shell.run("report", TABLE, "--json").json
    assert file.exists()


def test_what_is_in_doubt_ends_with_1_and_the_page_is_made(world: World, shell: Shell, tmp_path: Path) -> None:
    world.write(ROWS)
    world.store.delete([world.layout.outcome_key(1)])
    file = tmp_path / "orders.html"
    ran = shell.run("report", TABLE, "--html", str(file))
    assert ran.code == 1
    assert "PROBLEM: version 1 is in doubt" in ran.out
    assert f"table-writer recover {TABLE}" in ran.out
    assert file.exists()


def test_a_file_that_cannot_be_written_ends_with_2(world: World, shell: Shell, tmp_path: Path) -> None:
    world.write(ROWS)
    ran = shell.run("report", TABLE, "--html", str(tmp_path / "none" / "orders.html"))
    assert (ran.code, ran.out) == (2, "")
    assert "cannot be written" in ran.err
