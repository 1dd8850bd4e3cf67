"""The tables that are printed; 160 columns wide at most."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.outcome import CaseOutcome, Outcome, Report

MB = 1e6
MIB = 1024 * 1024
NAME_WIDTH = 36
SHORT_KINDS = {
    "CreateMultipartUpload": "create",
    "UploadPart": "part",
    "CompleteMultipartUpload": "complete",
    "UploadPartCopy": "part copy",
    "CopyObject": "copy",
    "PutObject": "put",
    "GetObject": "get",
    "HeadObject": "head",
    "ListObjectsV2": "list",
    "DeleteObject": "delete",
    "DeleteObjects": "delete many",
}
LEGEND = """\
cores: core-seconds of the cheapest run, in Java, Python's driver and its workers
×peer, ×v2: how many times faster than the fastest peer that writes the same layout of files, and than Spark v2
requests, MB sent, copied inside the store: of one write, by a proxy; calls: of the metastore, by its audit log
MB kept: the files a query reads; JVM (driver and executors in one), Python driver, largest Python worker: peak MiB
reads: queries of another application meanwhile, and of these e: failed, m: missed rows, h: saw a partition half
switched, b: saw some partitions old and some new, each of them whole"""
Column = tuple[str, int, Callable[[Outcome], str]]


def as_text(report: Report) -> str:
    """Return all tables."""
    machine, versions, options = report.machine, report.versions, report.options
    software = (
        f"Spark {versions['spark']}, table_writer {versions['hive-table-writer']}, Delta {versions['delta']},"
        f" Iceberg {versions['iceberg']}, Java {versions['java']}, Python {versions['python']}"
    )
    hardware = f"{machine['cores']} cores, {machine['memory_gib']} GiB; {options['server']}"
    lines = [f"{software}; {hardware}; the fastest of {options['runs']}"]
    for case in report.cases:
        lines += ["", *_case_lines(case)]
    return "\n".join([*lines, "", LEGEND])


def _case_lines(case: CaseOutcome) -> list[str]:
    partitions = f"{case.partition_count} partitions" if case.partition_count else "not partitioned"
    heading = f"{case.name}: {case.title}; {case.row_count:,} rows, {case.column_count} columns, {partitions}"
    lines = [heading, *_main_table(case), "", *_requests_table(case)]
    notes = dict.fromkeys(one.note for one in case.outcomes if one.note)
    errors = [f"FAILED {one.title}: {one.error}" for one in case.outcomes if one.error]
    return [*lines, *notes, *errors]


def _main_table(case: CaseOutcome) -> list[str]:
    columns = _columns(case)
    scan = f"{'(making the rows)':{NAME_WIDTH}}{min(case.scans):{columns[0][1]}.2f}" if case.scans else ""
    return [_heading(columns), *filter(None, [scan]), *(_row(one, columns) for one in case.outcomes)]


def _columns(case: CaseOutcome) -> list[Column]:
    spark = case.of("spark-v2")
    latencies = sorted({ms for one in case.outcomes for ms in one.latency_seconds}, key=float)
    slowed: list[Column] = [
        (f"{ms} ms", 8, lambda one, ms=ms: _number(one.latency_seconds.get(ms), 2)) for ms in latencies
    ]
    return [
        ("seconds", 9, lambda one: _number(one.seconds, 2)),
        ("×peer", 7, lambda one: _ratio(case.fastest_peer(one.layout), one.seconds)),
        ("×v2", 6, lambda one: _ratio(spark and spark.seconds, one.seconds)),
        ("cores", 6, lambda one: _number(one.core_seconds, 2)),
        *slowed,
        ("requests", 9, lambda one: f"{one.requests.total():,}" if one.traffic else ""),
        ("MB sent", 8, lambda one: _number(one.traffic.get("sent_bytes"), 1, MB)),
        ("copied", 7, lambda one: _number(one.traffic.get("copied_bytes"), 1, MB)),
        ("calls", 6, lambda one: str(one.metastore_calls.total()) if one.runs else ""),
        ("files", 6, lambda one: f"{one.files:,}" if one.files else ""),
        ("MB kept", 8, lambda one: _number(one.stored_bytes or None, 1, MB)),
        ("JVM", 6, lambda one: _number(one.peak_bytes("jvm") or None, 0, MIB)),
        ("driver", 7, lambda one: _number(one.peak_bytes("driver") or None, 0, MIB)),
        ("worker", 7, lambda one: _number(one.peak_bytes("worker") or None, 0, MIB)),
        ("reads: e/m/h/b", 16, _reader),
    ]


def _heading(columns: Sequence[Column]) -> str:
    return " " * NAME_WIDTH + "".join(f"{name:>{width}}" for name, width, _ in columns)


def _row(one: Outcome, columns: Sequence[Column]) -> str:
    cells = "".join(f"{cell(one):>{width}}" for _, width, cell in columns)
    return f"{one.title:{NAME_WIDTH}}{'FAILED, see below' if one.error else cells}".rstrip()


def _requests_table(case: CaseOutcome) -> list[str]:
    lines = ["a write's requests and metastore calls, and all runs"]
    for one in case.outcomes:
        if one.error:
            continue
        requests = ", ".join(f"{SHORT_KINDS.get(kind, kind)} {count:,}" for kind, count in one.requests.most_common())
        calls = ", ".join(f"{name} {count}" for name, count in one.metastore_calls.most_common())
        runs = " ".join(f"{run.seconds:.2f}" for run in one.runs)
        lines += [f"{one.title:{NAME_WIDTH}}{runs} s", f"    {requests}", f"    {calls}"]
        if one.reader is not None:
            lines.append(f"    reader: {_reader_in_words(one)}")
    return lines


def _reader(one: Outcome) -> str:
    seen = one.reader
    if seen is None:
        return ""
    faults = seen.failed, seen.with_rows_missing, seen.with_half_switched, seen.with_some_switched
    return f"{seen.queries:,}: {'/'.join(map(str, faults))}"


def _reader_in_words(one: Outcome) -> str:
    seen = one.reader
    assert seen is not None
    return (
        f"{seen.queries} queries: {seen.before} all old, {seen.after} all new, {seen.failed} errors (e),"
        f" {seen.with_rows_missing} missed rows (m), {seen.with_half_switched} half-switched partitions (h),"
        f" {seen.with_some_switched} partitions of both generations (b)"
    )


def _number(value: float | None, digits: int, unit: float = 1) -> str:
    return "" if value is None else f"{value / unit:,.{digits}f}"


def _ratio(other: float | None, own: float | None) -> str:
    return f"{other / own:.2f}" if other and own else ""
