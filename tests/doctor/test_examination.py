"""What an examination promises as a whole."""

from __future__ import annotations

import pytest

from table_writer.doctor.examination import CHECKS, SPARK_CHECKS, examine
from table_writer.doctor.findings import WORST_FIRST
from table_writer.errors import MetastoreError, StorageError
from table_writer.protocol.log.owner import Owner
from table_writer.reports.health_reports import DoctorReport
from tests.doctor.conftest import of_check
from tests.publish.world import World

GOOD_SPARK = {
    "spark.master": "local[2]",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.jars": "/opt/spark-hadoop-cloud_2.13-4.1.2.jar",
}


def keys(world: World) -> set[str]:
    return {found.key for found in world.store.list("")}


def test_a_healthy_table_is_healthy(world: World) -> None:
    findings = examine(world.services(), GOOD_SPARK)
    assert {finding.status for finding in findings} == {"ok"}, findings
    assert DoctorReport(table="mart.orders", findings=findings).healthy


def test_every_check_says_something_except_those_of_s3(world: World) -> None:
    said = {**GOOD_SPARK, "spark.speculation": "true", "spark.plugins": "org.apache.spark.CometPlugin"}
    found = {finding.check for finding in examine(world.services(), said)}
    assert found == (CHECKS.keys() | SPARK_CHECKS.keys()) - {"lifecycle rules", "bucket versioning"}


def test_a_table_that_was_never_written_can_be_examined() -> None:
    statuses = {finding.status for finding in examine(World().services(), GOOD_SPARK)}
    assert statuses == {"ok", "note"}


def test_spark_settings_are_checked_only_when_given(world: World) -> None:
    assert not {finding.check for finding in examine(world.services(), None)} & SPARK_CHECKS.keys()


def test_nothing_is_left_and_nothing_of_the_table_is_changed(world: World) -> None:
    before, partitions = keys(world), world.partitions()
    examine(world.services(), {})
    assert keys(world) == before
    assert world.partitions() == partitions
    assert not list(world.store.list_uploads("mart/"))
    with world.recording() as calls:
        examine(world.services(), {})
    assert not {call for _, call in calls} & {"alter_partitions", "add_partitions", "drop_partition"}


def test_findings_come_worst_first(world: World) -> None:
    world.metastore.version = "3.1.3"
    other = Owner(database="mart", name="invoices", created_at_seconds=1, metastore="")
    world.store.put(world.layout.owner_key, other.to_json())
    order = [WORST_FIRST.index(finding.status) for finding in examine(world.services(), {"spark.master": "yarn"})]
    assert order == sorted(order)
    assert {0, 1, 2, 3} == set(order)


@pytest.mark.parametrize("service", ["store", "metastore"])
def test_a_dead_gateway_is_a_finding_and_the_other_checks_still_run(world: World, service: str) -> None:
    services = world.services()

    def fail(*_: object) -> None:
        raise StorageError("no answer") if service == "store" else MetastoreError("no answer")

    (world.store if service == "store" else world.metastore).on_call = fail
    findings = examine(services, GOOD_SPARK)
    assert [finding.check for finding in findings if finding.status == "error"][:1] == (
        ["conditional put"] if service == "store" else ["metastore version"]
    )
    assert {finding.check for finding in findings if finding.status != "ok"} >= (
        {"permissions", "owner", "damage of the log", "log"} if service == "store" else {"partition locations"}
    )
    assert [finding for finding in findings if finding.check == "executor memory" and finding.status == "ok"]
    others = "metastore version" if service == "store" else "permissions"
    assert [finding.status for finding in findings if finding.check == others] == ["ok"]
    for finding in findings:
        assert finding.status in {"ok", "note"} or finding.advice


def test_one_failure_is_waited_for_and_reported_once(world: World) -> None:
    asked = []

    def fail(call: str, phase: str) -> None:
        asked.append(call)
        raise MetastoreError("no answer after 120 s")

    services = world.services()
    world.metastore.on_call = fail
    findings = examine(services)
    once = ["replicated_as", "server_version", "why_partial"]
    assert sorted(asked) == ["get_partition_names", "get_partition_names", *once]
    assert [f.status for f in findings if f.check == "partition files"] == ["note"]


def test_what_a_check_says_is_for_people(world: World) -> None:
    (finding,) = of_check(world.services(), "retention")
    assert finding.message.startswith("replaced data stays for 72 h")
