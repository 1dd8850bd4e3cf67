"""Check all that a table's writes depend on, and say what to change. Nothing of the table is changed.

If a check fails, the others still run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from table_writer.doctor import servers, spark, table
from table_writer.doctor.findings import error, note, worst_first
from table_writer.doctor.subject import Subject
from table_writer.errors import MetastoreError, StorageError, TableWriterError
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.health_reports import Finding

Check = Callable[[Subject], Iterable[Finding]]

CHECKS: Final[Mapping[str, Check]] = {
    "metastore version": servers.compare_and_set,
    "hidden from the role": servers.sight,
    "replication": servers.replication,
    "metastore addresses": servers.addresses,
    "metastore timeouts": servers.switch_time,
    "conditional put": servers.conditional_put,
    "permissions": servers.permissions,
    "clock": servers.clock,
    "lifecycle rules": servers.lifecycle,
    "bucket versioning": servers.versioning,
    "owner": table.owner,
    "location": table.location,
    "damage of the log": table.damage,
    "log of the metastore": table.known_log,
    "log": table.in_doubt,
    "checkpoint": table.checkpoint,
    "table properties": table.properties,
    "retention": table.retention,
    "data to vacuum": table.waiting,
    "dead writes": table.dead_writes,
    "erasures": table.erasures,
    "metastore characters": servers.characters,
    "partition locations": table.placement,
    "forgotten partitions": table.forgotten_partitions,
    "partition files": table.files,
    "small files": table.small_files,
    "readers": table.readers,
}
SPARK_CHECKS: Final[Mapping[str, Check]] = {
    "hive client": spark.hive_client,
    "abort.pending.uploads": spark.abort_pending_uploads,
    "committer": spark.committer,
    "multipart.purge": spark.multipart_purge,
    "manageFilesourcePartitions": spark.partition_source,
    "speculation": spark.speculation,
    "executor memory": spark.memory,
    "multipart.size": spark.part_size,
    "pandas.udf.buffer.size": spark.buffer_size,
    "unix domain socket": spark.unix_socket,
    "Comet": spark.comet,
    "compression": spark.compression,
    "socket timeout": spark.socket_timeout,
}
ADVICE: Final[Mapping[type[TableWriterError], str]] = {
    MetastoreError: "check hive.metastore.uris and the network to that port",
    StorageError: "check the credentials and the endpoint as the message says",
}


def examine(
    opened: OpenTable, spark_conf: Mapping[str, str] | None = None, *, scratch_table: bool = False
) -> tuple[Finding, ...]:
    """Run every check, and return the findings, worst first. Spark's settings need ``spark_conf``.

    Three checks of the store put and delete objects of their own, below a key that nobody else uses. All others only
    read, unless ``scratch_table`` lets one make a table and drop it again. A check that cannot be made
    is an error among the findings: no error of this library is raised.
    """
    subject = Subject(opened, spark_conf, scratch_table)
    checks = CHECKS if spark_conf is None else {**CHECKS, **SPARK_CHECKS}
    failures: list[TableWriterError] = []
    findings: list[Finding] = []
    for name, check in checks.items():
        findings_of_check: list[Finding] = []
        try:
            findings_of_check += check(subject)
        except TableWriterError as failure:  # the others still run
            text = str(failure)
            is_known = text in map(str, failures) or any(
                text in finding.message for finding in (*findings, *findings_of_check)
            )
            findings_of_check.append(note("not checked: see the error above") if is_known else _not_checked(failure))
            failures.append(failure)
        findings += [replace(finding, check=name) for finding in findings_of_check]
    return worst_first(findings)


def _not_checked(failure: TableWriterError) -> Finding:
    to_do = next((text for kind, text in ADVICE.items() if isinstance(failure, kind)), "do what the message says")
    return error(f"cannot be checked: {failure}", f"{to_do}, then run doctor again")
