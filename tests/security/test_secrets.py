"""No secret in a log line, repr, error, report, stored file or metastore parameter."""

from __future__ import annotations

import ast
import base64
import dataclasses
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from pyspark.errors import PySparkException
from thrift.transport.TTransport import TBufferedTransport

import table_writer
from table_writer import TableWriter
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError, LostResponseError, MetastoreError, TableWriterError
from table_writer.jobs.session_services import SessionServices
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.location import Location
from table_writer.model.new_table import NewTable
from table_writer.model.table import Column, PartitionChange
from table_writer.protocol.table.services import Services
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import StoreSettings, open_store
from table_writer.storage.s3.settings import AssumedRole, S3Overrides, S3Settings
from table_writer.testing import Lakehouse
from tests.metastore.conftest import thrift_server
from tests.publish.world import TABLE, DeathError, Fault, World
from tests.security.attacked import NOW, bare_shell, bodies

ACCESS_KEY: Final = "AKIAMADEUPACCESSKEY1"
SECRET_KEY: Final = "made/up+Secret/Key2=="
SESSION_TOKEN: Final = "madeUpSessionToken3//=="
PROXY_PASSWORD: Final = "made-up:Proxy@Password4"
METASTORE_PASSWORD: Final = "madeUpMetastorePassword5"
KMS_CONTEXT: Final = "madeUpKmsContext6"
BUCKET_ACCESS_KEY: Final = "AKIAMADEUPBUCKETKEY7"
BUCKET_SECRET_KEY: Final = "made/up+BucketSecret8"
LOGIN_SECRET: Final = "madeUpLoginOfALocation9"
ENDPOINT_PASSWORD: Final = "madeUpEndpointPassword10"
SECRETS: Final = (
    *(ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, PROXY_PASSWORD, METASTORE_PASSWORD, KMS_CONTEXT),
    *(BUCKET_ACCESS_KEY, BUCKET_SECRET_KEY, LOGIN_SECRET, ENDPOINT_PASSWORD),
)
KMS_HEADER: Final = base64.b64encode(json.dumps({"project": KMS_CONTEXT}).encode()).decode()
ENDPOINT: Final = f"http://me:{ENDPOINT_PASSWORD}@127.0.0.1:1"
METASTORE_URI: Final = f"thrift://hive:{METASTORE_PASSWORD}@metastore:9083"


def hadoop_settings(bucket: str) -> dict[str, str]:
    """Return settings as a careless administrator has them: every secret there can be."""
    provider = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
    return {
        "hive.metastore.uris": METASTORE_URI,
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.session.token": SESSION_TOKEN,
        "fs.s3a.aws.credentials.provider": provider,
        f"fs.s3a.bucket.{bucket}.access.key": BUCKET_ACCESS_KEY,
        f"fs.s3a.bucket.{bucket}.secret.key": BUCKET_SECRET_KEY,
        "fs.s3a.encryption.algorithm": "SSE-KMS",
        "fs.s3a.encryption.key": "arn:aws:kms:us-east-1:123456789012:key/1234abcd",
        "fs.s3a.encryption.context": f"project={KMS_CONTEXT}",
    }


PROXY: Final = {
    "fs.s3a.proxy.host": "127.0.0.1",
    "fs.s3a.proxy.port": "1",
    "fs.s3a.proxy.username": "squid",
    "fs.s3a.proxy.password": PROXY_PASSWORD,
}


def assert_holds_no_secret(texts: Iterable[str | bytes]) -> None:
    """Search for every secret in every spelling that it could have."""
    joined = "\n".join(one.decode("latin-1") if isinstance(one, bytes) else one for one in texts)
    assert joined.strip(), "nothing was searched"
    spellings = {KMS_HEADER, *SECRETS, *map(quote, SECRETS), *(quote(one, safe="") for one in SECRETS)}
    spellings |= {base64.b64encode(one.encode()).decode().rstrip("=") for one in SECRETS}
    spellings |= {json.dumps(one)[1:-1] for one in SECRETS}
    found = sorted(one for one in spellings if one in joined)
    at = joined.find(found[0]) if found else 0
    assert not found, f"{found} in …{joined[max(0, at - 200) : at + 100]}…"


