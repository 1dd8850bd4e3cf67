"""The DAGs of the documentation, by `airflow dags test`: real Airflow, Spark, metastore and S3."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from table_writer.config import TableWriterConfig
from table_writer.maintenance import Maintenance
from table_writer.testing import MetastoreServer, S3Server
from table_writer.testing.connect import write_spark_conf
from table_writer.testing.embedded import _spark_settings
from table_writer.testing.jars import java_environment, s3a_jars
from tests.docs.markdown_blocks import ROOT
from tests.real.real_world import Address

from .conftest import SETTINGS, make_database

DAG_FILE = ROOT / "docs" / "how-to" / "airflow_dag.py"
AIRFLOW = str(Path(sys.executable).with_name("airflow"))
TIMEOUT_SECONDS = 400  # two runs at once on two cores


class Home:
    """Airflow with a database of its own."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home = home
        folders = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags")}
        self._environment = {**os.environ, **SETTINGS, **environment, **folders}
        (home / "dags").mkdir(parents=True)
        shutil.copy(DAG_FILE, home / "dags")

    def run(self, *words: str) -> str:
        """Run a command of Airflow; it must succeed."""
        with self.begin(*words) as process:
            said, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 0, said
        return said

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [AIRFLOW, *words], env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def copied(self, home: Path) -> Home:
        """Return another one with a copy of the database."""
        other = Home(home, self._environment)
        shutil.copy(self._home / "airflow.db", home)
        return other

    def states(self, dag: str) -> dict[str, str]:
        return dict(self._rows("SELECT task_id, state FROM task_instance WHERE dag_id = ?", dag))

    def xcoms(self, dag: str) -> dict[str, Any]:
        found = self._rows("SELECT task_id, value FROM xcom WHERE dag_id = ? AND key = 'return_value'", dag)
        return {task: json.loads(value) for task, value in found}  # of the newest run

    def _rows(self, query: str, *values: str) -> list[Any]:
        with closing(sqlite3.connect(self._home / "airflow.db")) as database:
            return database.execute(query, values).fetchall()


def heard_until(process: subprocess.Popen[str], words: str) -> str:
    """Return what a process says up to a line with these words."""
    assert process.stdout is not None
    heard = ""
    for line in process.stdout:
        heard += line
        if words in line:
            return heard
    raise AssertionError(f"it never said {words!r}:\n{heard}")


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    s3_server: S3Server,
    metastore_server: MetastoreServer,
    connection: dict[str, Any],
    address: Address,
) -> Home:
    make_database(address, "mart")
    directory = tmp_path_factory.mktemp("scheduled")
    hadoop = s3_server.hadoop_settings()
    settings = _spark_settings("local[2]", f"s3a://{s3_server.bucket}/warehouse", s3a_jars(), hadoop, directory)
    write_spark_conf(directory, {**settings, "spark.hadoop.hive.metastore.uris": metastore_server.uri})
    spark = {"SPARK_CONF_DIR": str(directory), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    home = Home(directory / "home", {**java_environment(), **spark, "AIRFLOW_CONN_LAKE": json.dumps(connection)})
    home.run("db", "migrate")
    return home


def test_the_dags_of_the_documentation_load_check_publish_vacuum_and_wait(
    airflow: Home, tmp_path: Path, s3_server: S3Server, metastore_server: MetastoreServer
) -> None:
    airflow.run("dags", "test", "orders", "2024-01-01")  # makes the table
    consumer = airflow.copied(tmp_path / "consumer")
    waiting = consumer.begin("dags", "test", "orders_report", "2024-01-02")
    try:
        heard = heard_until(waiting, "running trigger in line")
        said = airflow.run("dags", "test", "orders", "2024-01-02")
        heard += waiting.communicate(timeout=TIMEOUT_SECONDS)[0]
    finally:
        waiting.kill()
    assert airflow.states("orders") == dict.fromkeys(["stage", "publish", "vacuum"], "success"), said
    loaded = airflow.xcoms("orders")
    assert (loaded["publish"]["write_id"], loaded["publish"]["version"]) == (loaded["stage"], 2)
    assert [check["name"] for check in loaded["publish"]["checks"]] == ["not_null(id)", "in_range(amount, min=0)"]
    assert loaded["vacuum"]["failures"] == []
    assert consumer.states("orders_report") == {"rows": "success", "report": "success"}, heard
    assert consumer.xcoms("orders_report")["report"] == "dt=2024-01-02: 2 rows of version 2"
    secret = s3_server.hadoop_settings()["fs.s3a.secret.key"]
    assert secret not in said + heard
    keeper = Maintenance(metastore_server.uri, config=TableWriterConfig(hadoop=s3_server.hadoop_settings()))
    versions = keeper.history("mart.orders").versions
    assert [(one.version, one.tags["run_id"].partition("_")[0]) for one in versions] == [(2, "manual"), (1, "manual")]
