"""An optional part is used without its libraries: the error names what to install, as it is written in a shell.

Seen by a user: ``lakehouse()`` after ``pip install hive-table-writer`` ended with the log of a server, *No module named
moto*.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import table_writer

ROOT = Path(table_writer.__file__).parents[1]
OF_THIS_REPOSITORY = {"bench", "docs", "mutants", "unit", "dev"}
LIBRARIES = [
    "airflow",
    "azure",
    "chispa",
    "dagster",
    "dbt",
    "dbt_common",
    "google",
    "grpc",
    "grpc_status",
    "kedro",
    "moto",
    "openlineage",
    "opentelemetry",
    "prefect",
    "pydantic",
    "pyiceberg",
    "pytest",
    "shtab",
]
USES = {
    "airflow": "import table_writer.integrations.airflow",
    "airflow, by a module": "import table_writer.integrations.airflow.operators",
    "azure": "from table_writer.storage.object_store import open_store\n"
    "open_store(AzureSettings(account='abc', container='abc', account_url='https://a.b', credential=None))",
    "completion": "from table_writer.cli.main import main\nmain(['--print-completion', 'bash'])",
    "connect": "from table_writer.testing import lakehouse\nlakehouse(spark_conf={'spark.api.mode': 'connect'})",
    "dagster": "import table_writer.integrations.dagster",
    "dagster, by a module": "import table_writer.integrations.dagster.io_manager",
    "dbt": "import table_writer.integrations.dbt",
    "dbt, by its command": "import table_writer.integrations.dbt.__main__",
    "gcs": "from table_writer.storage.object_store import open_store\nopen_store(GcsSettings(bucket='abc'))",
    "iceberg": "from table_writer import TableWriterConfig\nTableWriterConfig(mirrors=['iceberg'])",
    "kedro": "import table_writer.integrations.kedro",
    "openlineage": "import table_writer.integrations.openlineage",
    "opentelemetry": "import table_writer.integrations.opentelemetry",
    "prefect": "import table_writer.integrations.prefect",
    "testing": "from table_writer.testing import lakehouse\nlakehouse()",
    "testing, by a server": "from table_writer.testing import S3Server\nS3Server()",
    "testing, by its fixtures": "import table_writer.testing.pytest_plugin",
}
WITHOUT_THEM = """
import contextlib, io, json, sys
from table_writer.storage.azure.settings import AzureSettings
from table_writer.storage.gcs.settings import GcsSettings
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {libraries}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
said = {{}}
for use, code in {uses}.items():
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        try:
            exec(code)
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            said[use] = [str(error), "ImportError" in kinds and "InvalidInputError" in kinds]
        else:
            said[use] = [stderr.getvalue(), True]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[str, bool]]:
    code = WITHOUT_THEM.format(libraries=set(LIBRARIES), uses=USES)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return {use: (text, is_ours) for use, (text, is_ours) in json.loads(ran.stdout.splitlines()[-1]).items()}


def test_every_extra_is_tried() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {use.partition(",")[0] for use in USES} == set(extras) - OF_THIS_REPOSITORY


@pytest.mark.parametrize("use", USES)
def test_what_is_not_installed_is_named_with_its_extra(use: str, answers: dict[str, tuple[str, bool]]) -> None:
    text, is_ours = answers[use]
    assert f"pip install 'hive-table-writer[{use.partition(',')[0]}]'" in text
    assert is_ours
