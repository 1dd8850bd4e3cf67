"""Hive's own engine: 2.3.10, whose jars pyspark carries, in a process that runs some statements and ends."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from pyspark.sql import types as T  # noqa: N812

from table_writer.testing import Lakehouse
from table_writer.testing.choices import BUILT_IN_HIVE
from table_writer.testing.jars import find_java, java_environment, resolve_jars, s3a_jars, spark_home

SOURCE: Final = Path(__file__).with_name("HiveEngine.java")
NOT_IN_SPARK: Final = tuple(f"org.apache.hive:hive-llap-{part}:{BUILT_IN_HIVE}" for part in ("common", "client"))
PACKAGES: Final = ("lang", "net", "nio", "util", "util.concurrent", "util.concurrent.atomic")
TIMEOUT_SECONDS: Final = 240
HiveRows = list[list[str | None]]
"""Every value as Hive's text."""

OF_MAPS: Final = re.compile(r"([{,])(-?\d+):")  # Hive's JSON has numbers for keys


def rows_of(lake: Lakehouse, statements: Sequence[str], directory: Path) -> list[HiveRows | str]:
    """Run statements, and return the rows of each, or what Hive says of its failure."""
    settings = {
        "hive.metastore.uris": lake.metastore_uri,
        "hive.cbo.enable": "false",  # the optimizer's jars are not Spark's
        "hive.execution.engine": "mr",
        "mapreduce.framework.name": "local",
        "hive.support.concurrency": "false",
        "hive.fetch.task.conversion": "more",
        "hive.session.history.enabled": "false",
        "list.sink.output.formatter": "org.apache.hadoop.hive.serde2.thrift.ThriftFormatter",  # values, not lines
        **{
            name: str(directory / name)
            for name in (
                "hive.exec.scratchdir",
                "hive.exec.local.scratchdir",
                "hive.downloaded.resources.dir",
                "hadoop.tmp.dir",
            )
        },
        **lake.s3_server.hadoop_settings(),
    }
    properties = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    (directory / "hive-site.xml").write_text("\n".join(["<configuration>", *properties, "</configuration>"]))
    command = [find_java(), "-Xmx1g", "-Duser.timezone=UTC", f"-Djava.io.tmpdir={directory}"]
    command += [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in PACKAGES]
    engine = resolve_jars("hive-engine", NOT_IN_SPARK, transitive=False)
    class_path = [directory, spark_home() / "jars" / "*", *engine, *s3a_jars()]
    command += ["-cp", os.pathsep.join(map(str, class_path)), str(SOURCE)]
    run = subprocess.run(
        command,
        input="\n".join(statements) + "\n",
        cwd=directory,
        env=java_environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    answers: list[HiveRows | str] = []
    rows: HiveRows = []
    for line in run.stdout.splitlines():
        what, _, rest = line.partition(" ")
        if what not in ("row", "done", "failed"):
            continue  # Hive says something
        values = [None if one == "-" else base64.b64decode(one[1:]).decode() for one in rest.split()]
        if what == "row":
            rows.append(values)
        else:
            answers.append(rows if what == "done" else str(values))
            rows = []
    assert len(answers) == len(statements), run.stderr[-4000:]
    return answers


def value_of(text: Any, kind: T.DataType) -> Any:
    """Read Hive's text of a value, or of a part of one, as the type that Spark has for it."""
    if text is None:
        return None
    if isinstance(kind, T.ArrayType | T.MapType | T.StructType) and isinstance(text, str):
        text = json.loads(OF_MAPS.sub(r'\1"\2":', text), parse_int=str, parse_float=str)
    if isinstance(kind, T.ArrayType):
        return [value_of(one, kind.elementType) for one in text]
    if isinstance(kind, T.MapType):
        return {value_of(key, kind.keyType): value_of(one, kind.valueType) for key, one in text.items()}
    if isinstance(kind, T.StructType):
        return tuple(value_of(text[field.name.lower()], field.dataType) for field in kind)
    if isinstance(kind, T.DecimalType):
        return Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=40))
    parse = next((parse for of, parse in PARSERS.items() if isinstance(kind, of)), str)
    return parse(text)


PARSERS: Final = {
    T.BooleanType: lambda text: str(text).lower() == "true",
    T.IntegralType: int,
    T.FractionalType: float,
    T.DateType: date.fromisoformat,
    T.TimestampType: datetime.fromisoformat,
    T.BinaryType: bytes.fromhex,
}
