"""Checks of the store and its bucket."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from table_writer.doctor.examination import examine
from table_writer.doctor.servers import REQUESTS, lifecycle, lifecycle_findings, longest_write, versioning
from table_writer.doctor.subject import Subject
from table_writer.errors import StorageError
from table_writer.model.location import Location
from table_writer.model.write import TableLayout
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.bucket_rules import LifecycleRule
from table_writer.storage.kinds import KINDS, settings_for
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.object_store import UploadInfo, open_store
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.permissions import ACTIONS, OF_BUCKET
from table_writer.storage.s3.settings import S3Overrides, S3Settings, StaticKeys
from table_writer.storage.s3.store import S3Store
from table_writer.storage.store_kind import StoreKind
from table_writer.testing.memory_store import MemoryStore
from table_writer.testing.servers import S3Server
from tests.doctor.conftest import of_check, status_of
from tests.publish.world import World
from tests.storage.conftest import FakeS3

CALLS = {
    "put an object": "put",
    "get an object": "get",
    "see that an object is not there": "get",
    "list objects": "list_page",
    "delete an object": "delete",
    "create an upload": "create_upload",
    "upload a part": "upload_part",
    "list uploads": "list_uploads",
    "abort an upload": "abort_upload",
}
ROOT_KEY = "mart/orders/"


class ForgetfulStore(MemoryStore):
    """Takes every conditional put, and lists no upload by prefix, as some stores do."""

    def put_if_absent(self, key: str, body: bytes) -> bool:
        self.put(key, body)
        return True

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        return iter(())


def rule(**given: Any) -> LifecycleRule:
    return LifecycleRule(**{"rule_id": "r", "prefix": "", "days": None, "expiration_days": None, **given})


def statuses(*rules: LifecycleRule, longest: timedelta = timedelta(0)) -> list[str]:
    return [finding.status for finding in lifecycle_findings(rules, ROOT_KEY, longest)]


def test_a_store_that_ignores_conditional_puts_is_an_error(world: World) -> None:
    assert status_of(world.services(), "conditional put") == "ok"
    assert status_of(replace(world.services(), store=ForgetfulStore()), "conditional put") == "error"


def test_every_kind_of_request_is_tried() -> None:
    assert CALLS.keys() == REQUESTS.keys()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_of_store_has_advice_on_every_kind_of_request(kind: StoreKind) -> None:
    root = Location.parse(f"{kind.schemes[0]}:///lake/mart/")
    for request in REQUESTS.values():
        assert kind.permission(root, request)


@pytest.mark.parametrize("what", CALLS)
def test_each_forbidden_request_is_found_and_its_action_named(world: World, what: str) -> None:
    services = world.services()

    def forbid(call: str, phase: str, key: str) -> None:
        missing = key.endswith("/missing") == (what == "see that an object is not there")
        if call == CALLS[what] and "/probe-" in key and missing and not key.endswith("/clock"):
            raise StorageError("access denied")

    world.store.on_call = forbid
    (finding,) = of_check(services, "permissions")
    action = ACTIONS[REQUESTS[what]]
    resource = "arn:aws:s3:::lake" if action in OF_BUCKET else "arn:aws:s3:::lake/mart/orders/_table_writer/*"
    assert finding.status == "error"
    assert f"cannot {what}: access denied" in finding.message
    assert f"allow {action} on {resource}," in finding.advice


@pytest.fixture
def in_azure(world: World) -> OpenTable:
    services = world.services()
    root = Location.parse("abfss://lake@mart.dfs.core.windows.net/mart/orders/")
    return replace(services, layout=TableLayout(root))


def test_every_request_to_azure_has_its_permission(in_azure: OpenTable, world: World) -> None:
    world.store.on_call = lambda call, *_: denied() if call == "upload_part" else None
    (finding,) = of_check(in_azure, "permissions")
    assert "cannot upload a part: access denied" in finding.message
    assert "Storage Blob Data Contributor on the container of abfss://lake@mart" in finding.advice
    assert "create and write (cw)" in finding.advice


@pytest.fixture
def on_gcs(world: World) -> OpenTable:
    return replace(world.services(), layout=TableLayout(Location.parse("gs://lake/mart/orders/")))


def test_every_request_to_google_has_its_permission(on_gcs: OpenTable, world: World) -> None:
    world.store.on_call = lambda call, *_: denied() if call == "abort_upload" else None
    (finding,) = of_check(on_gcs, "permissions")
    assert "cannot abort an upload: access denied" in finding.message
    assert (
        "storage.objects.list and storage.objects.delete below the table and below _table_writer_up" in finding.advice
    )


def test_rules_of_a_bucket_of_googles_are_only_reminded_of(on_gcs: OpenTable) -> None:
    (finding,) = of_check(on_gcs, "lifecycle rules")
    assert finding.status == "note"
    assert "turn soft delete off" in finding.advice


def denied() -> None:
    raise StorageError("access denied")


def test_rules_of_an_account_in_azure_are_only_reminded_of(in_azure: OpenTable) -> None:
    (finding,) = of_check(in_azure, "lifecycle rules")
    assert finding.status == "note"
    assert "let no lifecycle rule delete blobs below the table" in finding.advice
    assert of_check(in_azure, "bucket versioning") == []


def test_a_store_that_lists_no_uploads_is_found(world: World) -> None:
    (finding,) = of_check(replace(world.services(), store=ForgetfulStore()), "permissions")
    assert finding.status == "warning"
    assert "AbortIncompleteMultipartUpload" in finding.advice


def test_a_wrong_clock_is_only_a_note(world: World) -> None:
    assert status_of(world.services(), "clock") == "ok"
    world.skipped_seconds = -600
    (finding,) = of_check(world.services(), "clock")
    assert finding.status == "note"
    assert "600 s away" in finding.message


def test_a_table_on_local_files_is_told_about_directories(world: World, tmp_path: Path) -> None:
    services = world.services()
    layout = TableLayout(Location.parse(f"file://{tmp_path}/orders/"))
    local = replace(services, layout=layout, store=open_store(LocalSettings()))
    assert {finding.status for finding in examine(local)} == {"ok", "note"}
    (tmp_path / "orders").chmod(0o700)
    (tmp_path / "orders" / "_table_writer").write_text("a file where a directory should be")
    found = of_check(local, "permissions")
    assert {finding.status for finding in found} == {"error"}
    assert {finding.advice for finding in found} == {f"let this user read and write {layout.own}"}


def test_rules_that_abort_uploads_late_enough_are_wanted() -> None:
    assert statuses(rule(days=7)) == ["ok"]
    assert statuses(rule(days=7, prefix="mart/")) == ["ok"]
    assert statuses() == ["warning"]
    assert statuses(rule(days=7, prefix="mart/orders/dt=1/")) == ["warning"]  # not the whole table
    assert statuses(rule(days=7, is_limited=True)) == ["warning"]


def test_rules_that_abort_uploads_of_running_writes_are_not() -> None:
    assert statuses(rule(days=0)) == ["error", "warning"]
    assert statuses(rule(days=1), longest=timedelta(hours=30)) == ["error"]
    assert statuses(rule(days=1), longest=timedelta(hours=20)) == ["warning"]
    assert statuses(rule(days=1), longest=timedelta(hours=2)) == ["ok"]
    assert statuses(rule(days=7), rule(days=1, prefix="mart/o"), longest=timedelta(hours=30)) == ["error"]


@pytest.mark.parametrize("when", [{"expiration_days": 30}, {"expiration_date": date(2030, 1, 1)}], ids=str)
@pytest.mark.parametrize("prefix", ["", "mart/", "mart/orders/dt=1/"])
def test_rules_that_expire_objects_delete_live_rows(when: dict[str, Any], prefix: str) -> None:
    assert statuses(rule(days=7), rule(prefix=prefix, **when)) == ["error"]
    assert statuses(rule(days=7), rule(prefix=prefix, is_limited=True, **when)) == ["warning"]


def test_the_longest_write_is_read_off_the_log(world: World) -> None:
    assert longest_write(world.services().log.read_history()) < timedelta(minutes=1)
    plan = replace(world.plan(), write_id=f"{datetime.now(UTC) - timedelta(hours=30):%Y%m%dT%H%M%S}-00")
    world.write({"1": frozenset({3})}, plan=plan)
    assert timedelta(hours=29) < longest_write(world.services().log.read_history()) < timedelta(hours=31)


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with S3Server("moto", bucket="doctor-tests") as server:
        yield server


@pytest.fixture
def on_s3(moto: S3Server, world: World) -> Callable[[], tuple[OpenTable, S3Store]]:
    def opened() -> tuple[OpenTable, S3Store]:
        bucket = f"doctor-{uuid.uuid4().hex[:12]}"
        moto.client().create_bucket(Bucket=bucket)
        root = Location.parse(f"s3a://{bucket}/{ROOT_KEY}")
        settings = settings_for(root, moto.hadoop_settings(), S3Overrides(max_attempts=2))
        store = open_store(settings)
        assert isinstance(store, S3Store)
        services = world.services()
        return replace(services, store=store, store_settings=settings, layout=TableLayout(root)), store

    return opened


@pytest.mark.not_quick
def test_a_bucket_is_examined_on_s3(on_s3: Callable[[], tuple[OpenTable, S3Store]]) -> None:
    services, store = on_s3()
    found = {finding.check: finding.status for finding in examine(services)}
    assert found["lifecycle rules"] == "warning"
    others = {"conditional put", "permissions", "clock", "bucket versioning", "dead writes"}
    assert {found[check] for check in others} == {"ok"}
    assert not list(store.list(""))
    assert not store.client.list_multipart_uploads(Bucket=store.bucket).get("Uploads")


@pytest.mark.not_quick
def test_rules_and_versions_of_a_bucket_are_read(on_s3: Callable[[], tuple[OpenTable, S3Store]]) -> None:
    services, store = on_s3()

    def set_rules(*actions: dict[str, Any]) -> None:
        rules: Any = [
            {"ID": f"r{number}", "Status": "Enabled", "Filter": {"Prefix": "mart/"}, **action}
            for number, action in enumerate(actions)
        ]
        store.client.put_bucket_lifecycle_configuration(Bucket=store.bucket, LifecycleConfiguration={"Rules": rules})

    abort = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}
    set_rules(abort)
    assert status_of(services, "lifecycle rules") == "ok"
    set_rules(abort, {"Expiration": {"Days": 90}})
    (finding,) = of_check(services, "lifecycle rules")
    assert finding.status == "error"
    assert "'r1' (prefix 'mart/')" in finding.advice
    assert status_of(services, "bucket versioning") == "ok"
    store.client.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
    (finding,) = of_check(services, "bucket versioning")
    assert finding.status == "note"
    assert "NoncurrentVersionExpiration" in finding.advice


def test_rules_that_may_not_be_read_are_a_note(world: World) -> None:
    fake = FakeS3()
    settings = S3Settings(
        bucket="lake",
        endpoint_url=fake.url,
        path_style=True,
        credentials=(StaticKeys(access_key="AKIAME", secret_key="hush"),),
        requests=RequestSettings(max_attempts=1),
    )
    subject = Subject(replace(world.services(), store=S3Store(settings)))
    with fake.server:
        for check in (lifecycle, versioning):
            fake.error(403, "AccessDenied")
            (finding,) = check(subject)
            assert finding.status == "note"
            assert "arn:aws:s3:::lake," in finding.advice