T = str(TABLE)
NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@dataclass
class SecretWorld(World):
    """A world whose settings hold every secret; keeps what its factories were handed."""

    handed: list[StoreSettings | MetastoreSettings] = field(default_factory=list)

    def all_services(self, config: TableWriterConfig | None = None) -> Services:
        def handing(made: Any) -> Callable[[Any], Any]:
            return lambda settings: self.handed.append(settings) or made

        hadoop = {**hadoop_settings("lake"), **PROXY, "fs.s3a.endpoint": ENDPOINT}
        session = SessionSettings(hadoop=hadoop, application_id="app-1")
        factories = {"open_metastore": handing(self.metastore), "open_object_store": handing(self.store)}
        return Services(session, config or secret_config(), **factories)


def secret_config() -> TableWriterConfig:
    return TableWriterConfig(
        metastore_uris=(METASTORE_URI,),
        hadoop=hadoop_settings("lake"),
        s3=S3Overrides(access_key=ACCESS_KEY, secret_key=SECRET_KEY, session_token=SESSION_TOKEN),
    )


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """Capture the library's own loggers at DEBUG.

    The promise is theirs alone: botocore's own debug log shows signed headers, session token included, and whoever
    turns it on has asked for that. table_writer never does.
    """
    with caplog.at_level(logging.DEBUG, logger="table_writer"):
        yield lambda: [
            f"{record.getMessage()} {record.__dict__} {record.exc_info}"
            for record in caplog.records
            if record.name.startswith("table_writer")
        ]
    for name in ("botocore", "boto3", "urllib3"):
        assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)


@contextmanager
def remembering(errors: list[str]) -> Iterator[None]:
    """Keep everything that an error says: its chain with all messages and notes, its fields."""
    try:
        yield
    except (TableWriterError, PySparkException, DeathError) as error:
        errors += ["".join(traceback.format_exception(error)), repr(error), str(vars(error))]


def shown(report: Any) -> list[str]:
    texts = [repr(report), str(report), str(dataclasses.asdict(report))]
    methods = [name for name in ("_repr_html_", "to_json", "to_text") if hasattr(report, name)]
    return [*texts, *(getattr(report, name)() for name in methods)]


def in_the_metastore(services: Any) -> list[str]:
    table = services.metastore.get_table(services.table.name)
    partitions = services.metastore.get_all_partitions(table).values()
    parameters = [table.parameters, table.serde_parameters, *(one.parameters for one in partitions)]
    return [str(table), *map(str, partitions), *map(str, parameters)]


def test_a_tables_whole_life_leaves_no_secret_anywhere(logged: Callable[[], list[str]]) -> None:
    world, errors, texts = SecretWorld(), [], []
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    for fault in (
        Fault("store", "complete_upload", 1, "before", Exception),
        Fault("store", "put_if_absent", 1, "before", Exception),
        Fault("store", "put_if_absent", 1, "after", Exception),
        Fault("metastore", "alter_partitions", 1, "before", Exception),
        Fault("metastore", "alter_partitions", 1, "before", LostResponseError),
        Fault("metastore", "alter_partitions", 1, "before", DeathError),
    ):
        with remembering(errors), world.inject(fault):
            world.write({"d1": frozenset({len(errors)})})
        world.wait_out_claims()
        texts += shown(world.keeper.recover(T))
    assert len(errors) >= 15
    world.write({"d1": frozenset({10})})
    keeper = world.keeper
    spark_conf = {f"spark.hadoop.{name}": value for name, value in (hadoop_settings("lake") | PROXY).items()}
    for report in (
        keeper.history(T),
        keeper.show(T, 1),
        keeper.rollback(T, version=1),
        keeper.uploads(T, abort=True, older_than=NOW, force=True),
        keeper.vacuum(T, older_than=NOW, force=True),
        world.metastore.drop_partition(world.table, ("d2",)) or keeper.restore(T),
        keeper.recover(T),
        keeper.doctor(T, spark_conf=spark_conf),
    ):
        texts += shown(report)
    for wrong in ({"version": 99}, {"write_id": "x"}, {"version": 1, "partitions": ["d"]}):
        with remembering(errors):
            keeper.rollback(T, **wrong)  # type: ignore[arg-type]
    services = world.services()
    made = [services, services.session, services.config, services.config.s3, services.store_settings, *world.handed]
    texts += [str(one) + repr(one) for one in made]
    for found in (
        texts,
        errors,
        logged(),
        bodies(world.store),
        bodies(world.store).values(),
        in_the_metastore(services),
    ):
        assert_holds_no_secret(found)


