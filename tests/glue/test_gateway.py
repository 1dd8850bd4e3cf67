"""What the gateway makes of each of Glue's answers, and of none; every request passes botocore's own checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from table_writer.errors import (
    InvalidInputError,
    LostResponseError,
    MetastoreError,
    PartitionExistsError,
    PartitionMissingError,
)
from table_writer.metastore.glue import WAIT_SECONDS, GlueMetastore
from table_writer.metastore.settings import GlueSettings
from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table, TableName
from tests.doubles.glue import GlueDouble, RefusedError
from tests.glue.world import GlueWorld
from tests.publish.world import ROOT, TABLE

BUSY = "ThrottlingException"
UNCLEAR = ("InternalServiceException", "OperationTimeoutException", "SomethingNewException")


@pytest.fixture
def glue() -> GlueDouble:
    return GlueWorld(metastore=GlueDouble()).metastore


def table_of(glue: GlueDouble) -> Table:
    table = glue.get_table(TABLE)
    assert table is not None
    return table


def added(count: int, at: str = "old") -> list[Partition]:
    return [Partition(values=(f"d{number:03}",), location=f"{ROOT}{at}/d{number:03}/") for number in range(count)]


def moved(glue: GlueDouble, count: int, to: str = "new") -> list[PartitionChange]:
    found = glue.get_partitions(table_of(glue), [one.values for one in added(count)])
    return [
        PartitionChange(partition=one, location=f"{ROOT}{to}/{values[0]}/", set_parameters={"by": to})
        for values, one in sorted(found.items())
    ]


def where(glue: GlueDouble) -> dict[str, str]:
    return {values[0]: one.location.split("/")[-3] for values, one in glue.get_all_partitions(table_of(glue)).items()}


def refusing(code: str, *values: str, times: int = 1_000) -> Callable[[PartitionValues], str | None]:
    """Refuse these partitions, so often."""
    left = dict.fromkeys(values, times)

    def refuse(one: PartitionValues) -> str | None:
        left[one[0]] = left.get(one[0], 0) - 1
        return code if left[one[0]] >= 0 else None

    return refuse


def failing(glue: GlueDouble, operation: str, error: BaseException, *, number: int = 1, phase: str = "before") -> None:
    """Let the n-th request of an operation fail."""
    seen: Iterator[int] = iter(range(1, 10_000))

    def called(name: str, when: str) -> None:
        if (name, when) == (operation, phase) and next(seen) == number:
            raise error

    glue.server.on_call = called


def counted_since(glue: GlueDouble, before: dict[str, int]) -> dict[str, int]:
    return {
        name: count - before.get(name, 0) for name, count in glue.call_counts().items() if count > before.get(name, 0)
    }


def test_250_partitions_are_added_moved_and_read_in_batches(glue: GlueDouble) -> None:
    table, before = table_of(glue), dict(glue.call_counts())
    glue.add_partitions(table, added(250))
    assert counted_since(glue, before) == {"GetTable": 2, "BatchCreatePartition": 3}
    before = dict(glue.call_counts())
    glue.alter_partitions(table, moved(glue, 250))
    assert counted_since(glue, before) == {"GetTable": 3, "BatchGetPartition": 1, "BatchUpdatePartition": 3}
    assert set(where(glue).values()) == {"new"}


def test_all_that_was_read_is_sent_back_and_only_what_changes_is_changed(glue: GlueDouble) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(1))
    stored = glue.server.tables[TABLE].partitions["d000",]
    odd = {
        "SkewedInfo": {"SkewedColumnNames": ["id"]},
        "NumberOfBuckets": 3,
        "Compressed": True,
        "Parameters": {"a": "b"},
    }
    stored["StorageDescriptor"] |= odd
    stored |= {"LastAccessTime": 1_700_000_000.0}
    stored["Parameters"] |= {"keep": "k", "go": "g"}
    change = replace(moved(glue, 1)[0], removed_parameters=frozenset({"go"}))
    glue.alter_partitions(table, [change])
    now = glue.server.tables[TABLE].partitions["d000",]
    assert now["StorageDescriptor"].items() >= odd.items()
    assert now["StorageDescriptor"]["Location"] == f"{ROOT}new/d000"
    assert now["LastAccessTime"] == 1_700_000_000.0
    assert {name: now["Parameters"].get(name) for name in ("keep", "go", "by")} == {
        "keep": "k",
        "go": None,
        "by": "new",
    }


def test_a_refusal_of_some_is_told_with_how_many_were_switched(glue: GlueDouble) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(150))
    changes = moved(glue, 150)
    glue.server.refuse_entry = refusing("AccessDeniedException", "d120")
    with pytest.raises(
        LostResponseError, match=r"149 of 150 partitions .* are changed.*d120.*AccessDenied.*allow this"
    ):
        glue.alter_partitions(table, changes)
    assert where(glue)["d120"] == "old"
    assert where(glue)["d119"] == "new"


def test_a_refusal_of_all_changes_nothing_and_says_so(glue: GlueDouble) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(2))
    changes = moved(glue, 2)
    glue.server.refuse_entry = refusing("AccessDeniedException", "d000", "d001")
    with pytest.raises(MetastoreError, match="AccessDenied") as caught:
        glue.alter_partitions(table, changes)
    assert type(caught.value) is MetastoreError
    assert set(where(glue).values()) == {"old"}


def test_only_what_was_refused_for_load_is_sent_again(glue: GlueDouble) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(3))
    changes = moved(glue, 3)
    glue.server.refuse_entry = refusing(BUSY, "d001", times=2)
    sent: list[int] = []
    update = glue.server.BatchUpdatePartition

    def counting(**named: Any) -> dict[str, Any]:
        sent.append(len(named["Entries"]))
        return update(**named)

    glue.server.BatchUpdatePartition = counting  # type: ignore[method-assign]
    glue.alter_partitions(table, changes)
    assert sent == [3, 1, 1]
    assert glue.waited == list(WAIT_SECONDS[:2])
    assert set(where(glue).values()) == {"new"}


def test_load_that_does_not_end_is_given_up(glue: GlueDouble) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(1))
    changes = moved(glue, 1)
    glue.server.refuse_entry = refusing(BUSY, "d000")
    with pytest.raises(MetastoreError, match="run it again when fewer others"):
        glue.alter_partitions(table, changes)
    assert glue.waited == list(WAIT_SECONDS)


def test_a_whole_call_that_is_refused_for_load_is_sent_again(glue: GlueDouble) -> None:
    table = table_of(glue)
    refusals = iter([BUSY, BUSY])
    create = glue.server.BatchCreatePartition

    def busy(**named: Any) -> dict[str, Any]:
        for code in refusals:
            raise RefusedError(code)
        return create(**named)

    glue.server.BatchCreatePartition = busy  # type: ignore[method-assign]
    glue.add_partitions(table, added(2))
    assert glue.call_counts()["BatchCreatePartition"] == 3


@pytest.mark.parametrize("code", UNCLEAR)
def test_an_answer_that_says_nothing_of_the_change_is_unknown_and_never_sent_again(glue: GlueDouble, code: str) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(2))
    changes = moved(glue, 2)
    glue.server.refuse_entry = refusing(code, "d001", times=1)
    with pytest.raises(LostResponseError, match=code):
        glue.alter_partitions(table, changes)
    assert glue.call_counts()["BatchUpdatePartition"] == 1
    failing(glue, "BatchUpdatePartition", RefusedError(code), phase="never")

    def unclear(**_: Any) -> dict[str, Any]:
        raise RefusedError(code, status=500)

    glue.server.BatchUpdatePartition = unclear  # type: ignore[method-assign]
    with pytest.raises(LostResponseError, match=code):
        glue.alter_partitions(table, changes)
    assert glue.call_counts()["BatchUpdatePartition"] == 2


@pytest.mark.parametrize("phase", ["before", "after"])
def test_no_answer_is_unknown_and_nothing_is_sent_twice(glue: GlueDouble, phase: str) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(250))
    changes = moved(glue, 250)
    failing(glue, "BatchUpdatePartition", ReadTimeoutError(endpoint_url="glue"), number=2, phase=phase)
    with pytest.raises(LostResponseError, match="got no answer"):
        glue.alter_partitions(table, changes)
    assert glue.call_counts()["BatchUpdatePartition"] == 2
    assert list(where(glue).values()).count("new") == (100 if phase == "before" else 200)


def test_what_could_not_be_sent_changed_nothing(glue: GlueDouble) -> None:
    table = table_of(glue)
    failing(glue, "BatchCreatePartition", EndpointConnectionError(endpoint_url="glue"))
    with pytest.raises(MetastoreError, match="could not be sent") as caught:
        glue.add_partitions(table, added(1))
    assert not isinstance(caught.value, LostResponseError)


def test_a_read_without_an_answer_is_repeated(glue: GlueDouble) -> None:
    failing(glue, "GetTable", ReadTimeoutError(endpoint_url="glue"))
    assert table_of(glue).name == TABLE
    assert glue.call_counts()["GetTable"] >= 2


def test_a_change_asks_before_each_request_and_sends_none_if_refused(glue: GlueDouble) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(250))
    changes = moved(glue, 250)
    asked: list[int] = []

    def in_time() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise MetastoreError("too late")

    with pytest.raises(LostResponseError, match=r"200 of 250 partitions .*too late"):
        glue.alter_partitions(table, changes, before_send=in_time)
    assert glue.call_counts()["BatchUpdatePartition"] == 2
    asked[:] = [1, 1]
    with pytest.raises(MetastoreError, match="too late"):
        glue.drop_partition(table, ("d000",), before_send=in_time)
    assert "DeletePartition" not in glue.call_counts()


def test_others_partitions_are_told_from_ours(glue: GlueDouble) -> None:
    table = table_of(glue)
    glue.put_partition(TABLE, added(1, at="theirs")[0])
    with pytest.raises(PartitionExistsError, match="dt=d000"):
        glue.add_partitions(table, added(1))
    with pytest.raises(LostResponseError, match=r"1 of 2 partitions .* exists"):
        glue.add_partitions(table, added(2))
    assert where(glue) == {"d000": "theirs", "d001": "old"}


def test_a_partition_that_is_gone_is_named(glue: GlueDouble) -> None:
    table = table_of(glue)
    glue.add_partitions(table, added(2))
    changes = moved(glue, 2)
    glue.drop_partition(table, ("d001",))
    with pytest.raises(PartitionMissingError, match="dt=d001"):
        glue.alter_partitions(table, changes[1:])
    with pytest.raises(LostResponseError, match=r"1 of 2 partitions .* are changed.*dt=d001 .* does not exist"):
        glue.alter_partitions(table, changes)


def test_a_table_that_is_made_again_between_two_batches_gets_none_of_the_second(glue: GlueDouble) -> None:
    table = table_of(glue)

    def made_again(operation: str, phase: str) -> None:
        if (operation, phase) == ("BatchCreatePartition", "after"):
            glue.server.on_call = None
            glue.drop_table(TABLE)
            glue.create_table(replace(table, created_at_seconds=table.created_at_seconds + 60))

    glue.server.on_call = made_again
    with pytest.raises(LostResponseError, match="dropped and made again"):
        glue.add_partitions(table, added(150))
    assert glue.get_partition_names(TABLE) == []


def test_a_table_that_somebody_makes_between_two_requests_is_there_already(glue: GlueDouble) -> None:
    mirror = replace(table_of(glue), name=TableName("mart", "orders_mirror"))

    def made_meanwhile(operation: str, phase: str) -> None:
        if (operation, phase) == ("CreateTable", "before"):
            glue.server.on_call = None
            glue.create_table(mirror)

    glue.server.on_call = made_meanwhile
    assert not glue.add_table(mirror)


def whole(glue: GlueDouble) -> tuple[Table, PartitionChange]:
    table = glue.create_table(replace(table_of(glue), partition_columns=(), created_at_seconds=0))
    found = glue.get_partitions(table, [()])[()]
    return table, PartitionChange(partition=found, location=f"{ROOT}new/", set_parameters={"by": "us"})


def test_an_unpartitioned_table_is_switched_by_compare_and_set(glue: GlueDouble) -> None:
    table, change = whole(glue)
    stored = glue.server.tables[TABLE]
    stored.fields |= {"Owner": "somebody", "Description": "kept", "Retention": 7}
    change = replace(change, partition=glue.get_partitions(table, [()])[()])
    glue.alter_partitions(table, [change])
    assert stored.fields["StorageDescriptor"]["Location"] == f"{ROOT}new"
    assert stored.fields.items() >= {"Owner": "somebody", "Description": "kept", "Retention": 7}.items()
    assert (stored.version, stored.archived) == (1, 0)
    with pytest.raises(MetastoreError, match="somebody else changed table"):
        glue.alter_partitions(table, [change])
    assert stored.version == 1


@pytest.mark.parametrize("phase", ["before", "after"])
def test_an_update_without_an_answer_is_sent_once(glue: GlueDouble, phase: str) -> None:
    table, change = whole(glue)
    failing(glue, "UpdateTable", ReadTimeoutError(endpoint_url="glue"), phase=phase)
    with pytest.raises(LostResponseError):
        glue.alter_partitions(table, [change])
    assert glue.call_counts()["UpdateTable"] == 1
    assert glue.server.tables[TABLE].version == (0 if phase == "before" else 1)


def test_versions_are_archived_where_that_is_wanted() -> None:
    glue = GlueWorld(metastore=GlueDouble()).metastore
    keeping = GlueMetastore(GlueSettings(skip_archive=False), connect=glue.server.connect)
    table, change = whole(glue)
    keeping.alter_partitions(table, [change])
    assert glue.server.tables[TABLE].archived == 1


def test_only_one_gateway_knows_what_it_has_read(glue: GlueDouble) -> None:
    foreign = Partition(values=("d000",), location=ROOT, native="memory")
    with pytest.raises(InvalidInputError, match="was not read from this catalog"):
        glue.alter_partitions(table_of(glue), [PartitionChange(partition=foreign, location=ROOT, set_parameters={})])


@pytest.mark.parametrize("fails", [False, True])
def test_column_statistics_of_replaced_rows_are_deleted_where_that_is_wanted(*, fails: bool) -> None:
    glue = GlueWorld(metastore=GlueDouble()).metastore
    deleting = GlueMetastore(GlueSettings(column_statistics="delete"), connect=glue.server.connect)
    glue.add_partitions(table_of(glue), added(3))
    kept = {(("d002",), "id")}
    glue.server.column_statistics = {(("d000",), "id"), (("d001",), "id"), *kept}
    changes = moved(glue, 3)[:2]
    if fails:
        failing(glue, "DeleteColumnStatisticsForPartition", ReadTimeoutError(endpoint_url="glue"))
    deleting.alter_partitions(table_of(glue), changes)
    assert where(glue) == {"d000": "new", "d001": "new", "d002": "old"}
    assert glue.server.column_statistics == ({(("d000",), "id"), (("d001",), "id"), *kept} if fails else kept)


def test_column_statistics_of_an_unpartitioned_table_are_deleted_too() -> None:
    glue = GlueWorld(metastore=GlueDouble()).metastore
    deleting = GlueMetastore(GlueSettings(column_statistics="delete"), connect=glue.server.connect)
    table, change = whole(glue)
    glue.server.column_statistics = {((), "id")}
    deleting.alter_partitions(table, [change])
    assert glue.server.column_statistics == set()
