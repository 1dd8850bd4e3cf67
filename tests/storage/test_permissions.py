"""The policies of docs/how-to/permissions.md, read from that page and enforced by moto's IAM.

moto (5.2) ignores ``s3:prefix`` and KMS, asks for ``s3:DeleteObject`` on the bucket (:func:`for_moto`) and for no
``s3:GetObject`` on the source of a copy: these are judged by ``allows``, our own reading of a policy.
"""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import boto3
import pytest

from table_writer.doctor.examination import examine
from table_writer.errors import StorageError, TableWriterError
from table_writer.model.location import Location
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import ObjectInfo
from table_writer.storage.s3.permissions import ACTIONS
from table_writer.storage.s3.settings import S3Overrides, S3Settings
from table_writer.storage.s3.store import S3Store
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.servers import REGION, S3Server
from tests.policies import BUCKET, ROOT, Policy, actions, allows, policy_of
from tests.publish.world import TABLE, TableWorld, World

NEXT_DOOR = "mart/orders_v2/"
ROLES = {"driver": "The driver of a write", "executor": "Executors", "maintenance": "Maintenance", "reader": "Readers"}
ONLY_LOOKED_AT = frozenset({"s3:GetLifecycleConfiguration", "s3:GetBucketVersioning"})  # lacking, they are no error
Step = tuple[str, Callable[[], object]]


POLICIES = {role: policy_of(title) for role, title in ROLES.items()}


def without(policy: Policy, action: str) -> Policy:
    left = [{**one, "Action": [name for name in one["Action"] if name != action]} for one in policy["Statement"]]
    return {**policy, "Statement": [one for one in left if one["Action"]]}


def for_moto(policy: Policy) -> Policy:
    """Allow batch deletes on the bucket, where moto looks for them."""
    more = {"Effect": "Allow", "Action": ["s3:DeleteObject"], "Resource": f"arn:aws:s3:::{BUCKET}"}
    return {**policy, "Statement": [*policy["Statement"], *[more] * ("s3:DeleteObject" in actions(policy))]}


@dataclass
class Account:
    """moto with its IAM: a bucket, a user for each role, and an administrator before whom nothing is checked."""

    server: S3Server
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    stores: dict[str, S3Store] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = {"aws_access_key_id": "admin", "aws_secret_access_key": "admin"}
        self.iam: Any = boto3.client("iam", endpoint_url=self.server.endpoint_url, region_name=REGION, **keys)
        with self.unchecked():
            for role in ROLES:
                self.iam.create_user(UserName=role)
                made = self.iam.create_access_key(UserName=role)["AccessKey"]
                self.keys[role] = (made["AccessKeyId"], made["SecretAccessKey"])

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        self._check_after("inf")
        try:
            yield
        finally:
            self._check_after("0")

    def _check_after(self, requests: str) -> None:
        connection = http.client.HTTPConnection(self.server.endpoint_url.removeprefix("http://"), timeout=10)
        connection.request("POST", "/moto-api/reset-auth", requests, {"Content-Type": "text/plain"})
        assert connection.getresponse().status == 200
        connection.close()

    def grant(self, role: str, policy: Policy) -> None:
        with self.unchecked():
            self.iam.put_user_policy(UserName=role, PolicyName="page", PolicyDocument=json.dumps(for_moto(policy)))

    def store(self, role: str) -> S3Store:
        """Open the bucket as a role; once, since a client takes its time."""
        if role not in self.stores:
            self.stores[role] = self.open_store(role)
        return self.stores[role]

    def open_store(self, role: str) -> S3Store:
        access_key, secret_key = self.keys.get(role, ("admin", "admin"))
        overrides = S3Overrides(access_key=access_key, secret_key=secret_key, max_attempts=1)
        settings = settings_for(Location.parse(f"s3a://{BUCKET}/"), self.server.hadoop_settings(), overrides)
        assert isinstance(settings, S3Settings)
        return S3Store(replace(settings, max_single_copy_bytes=1), sleep=lambda _: None)


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with S3Server("moto", bucket=BUCKET) as server:
        yield Account(server)


@pytest.fixture
def granted(account: Account) -> Account:
    for role, policy in POLICIES.items():
        account.grant(role, policy)
    return account


