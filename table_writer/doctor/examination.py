"""The order of an examination; if a check fails, the others still run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from table_writer.display.reports import Finding
from table_writer.doctor.servers import (
    addresses,
    clock,
    compare_and_set,
    conditional_put,
    lifecycle,
    permissions,
    switch_time,
    versioning,
)
from table_writer.doctor.spark import (
    abort_pending_uploads,
    buffer_size,
    committer,
    memory,
    multipart_purge,
    part_size,
    partition_source,
    socket_timeout,
    speculation,
    unix_socket,
)
from table_writer.doctor.subject import Subject, error, note
from table_writer.doctor.table import (
    checkpoint,
    damage,
    dead_writes,
    files,
    forgotten,
    in_doubt,
    location,
    owner,
    placement,
    properties,
    retention,
    waiting,
)
from table_writer.errors import MetastoreError, StorageError, TableWriterError
from table_writer.log.open_table import OpenTable

Check = Callable[[Subject], Iterable[Finding]]

CHECKS: Final[Mapping[str, Check]] = {
    "metastore version": compare_and_set,
    "metastore addresses": addresses,
    "metastore timeouts": switch_time,
    "conditional put": conditional_put,
    "permissions": permissions,
    "clock": clock,
    "lifecycle rules": lifecycle,
    "bucket versioning": versioning,
    "owner": owner,
    "location": location,
    "damage of the log": damage,
    "log": in_doubt,
    "checkpoint": checkpoint,
    "table properties": properties,
    "retention": retention,
    "data to vacuum": waiting,
    "dead writes": dead_writes,
    "partition locations": placement,
    "forgotten partitions": forgotten,
    "partition files": files,
}
SPARK_CHECKS: Final[Mapping[str, Check]] = {
    "abort.pending.uploads": abort_pending_uploads,
    "committer": committer,
    "multipart.purge": multipart_purge,
    "manageFilesourcePartitions": partition_source,
    "speculation": speculation,
    "executor memory": memory,
    "multipart.size": part_size,
    "pandas.udf.buffer.size": buffer_size,
    "unix domain socket": unix_socket,
    "socket timeout": socket_timeout,
}
WORST_FIRST: Final = ("error", "warning", "note", "ok")


def examine(opened: OpenTable, spark_conf: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """Run every check, and return what they found, worst first. Spark's settings need ``spark_conf``.

    Two checks of the store put and delete objects and uploads of their own, under a key that nothing else uses; all
    others only read. A check that cannot be made is an error among the findings: nothing of this library is raised.
    """
    subject = Subject(opened, spark_conf)
    checks = CHECKS if spark_conf is None else {**CHECKS, **SPARK_CHECKS}
    failures: list[TableWriterError] = []
    findings: list[Finding] = []
    for name, check in checks.items():
        found: list[Finding] = []
        try:
            found += check(subject)
        except TableWriterError as failure:  # the others still run
            text = str(failure)
            known = text in map(str, failures) or any(text in one.message for one in (*findings, *found))
            found.append(note("not checked: see the error above") if known else _failed(failure))
            failures.append(failure)
        findings += [replace(one, check=name) for one in found]
    return tuple(sorted(findings, key=lambda finding: WORST_FIRST.index(finding.status)))


def _failed(failure: TableWriterError) -> Finding:
    advice = "do what the message says, then run doctor again"
    if isinstance(failure, MetastoreError):
        advice = "check hive.metastore.uris and the network to that port, then run doctor again"
    elif isinstance(failure, StorageError):
        advice = "check the credentials and fs.s3a.endpoint as the message says, then run doctor again"
    return error(f"cannot be checked: {failure}", advice)
