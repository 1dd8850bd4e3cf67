"""Settings of a command: options, Hadoop's XML files, the environment."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn
from xml.etree import ElementTree as ET
from xml.parsers.expat import ErrorString

from table_writer.errors import InvalidInputError
from table_writer.model.defaults import PUBLISH_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from table_writer.config import TableWriterConfig

METASTORE_VARIABLE: Final = "TABLE_WRITER_METASTORE_URI"
LISTENERS_VARIABLE: Final = "TABLE_WRITER_LISTENERS"  # module:object, several separated by commas
PASSWORD_VARIABLE: Final = "TABLE_WRITER_METASTORE_PASSWORD"  # noqa: S105 - a name
DIRECTORY_VARIABLES: Final = ("HADOOP_CONF_DIR", "HIVE_CONF_DIR", "SPARK_CONF_DIR")
SITE_FILES: Final = ("core-site.xml", "hdfs-site.xml", "hive-site.xml")  # a later one wins, as in Hive's client
MAX_SUBSTITUTIONS: Final = 20  # Hadoop's Configuration.MAX_SUBST
MAX_EXPANDED_CHARS: Final = 65_536  # a setting that names itself twice would double each time
VARIABLE: Final = re.compile(r"\$\{([^}$\s]+)\}")
SECRET_NAME: Final = re.compile(
    r"secret|password|passphrase|session\.token|azure\.account\.key(?!provider)|sas\.fixed\.token|client-provided-key"
    r"|private\.key(?!\.id)|refresh\.token",
    re.IGNORECASE,
)
NOT_A_VALUE: Final = re.compile(r"credential\.provider|\.file$|\.path$", re.IGNORECASE)  # these say where a secret lies
SECRET_VARIABLES: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", PASSWORD_VARIABLE, "HMS_JWT")
USER_INFO: Final = re.compile(r"(?<=://)[^/\s'\"]+(?=@)|[^\s/:'\"]+:[^\s/'\"]+(?=@)")  # also without the scheme
SHORTEST_SECRET: Final = 4  # a shorter one would blank out ordinary words
MASK: Final = "***"


def read_configuration(arguments: Namespace, *, needs_metastore: bool = True) -> tuple[str, TableWriterConfig]:
    """Return the metastore's address and the settings; options win over the environment, the environment over files."""
    from table_writer.config import TableWriterConfig
    from table_writer.events.listeners import listeners_named
    from table_writer.metastore.settings import GLUE_SCHEME, GlueSettings, as_hive_2
    from table_writer.storage.s3.settings import S3Overrides

    hadoop = _hadoop_settings(_directories(arguments.conf_dir), dict(arguments.conf))
    timeout = arguments.metastore_timeout
    config = TableWriterConfig(
        hadoop=hadoop,
        metastore_ca_file=arguments.metastore_ca_file,
        metastore_password=os.environ.get(PASSWORD_VARIABLE, ""),
        metastore_timeout_seconds=timeout,
        sees_everything=arguments.sees_everything,
        publish_timeout_seconds=max(PUBLISH_TIMEOUT_SECONDS, 2 * timeout + 5),  # what the config demands
        directory_name=arguments.directory_name,
        mark_success=arguments.mark_success,
        report_directory=arguments.report_directory,
        listeners=listeners_named(os.environ.get(LISTENERS_VARIABLE, ""), where=LISTENERS_VARIABLE),
        glue=GlueSettings(region=arguments.region or "", profile=arguments.profile or ""),
        s3=S3Overrides(
            endpoint_url=arguments.endpoint_url,
            region=arguments.region,
            profile=arguments.profile,
            path_style=arguments.path_style,
        ),
    )
    of_files = GLUE_SCHEME if GlueSettings.are_meant(hadoop, ()) else as_hive_2(hadoop).get("hive.metastore.uris")
    named = (arguments.metastore_uri, os.environ.get(METASTORE_VARIABLE), of_files)
    uri = next((uri.strip() for uri in named if uri and uri.strip()), None)
    if uri is None and needs_metastore:
        raise InvalidInputError(
            "no metastore is named: give --metastore-uri thrift://host:9083 or glue://REGION/CATALOG_ID, or set"
            f" {METASTORE_VARIABLE}, or name a"
            " --conf-dir whose hive-site.xml has hive.metastore.uris"
        )
    return uri or "", config


