"""The metastore and storage of a task, and its failures as Airflow sees them.

Settings have the names of the command line's options, and are read by its rules; exit codes decide about retries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from table_writer.cli.arguments import MEANINGS, ExitCode
from table_writer.cli.configuration import USER_INFO, is_secret
from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.integrations.retries import is_retried, meets_it_again
from table_writer.integrations.settings import read_settings
from table_writer.maintenance import Maintenance
from table_writer.metastore.settings import PLAIN_USER

METASTORE_PORT: Final = 9083  # Hive's default
MOST_ITEMS: Final = 100  # of one list in an XCom, which is a row of Airflow's database


def open_keeper(conn_id: str | None, settings: Mapping[str, Any]) -> Maintenance:
    """Return a ``Maintenance``; ``settings`` win over the connection, it over environment and Hadoop's files.

    Raises ``InvalidInputError`` for an unknown or unreadable setting, for one whose template found nothing, since the
    environment would then say which metastore is meant, and for a secret.
    """
    _refuse_secrets(settings)
    for name, value in {"conn_id": conn_id, **settings}.items():
        if value in ("", "None"):
            raise InvalidInputError(f"{name} of the task is {value!r}: its template found nothing. Nothing was done")
    hadoop = _as_mapping("conf of settings", settings.get("conf"))
    connection = Connection.get(conn_id) if conn_id else None
    given = {**_of_connection(connection), **settings} if connection else dict(settings)
    if connection:
        given["conf"] = {**_of_connection(connection)["conf"], **hadoop}
    uri, config = read_settings(given)
    if connection and connection.password:
        config = replace(config, metastore_password=connection.password)
    return Maintenance(uri, config=replace(config, progress="log"))  # a bar would fill a task's log


def as_declared(settings: Any) -> Any:
    """Return a task's settings as its DAG has them: they may be a template, or what another task will return.

    Raises ``InvalidInputError`` for a secret that is there already: before Airflow stores the DAG.
    """
    if isinstance(settings, Mapping):
        _refuse_secrets(settings)
    return {} if settings is None else settings


def _refuse_secrets(settings: Mapping[str, Any]) -> None:
    """Raise ``InvalidInputError`` for a secret in a task's settings: Airflow stores and shows them with the DAG."""
    given = _as_mapping("settings", settings)
    hadoop = given["conf"] if isinstance(given.get("conf"), Mapping) else {}
    for name, value in {**given, **hadoop}.items():
        if is_secret(name) or (isinstance(value, str) and USER_INFO.search(value)):
            raise InvalidInputError(
                f"settings of a task have a secret, {name}, which every reader of the DAG would see: put it into the"
                " extra of an Airflow connection (conn_id)"
            )


def _as_mapping(name: str, value: object) -> dict[str, Any]:
    """Return names with their values; a text, such as a template may make of them, is refused and not repeated."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInputError(f"{name}: expected names with their values, not a {type(value).__name__}")
    return dict(value or {})


def _of_connection(connection: Connection) -> dict[str, Any]:
    """Return the settings of a connection: those of its extra, and host, port and login where the extra has none."""
    found = dict(connection.extra_dejson)
    found["conf"] = _as_mapping("conf in the connection's extra", found.get("conf"))
    if connection.host:
        host, port = connection.host, connection.port or METASTORE_PORT
        found.setdefault("metastore_uri", host if "://" in host else f"thrift://{host}:{port}")
    if connection.login:
        found["conf"].setdefault(PLAIN_USER, connection.login)
    return found


def failure(code: ExitCode, message: str, *, may_repeat: bool) -> AirflowException:
    """Return the error of a task where the command line would have ended with this exit code.

    Airflow retries an ``AirflowException`` and never an ``AirflowFailException``. What is unknown is retried where a
    second call does no harm, ``may_repeat``.
    """
    kind = AirflowException if is_retried(code, may_repeat=may_repeat) else AirflowFailException
    return kind(f"{message} [exit code {int(code)}: {MEANINGS[code]}]")


@contextmanager
def failing_for_good() -> Iterator[None]:
    """In a task that writes: errors that a retry would meet again become ``AirflowFailException``.

    These are a wrong call, a schema that does not fit, a failed check, a partition that exists already, an
    unknown outcome, and a write that was published in part. A conflict is retried, as failures of storage and metastore
    are: the task computes its rows again.

    Examples
    --------
    >>> with failing_for_good():  # a task of yours
    ...     raise InvalidInputError("no such table")
    Traceback (most recent call last):
    airflow.sdk.exceptions.AirflowFailException: no such table
    """
    try:
        yield
    except TableWriterError as error:
        if meets_it_again(error):
            raise AirflowFailException(str(error)) from error
        raise


def shortened_facts(facts: Any) -> Any:
    """Return a report's facts with no list longer than an XCom can take; ``…_count`` beside it says how long it was.

    Examples
    --------
    >>> shortened_facts({"keys": ["a"] * 500})["keys_count"]
    500
    """
    if isinstance(facts, list):
        return [shortened_facts(item) for item in facts[:MOST_ITEMS]]
    if not isinstance(facts, dict):
        return facts
    long = {
        f"{name}_count": len(value)
        for name, value in facts.items()
        if isinstance(value, list) and len(value) > MOST_ITEMS
    }
    return {name: shortened_facts(value) for name, value in facts.items()} | long