class Ground:
    """What lies below a table root before a role starts to work, put there by the administrator."""

    def __init__(self, root: str, account: Account) -> None:
        self.root, self.own = root, f"{root}_table_writer/"
        self.data = f"{self.own}data/{uuid.uuid4().hex}/"
        with account.unchecked():
            admin = account.store("admin")
            for key in (f"{self.own}log/1.json", f"{root}dt=1/part-0", f"{self.data}dt=2/part-0"):
                admin.put(key, b"x")
            admin.put(f"{root}dt=1/part-1", b"xx")  # what the stores here copy in parts
            self.small, self.large = (admin.head(f"{root}dt=1/part-{number}") for number in range(2))
            self.upload_id, self.other_upload_id = (admin.create_upload(f"{self.data}part-{n}") for n in (1, 2))
            self.part = admin.upload_part(f"{self.data}part-1", self.upload_id, 1, b"x")


def steps(role: str, store: S3Store, on: Ground) -> list[Step]:
    """What a role does below a root, one request or a few each."""
    new = uuid.uuid4().hex

    def upload() -> None:
        store.upload_part(f"{on.data}{new}", store.create_upload(f"{on.data}{new}"), 1, b"x")

    def copy(source: ObjectInfo | None) -> None:
        assert source is not None
        store.copy(source, f"{on.data}{new}-copy")

    copies: list[Step] = [("copy", lambda: copy(on.small)), ("copy in parts", lambda: copy(on.large))]
    read: list[Step] = [
        ("get from the log", lambda: store.get(f"{on.own}log/1.json")),
        ("get what is not there", lambda: store.get(f"{on.own}log/{new}.json")),
        ("head", lambda: store.head(f"{on.own}log/1.json")),
        ("list the log", lambda: list(store.list(f"{on.own}log/"))),
        ("list the root", lambda: store.list_files(on.root)),
        ("list what others wrote", lambda: list(store.list(f"{on.root}dt=1/"))),
    ]
    abort: Step = ("abort", lambda: store.abort_upload(f"{on.data}part-2", on.other_upload_id))
    change: list[Step] = [
        ("put", lambda: store.put(f"{on.own}writes/{new}.json", b"x")),
        ("claim", lambda: store.put_if_absent(f"{on.own}log/{new}.json", b"x")),
        ("list uploads", lambda: list(store.list_uploads(on.data))),
        abort,
        ("delete", lambda: store.delete([f"{on.own}writes/{new}.json", f"{on.data}dt=2/part-0"])),
    ]
    of_driver: list[Step] = [
        ("complete", lambda: store.complete_upload(f"{on.data}part-1", on.upload_id, [on.part])),
        *copies,
        ("mark success", lambda: store.put(f"{on.root}_SUCCESS", b"")),
    ]
    of_maintenance: list[Step] = [
        ("look for another table's root", lambda: store.head(f"{on.root}dt=1/_table_writer/owner.json")),
        ("delete other tools' files", lambda: store.delete([f"{on.root}dt=1/part-0"])),
    ]
    of_reader: list[Step] = [
        ("list", lambda: list(store.list(f"{on.root}dt=1/"))),
        ("get", lambda: store.get(f"{on.root}dt=1/part-0")),
        ("get what was published", lambda: store.get(f"{on.data}dt=2/part-0")),
    ]
    return {
        "driver": [*read, *change, *of_driver],
        "executor": [("upload", upload), abort, *copies],
        "maintenance": [*read, *change, *of_maintenance],
        "reader": of_reader,
    }[role]


def refused(taken: list[Step]) -> dict[str, str]:
    """Take all steps; return those that were refused, with the error's text."""
    found: dict[str, str] = {}
    for name, step in taken:
        try:
            step()
        except StorageError as error:
            found[name] = str(error)
    return found


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_all_it_has_to_and_nothing_next_door(granted: Account, role: str) -> None:
    assert refused(steps(role, granted.store(role), Ground(ROOT, granted))) == {}
    taken = steps(role, granted.store(role), Ground(NEXT_DOOR, granted))
    unchecked_by_moto = {name for name, _ in taken if name.startswith(("list", "delete"))}
    denied = refused(taken).keys()
    assert denied
    assert denied | unchecked_by_moto == {name for name, _ in taken}


@pytest.mark.parametrize(
    ("role", "action"),
    [(role, action) for role, policy in POLICIES.items() for action in actions(policy) if action not in ONLY_LOOKED_AT],
)
def test_every_action_is_needed_and_named_when_it_lacks(granted: Account, role: str, action: str) -> None:
    granted.grant(role, without(POLICIES[role], action))
    found = refused(steps(role, granted.store(role), Ground(ROOT, granted)))
    assert found, f"{role} does not need {action}"
    for text in found.values():
        assert action in text
        assert "AccessDenied" in text or "403" in text


