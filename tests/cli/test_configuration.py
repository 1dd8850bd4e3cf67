"""Where settings come from, which win, and that none that is secret is ever shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from table_writer.cli.configuration import Redaction, is_secret
from table_writer.errors import StorageError
from tests.cli.shell import TABLE, URI, Shell
from tests.publish.world import World

SECRET = "hush-hush"
VARIABLE = "TABLE_WRITER_METASTORE_URI"
PROVIDER = "fs.s3a.aws.credentials.provider"


@pytest.fixture(autouse=True)
def written(world: World) -> None:
    world.write({"d1": frozenset({1})})


def site(directory: Path, name: str, **settings: str) -> Path:
    directory.mkdir(exist_ok=True)
    properties = "".join(
        f"<property><name> {key.replace('__', '-').replace('_', '.')} </name><value>{value}</value></property>"
        for key, value in settings.items()
    )
    (directory / name).write_text(f'<?xml version="1.0"?><configuration>{properties}</configuration>')
    return directory


def hadoop(shell: Shell) -> dict[str, str]:
    return dict(shell.made[-1][1].hadoop)


def test_the_metastore_is_that_of_the_option_then_of_the_environment_then_of_the_files(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = str(site(tmp_path, "hive-site.xml", hive_metastore_uris="thrift://file:1"))
    assert shell.run_raw("history", TABLE, "--conf-dir", directory).code == 0
    monkeypatch.setenv(VARIABLE, "thrift://environment:1")
    assert shell.run_raw("history", TABLE, "--conf-dir", directory).code == 0
    assert shell.run_raw("history", TABLE, "--conf-dir", directory, "--metastore-uri", URI).code == 0
    assert [uri for uri, _ in shell.made] == ["thrift://file:1", "thrift://environment:1", URI]


def test_listeners_are_those_that_the_environment_names(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_WRITER_LISTENERS", "table_writer.events:JsonListener")
    shell.run("history", TABLE)
    assert list(map(repr, shell.made[-1][1].listeners)) == ["JsonListener('table_writer.events.json')"]
    monkeypatch.setenv("TABLE_WRITER_LISTENERS", "table_writer.events:NoSuchListener")
    ran = shell.run("history", TABLE)
    assert ran.code == 2
    assert "TABLE_WRITER_LISTENERS names table_writer.events:NoSuchListener, which cannot be had" in ran.err


def test_no_metastore_is_a_wrong_call_that_says_where_to_name_one(shell: Shell) -> None:
    ran = shell.run_raw("history", TABLE)
    assert ran.code == 2
    assert all(word in ran.err for word in ("--metastore-uri", VARIABLE, "--conf-dir"))


def test_options_reach_the_config(shell: Shell) -> None:
    words = ["--endpoint-url", "http://127.0.0.1:9000", "--region", "eu-1", "--profile", "ops", "--path-style"]
    shell.run("history", TABLE, *words, "--metastore-timeout", "200", "--directory-name", "_table_writer")
    config = shell.made[-1][1]
    assert (config.s3.endpoint_url, config.s3.region) == ("http://127.0.0.1:9000", "eu-1")
    assert (config.s3.profile, config.s3.path_style) == ("ops", True)
    assert (config.metastore_timeout_seconds, config.publish_timeout_seconds) == (200, 405)
    shell.run("history", TABLE)
    config = shell.made[-1][1]
    assert (config.s3.path_style, config.metastore_timeout_seconds) == (None, 120)
    assert config.publish_timeout_seconds == 300


def test_each_file_is_taken_from_the_first_directory_that_has_it(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = site(tmp_path / "hadoop", "core-site.xml", fs_s3a_endpoint="one")
    two = site(tmp_path / "hive", "hive-site.xml", from_hive="yes")
    three = site(tmp_path / "spark", "core-site.xml", fs_s3a_endpoint="three", never="read")
    for name, directory in (("HADOOP_CONF_DIR", one), ("HIVE_CONF_DIR", two), ("SPARK_CONF_DIR", three)):
        monkeypatch.setenv(name, str(directory))
    shell.run("history", TABLE)
    found = hadoop(shell)
    assert (found["fs.s3a.endpoint"], found["from.hive"], "never" in found) == ("one", "yes", False)
    shell.run("history", TABLE, "--conf-dir", str(three))
    assert hadoop(shell)["fs.s3a.endpoint"] == "three"


def test_files_are_read_as_hadoop_reads_them(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "here")
    (tmp_path / "core-site.xml").write_text(
        "<configuration><!-- a comment -->"
        "<property><name>kept</name><value>first</value><final>true</final></property>"
        "<property name='short' value='form'/>"
        "<property><name>full</name><value>s3a://${host}/${env.WHERE}/${env.NONE:-else}/${unknown}</value></property>"
        "<property><name>host</name><value>${a}</value></property><property><name>a</name><value>b</value></property>"
        "<property><name>loop</name><value>${loop}${loop}</value></property>"
        "<property><name>empty</name><value/></property><property><name>nothing</name></property>"
        "</configuration>"
    )
    site(tmp_path, "hive-site.xml", kept="second", a="c")
    shell.run("history", TABLE, "--conf-dir", str(tmp_path), "--conf", "spark.hadoop.a=d", "--conf", "x=1=2")
    found = hadoop(shell)
    assert (found["kept"], found["short"], found["empty"], found["x"]) == ("first", "form", "", "1=2")
    assert found["full"] == "s3a://d/here/else/${unknown}"
    assert "nothing" not in found
    assert len(found["loop"]) < 1_000_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<!DOCTYPE configuration><configuration/>", "DOCTYPE"),
        ('<!DOCTYPE a [<!ENTITY b "boom"><!ENTITY c "&b;&b;">]><configuration>&c;</configuration>', "DOCTYPE"),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><configuration>&b;</configuration>', "DOCTYPE"),
        ("<configuration><property>", "no element found"),
        ("<other/>", "root is not <configuration>"),
        ('<configuration xmlns:x="http://www.w3.org/2001/XInclude"><x:include href="a"/></configuration>', "includes"),
        (f"<configuration><property><value>{SECRET}&{SECRET};</value></property></configuration>", "undefined entity"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused_by_name(shell: Shell, tmp_path: Path, text: str, reason: str) -> None:
    for encoding in ("utf-8", "utf-16"):
        (tmp_path / "core-site.xml").write_text(text, encoding=encoding)
        ran = shell.run("history", TABLE, "--conf-dir", str(tmp_path), "--json")
        assert ran.code == 2
        assert "core-site.xml" in ran.err
        assert reason in ran.err
        assert SECRET not in ran.out + ran.err


def test_a_directory_without_any_of_the_files_is_refused(shell: Shell, tmp_path: Path) -> None:
    ran = shell.run("history", TABLE, "--conf-dir", str(tmp_path))
    assert ran.code == 2
    assert "has none of core-site.xml" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("--conf", f"fs.s3a.secret.key={SECRET}"),
        ("--conf", f"fs.s3a.session.token={SECRET}"),
        ("--conf", f"fs.s3a.bucket.lake.SECRET.key={SECRET}"),
        ("--conf", f"spark.hadoop.fs.s3a.secret.key={SECRET}"),
        ("--conf", f"fs.s3a.proxy.password={SECRET}"),
        ("--conf", f"fs.s3a.secret.key:{SECRET}"),
        ("--conf", f"fs.s3a.endpoint=http://me:{SECRET}@host"),
        ("--conf", SECRET),
        ("--endpoint-url", f"http://me:{SECRET}@host"),
        (f"--secret-key={SECRET}",),
        ("--secret-key", SECRET),
    ],
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(shell: Shell, words: tuple[str, ...]) -> None:
    for more in ((), ("--json",), ("--verbose",)):
        ran = shell.run("history", TABLE, *words, *more)
        assert ran.code == 2
        assert SECRET not in ran.out + ran.err
    if "fs.s3a.secret.key=" in words[-1]:
        assert "AWS_SECRET_ACCESS_KEY" in ran.err
        assert "--conf-dir" in ran.err


def test_a_secret_before_the_command_is_not_repeated(shell: Shell) -> None:
    ran = shell.run_raw("--secret-key", SECRET, "history", TABLE)
    assert ran.code == 2
    assert SECRET not in ran.err


def test_where_a_secret_lies_is_no_secret(shell: Shell) -> None:
    assert shell.run("history", TABLE, "--conf", "hadoop.security.credential.provider.path=jceks://a").code == 0


def test_errors_log_lines_and_tracebacks_hold_no_secret_of_a_file(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-environment")
    site(tmp_path, "core-site.xml", fs_s3a_secret_key=SECRET, fs_s3a_proxy_password="proxy-hush")

    class Failing:
        def history(self, *_: Any, **__: Any) -> None:
            text = f"{SECRET} proxy-hush token-of-the-environment http://me:pw@host s3 me:pw2@bucket"
            raise StorageError(text) from ValueError(f"signed with {SECRET}")

    shell.keeper = Failing
    ran = shell.run("history", TABLE, "--conf-dir", str(tmp_path), "--json", "--verbose")
    assert ran.code == 4
    assert ran.json["error"]["message"] == "*** *** *** http://***@host s3 ***@bucket"
    assert not any(secret in ran.out + ran.err for secret in (SECRET, "proxy-hush", "token-of", "pw"))


def test_a_secret_is_known_by_the_name_of_its_setting() -> None:
    assert is_secret("fs.s3a.bucket.lake.secret.key")
    assert is_secret("fs.azure.account.key.mart.dfs.core.windows.net")
    assert is_secret("fs.azure.sas.fixed.token.lake.mart.dfs.core.windows.net")
    assert is_secret("fs.azure.account.oauth2.client.secret")
    assert is_secret("fs.gs.auth.service.account.private.key")
    assert is_secret("fs.gs.auth.refresh.token")
    assert not is_secret("fs.gs.auth.service.account.private.key.id")
    assert not is_secret("fs.gs.auth.service.account.json.keyfile")
    assert not is_secret("fs.azure.account.keyprovider.mart.dfs.core.windows.net")
    assert not is_secret("fs.azure.account.oauth2.client.id")
    assert not is_secret("fs.s3a.endpoint")


def test_secrets_and_logins_are_blanked_out() -> None:
    redaction = Redaction()
    redaction.hide({"fs.s3a.secret.key": "hush-hush"})
    assert redaction.of("key hush-hush at https://me:pw@proxy") == "key *** at https://***@proxy"


def test_markers_and_reports_are_those_that_the_options_name(shell: Shell) -> None:
    shell.run("history", TABLE, "--mark-success", "Partitions", "--report-directory", "s3a://logs/writes")
    config = shell.made[-1][1]
    assert (config.mark_success, config.report_directory) == ("partitions", "s3a://logs/writes/")
    shell.run("history", TABLE, "--mark-success", "false")
    assert (shell.made[-1][1].mark_success, shell.made[-1][1].report_directory) == (False, None)
    ran = shell.run("history", TABLE, "--mark-success", "table")
    assert ran.code == 2
    assert "expected true, false or partitions, not 'table'" in ran.err