SHOWN_MAPPINGS: Final = frozenset(
    {
        "tags",
        "writer",
        "headers",
        "unreadable",
        "not_there",
        "passed_over",
        "not_looked_through",
        "skipped",
        "error",
        "examples",
        "LINES",
        "KEYS",
        "former_options",
    }
)
"""What a user gives to be seen, and what this library says itself; all other texts by name may hold a login."""


def test_a_nouns_repr_shows_no_properties_parameters_options_or_settings() -> None:
    package = Path(table_writer.__file__).parent
    shown_fields: list[str] = []
    for path in sorted(package.rglob("*.py")):
        for noun in (one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.ClassDef)):
            if not any("dataclass" in ast.unparse(one) for one in noun.decorator_list):
                continue
            for line in (one for one in noun.body if isinstance(one, ast.AnnAssign)):
                kind, value = ast.unparse(line.annotation), ast.unparse(line.value) if line.value else ""
                is_text = re.search(r"(Mapping|dict)\[str, str\]", kind) and "Callable" not in kind
                name = ast.unparse(line.target)
                if is_text and name not in SHOWN_MAPPINGS and "repr=False" not in value:
                    shown_fields.append(f"{path.relative_to(package)}: {noun.name}.{name}")
    assert shown_fields == []


def create(world: World, columns: tuple[str, ...], **changes: Any) -> None:
    """Make the world's table again."""
    by = tuple(Column(name, "string") for name in columns)
    world.metastore.create_table(dataclasses.replace(world.table, **changes, partition_columns=by))


@pytest.mark.parametrize("columns", [("dt",), ()], ids=["partitioned", "unpartitioned"])
def test_a_login_in_a_property_is_shown_nowhere(columns: tuple[str, ...], logged: Callable[[], list[str]]) -> None:
    """A table over JDBC, or options of a source, have one; whoever may read the metastore sees it there."""
    world, errors = World(), []
    secret = {"hive.sql.dbcp.password": LOGIN_SECRET, "copied": f"jdbc:x://u:{SECRET_KEY}@h"}
    create(world, columns, parameters=secret, serde_parameters=secret)
    value = "d1" if columns else ""
    world.write({value: frozenset({1})})
    if columns:
        world.metastore.put_partition(TABLE, dataclasses.replace(world.partitions()[value], parameters=secret))
    staged = world.stage({value: frozenset({2})})
    keeper = world.keeper
    for fault in (
        Fault("metastore", "alter_partitions", 1, "before", Exception),
        Fault("metastore", "alter_partitions", 1, "before", LostResponseError),
    ):
        with remembering(errors), world.inject(fault):
            world.write({value: frozenset({3})})
        world.wait_out_claims()
    texts = shown(keeper.recover(T))
    with remembering(errors):
        keeper.publish(T, staged)
    (partition,) = world.partitions().values()
    change = PartitionChange(partition=partition, location="s3a://lake/x", set_parameters=secret)
    new = NewTable(properties=secret, options=secret)
    texts += [repr(one) for one in (world.table, partition, change, new, world.plan(), world.services(), new)]
    for report in (keeper.history(T), keeper.doctor(T), keeper.report(T), keeper.partitions(T), keeper.staged(T)):
        texts += shown(report)
    texts += [*errors, *logged(), *bodies(world.store), *bodies(world.store).values()]
    assert len(errors) >= 6
    assert_holds_no_secret(texts)


