"""Operators do what the command line does, and fail so that Airflow retries what a retry can help."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from table_writer import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionExistsError,
    PartlyPublishedError,
    SchemaMismatchError,
    StorageError,
    TableWriterError,
)
from table_writer.integrations.airflow import (
    PublishOperator,
    RecoverOperator,
    RollbackOperator,
    VacuumOperator,
    connection,
    failing_for_good,
    operators,
)
from table_writer.integrations.airflow.operators import TableWriterOperator
from tests.publish.world import DeathError, Fault
from tests.real.real_world import Address, RealWorld

NewWorld = Callable[[], RealWorld]
LOST = Fault("metastore", "alter_partitions", 1, "after", DeathError)


class TaskInstance:
    """Keeps what a task pushes by itself."""

    def __init__(self, try_number: int = 1) -> None:
        self.try_number = try_number
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def run(operator: TableWriterOperator, ti: TaskInstance | None = None) -> dict[str, Any]:
    """Run an operator as a worker does; what it returns must go through JSON."""
    facts = operator.execute({"ti": ti or TaskInstance()})
    assert json.loads(json.dumps(facts)) == facts
    return facts


def test_a_staged_write_is_published_once_however_often_the_task_runs(new_world: NewWorld, lake: str) -> None:
    world = new_world()
    write_id = world.stage({"d1": frozenset({1, 2})})
    publish = PublishOperator(task_id="publish", table=str(world.name), write_id=write_id, conn_id=lake)
    first, again = run(publish), run(publish)
    assert world.rows() == {"d1": frozenset({1, 2})}
    assert (first["version"], first["rows"], first["repeated"]) == (1, 2, False)
    assert (again["version"], again["repeated"]) == (1, True)


def test_a_publish_that_another_write_has_overtaken_is_not_retried(new_world: NewWorld, lake: str) -> None:
    world = new_world()
    write_id = world.stage({"d1": frozenset({1})})
    world.write({"d1": frozenset({5})})
    publish = PublishOperator(task_id="publish", table=str(world.name), write_id=write_id, conn_id=lake)
    with pytest.raises(AirflowFailException, match="somebody else published the same partitions"):
        run(publish)
    assert world.rows() == {"d1": frozenset({5})}


def test_what_a_crash_left_in_doubt_is_resolved(new_world: NewWorld, lake: str) -> None:
    world = new_world()
    world.write({"d1": frozenset({1})})
    with world.inject(LOST), pytest.raises(DeathError):
        world.write({"d1": frozenset({2})})
    doubt = RecoverOperator(task_id="look", tables=str(world.name), dry_run=True, conn_id=lake)
    ti = TaskInstance()
    with pytest.raises(AirflowException, match="something is left to look at") as left:
        run(doubt, ti)
    assert not isinstance(left.value, AirflowFailException)
    assert ti.pushed["return_value"]["settled"] == {"2": "in doubt"}
    facts = run(RecoverOperator(task_id="recover", tables=[str(world.name)], conn_id=lake))
    assert facts["settled"] == {"2": "published"}


def test_a_rollback_takes_what_templates_make_of_its_arguments(new_world: NewWorld, lake: str) -> None:
    world = new_world()
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    world.write({"d1": frozenset({10}), "d2": frozenset({20})})
    table = str(world.name)
    run(RollbackOperator(task_id="one", table=table, version="1", partitions=["dt=d1"], conn_id=lake))
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({20})}
    soon = (datetime.now(UTC) + timedelta(hours=1)).replace(tzinfo=None).isoformat()
    facts = run(RollbackOperator(task_id="none", table=table, as_of=soon, conn_id=lake))
    assert (facts["to_version"], facts["partitions"]) == (3, [])
    with pytest.raises(AirflowFailException, match="is not the number of a version"):
        run(RollbackOperator(task_id="bad", table=table, version="None", conn_id=lake))


def test_a_later_try_of_a_rollback_does_not_undo_what_came_after_an_earlier_one(new_world: NewWorld, lake: str) -> None:
    world = new_world()
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({10}), "d2": frozenset({20})})
    every = {"table": str(world.name), "version": 1, "conn_id": lake}
    back = RollbackOperator(task_id="back", partitions=["dt=d1"], **every)
    run(back)  # and its answer is lost
    assert run(back, TaskInstance(try_number=2))["partitions"] == []
    world.write({"d1": frozenset({30})})
    with pytest.raises(AirflowFailException, match=r"version 3 of .* has put dt=d1 back to version 1 before"):
        run(back, TaskInstance(try_number=2))
    run(RollbackOperator(task_id="other", partitions=["dt=d2"], **every), TaskInstance(try_number=2))
    assert world.rows() == {"d1": frozenset({30})}
    run(back)  # a new run is a new decision
    assert world.rows() == {"d1": frozenset({1})}


def test_of_many_tables_one_that_fails_keeps_no_other_from_its_turn(new_world: NewWorld, lake: str) -> None:
    good, bad = new_world(), new_world()
    for world in (good, bad):
        world.write({"d1": frozenset({1})})
        world.write({"d1": frozenset({2})})
    bad.store.put(bad.layout.entry_key(1), b"damaged")
    ti = TaskInstance()
    both = VacuumOperator(
        task_id="vacuum", tables=[str(bad.name), str(good.name)], older_than="0", force=True, conn_id=lake
    )
    with pytest.raises(AirflowFailException, match=f"FAILED: .*{bad.name}"):
        run(both, ti)
    by_table = {one["table"]: one for one in ti.pushed["return_value"]["results"]}
    assert by_table[str(bad.name)]["error"]["code"] == "invalid_input"
    assert by_table[str(good.name)]["report"]["bytes_freed"] > 0
    alone = VacuumOperator(task_id="alone", database=["real"], dry_run=True, conn_id=lake)
    with pytest.raises(AirflowFailException):
        run(alone)


@pytest.mark.parametrize("named", [{}, {"tables": ""}, {"tables": []}, {"tables": "a.b", "all_tables": True}], ids=str)
def test_nothing_named_is_never_all_tables(named: dict[str, Any], lake: str) -> None:
    with pytest.raises(AirflowFailException, match="give exactly one of them"):
        run(VacuumOperator(task_id="vacuum", conn_id=lake, **named))


ARGUMENTS: dict[type[TableWriterOperator], dict[str, Any]] = {
    VacuumOperator: {"tables": "mart.orders"},
    RecoverOperator: {"tables": "mart.orders"},
    PublishOperator: {"table": "mart.orders", "write_id": "x"},
    RollbackOperator: {"table": "mart.orders", "version": 1},
}


@pytest.mark.parametrize("kind", ARGUMENTS, ids=lambda kind: kind.command)
@pytest.mark.parametrize(
    "error", [StorageError, MetastoreError, OutcomeUnknownError, ConflictError, InvalidInputError, CheckFailedError]
)
def test_only_what_a_retry_can_help_is_retried(
    kind: type[TableWriterOperator], error: type[TableWriterError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error("it failed")

    monkeypatch.setattr(operators, "open_keeper", fail)
    with pytest.raises(AirflowException, match="it failed") as raised:
        run(kind(task_id="t", **ARGUMENTS[kind]))
    helps = error in {StorageError, MetastoreError} or (error is OutcomeUnknownError and kind.may_repeat)
    assert isinstance(raised.value, AirflowFailException) is not helps
    assert kind.may_repeat is (kind in {VacuumOperator, RecoverOperator})


@pytest.mark.parametrize(
    "error",
    [
        InvalidInputError,
        SchemaMismatchError,
        CheckFailedError,
        PartitionExistsError,
        OutcomeUnknownError,
        PartlyPublishedError,
    ],
)
def test_a_task_that_writes_fails_for_good_where_a_retry_meets_the_same(error: type[TableWriterError]) -> None:
    with pytest.raises(AirflowFailException, match="no good"), failing_for_good():
        raise error("no good")
    with pytest.raises(ConflictError), failing_for_good():
        raise ConflictError("others were first")


@pytest.mark.parametrize(
    "settings",
    [{"conf": {"fs.s3a.secret.key": "hush-hush"}}, {"metastore_uri": "thrift://ann:hush-hush@metastore:9083"}],
    ids=min,
)
def test_a_secret_in_the_dag_is_refused_and_not_repeated(settings: dict[str, Any]) -> None:
    seen = "which every reader of the DAG would see"
    with pytest.raises(InvalidInputError, match=seen) as unread:
        VacuumOperator(task_id="v", tables="a.b", settings=settings)
    vacuum = VacuumOperator(task_id="v", tables="a.b")
    vacuum.settings = settings  # what another task returns is known only now
    with pytest.raises(AirflowFailException, match=seen) as refused:
        run(vacuum)
    assert "hush-hush" not in f"{unread.value} {refused.value}"


@pytest.mark.parametrize(
    "given", [{"conn_id": ""}, {"settings": {"metastore_uri": "None"}}, {"settings": "{}"}], ids=str
)
def test_a_template_that_found_nothing_does_not_mean_another_metastore(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, address: Address
) -> None:
    monkeypatch.setenv("TABLE_WRITER_METASTORE_URI", address.metastore_uri)
    with pytest.raises((AirflowFailException, InvalidInputError), match=r"its template found nothing|not a str"):
        run(VacuumOperator(task_id="v", all_tables=True, **given))


def test_settings_may_be_what_another_task_returns() -> None:
    with DAG("d", schedule=None):
        first = PythonOperator(task_id="first", python_callable=dict)
        vacuum = VacuumOperator(task_id="vacuum", all_tables=True, settings=first.output)
    assert vacuum.upstream_task_ids == {"first"}


def test_settings_have_the_command_lines_names_and_the_nearest_wins(
    monkeypatch: pytest.MonkeyPatch, address: Address
) -> None:
    said = {"host": "one", "password": "hush", "extra": {"region": "r1", "conf": {"a": "1", "b": "1"}}}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE", json.dumps({"conn_type": "generic", "login": "ann", **said}))
    monkeypatch.setenv("TABLE_WRITER_METASTORE_URI", address.metastore_uri)
    made: list[Any] = []
    monkeypatch.setattr(connection, "Maintenance", lambda *given, **named: made.append((given, named["config"])))
    templated = {"metastore_timeout": "30", "conf": {"b": "2"}, "sees_everything": "True", "path_style": "false"}
    connection.open_keeper("hive", templated)
    connection.open_keeper(None, {})
    (uri,), config = made[0]
    assert (uri, config.s3.region, config.metastore_timeout_seconds) == ("thrift://one:9083", "r1", 30)
    assert {name: config.hadoop[name] for name in "ab"} == {"a": "1", "b": "2"}
    assert (config.hadoop[connection.PLAIN_USER], config.metastore_password) == ("ann", "hush")
    assert "hush" not in repr(config)
    assert (config.sees_everything, config.s3.path_style) == (True, False)
    (uri,), config = made[1]
    assert (uri, config.sees_everything, config.s3.path_style) == (address.metastore_uri, False, None)
    with pytest.raises(InvalidInputError, match="sees_everything: expected true or false, not 'perhaps'"):
        connection.open_keeper(None, {"sees_everything": "perhaps"})
    with pytest.raises(InvalidInputError, match="no setting metastore_url; did you mean metastore_uri"):
        connection.open_keeper(None, {"metastore_url": "thrift://x:1"})


def test_default_arguments_of_a_dag_reach_every_operator() -> None:
    with DAG("d", schedule=None, default_args={"conn_id": "lake", "settings": {"region": "r1"}}) as dag:
        VacuumOperator(task_id="vacuum", all_tables=True)
        PublishOperator(task_id="publish", table="a.b", write_id="x")
    assert {(one.conn_id, one.settings["region"]) for one in dag.tasks} == {("lake", "r1")}


def test_a_long_report_is_cut_for_xcom_and_says_how_long_it_was(new_world: NewWorld, lake: str) -> None:
    world = new_world()
    first = {"d1": frozenset({1}), **{f"p{number}": frozenset({number}) for number in range(150)}}
    world.write(first)
    world.write({name: frozenset({1_000}) for name in first})
    facts = run(RollbackOperator(task_id="back", table=str(world.name), version=1, conn_id=lake))
    assert (len(facts["partitions"]), facts["partitions_count"]) == (100, 151)
    assert world.rows() == first
