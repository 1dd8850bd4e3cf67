"""The dbt project of the documentation, by real dbt over a real metastore and S3, and with a model that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from table_writer import Maintenance, TableWriterConfig, read_arrow
from table_writer.testing import MetastoreServer, S3Server
from table_writer.testing.connect import write_spark_conf
from table_writer.testing.embedded import _spark_settings
from table_writer.testing.jars import java_environment, s3a_jars
from tests.docs.markdown_blocks import ROOT
from tests.real.real_world import Address

from .conftest import make_database

PROJECT = ROOT / "docs" / "how-to" / "dbt-project"
BROKEN = "{{ config(materialized='table_writer') }} SELECT dt, orders, 'much' AS amount FROM {{ this }}"
TEXT = 'it\'s "ü" 🙂 \\ {end}'
CHOSEN = (
    "{{ config(materialized='table_writer', partition_by='day', meta={'table_writer': {'where': \"day = 'd1'\"}}) }}"
)
TEXTS = CHOSEN + " SELECT 'it\\'s \"ü\" 🙂 \\\\ {end}' AS text, 'd1' AS day"


class Project:
    """A copy of the project, and the Spark that dbt starts."""

    def __init__(self, folder: Path, s3: S3Server, metastore: MetastoreServer) -> None:
        self.folder = folder / "project"
        shutil.copytree(PROJECT, self.folder)
        settings = _spark_settings("local[2]", f"s3a://{s3.bucket}/warehouse", s3a_jars(), s3.hadoop_settings(), folder)
        write_spark_conf(folder, {**settings, "spark.hadoop.hive.metastore.uris": metastore.uri})
        spark = {"SPARK_CONF_DIR": str(folder), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_PROFILES_DIR": str(self.folder)}
        self._environment = {**os.environ, **java_environment(), **spark, **quiet}

    def run(self, *words: str) -> tuple[int, str]:
        """Run dbt; returns its exit code, and what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "table_writer.integrations.dbt", *words],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path, s3_server: S3Server, metastore_server: MetastoreServer, address: Address) -> Project:
    make_database(address, "mart")
    return Project(tmp_path, s3_server, metastore_server)


def test_models_in_sql_and_python_are_published_and_a_model_that_fails_changes_nothing(
    project: Project, s3_server: S3Server, metastore_server: MetastoreServer
) -> None:
    config = TableWriterConfig(hadoop=s3_server.hadoop_settings())
    keeper = Maintenance(metastore_server.uri, config=config)

    def rows(table: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = (
            read_arrow(table, metastore_uri=metastore_server.uri, config=config).to_table().to_pylist()
        )
        return sorted(found, key=str)

    (project.folder / "models" / "texts.sql").write_text(TEXTS)
    code, said = project.run("build")
    assert code == 0, said
    orders = [{"id": 1, "amount": 9.5, "dt": "2024-01-01"}, {"id": 2, "amount": 20.0, "dt": "2024-01-02"}]
    assert rows("mart.orders") == sorted(orders, key=str)
    daily = [{"dt": day, "orders": 1, "amount": amount} for day, amount in (("2024-01-01", 9.5), ("2024-01-02", 20.0))]
    assert rows("mart.daily") == sorted(daily, key=str)
    assert rows("mart.texts") == [{"text": TEXT, "day": "d1"}]
    (project.folder / "models" / "daily.sql").write_text(BROKEN)
    code, said = project.run("run", "--full-refresh")
    assert code == 1, said
    assert "amount" in said
    assert rows("mart.daily") == sorted(daily, key=str)
    calls = [
        [(one.mode, one.words.where) for one in keeper.history(f"mart.{name}").versions]
        for name in ("orders", "daily", "texts")
    ]
    assert calls[:2] == [[("overwrite_table", ""), ("overwrite_partitions", "")], [("overwrite_table", "")]]
    assert calls[2] == [("overwrite_table", ""), ("overwrite_partitions", "day = 'd1'")]