def test_settings_say_what_they_are_without_their_secrets() -> None:
    """Executors open the store themselves, so what is pickled for them may hold the keys: it has to."""
    hadoop, lake = hadoop_settings("lake"), Location.parse("s3a://lake/mart/")
    settings = settings_for(lake, {**hadoop, **PROXY})
    long_lived = {name: value for name, value in hadoop.items() if "token" not in name and "prov" not in name}
    of_bucket = settings_for(lake, long_lived)
    assert BUCKET_SECRET_KEY.encode() in pickle.dumps(of_bucket)
    assert SESSION_TOKEN.encode() in pickle.dumps(settings)
    assert_holds_no_secret([repr(settings), repr(of_bucket), str(settings), f"{settings!r}"])
    assert_holds_no_secret([repr(open_store(of_bucket)), repr(secret_config()), repr(secret_config().s3)])
    metastore = MetastoreSettings.from_hadoop(hadoop_settings("lake"))
    assert_holds_no_secret([repr(metastore), repr(HiveMetastore(metastore)), HiveMetastore(metastore).uri])
    assert secret_config().metastore_uris == ("thrift://metastore:9083",), "nobody needs the login"


@pytest.mark.parametrize(
    "uri",
    [
        *(
            f"thrift://hive:{METASTORE_PASSWORD}@{host}"
            for host in ("metastore:99999999", "metastore:port", "", "[::1")
        ),
        *(f"{start}hive:{METASTORE_PASSWORD}@metastore:9083" for start in ("http://", "")),
        *(f"thrift://hive:x{end}{METASTORE_PASSWORD}@metastore:port" for end in "@/"),
    ],
)
def test_a_wrong_metastore_address_is_named_without_its_login(uri: str) -> None:
    for call in (
        lambda: MetastoreSettings(uris=(uri,)),
        lambda: MetastoreSettings(uris=uri),  # type: ignore[arg-type]
        lambda: MetastoreSettings.from_hadoop({"hive.metastore.uris": uri}),
    ):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert_holds_no_secret(["".join(traceback.format_exception(caught.value))])


@pytest.mark.parametrize("scheme", ["s3", "s3a", "S3N"])
def test_a_login_in_a_location_as_old_hadoops_had_it_goes_no_further(scheme: str) -> None:
    """It names the same place as without it, and nobody needs it: Hadoop refuses it since 3.2."""
    world = World()
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    (left,) = world.history().state.left_locations.values()
    login = f"{scheme}://{ACCESS_KEY}:{LOGIN_SECRET}@lake/"
    world.pointed_by_another_tool("d7", login + left.location.key)
    report = world.vacuum()
    assert len(report.kept) == 1, "readers look there"
    errors: list[str] = []
    world.write({"d7": frozenset({7})})
    for location in (f"{login}x/", f"{login}x/../y/"):
        world.pointed_by_another_tool("d1", location)
        with remembering(errors):
            world.keeper.rollback(T, version=1)
    assert len(errors) == 6
    texts = [*errors, *shown(report), *shown(world.keeper.show(T, 3)), *bodies(world.store).values()]
    assert_holds_no_secret(texts)


@pytest.mark.parametrize("login", [f"{ACCESS_KEY}:{LOGIN_SECRET}", f"{ACCESS_KEY}:a/{LOGIN_SECRET}", LOGIN_SECRET])
@pytest.mark.parametrize("columns", [("dt",), ()], ids=["partitioned", "unpartitioned"])
def test_a_login_in_a_tables_own_location_is_stored_and_shown_nowhere(
    login: str, columns: tuple[str, ...], logged: Callable[[], list[str]]
) -> None:
    """It was in every staged write, in the root that an unpartitioned table keeps, and in the table's repr."""
    world, location = World(), f"s3a://{login}@lake/mart/orders/"
    by_spark = {"spark.sql.sources.provider": "parquet", "spark.sql.partitionProvider": "catalog"}
    parameters = {**by_spark, "copied.from": location}
    create(world, columns, location=location, serde_parameters={"path": location}, parameters=parameters)
    value = "d1" if columns else ""
    world.write({value: frozenset({1})})
    staged = world.stage({value: frozenset({2})})
    texts = [*shown(world.keeper.staged(T)), repr(world.services().registration(world.plan())._plan)]
    texts += [*bodies(world.store), *bodies(world.store).values()]
    world.keeper.publish(T, staged)
    errors: list[str] = []
    with remembering(errors):
        world.keeper.publish(T, "not-there")
    texts += [*shown(world.keeper.doctor(T)), *shown(world.vacuum()), repr(world.services()), repr(world.table)]
    texts += [*errors, *in_the_metastore(world.services()), *logged(), *bodies(world.store).values()]
    assert world.rows() == {value: frozenset({2})}
    assert_holds_no_secret(texts)


