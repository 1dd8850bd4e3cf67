"""`certify` on real parts: what holds is told so, a store that lies is not, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from table_writer.cli.arguments import ExitCode
from table_writer.cli.main import main
from table_writer.config import TableWriterConfig
from table_writer.doctor import checker
from table_writer.doctor.certify import certify
from table_writer.doctor.certify_steps import Extent
from table_writer.protocol.table.services import Services
from table_writer.reports.certification_report import CertificationReport
from table_writer.storage import proof
from table_writer.storage.s3.settings import S3Overrides
from table_writer.testing import MetastoreServer, S3Server
from tests.cells import first_fast
from tests.outside.s3_proxy import Asked, Behaviour, Forward, Told, refusal, s3_proxy
from tests.real.real_world import DATABASE, Address


@pytest.fixture(autouse=True)
def few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in {"LISTED_KEYS": 8, "ROUNDS": 1}.items():
        monkeypatch.setattr(proof, name, count)


FEW = Extent(races=10, kills=2)
pytestmark = pytest.mark.usefixtures("address")  # the tests' database


@pytest.fixture
def place(s3_server: S3Server) -> Iterator[str]:
    """Yield a place; what a store has kept that lies is deleted for the next test."""
    yield f"s3a://{s3_server.bucket}/certified"
    for key in sorted(left_behind(s3_server), key=len, reverse=True):
        s3_server.client().delete_object(Bucket=s3_server.bucket, Key=key)


def config_of(s3_server: S3Server, metastore: MetastoreServer, **overrides: Any) -> TableWriterConfig:
    return TableWriterConfig(
        hadoop=s3_server.hadoop_settings(), metastore_uris=(metastore.uri,), progress="off", **overrides
    )


def states(report: CertificationReport) -> dict[str, str]:
    return {tried.promise: tried.state for tried in report.proofs}


def left_behind(s3_server: S3Server) -> list[str]:
    listed = s3_server.client().list_objects_v2(Bucket=s3_server.bucket, Prefix="certified/")
    return [found["Key"] for found in listed.get("Contents", ()) if found["Key"] != "certified/"]


def tables_of(address: Address) -> list[str]:
    with address.metastore() as metastore:
        names = [table.name.name for table in metastore.get_tables(DATABASE)]
    return [name for name in names if "certify" in name]


def test_every_promise_is_tried_and_nothing_is_left(
    s3_server: S3Server, metastore_server: MetastoreServer, address: Address, place: str, tmp_path: Path
) -> None:
    services = Services.without_spark(None, config_of(s3_server, metastore_server))
    history = tmp_path / "history.jsonl"
    report = certify(place, services.config, services, database=DATABASE, extent=FEW, history=str(history))
    may_be_lucky = {"what was refused is never seen"}  # two writers need not meet
    assert {state for promise, state in states(report).items() if promise not in may_be_lucky} == {"held"}, report
    assert {states(report)[promise] for promise in may_be_lucky} <= {"held", "not tried"}
    assert report.holds
    assert set(states(report)) >= checker.CHECKS.keys()
    events = [json.loads(line) for line in history.read_text().splitlines()]
    kinds = {event["event"] for event in events}
    assert kinds >= {"begin", "published", "read", "settled", "gone"}
    assert sum(event["event"] == "killed" for event in events) <= FEW.kills
    assert left_behind(s3_server) == []
    assert tables_of(address) == []
    assert report.to_dict()["holds"]
    assert metastore_server.uri in report.to_text()


def ignoring_conditions_of(word: str) -> Behaviour:
    """Forget If-None-Match of some keys: what a trial finds honest may lie where it matters."""

    def behave(asked: Asked, forward: Forward) -> Told:
        lies = asked.method == "PUT" and word in asked.path
        return forward(asked.without("if-none-match") if lies else asked)

    return behave


def losing(every: int) -> Behaviour:
    """Answer each so many puts of a file without storing it."""
    count = 0

    def behave(asked: Asked, forward: Forward) -> Told:
        nonlocal count
        if asked.method == "POST" and "uploadId" in asked.query and "/data/" in asked.path:
            count += 1
            if count % every == 0:
                told = forward(asked)
                forward(replace(asked, method="DELETE", path=asked.path.partition("?")[0], body=b""))
                return told
        return forward(asked)

    return behave


def cutting(every: int) -> Behaviour:
    """Complete each so many files, and keep half of it."""
    count = 0

    def behave(asked: Asked, forward: Forward) -> Told:
        nonlocal count
        told = forward(asked)
        if asked.method == "POST" and "uploadId" in asked.query and "/data/" in asked.path:
            count += 1
            if count % every == 0:
                path = asked.path.partition("?")[0]
                whole = forward(replace(asked, method="GET", path=path, body=b""))
                forward(replace(asked, method="PUT", path=path, body=whole.body[: len(whole.body) // 2]))
        return told

    return behave


def forgetting(word: str) -> Behaviour:
    """Take each third entry, and do not keep it."""
    count = 0

    def behave(asked: Asked, forward: Forward) -> Told:
        nonlocal count
        if asked.method != "PUT" or word not in asked.path or ".json" not in asked.path:
            return forward(asked)
        count += 1
        etag = md5(asked.body, usedforsecurity=False).hexdigest()
        return forward(asked) if count % 3 else Told(headers=(("ETag", f'"{etag}"'),))

    return behave


def keeping(word: str) -> Behaviour:
    """Say that objects are deleted, and keep them."""

    def behave(asked: Asked, forward: Forward) -> Told:
        if asked.method != "POST" or "delete" not in asked.query or word.encode() not in asked.body:
            return forward(asked)
        keys = re.findall(rb"<Key>(.*?)</Key>", asked.body)
        deleted = b"".join(b"<Deleted><Key>" + key + b"</Key></Deleted>" for key in keys)
        return Told(body=b"<DeleteResult>" + deleted + b"</DeleteResult>")

    return behave


def ignoring_aborts(asked: Asked, forward: Forward) -> Told:
    return Told(status=204) if asked.method == "DELETE" and "uploadId" in asked.query else forward(asked)


def refusing_deletes(asked: Asked, forward: Forward) -> Told:
    is_delete = asked.method == "DELETE" or (asked.method == "POST" and "delete" in asked.query)
    return refusal(403, "AccessDenied") if is_delete and "uploadId" not in asked.query else forward(asked)


def denying(word: str, *methods: str) -> Behaviour:
    def behave(asked: Asked, forward: Forward) -> Told:
        is_denied = asked.method in methods and word in asked.path
        return refusal(403, "AccessDenied") if is_denied else forward(asked)

    return behave


LIES: dict[str, tuple[Callable[[], Behaviour], set[str]]] = {
    "claims of the contract": (lambda: ignoring_conditions_of("claim-"), {"store: conditional put"}),
    "claims of the races": (lambda: ignoring_conditions_of("race-"), {"of racing claims one wins"}),
    "entries of the log": (
        lambda: forgetting("/log/"),
        {
            *("no published row is lost", "what was refused is never seen", "no reader goes back"),
            *("what is in doubt is resolved", "writers are killed while others read", "first rows are written"),
        },
    ),
    "deletes that are none": (lambda: keeping("/data/"), {"a vacuum deletes what nobody reads"}),
    "puts that are refused": (lambda: denying("/data/", "PUT", "POST"), {"first rows are written"}),
    "reads that are refused": (lambda: denying("/data/", "GET"), {"writers are killed while others read"}),
    "files that are gone": (lambda: losing(5), {"nothing live is deleted or damaged", "no published row is lost"}),
    "files that are cut": (lambda: cutting(5), {"nothing live is deleted or damaged"}),
    "aborts that are none": (lambda: ignoring_aborts, {"nothing is left behind"}),
    "deletes that are refused": (lambda: refusing_deletes, {"nothing is left behind"}),
}
REFUSES = {
    "puts that are refused",
    "reads that are refused",
    "deletes that are refused",
}  # a store that says no breaks no promise


@pytest.mark.parametrize("lie", first_fast(sorted(LIES, key=lambda lie: "log" not in lie), count=1))
def test_a_store_that_lies_is_told_where(
    s3_server: S3Server, metastore_server: MetastoreServer, place: str, lie: str
) -> None:
    behaviour, expected = LIES[lie]
    keys = [s3_server.hadoop_settings()[f"fs.s3a.{name}.key"] for name in ("access", "secret")]
    with s3_proxy(s3_server.endpoint_url, behaviour(), (keys[0], keys[1])) as proxy:
        config = config_of(s3_server, metastore_server, s3=S3Overrides(endpoint_url=proxy.url))
        report = certify(place, config, Services.without_spark(None, config), database=DATABASE, extent=FEW)
    broken = {promise for promise, state in states(report).items() if state in ("broken", "failed")}
    assert broken & expected, report.to_text(all_rows=True)
    assert not report.holds
    assert lie in REFUSES or "broken" in states(report).values(), report.to_text(all_rows=True)
    assert lie not in REFUSES or "broken" not in states(report).values(), report.to_text(all_rows=True)


def test_a_metastore_that_does_not_answer_is_a_line_and_the_history_s_name_stays_free(
    s3_server: S3Server, place: str, tmp_path: Path
) -> None:
    config = TableWriterConfig(
        hadoop=s3_server.hadoop_settings(), metastore_uris=("thrift://127.0.0.1:9",), progress="off"
    )
    history = tmp_path / "history.jsonl"
    for _ in range(2):
        services = Services.without_spark(None, config)
        report = certify(place, config, services, database=DATABASE, extent=FEW, history=str(history))
        found = states(report)
        assert found.pop("the metastore answers") == "failed"
        assert {promise for promise, state in found.items() if state == "not tried"} == checker.CHECKS.keys()
        assert {found[promise] for promise in found.keys() - checker.CHECKS.keys()} == {"held"}
        assert not report.holds
        assert report.history == ""
        assert not history.exists()


def test_of_a_directory_nothing_is_left(tmp_path: Path) -> None:
    config = TableWriterConfig(progress="off")
    report = certify(f"file://{tmp_path}/place", config, None, database=DATABASE, extent=FEW)
    assert set(states(report).values()) <= {"held", "not tried"}, report.to_text(all_rows=True)
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.name != "place"] == []


def test_without_a_metastore_the_store_alone_is_tried(
    s3_server: S3Server, place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = s3_server.hadoop_settings()
    for name, word in (("AWS_ACCESS_KEY_ID", "access"), ("AWS_SECRET_ACCESS_KEY", "secret")):
        monkeypatch.setenv(name, settings[f"fs.s3a.{word}.key"])
    words = ["certify", place, "--races", "5", "--json", "--endpoint-url", s3_server.endpoint_url, "--path-style"]
    assert main([*words, "--region", "us-east-1"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = {tried["promise"]: tried["state"] for tried in printed["proofs"]}
    assert printed["metastore"] == ""
    assert found["of racing claims one wins"] == "held"
    assert found["no published row is lost"] == "not tried"
    assert main([*words, "--kills", "0"]) == 2
    assert main([*words, "--minutes", "0.00001"]) == 1  # nothing was tried
    assert main([*words, "--history", str(tmp_path / "no" / "such" / "place")]) == 2


def test_a_script_without_a_guard_is_refused_before_its_processes_run_it_again(
    s3_server: S3Server, metastore_server: MetastoreServer, place: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    lines = CERTIFIES.replace('if __name__ == "__main__":', "if True:").replace("kills=50", "kills=1")
    script.write_text(lines)
    given = json.dumps([place, dict(s3_server.hadoop_settings()), metastore_server.uri, DATABASE])
    ran = subprocess.run([sys.executable, str(script), given], capture_output=True, text=True, check=False, timeout=200)
    assert "below `if __name__" in ran.stderr
    assert left_behind(s3_server) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_ctrl_c_and_the_command_s_sigterm_take_everything_away(
    how: signal.Signals,
    s3_server: S3Server,
    metastore_server: MetastoreServer,
    address: Address,
    place: str,
    tmp_path: Path,
) -> None:
    given = json.dumps([place, dict(s3_server.hadoop_settings()), metastore_server.uri, DATABASE])
    command, code = [sys.executable, "-c", CERTIFIES, given], -signal.SIGINT
    if how == signal.SIGTERM:
        properties = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in s3_server.hadoop_settings().items()
        )
        (tmp_path / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
        words = f"certify {place} --metastore-uri {metastore_server.uri} --database {DATABASE} --races 1"
        command, code = [sys.executable, "-m", "table_writer", *words.split()], ExitCode.INTERRUPTED
    environment = {**os.environ, "HADOOP_CONF_DIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path.cwd(), env=environment) as process:
        deadline = time.monotonic() + 120
        while not tables_of(address):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.2)
        time.sleep(3)
        process.send_signal(how)
        process.communicate(timeout=240)
    assert process.returncode == code
    assert tables_of(address) == []
    left = [key for key in left_behind(s3_server) if not key.endswith("/")]  # a late call makes a directory
    assert left == []


CERTIFIES = """
import json, sys
from table_writer.config import TableWriterConfig
from table_writer.maintenance import Maintenance

if __name__ == "__main__":
    place, hadoop, uri, database = json.loads(sys.argv[1])
    keeper = Maintenance(uri, config=TableWriterConfig(hadoop=hadoop, progress="off"))
    keeper.certify(place, database=database, races=1, kills=50)
"""
