"""The Kedro project of the documentation, by a real session of Kedro; and each write mode beside Kedro's own."""

from __future__ import annotations

import pickle
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kedro
import pytest
import yaml
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.io import DataCatalog, DatasetError
from kedro_datasets.spark import SparkHiveDataset
from pyspark.sql import DataFrame, SparkSession

from table_writer import TableWriter
from table_writer.integrations.kedro import HiveDataset
from tests.docs.markdown_blocks import ROOT

from .conftest import found

PROJECT = ROOT / "docs" / "how-to" / "kedro-project"
COLUMNS = "id INT, amount DOUBLE, dt STRING"
OLD = ((1, 1.0, "d1"), (2, 2.0, "d2"))
pytestmark = pytest.mark.filterwarnings("ignore:register_new_resolver:UserWarning")  # Kedro 1.7 with OmegaConf 2.4
NEW = ((2, 20.0, "d2"), (3, 3.0, "d2"))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    project = folder / "pyproject.toml"  # a project is of one version of Kedro: here of the one that is installed
    project.write_text(project.read_text().replace('"1.7.0"', f'"{kedro.__version__}"'))
    path, modules = list(sys.path), set(sys.modules)
    bootstrap_project(folder)
    yield folder
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] == "shop":
            del sys.modules[name]


def run(project: Path) -> None:
    with KedroSession.create(project) as session:
        session.run()


def frame(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), COLUMNS)


def dataset(table: str = "orders", **entry: Any) -> HiveDataset:
    """Return the dataset as a catalog makes it."""
    named = {"type": "table_writer.integrations.kedro.HiveDataset", "database": "mart", "table": table, **entry}
    return DataCatalog.from_config({table: named})[table]


def test_the_project_of_the_documentation_upserts_by_key_and_overwrites(mart: SparkSession, project: Path) -> None:
    arrived = dataset("new_orders", write_mode="overwrite")
    arrived.save(frame(mart, *OLD, OLD[0]))
    run(project)
    assert found(mart, "mart.orders") == sorted(OLD)
    arrived.save(frame(mart, *NEW))
    run(project)
    assert found(mart, "mart.orders") == [(1, 1.0, "d1"), *NEW]
    assert found(mart, "mart.daily") == [("d1", 1.0), ("d2", 23.0)]
    assert [row.partition for row in mart.sql("SHOW PARTITIONS mart.orders").collect()] == ["dt=d1", "dt=d2"]


def test_a_failed_check_stops_the_run_and_readers_keep_their_rows(mart: SparkSession, project: Path) -> None:
    arrived = dataset("new_orders", write_mode="overwrite")
    arrived.save(frame(mart, *OLD))
    run(project)
    arrived.save(frame(mart, (1, -5.0, "d1"), (9, 9.0, "d9")))
    with pytest.raises(DatasetError, match=r"in_range\(amount, min=0\): 1 of 2 rows have amount below 0"):
        run(project)
    assert found(mart, "mart.orders") == sorted(OLD)
    assert found(mart, "mart.daily") == [("d1", 1.0), ("d2", 2.0)]  # the node behind it did not run


@pytest.mark.parametrize(
    "entry",
    [
        {"write_mode": "append"},
        {"write_mode": "overwrite", "save_args": {"format": "parquet", "partitionBy": ["dt"], "compression": "zstd"}},
        {"write_mode": "upsert", "table_pk": ["dt", "id"], "save_args": {"eager_checkpoint": True}},
        {},
    ],
    ids=str,
)
def test_a_catalog_that_changes_in_its_type_alone_saves_the_same_rows(
    mart: SparkSession, entry: dict[str, Any], tmp_path: Path
) -> None:
    mart.sparkContext.setCheckpointDir(str(tmp_path))  # of Kedro's upsert
    rows: dict[str, Any] = {}
    for kind in (SparkHiveDataset, HiveDataset):
        table = kind.__name__.lower()
        name = f"{kind.__module__}.{kind.__name__}"
        if entry.get("write_mode") == "upsert":  # which Kedro's own cannot begin with
            frame(mart, *OLD).write.saveAsTable(f"mart.{table}", format="parquet")
        catalog = DataCatalog.from_config({"t": {"type": name, "database": "mart", "table": table, **entry}})
        outcomes = []
        for saved in (OLD, NEW, ()):
            try:
                catalog.save("t", frame(mart, *saved))
            except DatasetError:
                outcomes.append("refused")
            else:
                outcomes.append(str(sorted(map(tuple, catalog.load("t").select("id", "amount", "dt").collect()))))
        rows[table] = outcomes
        assert catalog.exists("t")
        assert set(catalog["t"]._describe()) >= {"database", "table", "write_mode", "table_pk"}
    assert rows["hivedataset"] == rows["sparkhivedataset"]
    assert "refused" not in rows["hivedataset"] or entry.get("write_mode", "errorifexists") == "errorifexists"


