"""Pages about tables: an everyday one, one with the worst names there can be, a huge one, and one of nothing.

``python -m tests.reports.page.pages DIRECTORY`` takes pictures of them, in three widths, light and dark.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from table_writer.doctor.page import DAYS
from table_writer.model.check_result import CheckResult
from table_writer.model.partition_facts import PartitionNow
from table_writer.model.words import Words
from table_writer.reports.health_reports import Finding
from table_writer.reports.history_reports import VersionSummary
from table_writer.reports.page.facts import AtWork, Generations, LeftByAge
from table_writer.reports.page.table_page import TablePage
from table_writer.reports.vacuum_reports import DeletedPath, KeptPath, VacuumReport
from tests.reports.gallery import HOSTILE_NAMES

__all__ = ["WIDTHS", "empty_page", "hostile_page", "huge_page", "pictured_page", "usual_page"]

WIDTHS: Final = (375, 768, 1440)
NOW: Final = datetime(2026, 5, 4, 10, 30, 5, tzinfo=UTC)
MIB: Final = 2**20
ROOT: Final = "s3a://lake/warehouse/mart.db/orders/"


def usual_page(table: str = "mart.orders", word: str = "", days: int = 45) -> TablePage:
    """Return a table that is written every night, some of whose partitions are written again, and what that leaves."""
    versions = _versions(days, word)
    return TablePage(
        table=table,
        made_at=NOW,
        location=f"{ROOT}{word}",
        version=versions[0].version,
        age_seconds=8_000.0,
        troubles=(
            Finding(
                check="",
                status="note",
                health="in doubt",
                message=f"version {versions[0].version} is in doubt: the write of {word or 'airflow'} is at work",
                advice=f"table-writer recover {table}",
            ),
            Finding(check="", status="note", message=f"the metastore lacks 1 published partition: {word or _day(3)}"),
        ),
        versions=versions,
        partitions=tuple(_partition(number, versions, word) for number in range(days)),
        generation_versions=tuple(one.version for one in reversed(versions) if one.mode != "vacuum")[-60:],
        generations=_generations(versions, word),
        changed_count=days,
        left=_left(),
        vacuum=VacuumReport(
            table=table, deleted=tuple(_deleted(number, word) for number in range(9)), kept=_kept(word)
        ),
        at_work=(
            AtWork(
                write_id="20260504T103005-9c1e5f7a2b3d4e6f",
                state="running",
                age_seconds=12,
                user=word or "airflow",
                host="worker-3",
            ),
            AtWork(
                write_id="20260503T220000-11aa5f7a2b3d4e6f",
                state="staged",
                age_seconds=45_000,
                user=word or "ana",
                host="notebook",
            ),
        ),
        notes=(f"many small files in {word or _day(12)}: TableWriter(spark).compact writes fewer",),
    )


def pictured_page() -> TablePage:
    """Return what the documentation shows a picture of."""
    return usual_page()


def hostile_page(word: str) -> TablePage:
    """Return the same, where all that others chose is an attack or an accident."""
    return usual_page(word, word)


def huge_page() -> TablePage:
    """Return a table of ten thousand partitions, after thousands of versions."""
    return usual_page(days=10_000)


def empty_page() -> TablePage:
    """Return a table that this library has not written."""
    return TablePage(table="mart.orders", made_at=NOW, location=ROOT)


def _day(number: int) -> str:
    return f"dt={NOW - timedelta(days=number):%Y-%m-%d}"


def _versions(days: int, word: str) -> tuple[VersionSummary, ...]:
    """Return two a day, newest first: a load, and each week a compaction, an append and a rollback."""
    found = []
    for number in range(min(days, 1_000)):
        mode = {0: "compact", 2: "append", 4: "create_partitions", 5: "rollback"}.get(
            number % 7, "overwrite_partitions"
        )
        written = int(MIB * (180 + 60 * (number % 5) + 2 * number)) * (mode != "rollback")
        found.append(
            VersionSummary(
                version=number + 1,
                operation="rollback" if mode == "rollback" else "compact" if mode == "compact" else "write",
                mode=mode,
                state="in doubt" if number == min(days, 1_000) - 1 else "abandoned" if number == 20 else "published",
                created_at=NOW - timedelta(days=min(days, 1_000) - number, hours=number % 5),
                write_id=f"202605{number:04}-9c1e5f7a2b3d4e6f",
                writer={
                    "user": word or ("airflow" if number % 7 else "ana"),
                    "host": "worker-3",
                    "application_id": "app-20260504-0007",
                },
                settles=None,
                changes={
                    "added": int(mode in {"create_partitions", "overwrite_partitions"}),
                    "replaced": 2 * (mode == "overwrite_partitions"),
                    "appended": int(mode == "append"),
                    "compacted": 5 * (mode == "compact"),
                    "dropped": int(number == 30),
                    "rolled back": int(number % 7 == 4),
                },
                rows=written // 90,
                files=written // (24 * MIB),
                bytes=written,
                table_bytes=_table_bytes(number + 1, days),
                words=Words(tags={"run": word} if word else {}, where=word, deleted=number),
                idempotency_key=word,
                checks=_results(number, word),
            )
        )
    return tuple(reversed(found))


def _table_bytes(number: int, days: int) -> int:
    """Grow to what the partitions have now; a compaction takes some."""
    every = sum(_bytes(one) for one in range(days) if one % 17 != 16)
    return int(every * number / min(days, 1_000) * (1 - 0.04 * (number % 7 == 1)))


def _bytes(number: int) -> int:
    return MIB * (300 + 17 * (number % 9))


def _results(number: int, word: str) -> tuple[CheckResult, ...]:
    return tuple(
        CheckResult(
            name=name, severity=severity, passed=number % every != 0, message=f"{number} rows of 4,817,244 {word}"
        )
        for name, severity, every in (("not_null(order_id)", "error", 900), (f"in_range(amount) {word}", "warn", 6))
    )


def _partition(number: int, versions: Sequence[VersionSummary], word: str) -> PartitionNow:
    small = number % 11 == 10
    known = number % 17 != 16
    written = _bytes(number)
    return PartitionNow(
        name=f"{_day(number)}{'/' * bool(word)}{word}" if word else _day(number),
        location=f"{ROOT}_table_writer/data/{number}/",
        version=versions[min(number, len(versions) - 1)].version if known else None,
        age_seconds=number * 86_400.0 + 8_000 if known else None,
        rows=written // 90 if known else None,
        files=(900 if small else 3 + number % 7) if known else None,
        bytes=written if known else None,
        state="in place" if known else "not in the log",
    )


def _generations(versions: Sequence[VersionSummary], word: str) -> tuple[Generations, ...]:
    """Each night adds a day and replaces the one before; a compaction takes the last five."""
    changes: dict[int, list[tuple[int, str]]] = {}
    shown = list(reversed(versions))[-60:]
    for step, one in enumerate(shown):
        kind = {"append": "appended", "compact": "compacted", "rollback": "replaced"}.get(one.mode)
        did = (
            dict.fromkeys(range(step - 4, step + 1), kind)
            if kind == "compacted"
            else {step: "added", step - 1: kind or "replaced"}
        )
        if one.state == "in doubt":
            did = dict.fromkeys(did, "in doubt")
        for day, change in did.items():
            if day >= 0:
                changes.setdefault(day, []).append(
                    (one.version, change if day in changes or change != "compacted" else "added")
                )
    if len(shown) > 30:
        changes[2].append((shown[30].version, "dropped"))
    newest = len(shown) - 1
    return tuple(
        Generations(name=word or _day(newest - day), changes=tuple(did)) for day, did in sorted(changes.items())[-30:]
    )


def _left() -> tuple[LeftByAge, ...]:
    sizes = ((6, 2_100, 0), (11, 3_900, 0), (9, 2_700, 2_700), (4, 1_200, 1_200), (0, 0, 0))
    return tuple(
        LeftByAge(older_than_days=first, younger_than_days=last, locations=many, bytes=every * MIB, due_bytes=due * MIB)
        for first, last, (many, every, due) in zip(DAYS, (*DAYS[1:], None), sizes, strict=True)
    )


def _deleted(number: int, word: str) -> DeletedPath:
    return DeletedPath(
        location=f"{ROOT}_table_writer/data/2026050{number}T103005-9c1e5f7a2b3d4e6f/{word}/",
        reason=f"replaced by version {number + 30}",
        bytes=MIB * (300 + 40 * number),
        keys=(word or "part-0",) * (12 + number),
    )


def _kept(word: str) -> tuple[KeptPath, ...]:
    return (KeptPath(location=f"{ROOT}{word}", reason="readers look at it"),)


def _take_pictures(directory: Path) -> None:
    from tests.reports.browser import SCHEMES, take_picture

    shown: dict[str, Any] = {"usual": usual_page(), "hostile": hostile_page(HOSTILE_NAMES[0] + HOSTILE_NAMES[8])}
    for scheme in SCHEMES:
        file = directory / f"page-{scheme}.png"  # of docs/_static
        take_picture(pictured_page().to_html(), scheme, file, "1160,1010")
        for name, one in shown.items():
            for width in WIDTHS:
                take_picture(one.to_html(), scheme, directory / f"{name}-{scheme}-{width}.png", f"{width},4600")


if __name__ == "__main__":
    _take_pictures(Path(sys.argv[1]))
