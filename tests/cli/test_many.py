"""`tables`, and `vacuum` and `recover` over many tables: arguments, exit codes, JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.config import TableWriterConfig
from table_writer.model.table import TableName
from table_writer.model.table_kind import HIVE
from tests.cli.shell import Shell
from tests.publish.world import TableWorld, World


def add_table(world: World, name: str, *, database: str = "mart") -> TableWorld:
    root = f"s3a://lake/{database}/{name}/"
    made = replace(world.table, name=TableName(database, name), location=root, hive_location="")
    world.metastore.create_table(made)
    one = TableWorld(world.store, world.metastore, TableName(database, name), root)
    one.write({"d1": frozenset({1})})
    return one


@pytest.fixture
def world() -> World:
    world = World(config=TableWriterConfig(progress="off"))
    add_table(world, "a")
    add_table(world, "b")
    add_table(world, "c", database="other")
    return world


def test_tables_lists_all_and_those_of_a_database(shell: Shell) -> None:
    ran = shell.run("tables", "--json")
    assert ran.code == 0
    assert [one["table"] for one in ran.json["tables"]] == ["mart.a", "mart.b", "other.c"]
    assert list(ran.json["tables"][0]) == [
        *("table", "version", "age_seconds", "in_doubt", "behind", "free_bytes", "health", "error")
    ]
    assert ran.json["others_count"] == 1
    of_one = shell.run("tables", "--database", "OTHER", "--json")
    assert [one["table"] for one in of_one.json["tables"]] == ["other.c"]
    text = shell.run("tables", "--database", "mart", "--all").out
    assert text.startswith("mart.*: 2 tables (2 ok); a vacuum would free 0 B\n")


def test_tables_says_of_others_whether_they_can_be_written_and_what_is_in_the_way(world: World, shell: Shell) -> None:
    odd = {
        "view": {"kind": "VIRTUAL_VIEW", "location": ""},
        "iceberg": {"parameters": {"table_type": "ICEBERG"}},
        "on_hdfs": {"location": "hdfs://name/mart/on_hdfs/"},
        "orc": {"serde": f"{HIVE}orc.OrcSerde", "location": "s3a://lake/mart/orc/"},
        "plain": {"serde": f"{HIVE}parquet.serde.ParquetHiveSerDe", "location": "s3a://lake/mart/plain/"},
    }
    for name, fields in odd.items():
        made = replace(world.table, name=TableName("mart", name), hive_location="", **fields)
        world.metastore.create_table(made)
    assert shell.run("tables", "--json").json["candidates"] == []
    ran = shell.run("tables", "--database", "mart", "--unwritten", "--json")
    found = {one["table"].removeprefix("mart."): one for one in ran.json["candidates"]}
    assert {name: one["writer"] for name, one in found.items() if not one["in_the_way"]} == {
        "orders": "Spark",  # of no format that the metastore names
        "plain": "Arrow",
        "orc": "Spark",
    }
    assert "view" in found["view"]["in_the_way"]
    assert "iceberg" in found["iceberg"]["in_the_way"].lower()
    assert "hdfs:// is not supported" in found["on_hdfs"]["in_the_way"]
    assert ran.code == 0
    text = shell.run("tables", "--database", "mart", "--all").out
    assert "not written by this library" in text
    assert "can be written" in text


@pytest.mark.parametrize("command", ["vacuum", "recover"])
def test_many_tables_are_named_by_database_by_all_or_one_by_one(shell: Shell, command: str) -> None:
    chosen = {
        ("--all",): ["mart.a", "mart.b", "other.c"],
        ("--database", "mart"): ["mart.a", "mart.b"],
        ("--database", "mart", "--database", "other", "--workers", "1"): ["mart.a", "mart.b", "other.c"],
        ("mart.b", "other.c", "Other.C"): ["mart.b", "other.c"],
    }
    for words, names in chosen.items():
        ran = shell.run(command, *words, "--json")
        assert ran.code == 0
        assert [one["table"] for one in ran.json["results"]] == names
        assert list(ran.json["results"][0]) == ["table", "error", "report", "exit_code"]
        assert ran.json["results"][0]["report"]["table"] == names[0]


def test_one_table_prints_what_it_always_did(shell: Shell) -> None:
    assert "deleted" in shell.run("vacuum", "mart.a", "--json").json
    assert "settled" in shell.run("recover", "mart.a", "--all", "--json").json


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["vacuum"], "TABLE, one or several; or --database DB, or --all"),
        (["recover", "--database", "mart", "mart.a"], "exclude each other"),
        (["recover", "--all", "--accept-loss"], "one TABLE at a time"),
        (["recover", "mart.a", "mart.b", "--accept-loss"], "one TABLE at a time"),
        (["vacuum", "--database", "marts"], "did you mean mart"),
        (["vacuum", "mart.*", "mart.a"], "is a pattern"),
        (["tables", "--database", "m*"], "Patterns are not read"),
        (["tables", "mart.a"], "a further word"),
        (["vacuum", "--all", "--workers", "0"], "expected 1 to 64"),
    ],
)
def test_a_wrong_call_ends_with_2(shell: Shell, words: list[str], why: str) -> None:
    ran = shell.run(*words, "--json")
    assert ran.code == 2
    assert why in ran.json["error"]["message"]


def test_the_worst_exit_code_wins_and_each_table_has_its_own(world: World, shell: Shell) -> None:
    b = TableWorld(world.store, world.metastore, TableName("mart", "b"), "s3a://lake/mart/b/")
    world.store.put(b.layout.entry_key(1), b"{")
    for command in ("vacuum", "recover"):
        ran = shell.run(command, "--all", "--json")
        assert ran.code == 2
        assert [one["exit_code"] for one in ran.json["results"]] == [0, 2, 0]
        assert ran.json["results"][1]["error"]["code"] == "invalid_input"
        assert ran.json["results"][1]["report"] is None
    ran = shell.run("tables")
    assert ran.code == 2
    assert "FAILED: log entry 1 below s3a://lake/mart/b/" in ran.out.replace("mart.b: ", "")


def test_a_failing_store_wins_over_a_refusal(world: World, shell: Shell) -> None:
    def fail(_call: str, _phase: str, key: str) -> None:
        if "/mart/a/" in f"/{key}":
            from table_writer.errors import StorageError

            raise StorageError("no route to host")

    b = TableWorld(world.store, world.metastore, TableName("mart", "b"), "s3a://lake/mart/b/")
    world.store.put(b.layout.entry_key(1), b"{")
    world.store.on_call = fail
    assert shell.run("vacuum", "--all").code == 4
    assert shell.run("tables").code == 4


def test_ctrl_c_prints_what_was_done_and_ends_with_130(world: World, shell: Shell) -> None:
    def interrupt(_call: str, _phase: str, key: str) -> None:
        if "/other/" in f"/{key}":
            raise KeyboardInterrupt

    world.store.on_call = interrupt
    ran = shell.run("vacuum", "--all", "--workers", "1", "--json")
    assert ran.code == 130
    assert [one["exit_code"] for one in ran.json["results"]] == [0, 0, 130]
    assert ran.json["results"][2]["error"]["code"] == "interrupted"
    assert "interrupted" in ran.err


def test_a_vacuum_of_many_asks_once_at_a_terminal(shell: Shell) -> None:
    ran = shell.run_at_terminal("vacuum", "--database", "mart", answer="n\n")
    assert ran.code == 130
    assert ran.out.count("Go ahead?") == 1
    assert "mart.*: 2 tables" in ran.out
    assert shell.run_at_terminal("vacuum", "--database", "mart", answer="y\n").code == 0