def test_an_endpoint_is_used_without_its_login() -> None:
    sts = AssumedRole(arn="arn:aws:iam::1:role/x", sources=(), sts_endpoint_url=ENDPOINT, external_id=LOGIN_SECRET)
    in_clear = {"fs.s3a.endpoint": ENDPOINT.removeprefix("http://"), "fs.s3a.connection.ssl.enabled": "false"}
    for settings in (
        S3Settings(bucket="lake", endpoint_url=ENDPOINT, credentials=(sts,)),
        settings_for(Location.parse("s3a://lake/"), {"fs.s3a.endpoint": ENDPOINT}),
        settings_for(Location.parse("s3a://lake/"), {}, S3Overrides(endpoint_url=ENDPOINT)),
        settings_for(Location.parse("s3a://lake/"), in_clear),
        S3Overrides(endpoint_url=ENDPOINT),
    ):
        assert settings.endpoint_url == "http://127.0.0.1:1"  # type: ignore[union-attr]
        assert_holds_no_secret([repr(settings)])
    with pytest.raises(InvalidInputError) as caught:
        S3Settings(bucket="lake", endpoint_url=f"ftp://me:{ENDPOINT_PASSWORD}@s3")
    assert_holds_no_secret(["".join(traceback.format_exception(caught.value))])


def test_what_a_metastore_says_of_a_location_is_told_without_its_login() -> None:
    """Hive quotes whole partitions in its messages."""

    class Handler:
        def get_table_req(self, _: object) -> None:
            raise ttypes.MetaException(
                f"Partition(values:[d1], sd:StorageDescriptor(location:s3a://{ACCESS_KEY}:{LOGIN_SECRET}@lake/mart,"
                f" serdeInfo:SerDeInfo(parameters:{{a=}}, password={SECRET_KEY}}})),"
                f" parameters:{{token={SESSION_TOKEN}}})"
            )

    with thrift_server(ThriftHiveMetastore.Processor(Handler()), TBufferedTransport) as server:
        uris = (f"thrift://127.0.0.1:{server.port}",)
        with pytest.raises(MetastoreError, match="MetaException") as caught:
            HiveMetastore(MetastoreSettings(uris=uris)).get_table(TABLE)
    assert_holds_no_secret(["".join(traceback.format_exception(caught.value)), repr(caught.value)])


@pytest.mark.parametrize("broken", [PROXY, {}], ids=["a proxy that is not there", "an endpoint that is not there"])
def test_an_unreachable_store_is_named_without_secrets(broken: dict[str, str], logged: Callable[[], list[str]]) -> None:
    hadoop = {**hadoop_settings("lake"), **broken, "fs.s3a.endpoint": ENDPOINT}
    overrides = S3Overrides(
        access_key=ACCESS_KEY, secret_key=SECRET_KEY, session_token=SESSION_TOKEN, path_style=True, max_attempts=1
    )
    store, errors = open_store(settings_for(Location.parse("s3a://lake/mart/"), hadoop, overrides)), []
    for call in (lambda: store.get("a"), lambda: store.put("a", b""), lambda: list(store.list("a/"))):
        with remembering(errors):
            call()
    assert len(errors) == 9
    assert_holds_no_secret([*errors, *logged()])