def test_overwrite_partitions_leaves_the_others_and_replaces_what_where_selects(mart: SparkSession) -> None:
    by_day = {"partitionBy": "dt"}
    dynamic = dataset(write_mode="overwrite_partitions", save_args=by_day)
    dynamic.save(frame(mart, *OLD))
    dynamic.save(frame(mart, (7, 7.0, "d2")))
    assert found(mart, "mart.orders") == [OLD[0], (7, 7.0, "d2")]
    dynamic.save(frame(mart))
    assert len(found(mart, "mart.orders")) == 2
    chosen = dataset(write_mode="overwrite_partitions", save_args={**by_day, "where": "dt = 'd2'"})
    with pytest.raises(DatasetError, match="does not select: dt=d1"):
        chosen.save(frame(mart, *OLD))
    chosen.save(frame(mart))
    assert found(mart, "mart.orders") == [OLD[0]]


def test_overwrite_takes_the_columns_of_its_rows_where_no_partition_keeps_others(mart: SparkSession) -> None:
    for table, save_args in (("whole", {}), ("by_day", {"partitionBy": ["dt"]})):
        dataset(table, write_mode="overwrite", save_args=save_args).save(frame(mart, *OLD))
    wider = frame(mart, *NEW).selectExpr("id", "amount", "dt", "'x' AS note")
    dataset("whole", write_mode="overwrite").save(wider)
    assert mart.table("mart.whole").columns == wider.columns
    with pytest.raises(DatasetError, match="columns the table does not have: 'note'"):
        dataset("by_day", write_mode="overwrite").save(wider)
    dataset("by_day", write_mode="overwrite", save_args={"schema": "evolve"}).save(wider)
    assert mart.table("mart.by_day").where("note = 'x'").count() == 2
    with pytest.raises(DatasetError, match=r"partitionBy is \['id'\], and mart.by_day is partitioned by \['dt'\]"):
        dataset("by_day", write_mode="overwrite", save_args={"partitionBy": ["id"]}).save(wider)


def test_a_first_save_that_failed_can_be_made_again(mart: SparkSession) -> None:
    checked = dataset(save_args={"checks": [f"{__name__}.no_row_is_negative"]})
    with pytest.raises(DatasetError, match="negative"):
        checked.save(frame(mart, (1, -1.0, "d1")))
    checked.save(frame(mart, *OLD))
    with pytest.raises(DatasetError, match="exists, and write_mode='errorifexists' replaces no rows"):
        checked.save(frame(mart, *NEW))
    assert found(mart, "mart.orders") == sorted(OLD)


def no_row_is_negative(rows: DataFrame) -> None:
    assert rows.where("amount < 0").isEmpty(), "some amounts are negative"


def test_a_key_that_is_there_twice_or_is_no_column_publishes_nothing(mart: SparkSession) -> None:
    upsert = dataset(write_mode="upsert", table_pk="id")
    with pytest.raises(DatasetError, match="id=2 is there 2 times"):
        upsert.save(frame(mart, *NEW, NEW[0]))
    upsert.save(frame(mart, *NEW))
    with pytest.raises(DatasetError, match=r"table_pk of mart.other has \['key'\]"):
        dataset("other", write_mode="upsert", table_pk=["key"]).save(frame(mart, *NEW))
    assert not dataset("other").exists()
    assert found(mart, "mart.orders") == sorted(NEW)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"write_mode": "overwrit"}, "did you mean overwrite.* expected one of append"),
        ({"write_mode": "upsert"}, "needs table_pk"),
        ({"save_args": {"schem": "evolve"}}, r"save_args has no schem; did you mean schema\?"),
        ({"save_args": {"partition_by": ["dt"]}}, r"did you mean partitionBy\?"),
        ({"save_args": {"schema": "evolv"}}, "expected one of strict"),
        ({"save_args": {"format": "delta"}}, "only its own writer"),
        ({"save_args": {"checks": ["no.such.check"]}}, "names nothing that can be imported"),
        ({"write_mode": "upsert", "table_pk": ["id"], "save_args": {"if_empty": "drop"}}, "save_args has no if_empty"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_when_the_catalog_is_read(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        dataset(**entry)


def test_another_dataframe_and_another_process_are_refused(mart: SparkSession) -> None:
    with pytest.raises(DatasetError, match=r"takes a Spark DataFrame, not a pandas\.core\.frame\.DataFrame"):
        dataset(write_mode="overwrite").save(frame(mart, *OLD).toPandas())
    with pytest.raises(pickle.PicklingError, match="use ThreadRunner"):
        pickle.dumps(dataset())


def test_a_save_is_a_version_of_the_table(mart: SparkSession) -> None:
    dataset(write_mode="overwrite", save_args={"tags": {"team": "shop"}}).save(frame(mart, *OLD))
    (version,) = TableWriter(mart).maintenance.history("mart.orders").versions
    assert version.tags["team"] == "shop"


def test_the_catalog_of_the_documentation_names_only_this_dataset() -> None:
    catalog = yaml.safe_load((PROJECT / "conf" / "base" / "catalog.yml").read_text())
    assert {entry["type"] for entry in catalog.values()} == {f"{HiveDataset.__module__}.{HiveDataset.__name__}"}
