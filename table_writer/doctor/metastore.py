"""Checks of the metastore: what it honours, and whether one switch fits into the timeouts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from table_writer.display.reports import Finding
from table_writer.doctor.patient import Patient, note, ok, warning

__all__ = ["addresses", "compare_and_set", "switch_time"]

HONOURED_FROM: Final = (2, 3, 10)  # HIVE-26882; of the later ones Hive 3 lacks it
LACKING: Final = (3,)
SECONDS_PER_PARTITION: Final = {4: 0.0006}  # of one alter; measured on 4.0.1
SLOWEST_SECONDS_PER_PARTITION: Final = 0.0027  # measured on Hive 2.3.10
LONGEST_TIMEOUT_SECONDS: Final = 86_400  # of a publish, by TableWriterConfig


def compare_and_set(patient: Patient) -> Iterable[Finding]:
    """Say which metastore answers, and whether it protects unpartitioned tables."""
    uri, version = patient.services.metastore.uri, patient.version()
    partitioned = bool(patient.services.table.partition_columns)
    parts = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    says = f"{uri} is Hive {version}" if version else f"{uri} answers, and does not say its version"
    if not parts:
        yield note("metastore version", f"{says}; whether alter_table honours a compare-and-set is not known")
    elif parts >= HONOURED_FROM and parts[0] not in LACKING:
        yield ok("metastore version", f"{says}: alter_table honours a compare-and-set")
    elif partitioned:
        yield note(
            "metastore version",
            f"{says}: alter_table ignores a compare-and-set in silence. Partitions do not need it",
        )
    else:
        yield warning(
            "metastore version",
            f"{says}: alter_table ignores a compare-and-set in silence, so only the log protects this unpartitioned"
            " table: an ALTER TABLE of another tool at the same moment can be lost",
            "upgrade the metastore to Hive 2.3.10 or 4, or let no other tool alter this table while it is written",
        )


def addresses(patient: Patient) -> Iterable[Finding]:
    """Remind of what several addresses must have in common."""
    named = patient.services.config.metastore_uris or patient.services.session.hadoop.get("hive.metastore.uris", "")
    uris = tuple(named) if isinstance(named, tuple) else tuple(filter(None, re.split(r"[,\s]+", named)))
    if len(uris) > 1:
        yield note(
            "metastore addresses",
            f"{len(uris)} addresses are configured: {', '.join(uris)}. Only one of them was asked",
            "make sure that all of them work on one database: a second database is a second table on the same files",
        )
    else:
        yield ok("metastore addresses", "one address is configured")


def switch_time(patient: Patient) -> Iterable[Finding]:
    """Compare what one switch of all partitions takes with the timeouts."""
    config, services = patient.services.config, patient.services
    count = len(services.metastore.get_partition_names(services.table.name)) if services.table.partition_columns else 1
    version = re.match(r"\d+", patient.version())
    known = SECONDS_PER_PARTITION.get(int(version[0])) if version else None
    seconds = count * (known or SLOWEST_SECONDS_PER_PARTITION)
    call, publish = config.metastore_timeout_seconds, config.publish_timeout_seconds
    says = f"{count:,} partition(s): one switch of all of them takes about {seconds:.1f} s"
    if 2 * seconds <= call:
        yield ok("metastore timeouts", f"{says}, and may take {call:g} s; a claim lasts {publish:g} s")
        return
    wanted = min(int(4 * seconds) + 1, (LONGEST_TIMEOUT_SECONDS - 5) // 2)
    yield warning(
        "metastore timeouts",
        f"{says}, which is close to or above the timeout of {call:g} s: after it the outcome is unknown",
        f"set metastore_timeout_seconds={wanted} and publish_timeout_seconds={max(2 * wanted + 5, int(publish))}, or"
        " write fewer partitions at a time",
    )