def test_the_command_line_prints_no_secret_of_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in {**hadoop_settings("lake"), **PROXY}.items()
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    (tmp_path / "spark.conf").write_text("".join(f"spark.hadoop.{k} {v}\n" for k, v in hadoop_settings("lake").items()))
    world = World()
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2}), "d2": frozenset({2})})
    shell = bare_shell(world, capsys, monkeypatch)
    texts: list[str] = []
    for words in (
        ("history", T),
        ("show", T, "1"),
        ("show", T, "77"),
        ("rollback", T, "--version", "1", "--dry-run"),
        ("rollback", T, "--version", "1"),
        ("vacuum", T, "--older-than", "0", "--force"),
        ("recover", T),
        ("restore", T),
        ("uploads", T, "--abort"),
        ("doctor", T, "--spark-conf", str(tmp_path / "spark.conf")),
        ("history", "mart.nothing"),
        ("history", "../x"),
    ):
        for more in ((), ("--json",), ("--verbose",), ("--json", "--verbose")):
            ran = shell.run_raw(*words, *more, "--conf-dir", str(tmp_path))
            texts += [ran.out, ran.err]
    shell.keeper = failing  # a bug: the traceback of --verbose is searched as well
    ran = shell.run_raw("history", T, "--verbose", "--conf-dir", str(tmp_path))
    assert ran.code not in {0, 2}
    texts += [ran.out, ran.err]
    shell.keeper = None
    uri = f"thrift://hive:{METASTORE_PASSWORD}@metastore:port"
    ran = shell.run_raw("history", T, "--metastore-uri", uri, "--json", "--verbose")
    assert_holds_no_secret([*texts, ran.out, ran.err])


def failing() -> Any:
    raise RuntimeError(f"{SECRET_KEY} {BUCKET_SECRET_KEY} {PROXY_PASSWORD} {METASTORE_URI} {SESSION_TOKEN}")


@pytest.mark.needs("moto")
def test_a_write_by_spark_leaves_no_secret_in_the_lakehouse(
    lakehouse: Lakehouse, lakehouse_database: str, logged: Callable[[], list[str]]
) -> None:
    """The real thing; moto takes any keys, so the writer's own are the made-up ones."""
    spark, name, errors = lakehouse.spark, f"{lakehouse_database}.orders", []
    spark.sql(f"CREATE TABLE {name} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)")
    hadoop = {**hadoop_settings(lakehouse.bucket), "fs.s3a.encryption.key": ""}
    host = lakehouse.metastore_uri.removeprefix("thrift://")
    config = TableWriterConfig(metastore_uris=(f"thrift://hive:{METASTORE_PASSWORD}@{host}",), hadoop=hadoop)
    writer = TableWriter(spark, config=config)
    services = SessionServices(spark, config)
    texts: list[str] = []
    for number in (1, 2):
        rows = spark.createDataFrame([(number, "d1"), (number, "d2")], "id BIGINT, dt STRING")
        texts += shown(writer.overwrite_partitions(rows, name))
    for broken in (rows.limit(0), rows.selectExpr("id", "id AS dt", "1 AS more"), rows.selectExpr("id")):
        with remembering(errors):
            writer.overwrite_partitions(broken, name)
    with remembering(errors):
        failing_rows = rows.selectExpr("id", "IF(id = 2, raise_error('in a task'), dt) AS dt")
        writer.overwrite_partitions(failing_rows, name)
    assert errors
    opened = services.open_to_write(name)
    texts += [*shown(writer.doctor(name)), *shown(writer.recover(name)), repr(writer), repr(services), repr(opened)]
    prefix = opened.layout.root.key
    objects = {info.key: opened.store.get(info.key) for info in opened.store.list(prefix)}
    assert {"_SUCCESS", "owner.json", "00000000000000000002.json"} <= {key.rsplit("/", 1)[1] for key in objects}
    assert any(key.endswith(".parquet") for key in objects)
    stored = [one.body for one in objects.values() if one]
    logs = (path.read_bytes() for path in lakehouse.directory.rglob("*.log"))
    for found in (texts, errors, logged(), objects, stored, in_the_metastore(opened), logs):
        assert_holds_no_secret(found)
    head = lakehouse.s3.head_object(Bucket=lakehouse.bucket, Key=next(key for key in objects if "parquet" in key))
    assert head["ServerSideEncryption"] == "aws:kms", "the settings with the secrets were those in use"
    assert spark.table(name).count() == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_stored_notebook_holds_no_key(path: Path) -> None:
    assert "AKIA" not in path.read_text()
    assert_holds_no_secret([path.read_text()])


@pytest.mark.parametrize("text", [f"a{SECRET_KEY}b", repr({"a": KMS_CONTEXT}), BUCKET_ACCESS_KEY.encode(), KMS_HEADER])
def test_the_search_finds_a_secret(text: str | bytes) -> None:
    with pytest.raises(AssertionError, match="in …"):
        assert_holds_no_secret(["x", text])
