"""Audit log and peaks of memory are read as they are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from benchmarks.audit import AuditLog, calls
from benchmarks.cold import SHAPES, Side, as_text
from benchmarks.peaks import descendants, peak_bytes, reset_peaks
from table_writer.testing import MetastoreServer

MIB = 1024 * 1024


def test_calls_are_counted_by_name() -> None:
    lines = (
        "2026-11-22T00:00:00,000 ugi=me\tip=127.0.0.1\tcmd=source:127.0.0.1 get_table : db=default tbl=a\t\n"
        "2026-11-22T00:00:00,000 ugi=me\tip=127.0.0.1\tcmd=source:127.0.0.1 get_table : db=default tbl=b\t\n"
        "2026-11-22T00:00:00,000 ugi=me\tip=127.0.0.1\tcmd=alter_partitions : db=default tbl=cmd=x\t\n"
        "2026-11-22T00:00:00,000 ugi=me\tip=127.0.0.1\tcmd=source:127.0.0.1 Cleaning up thread local RawStore...\t\n"
    )
    assert calls(lines) == {"get_table": 2, "alter_partitions": 1}


def test_the_log_is_read_on_from_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text("ugi=me\tcmd=get_table : a\nugi=me\tcmd=get_da")
    log = AuditLog(path)
    assert log.news() == {"get_table": 1}
    with path.open("a") as file:
        file.write("tabase: b\n")
    assert log.news() == {"get_database": 1}
    assert log.news() == {}


def test_a_job_has_loaded_nothing_of_this_library_when_its_clock_starts() -> None:
    """Its import is part of what a cold write costs."""
    code = "import sys, benchmarks.cold_job; print([name for name in sys.modules if name.startswith('table_writer')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(("ours", "share"), [(3.0, "1.00 of it"), (2.0, "0.50 of it"), (1.0, "0.00 of it")])
def test_what_a_write_adds_to_the_floor_is_compared_with_what_sparks_adds(ours: float, share: str) -> None:
    seconds = {"floor": 1.0, "Python": 1.5, "Spark": 3.0, "ours": ours}
    sides = {
        name: Side([taken, taken + 1, taken], [{"driver": 0.0, "Java": taken, "workers": 0.0}] * 3)
        for name, taken in seconds.items()
    }
    added = [line for line in as_text(SHAPES["small"], sides).splitlines() if "to the floor" in line]
    assert [line.endswith(share) for line in added] == [True, True]


@pytest.mark.slow
def test_a_metastore_writes_the_log_that_is_read(tmp_path: Path) -> None:
    with MetastoreServer(audit_log=tmp_path / "audit.log") as metastore:
        log = AuditLog(tmp_path / "audit.log")
        log.news()
        transport = TBufferedTransport(TSocket("127.0.0.1", int(metastore.uri.rpartition(":")[2])))
        transport.open()
        try:
            client = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
            client.get_all_tables("default")
            client.get_database("default")
            client.get_database("default")
        finally:
            transport.close()
        assert log.news() == {"get_all_tables": 1, "get_database": 2}


def test_a_peak_is_remembered_until_it_is_reset() -> None:
    code = f"import sys; x = bytearray({100 * MIB}); del x; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = peak_bytes(process.pid)
        assert process.pid in descendants(os.getpid())
        reset_peaks([process.pid])
        after = peak_bytes(process.pid)
        assert process.stdin is not None
        process.stdin.close()
    assert before > 100 * MIB > after > 0
    assert peak_bytes(process.pid) == 0
