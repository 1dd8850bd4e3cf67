"""What ``read_arrow`` finds, and what it refuses to find: partitions, columns, files; on doubles."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from table_writer import read_arrow
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.table import NULL_PARTITION, Column, Partition, Table, TableName
from table_writer.protocol.table.services import Services
from table_writer.read import dataset
from table_writer.read.dataset import open_dataset
from table_writer.read.types import arrow_schema
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.memory_store import MemoryStore

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
ORC = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
NAME = TableName("mart", "orders")


@dataclass
class Orders:
    """A table of doubles; its files are put where a test wants them."""

    columns: str = "id bigint, note string"
    partitioned_by: str = "dt string"
    described: Mapping[str, Any] = field(default_factory=dict)
    store: MemoryStore = field(default_factory=MemoryStore)
    metastore: MemoryMetastore = field(default_factory=MemoryMetastore)

    def __post_init__(self) -> None:
        table = Table(
            name=NAME,
            kind="EXTERNAL_TABLE",
            location="s3a://lake/orders/",
            columns=columns_of(self.columns),
            partition_columns=columns_of(self.partitioned_by),
            serde=PARQUET,
        )
        self.table = self.metastore.create_table(replace(table, **self.described))

    def add(self, values: tuple[str, ...], *files: Any, names: tuple[str, ...] = ("part-0", "part-1")) -> None:
        directory = f"orders/_table_writer/data/w{len(self.metastore.get_partition_names(NAME))}"
        partition = Partition(values=values, location=f"s3a://lake/{directory}/")
        self.metastore.add_partitions(self.table, [partition])
        for name, rows in zip(names, files, strict=False):
            self.store.put(f"{directory}/{name}", rows if isinstance(rows, bytes) else parquet(rows))

    def services(self) -> Services:
        return Services(
            SessionSettings(hadoop={"hive.metastore.uris": "thrift://metastore:9083"}),
            TableWriterConfig(),
            open_metastore=lambda _: self.metastore,
            open_object_store=lambda _: self.store,
        )

    def read(self, where: Any = None) -> Any:
        return open_dataset(self.services(), NAME, where)


def columns_of(text: str) -> tuple[Column, ...]:
    return tuple(Column(*one.split(" ", 1)) for one in text.split(", ") if one)


def parquet(rows: Mapping[str, Any] | pa.Table) -> bytes:
    made = io.BytesIO()
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(dict(rows)), made)
    return made.getvalue()


def ids(*numbers: int) -> dict[str, Any]:
    return {"id": pa.array(numbers, pa.int64()), "note": pa.array(["x"] * len(numbers))}


@pytest.fixture
def orders() -> Orders:
    made = Orders()
    for number, value in enumerate(["2024-01-01", "2024-01-02", "a/b=ü%", NULL_PARTITION]):
        made.add((value,), ids(number), ids(number + 10))
    return made


CONDITIONS: dict[str, tuple[Any, list[int]]] = {
    "none": (None, [0, 1, 2, 3, 10, 11, 12, 13]),
    "equal": ([("dt", "=", "2024-01-01")], [0, 10]),
    "from, up to": ([("dt", ">", "2024-01-01"), ("dt", "<=", "2024-01-02")], [1, 11]),
    "in": ([("dt", "in", ["a/b=ü%", "2024-01-02"])], [1, 2, 11, 12]),
    "or": ([[("dt", "=", "2024-01-01")], [("dt", "=", "2024-01-02")]], [0, 1, 10, 11]),
    "not": ([("dt", "!=", "2024-01-01")], [1, 2, 11, 12]),
    "not in": ([("dt", "not in", ["2024-01-01", "2024-01-02"])], [2, 12]),
    "null": (ds.field("dt").is_null(), [3, 13]),
    "an expression": ((ds.field("dt") < "2024-01-02") | ds.field("dt").is_null(), [0, 3, 10, 13]),
    "nothing": ([("dt", "=", "1999-01-01")], []),
}


@pytest.mark.parametrize(("where", "found"), CONDITIONS.values(), ids=CONDITIONS)
def test_partitions_are_chosen_by_their_names(where: Any, found: list[int], orders: Orders) -> None:
    before = orders.metastore.call_counts()
    dataset = orders.read(where)
    assert sorted(dataset.to_table()["id"].to_pylist()) == found
    assert dataset.schema.names == ["id", "note", "dt"]
    assert len(list(dataset.get_fragments())) == len(found)
    assert dataset.count_rows() == len(found)
    sent = {call: count - before.get(call, 0) for call, count in orders.metastore.call_counts().items()}
    assert sum(sent.values()) <= 3, "the table, its names, the chosen partitions"


def test_files_of_partitions_that_are_not_chosen_are_neither_listed_nor_read(orders: Orders) -> None:
    asked: list[str] = []
    orders.store.on_call = lambda call, phase, key: asked.append(key) if phase == "before" else None
    orders.read([("dt", "=", "2024-01-02")]).to_table()
    assert {key.split("/")[3] for key in asked} == {"w1"}


@pytest.mark.parametrize(
    "where",
    [
        "dt >= '2024-01-01'",
        [("id", "=", 1)],
        [("dt", "~", "x")],
        [("dt", "=", date(2024, 1, 1))],
        [("dt",)],
        ds.field("id") == 1,
        7,
    ],
    ids=str,
)
def test_a_condition_that_cannot_be_decided_is_refused_with_what_would_do(where: Any, orders: Orders) -> None:
    with pytest.raises(InvalidInputError, match=r"mart\.orders") as caught:
        orders.read(where)
    assert "dt" in str(caught.value)


TYPED: dict[str, tuple[str, str, Any, Any]] = {
    "int": ("int", "007", 7, [("p", "=", 7)]),
    "text for an int": ("int", "7", 7, [("p", ">", "6")]),
    "date": ("date", "2024-1-2", date(2024, 1, 2), [("p", "=", date(2024, 1, 2))]),
    "text for a date": ("date", "2024-01-02", date(2024, 1, 2), [("p", ">=", "2024-01-02")]),
    "decimal": ("decimal(5,2)", "1.50", Decimal("1.50"), [("p", "in", ["1.5"])]),
    "double": ("double", "1e1", 10.0, [("p", "<", 11)]),
    "boolean": ("boolean", "TRUE", True, [("p", "=", True)]),
    "char": ("char(4)", "ab", "ab  ", [("p", "=", "ab")]),
    "timestamp": ("timestamp", "2024-01-02 03:04:05.5", datetime(2024, 1, 2, 3, 4, 5, 500000), None),  # noqa: DTZ001
    "null": ("int", NULL_PARTITION, None, ds.field("p").is_null()),
    "no number": ("int", "many", None, ds.field("p").is_null()),
}


@pytest.mark.parametrize(("kind", "text", "value", "where"), TYPED.values(), ids=TYPED)
def test_a_partition_value_is_what_spark_takes_its_text_for(kind: str, text: str, value: Any, where: Any) -> None:
    made = Orders(partitioned_by=f"p {kind}")
    made.add((text,), ids(1))
    found = made.read(where).to_table()
    assert found["p"].to_pylist() == [value]
    assert found.schema.field("p").type == arrow_schema(made.table).field("p").type


def test_columns_are_the_tables_whatever_older_files_have() -> None:
    made = Orders(columns="id bigint, note string, price decimal(12,2), tags array<string>")
    made.add(("d1",), {"note": ["a"], "id": pa.array([1], pa.int32()), "gone": [5]})
    made.add(("d2",), {**ids(2), "price": pa.array([Decimal("1.5")], pa.decimal128(5, 1)), "tags": [["x"]]})
    rows = made.read().to_table().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "note": "a", "price": None, "tags": None, "dt": "d1"},
        {"id": 2, "note": "x", "price": Decimal("1.50"), "tags": ["x"], "dt": "d2"},
    ]


def test_a_file_whose_values_do_not_fit_the_tables_type_is_an_error_and_no_other_value() -> None:
    made = Orders(columns="id int")
    made.add(("d1",), {"id": pa.array([2**40], pa.int64())})
    with pytest.raises(pa.ArrowInvalid):
        made.read().to_table()


def test_sparks_schema_counts_with_its_case_and_its_types() -> None:
    fields = [("Id", "long"), ("at", "timestamp_ntz"), ("dt", "string")]
    described = {"fields": [{"name": name, "type": kind} for name, kind in fields], "type": "struct"}
    parameters = {
        "spark.sql.sources.provider": "parquet",
        "spark.sql.partitionProvider": "catalog",
        "spark.sql.sources.schema": json.dumps(described),
    }
    made = Orders(columns="col array<string>", described={"parameters": parameters})
    moment = datetime(2024, 1, 1)  # noqa: DTZ001
    made.add(("d1",), {"Id": [1], "at": pa.array([moment], pa.timestamp("us"))})
    assert made.read().to_table().to_pylist() == [{"Id": 1, "at": moment, "dt": "d1"}]


NESTED = {
    "array<struct<a:int,b:map<string,decimal(10,2)>>>": pa.list_(
        pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.map_(pa.string(), pa.decimal128(10, 2)))])
    ),
    "struct<a b:char(3),c:array<timestamp>>": pa.struct(
        [pa.field("a b", pa.string()), pa.field("c", pa.list_(pa.timestamp("us", tz="UTC")))]
    ),
    "map<int,array<double>>": pa.map_(pa.int32(), pa.list_(pa.float64())),
}


@pytest.mark.parametrize(("text", "kind"), NESTED.items(), ids=NESTED)
def test_hives_spelling_of_nested_types_is_read(text: str, kind: Any) -> None:
    assert arrow_schema(Orders(columns=f"c {text}").table).field("c").type == kind


@pytest.mark.parametrize("text", ["interval_day_time", "uniontype<int,string>", "array<int", "struct<a>", ""])
def test_a_type_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="no type for"):
        arrow_schema(Orders(columns=f"c {text}").table)


BAD_FILES: dict[str, tuple[Callable[[], Any], str]] = {
    "another case": (lambda: {"ID": [1], "note": ["a"]}, "spells column id as ID"),
    "no names": (lambda: {"_col0": [1], "_col1": ["a"]}, "go by their order"),
    "no Parquet": (lambda: b"1,a\n", "cannot be read as the table's format"),
}


@pytest.mark.parametrize(("file", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_in_which_pyarrow_would_find_other_rows_is_refused(
    file: Callable[[], Any], message: str, orders: Orders
) -> None:
    orders.add(("d9",), file())
    with pytest.raises(InvalidInputError, match=message):
        orders.read()
    assert orders.read([("dt", "=", "2024-01-01")]).count_rows() == 2


def test_a_store_that_fails_is_no_bad_file(orders: Orders) -> None:
    def fail(call: str, phase: str, key: str) -> None:
        if call == "read_range":
            raise StorageError(f"injected at {key}")

    orders.store.on_call = fail
    with pytest.raises(StorageError, match="injected"):
        orders.read()


def test_hidden_files_are_passed_over_and_directories_are_refused(orders: Orders) -> None:
    orders.add(("d9",), ids(5), b"x", b"x", names=("part-0", "_SUCCESS", ".part-0.crc"))
    assert orders.read([("dt", "=", "d9")]).to_table()["id"].to_pylist() == [5]
    orders.store.put("orders/_table_writer/data/w4/_temporary/part-1", b"x")
    assert orders.read([("dt", "=", "d9")]).count_rows() == 1
    orders.store.put("orders/_table_writer/data/w4/sub/part-1", parquet(ids(6)))
    with pytest.raises(InvalidInputError, match="files in directories of its own"):
        orders.read([("dt", "=", "d9")])


def test_later_writes_are_not_seen_and_deleted_or_replaced_files_are_errors(orders: Orders) -> None:
    dataset = orders.read([("dt", "=", "2024-01-01")])
    orders.store.put("orders/_table_writer/data/w0/part-9", parquet(ids(99)))
    assert sorted(dataset.to_table()["id"].to_pylist()) == [0, 10]
    orders.store.put("orders/_table_writer/data/w0/part-0", parquet(ids(77)))
    with pytest.raises(StorageError, match="replaced or deleted since it was listed"):
        dataset.to_table()
    orders.store.delete(["orders/_table_writer/data/w0/part-0"])
    with pytest.raises(StorageError, match="a vacuum has deleted it"):
        dataset.to_table()


def test_the_metastores_value_of_a_partition_counts_and_not_a_files() -> None:
    made = Orders()
    made.add(("d1",), {**ids(1), "dt": ["another"]})
    assert made.read([("dt", "=", "d1")]).to_table()["dt"].to_pylist() == ["d1"]
    assert made.read().to_table(filter=ds.field("dt") == "another").num_rows == 0


def test_an_unpartitioned_table_is_its_one_location() -> None:
    made = Orders(partitioned_by="")
    made.store.put("orders/part-0", parquet(ids(1, 2)))
    made.store.put("orders/_table_writer/log/1", b"no rows")
    assert made.read().to_table()["id"].to_pylist() == [1, 2]
    with pytest.raises(InvalidInputError, match="no partitions to choose"):
        made.read([("dt", "=", "x")])


def test_orc_is_read() -> None:
    made = Orders(columns="id bigint, at timestamp", described={"serde": ORC})
    written, moment = io.BytesIO(), datetime(2024, 1, 1, 12)  # noqa: DTZ001  # by the clock of whoever wrote it
    orc.write_table(pa.table({"id": [1, 2], "at": [moment, moment]}), written)
    made.add(("d1",), written.getvalue())
    assert made.read().to_table(filter=ds.field("id") > 1).to_pylist() == [{"id": 2, "at": moment, "dt": "d1"}]


OTHERS = {
    "a SerDe": ({"serde": "org.apache.hadoop.hive.serde2.OpenCSVSerde"}, "only Parquet and ORC"),
    "csv": ({"parameters": {"spark.sql.sources.provider": "csv", "spark.sql.partitionProvider": "catalog"}}, "csv"),
    "Iceberg": ({"parameters": {"table_type": "ICEBERG"}}, "but iceberg"),
    "ACID": ({"parameters": {"transactional": "true"}}, "Hive ACID table"),
    "a view": ({"kind": "VIRTUAL_VIEW", "location": ""}, "is a view"),
    "names": ({"parameters": {"spark.sql.sources.provider": "parquet"}}, "MSCK REPAIR TABLE"),
}


@pytest.mark.parametrize(("described", "message"), OTHERS.values(), ids=OTHERS)
def test_other_tables_are_refused_by_name(described: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        Orders(described=described).read()
    assert "mart.orders" in str(caught.value)


def test_a_dataset_is_read_only(orders: Orders) -> None:
    with pytest.raises(NotImplementedError, match="read only"):
        orders.read().filesystem.delete_file("orders/_table_writer/data/w0/part-0")


def test_without_a_metastore_the_call_says_what_is_missing() -> None:
    with pytest.raises(InvalidInputError, match=r"hive\.metastore\.uris"):
        read_arrow("mart.orders")


@pytest.mark.parametrize("kind", ["char(4)", "array<char(4)>"])
def test_a_char_that_spark_would_pad_is_refused_where_it_may_be_unpadded(kind: str) -> None:
    orders = Orders(columns=f"id bigint, code {kind}, note varchar(4)")
    rows = pa.table({"id": [1], "code": ["ab"]})
    orders.add(("1",), rows)
    with pytest.raises(InvalidInputError, match="column code is a CHAR"):
        orders.read()
    of_spark = Orders(columns="id bigint, code char(4)")
    padded = pa.table({"id": [1], "code": ["ab  "]})
    of_spark.add(("1",), padded.replace_schema_metadata({"org.apache.spark.version": "4.1.2"}))
    assert of_spark.read().to_table()["code"].to_pylist() == ["ab  "]


def test_no_thread_of_pyarrow_holds_a_file_when_the_process_ends(orders: Orders) -> None:
    assert orders.read().to_table().num_rows == 8
    dataset._wait_for_readers()
    assert dataset._given == []


def test_the_end_of_a_process_waits_for_what_pyarrow_alone_holds_and_not_for_a_dataset_of_its_own(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "SHORT_WAIT_SECONDS", 600.0)
    kept = orders.read()
    fragments = list(kept.get_fragments())
    dataset._wait_for_readers()
    assert len(dataset._given) == 1
    del kept
    later = threading.Timer(0.3, fragments.clear)  # as a thread of pyarrow does
    later.start()
    dataset._wait_for_readers()
    assert dataset._given == []
    later.join()
