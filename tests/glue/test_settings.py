"""When AWS Glue is asked, and where: the config, an address, or what the session's own client does."""

from __future__ import annotations

from typing import Any

import pytest

from table_writer import GlueSettings, Maintenance, TableWriterConfig
from table_writer.config import SessionSettings
from table_writer.errors import InvalidInputError
from table_writer.metastore.settings import MetastoreSettings
from table_writer.protocol.table.services import Services
from tests.cli.conftest import VARIABLES
from tests.cli.shell import Shell
from tests.doctor.conftest import of_check
from tests.glue.world import GlueWorld
from tests.publish.world import TABLE

FACTORY = {
    "hive.metastore.client.factory.class": "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory"
}
URIS = {"hive.metastore.uris": "thrift://h:9083"}


def asked(hadoop: dict[str, str], config: TableWriterConfig) -> Any:
    """Return the settings that a metastore is opened with."""
    opened: list[Any] = []
    Services(SessionSettings(hadoop=hadoop), config, open_metastore=opened.append)  # type: ignore[arg-type]
    return opened[0]


@pytest.mark.parametrize(
    ("hadoop", "config", "uri"),
    [
        (FACTORY, {}, "glue://"),
        ({**FACTORY, **URIS}, {}, "glue://"),
        ({**FACTORY, "aws.region": "eu-west-1", "hive.metastore.glue.catalogid": "1"}, {}, "glue://eu-west-1/1"),
        (URIS, {"metastore": "glue"}, "glue://"),
        ({}, {"metastore": "glue", "glue": GlueSettings(region="eu-west-1", catalog_id="2")}, "glue://eu-west-1/2"),
        (URIS, {"metastore_uris": ("glue://us-east-1/3",)}, "glue://us-east-1/3"),
        (URIS, {"metastore_uris": ("glue:///3",), "glue": GlueSettings(region="x-1")}, "glue://x-1/3"),
    ],
    ids=str,
)
def test_glue_is_chosen_by_the_session_the_config_or_an_address(
    hadoop: dict[str, str], config: dict[str, Any], uri: str
) -> None:
    found = asked(hadoop, TableWriterConfig(**config, metastore_timeout_seconds=7))
    assert isinstance(found, GlueSettings)
    assert (found.uri, found.timeout_seconds) == (uri, 7)


@pytest.mark.parametrize("config", [{"metastore": "hive"}, {"metastore_uris": ("thrift://h",)}], ids=str)
def test_hive_is_chosen_where_the_config_says_so(config: dict[str, Any]) -> None:
    assert isinstance(asked({**FACTORY, **URIS}, TableWriterConfig(**config)), MetastoreSettings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"metastore": "glue", "metastore_uris": ("thrift://h",)},
        {"metastore": "hive", "metastore_uris": ("glue://",)},
        {"metastore": "unity"},
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="metastore"):
        TableWriterConfig(**wrong)


@pytest.mark.parametrize("uri", ["glue://EU/1", "glue://eu-west-1/1/2", "glue:/x"])
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        Maintenance(uri)


@pytest.mark.parametrize(
    "wrong", [{"column_statistics": "forget"}, {"change_batch": 101}, {"timeout_seconds": 0.0}], ids=str
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        GlueSettings(**wrong)


def test_a_login_in_the_endpoint_is_left_out() -> None:
    assert "secret" not in repr(GlueSettings(endpoint_url="http://me:secret@h:1"))


def test_the_command_line_takes_an_address_and_a_region(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    world = GlueWorld()
    world.write({"d1": frozenset({1})})
    shell = Shell(world, capsys, monkeypatch, keeper=lambda: world.keeper)
    assert (
        shell.run_raw("history", str(TABLE), "--metastore-uri", "glue://eu-west-1", "--region", "eu-west-1").code == 0
    )
    (tmp_path / "hive-site.xml").write_text(
        "<configuration>"
        + "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in {**FACTORY, **URIS}.items()
        )
        + "</configuration>"
    )
    assert shell.run_raw("history", str(TABLE), "--conf-dir", str(tmp_path)).code == 0
    assert [uri for uri, _ in shell.made] == ["glue://eu-west-1", "glue://"]
    assert shell.made[0][1].glue.region == "eu-west-1"


def test_doctor_and_results_name_the_weaker_promise() -> None:
    world = GlueWorld()
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    (version,) = of_check(world.services(), "metastore version")
    assert version.status == "note"
    assert "each partition switches whole, and partitions 100 a call" in version.message
    (timeouts,) = of_check(world.services(), "metastore timeouts")
    assert "one call for every 100 partitions" in timeouts.message
    staged = world.stage({"d1": frozenset({10}), "d2": frozenset({20})})
    notes = world.keeper.publish(str(TABLE), staged).notes
    assert any("these 2 partitions one after another" in note for note in notes)
    staged = world.stage({"d1": frozenset({11})})
    assert not any("one after another" in note for note in world.keeper.publish(str(TABLE), staged).notes)


def test_of_an_unpartitioned_table_the_promise_is_the_same_as_in_hive() -> None:
    world = GlueWorld()
    world.become_unpartitioned()
    (found,) = of_check(world.services(), "metastore version")
    assert found.status == "ok"