def read_spark_conf(path: str) -> dict[str, str]:
    """Read a ``spark-defaults.conf``; secrets in it are left out, for nobody needs them here."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"--spark-conf {path} cannot be read: {_reason(error)}") from error
    pairs = (re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1) for line in _logical_lines(text))
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and not is_secret(pair[0])}


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines of a Java properties file: comments left out, continued ones joined."""
    joined = re.sub(r"(?m)(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)
    lines = (line.strip() for line in joined.splitlines())
    return (line for line in lines if line and not line.startswith(("#", "!")))


def _directories(named: Sequence[str] | None) -> list[Path]:
    """Return the directories that were named and must hold something; without any, those of the environment."""
    if not named:
        return [Path(os.environ[name]) for name in DIRECTORY_VARIABLES if os.environ.get(name)]
    directories = [Path(directory) for directory in named]
    for directory in directories:
        if not any((directory / name).is_file() for name in SITE_FILES):
            raise InvalidInputError(f"--conf-dir {directory} has none of {', '.join(SITE_FILES)}")
    return directories


def _hadoop_settings(directories: Sequence[Path], overrides: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    final: set[str] = set()
    for name in SITE_FILES:
        path = next((directory / name for directory in directories if (directory / name).is_file()), None)
        for key, value, is_final in _properties(path) if path is not None else ():
            if key not in final:
                found[key] = value
            if is_final:
                final.add(key)
    found |= overrides
    return {name: _expanded_value(value, found) for name, value in found.items()}


class _NoDoctype(ET.TreeBuilder):
    """Refuses the declaration that entities need, before any is expanded."""

    def doctype(self, *_: Any) -> NoReturn:
        raise InvalidInputError("it has a DOCTYPE, which Hadoop's files do not need and which is not read here")


def _properties(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Read names, values and what is final of a Hadoop XML file. No value is part of an error: it may be a secret."""
    try:
        parser = ET.XMLParser(target=_NoDoctype())  # noqa: S314  # the DOCTYPE is refused
        root = ET.parse(path, parser).getroot()  # noqa: S314
    except (OSError, ET.ParseError, ValueError, LookupError) as error:
        raise InvalidInputError(f"{path} cannot be read: {_reason(error)}") from error
    if root.tag != "configuration":
        raise InvalidInputError(f"{path} cannot be read: its root is not <configuration>")
    if any("XInclude" in element.tag for element in root.iter()):
        raise InvalidInputError(f"{path} includes other files, which are not followed; name their directory instead")
    for element in root.iter("property"):
        name, value = (_text(element, "name") or "").strip(), _text(element, "value")
        if name and value is not None:
            yield name, value, (_text(element, "final") or "").strip() == "true"


def _text(element: ET.Element, tag: str) -> str | None:
    """Read ``<name/>``, ``<value/>`` or ``<final/>`` of a ``<property>``, or the same as an attribute."""
    child = element.find(tag)
    return element.get(tag) if child is None else child.text or ""


def _expanded_value(value: str, settings: Mapping[str, str]) -> str:
    """Put in the values that ``${name}`` and ``${env.NAME}`` stand for; what is not known stays as it is."""

    def put_in(found: re.Match[str]) -> str:
        known = _variable(found[1], settings)
        return found[0] if known is None else known

    for _ in range(MAX_SUBSTITUTIONS):
        replaced = VARIABLE.sub(put_in, value)
        if replaced == value or len(replaced) > MAX_EXPANDED_CHARS:
            break
        value = replaced
    return value


def _variable(name: str, settings: Mapping[str, str]) -> str | None:
    if not name.startswith("env."):
        return settings.get(name)
    variable, _, default = name.removeprefix("env.").partition("-")
    return os.environ.get(variable.removesuffix(":")) or default or None


def _reason(error: Exception) -> str:
    """Say what is wrong with a file without what is in it."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, ET.ParseError):
        return f"{ErrorString(error.code)} in line {error.position[0]}"  # its own text names what it met there
    return str(error) if isinstance(error, InvalidInputError) else type(error).__name__


def is_secret(name: str) -> bool:
    """Return whether a setting's value is a secret, going by its name."""
    return bool(SECRET_NAME.search(name)) and not NOT_A_VALUE.search(name)


class Redaction:
    """Blanks out the secrets that were read, and logins inside addresses."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._hide(os.environ.get(name, "") for name in SECRET_VARIABLES)

    def hide(self, settings: Mapping[str, str]) -> None:
        """Keep the secrets among these settings out."""
        from table_writer.metastore.settings import PLAIN_USER, as_hive_2

        user = as_hive_2(settings).get(PLAIN_USER, "")  # under whose name Hive's client keeps the password
        self._hide(value for name, value in settings.items() if is_secret(name) or name == user)

    def _hide(self, values: Iterable[str]) -> None:
        stripped = (value.strip() for value in values)
        self._values |= {value for value in stripped if len(value) >= SHORTEST_SECRET}

    def of(self, text: str) -> str:
        """Return the text without secrets; the longest first, for one may be part of another."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        return USER_INFO.sub(MASK, text)
