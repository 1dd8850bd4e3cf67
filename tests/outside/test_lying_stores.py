"""A store does not do what it says, or not what S3 does, and no request fails.

rustfs#1321: conditional puts with two winners. ClickHouse#115266: Google's S3 interface ignores If-None-Match.
lance-format/lance#3771, benbjohnson/litestream#1529: S3 Express and Storj list in an order of their own; of 2,500 keys
1,234 were found. The doctor says no to exactly what a store does not do, and leaves nothing behind.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import md5
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import pytest

from table_writer import TableWriterConfig
from table_writer.cli.main import main
from table_writer.doctor.store import examine_store
from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.reports.health_reports import DoctorReport
from table_writer.storage import proof
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import UnorderedListingError, open_store
from table_writer.storage.s3 import store as s3
from table_writer.storage.s3.settings import S3Overrides
from table_writer.testing.servers import S3Server
from tests.cells import first_fast
from tests.outside.s3_proxy import Asked, Behaviour, Forward, Told, refusal, s3_proxy

CONTENTS: Final = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
ALL: Final = tuple(proof.TRIALS)


def honest(asked: Asked, forward: Forward) -> Told:
    return forward(asked)


def without(method: str, *headers: str) -> Behaviour:
    """Ignore headers, as a store or a proxy that does not know them."""
    return lambda asked, forward: forward(asked.without(*headers) if asked.method == method else asked)


def relisted(change: Callable[[list[bytes], Asked], list[bytes]]) -> Behaviour:
    """Change what a page of a listing shows."""

    def behave(asked: Asked, forward: Forward) -> Told:
        told = forward(asked)
        if not asked.lists or told.status != 200:
            return told
        items = CONTENTS.findall(told.body)
        return replace(
            told, body=CONTENTS.sub(b"", told.body).replace(b"</List", b"".join(change(items, asked)) + b"</List")
        )

    return behave


def stale() -> Behaviour:
    """Show of each directory what was there at the last look."""
    shown: dict[str, list[bytes]] = {}

    def change(items: list[bytes], asked: Asked) -> list[bytes]:
        place = f"{asked.query['prefix']} {asked.query.get('start-after')}"
        before, shown[place] = shown.get(place, []), items
        return before

    return relisted(change)


def one_page(asked: Asked, forward: Forward) -> Told:
    told = forward(asked)
    return (
        replace(told, body=re.sub(rb"<IsTruncated>true<", b"<IsTruncated>false<", told.body)) if asked.lists else told
    )


def from_the_start(asked: Asked, forward: Forward) -> Told:
    if not asked.lists:
        return forward(asked)
    query = {name: text for name, text in asked.query.items() if name != "start-after"}
    return forward(replace(asked, path=f"{urlsplit(asked.path).path}?{urlencode(query)}"))


def seen_at_once(asked: Asked, forward: Forward) -> Told:
    """Make an object of a part before anybody completes the upload."""
    if asked.method == "PUT" and asked.query.get("partNumber") == "1":
        forward(replace(asked, path=urlsplit(asked.path).path))
    return forward(asked)


def lists_no_uploads(asked: Asked, forward: Forward) -> Told:
    if asked.method == "GET" and "uploads" in asked.query:
        return Told(body=b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")
    return forward(asked)


def completes_nothing_of_others(asked: Asked, forward: Forward) -> Told:
    return refusal(404, "NoSuchUpload") if asked.method == "POST" and "uploadId" in asked.query else forward(asked)


def late_parts() -> Behaviour:
    aborted: set[str] = set()

    def behave(asked: Asked, forward: Forward) -> Told:
        upload_id = asked.query.get("uploadId", "")
        if asked.method == "DELETE":
            aborted.add(upload_id)
        if asked.method == "PUT" and upload_id in aborted:
            return Told(headers=(("ETag", '"late"'),))
        return forward(asked)

    return behave


def forgets_aborts(asked: Asked, forward: Forward) -> Told:
    return Told(status=204) if asked.method == "DELETE" and "uploadId" in asked.query else forward(asked)


def deletes_all_but_one(asked: Asked, forward: Forward) -> Told:
    if asked.method != "POST" or "delete" not in asked.query:
        return forward(asked)
    body = re.sub(rb"<Object><Key>[^<]*deleted/1</Key></Object>", b"", asked.body)
    plain = asked.without("content-md5", "x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm")
    digest = b64encode(md5(body, usedforsecurity=False).digest()).decode()
    return forward(replace(plain, body=body, headers={**plain.headers, "Content-MD5": digest}))


def an_hour_ahead(asked: Asked, forward: Forward) -> Told:
    told = forward(asked)
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    times = {"date": later, "last-modified": later}
    return replace(told, headers=[(name, times.get(name.lower(), text)) for name, text in told.headers])


def decodes_keys(asked: Asked, forward: Forward) -> Told:
    path, _, query = asked.path.partition("?")
    return forward(replace(asked, path=path.replace("%252F", "/") + (f"?{query}" if query else "")))


LIES: Final[dict[str, tuple[str, Callable[[], Behaviour]]]] = {
    "ignores If-None-Match": ("conditional put", lambda: without("PUT", "if-none-match")),
    "shows old listings": ("fresh listing", stale),
    "lists in an order of its own": ("key order", lambda: relisted(lambda items, _: sorted(items, key=own_order))),
    "lists backwards": ("key order", lambda: relisted(lambda items, _: items[::-1])),
    "ignores StartAfter": ("start after", lambda: from_the_start),
    "ends after a page": ("pages", lambda: one_page),
    "leaves a key out of each page": ("pages", lambda: relisted(lambda items, _: items[:3] + items[4:])),
    "shows pending uploads": ("hidden uploads", lambda: seen_at_once),
    "lists no uploads": ("listed uploads", lambda: lists_no_uploads),
    "keeps uploads to the client that began them": ("completion", lambda: completes_nothing_of_others),
    "takes parts after an abort": ("abort", late_parts),
    "forgets aborts": ("abort", lambda: forgets_aborts),
    "copies without the condition": ("conditional copy", lambda: without("PUT", "x-amz-copy-source-if-match")),
    "reads without the condition": ("conditional read", lambda: without("GET", "if-match")),
    "leaves an object of a batch": ("batch delete", lambda: deletes_all_but_one),
    "decodes keys once more": ("odd keys", lambda: decodes_keys),
    "has another time": ("clock", lambda: an_hour_ahead),
}


def keys_of(server: S3Server) -> tuple[str, str]:
    settings = server.hadoop_settings()
    return settings["fs.s3a.access.key"], settings["fs.s3a.secret.key"]


def own_order(item: bytes) -> int:
    """Keys that end in an even figure come first."""
    (key,) = re.findall(rb"<Key>(.*?)</Key>", item)
    return int(key[-1]) % 2


@pytest.fixture(autouse=True)
def few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in {"LISTED_KEYS": 8, "ROUNDS": 1, "RACERS": 3, "FEW_KEYS": 2}.items():
        monkeypatch.setattr(proof, name, count)
    monkeypatch.setattr(s3, "PAGE_KEYS", 6)


@pytest.fixture
def examine(s3_server: S3Server) -> Iterator[Callable[[Behaviour], DoctorReport]]:
    """Try the store behind a proxy that behaves so; whatever it does, nothing may be left in the real one."""

    def examined(behaviour: Behaviour) -> DoctorReport:
        with s3_proxy(s3_server.endpoint_url, behaviour, keys_of(s3_server)) as proxy:
            overrides = S3Overrides(endpoint_url=proxy.url, max_attempts=1)
            config = TableWriterConfig(hadoop=s3_server.hadoop_settings(), s3=overrides)
            return examine_store("s3a://outside/new", config)

    yield examined
    store = open_store(settings_for(Location.parse("s3a://outside/"), s3_server.hadoop_settings()))
    left = [info.key.rpartition("/")[2] for info in store.list("new/")]
    store.delete([info.key for info in store.list("new/")])
    for upload in store.list_uploads("new/"):
        store.abort_upload(upload.key, upload.upload_id)
    assert left in ([], ["1"]), "but for the object that the store itself does not delete"


def answers(report: DoctorReport) -> dict[str, str]:
    return {finding.check: finding.message.partition(":")[0] for finding in report.findings}


def test_a_store_that_does_all_right_is_told_so(examine: Callable[[Behaviour], DoctorReport]) -> None:
    report = examine(honest)
    assert answers(report) == dict.fromkeys(ALL, "yes")
    assert report.healthy


OTHER_WORDS: Final = {"lists backwards", "ends after a page", "forgets aborts"}  # for a lie that is there already


@pytest.mark.parametrize("lie", first_fast(sorted(LIES, key=lambda lie: lie in OTHER_WORDS), count=6))
def test_each_lie_is_said_no_to_and_nothing_else(examine: Callable[[Behaviour], DoctorReport], lie: str) -> None:
    line, behaviour = LIES[lie]
    report = examine(behaviour())
    found = answers(report)
    assert [name for name in ALL if found[name] not in ("yes", "not tried")] == [line]
    assert found[line] == "no"
    assert not report.healthy
    (finding,) = (finding for finding in report.findings if finding.check == line)
    assert finding.advice


def test_every_trial_has_a_store_that_fails_it() -> None:
    assert {line for line, _ in LIES.values()} == set(ALL)


def test_an_error_of_one_object_in_a_batch_is_not_passed_over(examine: Callable[[Behaviour], DoctorReport]) -> None:
    def refuses_one(asked: Asked, forward: Forward) -> Told:
        told = forward(asked)
        key = re.search(rb"<Key>([^<]*deleted/[^<]*)<", asked.body)
        if asked.method != "POST" or "delete" not in asked.query or key is None or b"/f<" in asked.body:
            return told
        error = b"<Error><Key>" + key[1] + b"</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
        return replace(told, body=b"<DeleteResult>" + error + b"</DeleteResult>")

    report = examine(refuses_one)
    (finding,) = (finding for finding in report.findings if finding.check == "batch delete")
    assert (finding.status, "AccessDenied" in finding.message) == ("error", True)


def test_a_listing_out_of_order_is_an_error_in_any_call_and_never_fewer_keys(s3_server: S3Server) -> None:
    direct = open_store(settings_for(Location.parse("s3a://outside/"), s3_server.hadoop_settings()))
    keys = [f"unordered/{number:03d}" for number in range(50)]
    for key in keys:
        direct.put(key, b"")
    with s3_proxy(s3_server.endpoint_url, relisted(lambda items, _: sorted(items, key=own_order))) as proxy:
        settings = settings_for(
            Location.parse("s3a://outside/"), s3_server.hadoop_settings(), S3Overrides(endpoint_url=proxy.url)
        )
        with pytest.raises(UnorderedListingError, match="order of its own"):
            list(open_store(settings).list("unordered/"))
    direct.delete(keys)


@pytest.mark.parametrize("behaviour", [without("PUT", "if-none-match"), relisted(lambda items, _: items[::-1])])
def test_a_first_write_refuses_such_a_store_and_leaves_nothing(s3_server: S3Server, behaviour: Behaviour) -> None:
    place = Location.parse("s3a://outside/root/")
    with s3_proxy(s3_server.endpoint_url, behaviour, keys_of(s3_server)) as proxy:
        settings = settings_for(place, s3_server.hadoop_settings(), S3Overrides(endpoint_url=proxy.url))
        with pytest.raises(InvalidInputError, match=r"cannot be written to.*doctor --store"):
            proof.require_proven(open_store(settings), place)
    direct = open_store(settings_for(place, s3_server.hadoop_settings()))
    assert list(direct.list("root/")) == []


def test_the_command_tries_a_store_without_a_metastore(
    s3_server: S3Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = s3_server.hadoop_settings()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", settings["fs.s3a.access.key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", settings["fs.s3a.secret.key"])

    def run(endpoint_url: str) -> tuple[int, Any]:
        options = ["--endpoint-url", endpoint_url, "--path-style", "--region", "us-east-1"]
        code = main(["doctor", "--store", "s3://outside/prefix", *options])
        return code, capsys.readouterr()

    code, printed = run(s3_server.endpoint_url)
    assert (code, printed.err) == (0, "")
    assert "key order: yes" in printed.out
    with s3_proxy(s3_server.endpoint_url, without("PUT", "if-none-match"), keys_of(s3_server)) as proxy:
        code, printed = run(proxy.url)
    assert code == 1
    assert "conditional put: no" in printed.out
    assert main(["doctor"]) == main(["doctor", "mart.orders", "--store", "s3://outside/x"]) == 2
