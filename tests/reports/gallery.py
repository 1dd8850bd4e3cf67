"""One of every report: as usual, and with the worst names there can be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from table_writer.model.check_result import CheckResult
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.words import Words
from table_writer.reports.health_reports import DoctorReport, Finding
from table_writer.reports.history_reports import (
    HistoryReport,
    RecoverReport,
    RestoreReport,
    RollbackReport,
    VersionReport,
    VersionSummary,
)
from table_writer.reports.plan_report import PlanReport, SchemaVerdict
from table_writer.reports.staged_report import StagedDetail, StagedReport, StagedSummary
from table_writer.reports.vacuum_reports import (
    AbortedUpload,
    DeletedPath,
    DiscardReport,
    KeptPath,
    UploadDetail,
    UploadsReport,
    VacuumReport,
)
from table_writer.reports.write_result import WriteResult

__all__ = ["HOSTILE_NAMES", "Gallery", "hostile", "pictured", "usual"]

HOSTILE_NAMES: Final = (
    "<script>document.title='broken'</script>",
    '"><img src=x onerror="document.title=\'broken\'">',
    "</style></div><style>*{display:none}</style>",
    "'--><svg onload=document.title='broken'>",
    "{{constructor.constructor('document.title=1')()}} ${1+1} $\\frac{a}{b}$",
    "&lt;b&gt; &amp; &#60;",
    "\N{PILE OF POO} 日本語 ñ e\u0301",
    "\u202egnp.txt\u202c שלום",
    "long_" * 100,
    "nul\x00 line\nbreak\ttab\x1b[2J \ud800",
)
AT: Final = datetime(2026, 5, 4, 10, 30, 5, tzinfo=UTC)
ROOT: Final = "s3a://lake/warehouse/mart.db/orders/"
DATA: Final = f"{ROOT}_table_writer/data/20260504T103005Z-9c1e5f7a2b3d4e6f/"
DAYS: Final = tuple(f"dt=2026-05-0{day}/country=de" for day in (1, 2, 3, 4))

Gallery = dict[str, Any]
"""What shows itself in a notebook, by name."""


def usual() -> Gallery:
    """Return one of every report, about everyday things."""
    return _gallery("mart.orders", DAYS, "nightly load")


def hostile() -> Gallery:
    """Return the same, where all that others chose is an attack or an accident."""
    return {
        f"{name} {number}": report
        for number, word in enumerate(HOSTILE_NAMES)
        for name, report in _gallery(word, (word,) * 4, word).items()
    }


def pictured() -> Gallery:
    """Return what the documentation shows pictures of."""
    shown = usual()
    checks = _checks("order_id")
    added, *others = shown["result"].partitions
    partitions = (added, *(replace(one, action="replaced") for one in others))
    versions = tuple(
        replace(
            one,
            writer={**one.writer, "user": "airflow"},
            words=Words(),
            table_bytes=2**28 * (30 + 3 * one.version),
            checks=_stored(checks[:1] if one.version < 7 else checks[::2]),
        )
        for one in shown["history"].versions[1:6]
    )
    return {
        "result": replace(shown["result"], partitions=partitions, checks=checks[::2], notes=()),
        "history": replace(shown["history"], versions=versions),
    }


def _gallery(table: str, names: tuple[str, ...], word: str) -> Gallery:
    checks = _checks(word)
    return {
        "plan": _plan(table, names, word),
        "result": _result(table, names, word, checks),
        "history": _history(table, word, checks),
        "version": VersionReport(
            table=table,
            summary=replace(_version(8, word), checks=_stored(checks), words=Words(tags={word: word})),
            partitions=_details(names),
            deletes=(f"{ROOT}dt={word}/",),
        ),
        "vacuum": _vacuum(table, names, word),
        "staged": StagedReport(
            table=table, staged=(_staged(word, checks), replace(_staged(word, ()), is_expired=True))
        ),
        "staged detail": _staged_detail(table, names, word, checks),
        "discard": DiscardReport(
            table=table,
            write_id="20260504T103005Z-9c1e5f7a2b3d4e6f",
            version=9,
            aborted=2,
            deleted=(DeletedPath(location=f"{DATA}{word}", reason=word, bytes=2**31, keys=(word,) * 3),),
            failures=(word,),
        ),
        "recover": RecoverReport(table=table, settled={7: "published", 8: "abandoned"}, put_right=names, missing=names),
        "rollback": RollbackReport(table=table, to_version=7, version=9, partitions=_details(names), notes=(word,)),
        "restore": RestoreReport(table=table, partitions=_details(names), not_there={word: word}, present_count=3),
        "uploads": _uploads(table, word),
        "doctor": _doctor(table, word),
    }


def _plan(table: str, names: tuple[str, ...], word: str) -> PlanReport:
    actions = ("add", "replace", "append", "empty")
    partitions = tuple(
        PartitionFacts(
            name=name,
            values=(name,),
            action=action,
            location="" if action == "empty" else f"{DATA}{name}/",
            rows=1_204_311,
            copied_files=40 if action == "append" else 0,
            copied_bytes=5 * 2**30 if action == "append" else 0,
        )
        for name, action in zip(names, actions, strict=True)
    )
    return PlanReport(
        table=table,
        mode="overwrite_partitions",
        base_version=7,
        partitions=partitions,
        schema=SchemaVerdict(problems=(f"column {word!r} is a string, the table has bigint",), added_columns=(word,)),
        notes=(word,),
    )


def _result(table: str, names: tuple[str, ...], word: str, checks: tuple[CheckResult, ...]) -> WriteResult:
    actions = ("added", "replaced", "appended", "emptied")
    partitions = tuple(
        PartitionFacts(
            name=name, values=(name,), location=f"{DATA}{name}/", action=action, rows=1_204_311, bytes=2**28, files=12
        )
        for name, action in zip(names, actions, strict=True)
    )
    return WriteResult(
        table=table,
        mode="overwrite_partitions",
        write_id="20260504T103005Z-9c1e5f7a2b3d4e6f",
        version=8,
        partitions=partitions,
        seconds={"plan": 0.21, "upload": 31.5, "complete": 0.8, "check": 2.25, "publish": 0.11},
        storage_requests={"PutObject": 204},
        metastore_calls={"alter_partitions": 9},
        notes=(word,),
        checks=checks,
    )


def _checks(word: str) -> tuple[CheckResult, ...]:
    return (
        CheckResult(
            name="row_count(at_least=1)",
            severity="error",
            passed=True,
            message="4,817,244 rows",
            answered_by="metadata",
        ),
        CheckResult(
            name=f"not_null({word})",
            severity="error",
            passed=False,
            message=f"3 of 4,817,244 rows have no {word}",
            failed_rows=3,
            examples=({word: "null", "amount": "12.50"}, {word: "null", "amount": word}),
        ),
        CheckResult(
            name="in_range(amount)",
            severity="warn",
            passed=False,
            message="120,004 of 4,817,244 rows lie outside of 0 … 10,000",
            failed_rows=120_004,
        ),
    )


def _stored(checks: tuple[CheckResult, ...]) -> tuple[CheckResult, ...]:
    return tuple(check.without_examples() for check in checks)


def _version(version: int, word: str) -> VersionSummary:
    return VersionSummary(
        version=version,
        operation="write",
        mode="overwrite_partitions",
        state=("published", "published", "in doubt", "abandoned")[version % 4],
        created_at=AT + timedelta(days=version),
        write_id="20260504T103005Z-9c1e5f7a2b3d4e6f",
        writer={"user": word, "host": "worker-3", "application_id": "app-20260504-0007"},
        settles=None,
        changes={"added": 3, "replaced": version, "dropped": version % 2},
        rows=1_000_000 + 313_131 * version if version > 1 else None,
        files=12,
        bytes=2**28 * version,
        words=Words(where=word, inserted=version, deleted=1_234),
        idempotency_key=word,
    )


def _history(table: str, word: str, checks: tuple[CheckResult, ...]) -> HistoryReport:
    newest = replace(_version(8, word), checks=_stored(checks[:1]), words=Words(tags={"run": word}, where=word))
    second = replace(_version(7, word), checks=_stored(checks))
    return HistoryReport(
        table=table, versions=(newest, second, *(_version(number, word) for number in range(6, 0, -1)))
    )


def _details(names: tuple[str, ...]) -> tuple[PartitionFacts, ...]:
    return tuple(
        PartitionFacts(
            name=name,
            action=change,
            rows=rows,
            files=4,
            bytes=2**20,
            location="" if change == "dropped" else f"{DATA}{name}/",
        )
        for name, change, rows in zip(names, ("added", "replaced", "dropped"), (4, None, 0), strict=False)
    )


def _vacuum(table: str, names: tuple[str, ...], word: str) -> VacuumReport:
    return VacuumReport(
        table=table,
        version=9,
        deleted=tuple(
            DeletedPath(location=f"{DATA}{name}/", reason="replaced by version 7", bytes=2**28, keys=(word,) * 12)
            for name in names
        ),
        aborted=(AbortedUpload(key=word, upload_id=word),),
        trimmed_versions=(1, 2),
        kept=(KeptPath(location=f"{ROOT}{word}", reason="readers look at it"),),
        in_doubt=(8,),
        failures=(f"AccessDenied: {word}",),
    )


def _staged(word: str, checks: tuple[CheckResult, ...]) -> StagedSummary:
    return StagedSummary(
        write_id="20260504T103005Z-9c1e5f7a2b3d4e6f",
        mode="overwrite_partitions",
        created_at=AT,
        expires_at=AT + timedelta(days=1),
        is_expired=False,
        user=word,
        host="worker-3",
        rows=4_817_244,
        partitions_count=4,
        files=48,
        bytes=2**30,
        checks=_stored(checks),
        words=Words(tags={word: word}),
        idempotency_key=word,
    )


def _staged_detail(table: str, names: tuple[str, ...], word: str, checks: tuple[CheckResult, ...]) -> StagedDetail:
    return StagedDetail(
        table=table,
        summary=_staged(word, checks),
        partitions=tuple(
            PartitionFacts(name=name, values=(name,), rows=1_204_311, files=12, bytes=2**28) for name in names
        ),
        statistics={
            word: ColumnStatistics(null_count=3, low=word, high=word),
            "amount": ColumnStatistics(null_count=0, low=Decimal("0.50"), high=Decimal("99999.99")),
            "day": ColumnStatistics(low=date(2026, 5, 1)),
        },
        notes=(word,),
    )


def _uploads(table: str, word: str) -> UploadsReport:
    owners = ("running", "dead", "young", "settled", "in doubt", "another tool")
    uploads = (
        UploadDetail(key=f"{ROOT}{word}", upload_id=word, write_id=word, owner=owner, age_seconds=90_000)
        for owner in owners
    )
    return UploadsReport(table=table, uploads=tuple(uploads), failures=(word,))


def _doctor(table: str, word: str) -> DoctorReport:
    return DoctorReport(
        table=table,
        findings=tuple(
            Finding(check=f"{status} check", status=status, message=f"found {word}", advice=f"change {word}")
            for status in ("error", "warning", "note", "ok")
        ),
    )
