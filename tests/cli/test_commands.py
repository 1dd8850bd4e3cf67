"""Each command does to a table what it says, and a script can tell how it ended."""

from __future__ import annotations

from typing import Any

import pytest

from table_writer.reports.health_reports import DoctorReport, Finding
from tests.cli.shell import TABLE, Shell
from tests.maintenance.erasures import purge
from tests.publish.world import ROOT, DeathError, Fault, World

FIRST = {"d1": frozenset({1}), "d2": frozenset({2})}
SECOND = {"d1": frozenset({10}), "d3": frozenset({30})}
NEWEST = {**FIRST, **SECOND}
DAY_SECONDS = 86_400
CHANGING = [
    ("rollback", TABLE, "--version", "1"),
    ("vacuum", TABLE, "--older-than", "0", "--force"),
    ("restore", TABLE),
    ("recover", TABLE),
]


@pytest.fixture
def world() -> World:
    world = World()
    world.write(FIRST)
    world.write(SECOND)
    return world


def everything(world: World) -> tuple[object, ...]:
    objects = {info.key: info.etag for info in world.store.list("")}
    return objects, [one.upload_id for one in world.store.list_uploads("mart/")], world.partitions()


def dead_write(world: World) -> str:
    plan = world.plan()
    with world.inject(Fault("store", "complete_upload", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d9": frozenset({9})}, plan=plan)
    world.skipped_seconds += 2 * DAY_SECONDS
    return plan.write_id


def publish_in_doubt(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({99})})
    world.wait_out_claims()


def test_a_certificate_ends_with_0_only_if_nothing_is_left_to_look_at(shell: Shell, world: World) -> None:
    def codes(write_id: str) -> tuple[int, bool]:
        ran = shell.run("erasure", TABLE, "--write-id", write_id, "--json")
        return ran.code, ran.json["is_complete"]

    world.write({"d1": frozenset({11, 12})})
    staged = world.stage({"d7": frozenset({11})})
    result = purge(world, frozenset({11}))
    assert codes(result.write_id) == (1, False), "its files are due"
    world.keeper.vacuum(TABLE)
    assert f"NOT ERASED: write {staged}" in shell.run("erasure", TABLE).out
    assert codes(result.write_id) == (1, False)
    world.discard_staged()
    assert codes(result.write_id) == (0, True)
    assert "KEPT: the log keeps names of partitions" in shell.run("erasure", TABLE).out
    nothing = purge(world, frozenset({777}))
    assert codes(nothing.write_id) == (1, False), "no row was found"


def test_history_lists_the_newest_first(shell: Shell) -> None:
    ran = shell.run("history", TABLE)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{TABLE}: 2 versions\n")
    assert ran.out.index("  2        published") < ran.out.index("  1        published")
    facts = shell.run("history", TABLE, "--limit", "1", "--json").json
    assert [(one["version"], one["state"], one["rows"]) for one in facts["versions"]] == [(2, "published", 2)]


def test_partitions_are_told_with_the_version_of_their_rows(shell: Shell) -> None:
    facts = shell.run("partitions", TABLE, "--partition", "dt=d1", "--partition", "dt=none", "--json").json
    found = {one["name"]: (one["state"], one["version"]) for one in facts["partitions"]}
    assert found["dt=none"] == ("missing", None)
    assert found["dt=d1"] == ("published", 2)
    assert "it was never written" in shell.run("partitions", TABLE, "--partition", "dt=none").out


@pytest.mark.parametrize(("words", "shown"), [((), 13), (("--all",), 15)])
def test_all_shows_the_rows_that_are_left_out_otherwise(world: World, shell: Shell, words: Any, shown: int) -> None:
    for number in range(13):
        world.write({f"n{number}": frozenset({number})})
    lines = shell.run("history", TABLE, *words).out.splitlines()
    assert len(lines) == 2 + shown
    assert ("… and 3 more" in lines[-1]) == (words == ())


def test_lines_below_the_table_are_cut_too_and_failures_come_first(world: World, shell: Shell) -> None:
    world.write({f"n{number:02}": frozenset({number}) for number in range(20)})
    world.write({f"n{number:02}": frozenset({-number}) for number in range(20)})
    assert shell.run("vacuum", TABLE, "--dry-run").out.splitlines()[-1] == "  … and 9 more lines"
    assert shell.run("vacuum", TABLE, "--dry-run", "--all").out.count("\n  kept ") == 21


def test_show_names_each_partition_and_the_write(world: World, shell: Shell) -> None:
    ran = shell.run("show", TABLE, "2")
    write_id = world.services().log.slots.read(2).entry.write_id
    assert ran.code == 0
    assert "dt=d1      replaced" in ran.out
    assert write_id in ran.out
    facts = shell.run("show", TABLE, "2", "--json").json
    assert facts["summary"]["write_id"] == write_id
    assert {one["name"]: one["change"] for one in facts["partitions"]} == {"dt=d1": "replaced", "dt=d3": "added"}


def test_a_version_that_is_not_there_is_a_wrong_call(shell: Shell) -> None:
    ran = shell.run("show", TABLE, "99", "--json")
    assert ran.code == 2
    assert ran.json["error"]["code"] == "invalid_input"
    assert ran.err.startswith("table-writer: the log of mart.orders has no version 99")


def test_rollback_puts_rows_back_by_version_or_by_write(world: World, shell: Shell) -> None:
    ran = shell.run("rollback", TABLE, "--version", "1", "--json")
    assert (ran.code, ran.json["to_version"], ran.json["version"]) == (0, 1, 3)
    assert world.rows() == FIRST
    write_id = world.services().log.slots.read(2).entry.write_id
    assert "put back to version 2" in shell.run("rollback", TABLE, "--write-id", write_id).out
    assert world.rows() == NEWEST


def test_rollback_leaves_partitions_alone_that_are_not_named(world: World, shell: Shell) -> None:
    shell.run("rollback", TABLE, "--version", "1", "--partition", "dt=d1")
    assert world.rows() == {**FIRST, "d3": frozenset({30})}


def test_recover_resolves_what_is_in_doubt(world: World, shell: Shell) -> None:
    publish_in_doubt(world)
    looked = shell.run("recover", TABLE, "--dry-run", "--json")
    assert (looked.code, looked.json["settled"]) == (1, {"3": "in doubt"})
    ran = shell.run("recover", TABLE, "--json")
    assert (ran.code, ran.json["settled"]) == (0, {"3": "published"})
    assert world.rows()["d1"] == {99}
    assert "nothing is in doubt" in shell.run("recover", TABLE).out


def test_recover_goes_on_without_a_lost_entry_only_when_asked(world: World, shell: Shell) -> None:
    world.store.delete([world.layout.entry_key(1)])
    before = world.rows()
    refused = shell.run("recover", TABLE)
    assert refused.code == 2
    assert "--accept-loss" in refused.err
    looked = shell.run("recover", TABLE, "--accept-loss", "--dry-run", "--json")
    assert (looked.code, looked.json["lost"]) == (1, [1])
    assert shell.run("recover", TABLE).code == 2, "a dry run changes nothing"
    ran = shell.run("recover", TABLE, "--accept-loss")
    assert ran.code == 0
    assert "version 1 is lost" in ran.out
    assert "nothing is in doubt" in shell.run("recover", TABLE).out
    assert world.rows() == before


def test_recover_names_what_another_tool_has_dropped_and_leaves_nothing_to_do(world: World, shell: Shell) -> None:
    world.metastore.drop_partition(world.table, ("d2",))
    ran = shell.run("recover", TABLE)
    assert ran.code == 0
    assert "dt=d2" in ran.out


def test_vacuum_deletes_what_was_replaced_and_only_when_forced_so_soon(world: World, shell: Shell) -> None:
    before = everything(world)
    assert shell.run("vacuum", TABLE, "--older-than", "0").code == 2
    assert everything(world) == before
    ran = shell.run("vacuum", TABLE, "--older-than", "0", "--force", "--json")
    assert ran.code == 0
    assert [one["reason"] for one in ran.json["deleted"]] == ["replaced by version 2"]
    assert ran.json["bytes_freed"] == 3
    assert world.rows() == NEWEST


def test_vacuum_that_could_not_delete_all_ends_with_1(world: World, shell: Shell) -> None:
    with world.inject(Fault("store", "delete", 1, "before", Exception)):
        ran = shell.run("vacuum", TABLE, "--older-than", "0", "--force")
    assert ran.code == 1
    assert "FAILED: injected" in ran.out


def test_uploads_says_whose_they_are_and_gives_dead_writes_up(world: World, shell: Shell) -> None:
    write_id = dead_write(world)
    ran = shell.run("uploads", TABLE, "--json")
    assert [(one["owner"], one["write_id"]) for one in ran.json["uploads"]] == [("dead", write_id)]
    assert len(list(world.store.list_uploads("mart/"))) == 1
    dry = shell.run("uploads", TABLE, "--abort", "--dry-run", "--json").json
    assert len(list(world.store.list_uploads("mart/"))) == 1
    assert shell.run("uploads", TABLE, "--abort", "--json").json["aborted"] == dry["aborted"] != []
    assert list(world.store.list_uploads("mart/")) == []


def test_restore_adds_what_the_metastore_has_lost(world: World, shell: Shell) -> None:
    for value in ("d1", "d2"):
        world.metastore.drop_partition(world.table, (value,))
    assert shell.run("restore", TABLE, "--partition", "dt=d2").code == 0
    assert world.rows() == {"d2": frozenset({2}), "d3": frozenset({30})}
    assert shell.run("restore", TABLE, "--json").json["present_count"] == 2
    assert world.rows() == NEWEST


def test_restore_that_could_not_add_all_ends_with_1(world: World, shell: Shell) -> None:
    key = world.partitions()["d2"].location.removeprefix("s3a://lake/")
    world.metastore.drop_partition(world.table, ("d2",))
    world.store.delete([info.key for info in world.store.list(key)])
    ran = shell.run("restore", TABLE)
    assert ran.code == 1
    assert "NOT ADDED dt=d2" in ran.out


def test_adopt_makes_the_files_of_a_table_created_again_its_own(world: World, shell: Shell) -> None:
    world.store.put(
        world.layout.owner_key,
        b'{"format": 1, "database": "mart", "name": "old", "created_at_seconds": 1, "metastore": "thrift://m:9083"}',
    )
    assert shell.run("history", TABLE).code == 2
    assert shell.run("adopt", TABLE.upper(), "--json").json == {"table": TABLE, "adopted": True}
    assert shell.run("history", TABLE).code == 0


class Doctor:
    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        self.asked: list[tuple[str, object, bool]] = []

    def doctor(self, table: str, *, spark_conf: object, scratch_table: bool) -> DoctorReport:
        self.asked.append((table, spark_conf, scratch_table))
        return DoctorReport(table=table, findings=self.findings)


def test_doctor_ends_with_1_where_something_has_to_be_changed(shell: Shell) -> None:
    worse = Finding(check="lifecycle", status="warning", message="no rule aborts uploads", advice="add one of 7 days")
    shell.keeper = lambda: Doctor(worse)
    ran = shell.run("doctor", TABLE)
    assert ran.code == 1
    assert "warning  lifecycle: no rule aborts uploads" in ran.out
    assert "lifecycle: add one of 7 days" in ran.out
    shell.keeper = lambda: Doctor(Finding(check="versioning", status="note", message="it is off"))
    ran = shell.run("doctor", TABLE, "--json")
    assert (ran.code, ran.json["healthy"]) == (0, True)


def test_doctor_is_handed_the_spark_settings_of_a_file_without_secrets(shell: Shell, tmp_path: Any) -> None:
    doctor = Doctor()
    shell.keeper = lambda: doctor
    path = tmp_path / "spark-defaults.conf"
    path.write_text(
        "# comment\n\nspark.speculation true\nspark.a=b=c\n spark.c : d e \n! other\nspark.long one,\\\n  two\n"
        "spark.hadoop.fs.s3a.secret.key hush\nspark.hadoop.fs.s3a.session.token=hush\n"
    )
    shell.run("doctor", TABLE, "--spark-conf", str(path))
    shell.run("doctor", TABLE, "--scratch-table")
    settings = {"spark.speculation": "true", "spark.a": "b=c", "spark.c": "d e", "spark.long": "one,two"}
    assert doctor.asked == [(TABLE, settings, False), (TABLE, None, True)]
    assert shell.run("doctor", TABLE, "--spark-conf", str(tmp_path / "none")).code == 2


@pytest.mark.parametrize("words", CHANGING, ids=lambda words: words[0])
def test_a_dry_run_changes_nothing(world: World, shell: Shell, words: tuple[str, ...]) -> None:
    dead_write(world)
    publish_in_doubt(world)
    world.metastore.drop_partition(world.table, ("d2",))
    before = everything(world)
    assert shell.run(*words, "--dry-run").code in {0, 1}
    assert shell.run(*words, "--dry-run", "--json").json["dry_run"] is True
    assert everything(world) == before


def test_a_running_publish_that_another_tool_overtook_is_named(world: World, shell: Shell) -> None:
    publish_in_doubt(world)
    world.written_by_another_tool("d1", frozenset({7}))
    ran = shell.run("recover", TABLE, "--json")
    assert (ran.code, ran.json["superseded"]) == (1, ["dt=d1"])


def test_control_characters_reach_no_terminal(world: World, shell: Shell) -> None:
    world.write({"d\u202e1": frozenset({1})})
    shown = shell.run("show", TABLE, "3").out
    assert "\u202e" not in shown
    assert "dt=d\\u202e1" in shown
    assert "\u202e" not in shell.run("show", TABLE, "3", "--json").out
    assert shell.run("show", TABLE, "3", "--json").json["partitions"][0]["name"] == "dt=d\u202e1"
    world.pointed_by_another_tool("d1", f"{ROOT}x\x1b[2J")
    refused = shell.run("rollback", TABLE, "--version", "1")
    assert refused.code == 2
    assert "\x1b" not in refused.err
    assert "x\\x1b[2J" in refused.err


def test_leave_only_reads(shell: Shell, world: World) -> None:
    world.write({"d1": frozenset({1})})
    before = {info.key for info in world.store.list("")}
    ran = shell.run("leave", TABLE, "--json")
    assert ran.code == 0
    assert ran.json["holdings"][0]["fate"] == "stays"
    assert "stay where readers find them" in shell.run("leave", TABLE).out
    assert {info.key for info in world.store.list("")} == before