@pytest.mark.parametrize("action", sorted(ONLY_LOOKED_AT))
def test_doctor_says_what_it_may_not_look_at(granted: Account, action: str) -> None:
    store = granted.store("maintenance")
    assert store.rules().lifecycle(ROOT) == ()
    assert store.rules().versioning() == "Unversioned"
    granted.grant("maintenance", without(POLICIES["maintenance"], action))
    looked = {
        "s3:GetLifecycleConfiguration": store.rules().lifecycle(ROOT),
        "s3:GetBucketVersioning": store.rules().versioning(),
    }
    assert looked[action] is None


@pytest.mark.parametrize("role", ROLES)
def test_requests_of_a_role_are_allowed_by_our_reading_and_none_next_door(granted: Account, role: str) -> None:
    policy, seen = POLICIES[role], 0
    for root, expected in ((ROOT, True), (NEXT_DOOR, False)):
        store = granted.open_store(role)
        sent: list[tuple[str, dict[str, Any]]] = []
        store.client.meta.events.register(
            "before-parameter-build.s3", lambda params, model, sent=sent, **_: sent.append((model.name, dict(params)))
        )
        refused(steps(role, store, Ground(root, granted)))
        for operation, params in sent:
            action = ACTIONS[operation]
            keys = [one["Key"] for one in params.get("Delete", {}).get("Objects", [])] or [params.get("Key", "")]
            if action == "s3:ListBucketMultipartUploads":
                continue  # knows no condition on the prefix: the page says so
            for key in keys:
                seen += 1
                assert (
                    allows(policy, action, f"{BUCKET}/{key}".rstrip("/"), prefix=params.get("Prefix", "")) is expected
                ), (operation, params)
            if "CopySource" in params:
                source = unquote(params["CopySource"]).removeprefix(f"{BUCKET}/")
                assert allows(policy, "s3:GetObject", f"{BUCKET}/{source}") is expected
    assert seen


@dataclass
class RolesWorld(TableWorld):
    """Writes with two roles: the driver's, and the executors'."""

    executors: S3Store | None = None

    def _upload(self, plan: Any, rows: Any) -> Any:
        assert self.executors is not None
        return TableWorld(self.executors, self.metastore, self.name, self.root)._upload(plan, rows)


@pytest.fixture
def open_world(granted: Account) -> Callable[[str], RolesWorld]:
    metastore, root = MemoryMetastore(), f"s3a://{BUCKET}/{ROOT}"
    metastore.create_table(replace(World().table, location=root))
    with granted.unchecked():
        admin = granted.store("admin")
        admin.delete([found.key for found in admin.list("")])
    executors = granted.store("executor")
    return lambda role: RolesWorld(granted.store(role), metastore, root=root, executors=executors)


def test_writes_maintenance_and_reads_work_with_these_policies(open_world: Callable[[str], RolesWorld]) -> None:
    driver, keeper, reader = (open_world(role) for role in ("driver", "maintenance", "reader"))
    driver.write({"1": frozenset({1}), "2": frozenset({2})})
    driver.write({"1": frozenset({3})})
    assert reader.rows() == {"1": frozenset({3}), "2": frozenset({2})}
    keeper.keeper.rollback(str(TABLE), version=1)
    keeper.keeper.recover(str(TABLE))
    vacuumed = keeper.vacuum()
    assert vacuumed.bytes_freed
    assert not vacuumed.failures
    assert reader.rows() == {"1": frozenset({1}), "2": frozenset({2})}


def test_a_reader_cannot_write_and_an_executor_cannot_publish(open_world: Callable[[str], RolesWorld]) -> None:
    for role in ("reader", "executor"):
        world = open_world(role)
        with pytest.raises(StorageError, match="AccessDenied"):
            world.write({"1": frozenset({1})})
        with suppress(TableWriterError):
            assert world.partitions() == {}


def test_doctor_names_the_permissions_that_a_reader_lacks(open_world: Callable[[str], RolesWorld]) -> None:
    found = {finding.check: finding for finding in examine(open_world("maintenance").services())}
    assert {found[check].status for check in ("permissions", "conditional put", "bucket versioning")} == {"ok"}
    assert "no rule aborts pending uploads" in found["lifecycle rules"].message
    lacking = [finding for finding in examine(open_world("reader").services()) if finding.check == "permissions"]
    assert len(lacking) == 4  # put, delete, create an upload, list uploads
    for action in ("s3:PutObject", "s3:DeleteObject"):
        assert any(f"allow {action} on arn:aws:s3:::lake/mart/orders/_table_writer/*" in one.advice for one in lacking)
