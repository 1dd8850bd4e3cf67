"""The listener that sends lineage: it turns each event into run events, for OpenLineage's own client.

Needs ``pip install 'hive-table-writer[openlineage]'``.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from table_writer.errors import needs_extra
from table_writer.events.event import Source, TableEvent
from table_writer.model.check_result import CheckResult
from table_writer.model.location import Location
from table_writer.model.process import PerProcess
from table_writer.model.table import Column
from table_writer.model.write_mode import WriteMode
from table_writer.storage.kinds import known_kind
from table_writer.version import __version__

with needs_extra("openlineage", "OpenLineageListener"):
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import (
        data_quality_assertions_dataset,
        dataset_version_dataset,
        datasource_dataset,
        error_message_run,
        job_type_job,
        lifecycle_state_change_dataset,
        output_statistics_output_dataset,
        parent_run,
        processing_engine_run,
        schema_dataset,
        symlinks_dataset,
        tags_run,
    )

logger = logging.getLogger(__name__)
PRODUCER: Final = f"https://github.com/table-writer/table_writer/tree/{__version__}"
PARENT_VARIABLE: Final = "OPENLINEAGE_PARENT_ID"  # namespace/job/run id, as Airflow's macro lineage_parent_id says it
ROOT_VARIABLE: Final = "OPENLINEAGE_ROOT_PARENT_ID"
NAMESPACE_VARIABLE: Final = "OPENLINEAGE_NAMESPACE"
CLOSE_SECONDS: Final = 5.0  # how long the end of the process waits for a transport that sends in the background
CHECK_NAME: Final = re.compile(r"(?P<kind>\w+)\((?P<column>[^,()]+)")
STATES: Final = {  # of a run, by the outcome of the call
    "published": RunState.COMPLETE,
    "nothing": RunState.COMPLETE,
    "repeated": RunState.COMPLETE,
    "staged": RunState.RUNNING,  # its publish completes the run
    "discarded": RunState.ABORT,
    "abandoned": RunState.ABORT,
    "failed": RunState.FAIL,
    "unknown": RunState.RUNNING,  # its recovery ends the run
}
KEYS_WITHOUT_SLASH: Final = {"wasb", "wasbs"}  # as those of S3
OF_STAGED: Final = ("publish", "discard")  # as modes, for a write_id that is not staged
OVERWRITES: Final = {"rollback", *(mode.value for mode in WriteMode if not mode.facts.builds_on_what_is_there)}


class OpenLineageListener:
    """Sends run events to OpenLineage: ``START``, and how the run ended.

    A run is one write of one job; the same write has the same run id in every process, so that the publish of a staged
    write completes the run that staging began, and a recovery ends one whose outcome was unknown. A vacuum changes no
    rows, and sends nothing.

    Parameters
    ----------
    client
        Of ``openlineage-python``. By default each process makes its own, which reads ``OPENLINEAGE_URL``,
        ``openlineage.yml`` and the other settings of the client.
    namespace
        Of the jobs; by default the variable ``OPENLINEAGE_NAMESPACE``, else ``"default"``.
    job
        Makes the name of the job of an event; by default table and mode, ``mart.orders.append``. All that touches one
        write must make the same name of it: the command line's recovery too.

    Raises
    ------
    InvalidInputError
        On import: the client is not installed.

    Examples
    --------
    >>> OpenLineageListener(namespace="shop", job=lambda event: f"nightly.{event.table}")
    OpenLineageListener(namespace='shop')
    """

    def __init__(
        self,
        client: OpenLineageClient | None = None,
        *,
        namespace: str | None = None,
        job: Callable[[TableEvent], str] | None = None,
    ) -> None:
        self._client = client
        self._own_client = PerProcess(_new_client)
        self._namespace = namespace
        self._job = job or (lambda event: f"{event.table}.{event.mode}")

    def __repr__(self) -> str:
        return f"OpenLineageListener(namespace={self._namespace!r})"

    def __call__(self, event: TableEvent, /) -> None:
        """Send the run events of one call."""
        if event.operation == "vacuum" or (event.operation == "recover" and not event.of_write_id):
            return  # no rows have changed, or nobody knows which
        client = self._client or self._own_client.get()
        for run_event in self.run_events(event):
            client.emit(run_event)

    def run_events(self, event: TableEvent) -> tuple[RunEvent, RunEvent]:
        """Return the two run events of an event: the run began, and it ended."""
        job = Job(
            namespace=self._namespace or os.environ.get(NAMESPACE_VARIABLE) or "default",
            name=self._job(event),
            facets={
                "jobType": job_type_job.JobTypeJobFacet(
                    processingType="BATCH", integration="TABLE_WRITER", jobType="JOB", producer=PRODUCER
                )
            },
        )
        run_id = _run_id(event)
        state = STATES[event.outcome]
        if event.operation in OF_STAGED and event.mode not in OF_STAGED and state is RunState.FAIL:
            state = RunState.OTHER  # it stays staged, and may be published yet: its run is not over

        def run_event(
            kind: RunState, at: datetime, run_facets: dict[str, Any], outputs: list[OutputDataset]
        ) -> RunEvent:
            return RunEvent(
                eventType=kind,
                eventTime=at.isoformat(),
                run=Run(runId=run_id, facets=run_facets),
                job=job,
                inputs=list(_inputs(event)),
                outputs=outputs,
                producer=PRODUCER,
            )

        facets = dict(_run_facets(event))
        start_facets = {name: facet for name, facet in facets.items() if name != "errorMessage"}
        return (
            run_event(RunState.START, event.started_at, start_facets, []),
            run_event(state, event.ended_at, facets, list(_outputs(event))),
        )


def _new_client() -> OpenLineageClient:
    client = OpenLineageClient()
    atexit.register(client.close, CLOSE_SECONDS)
    return client


def _run_id(event: TableEvent) -> str:
    """Return the id of a write's run, which every process makes alike; of a call that wrote nothing a new one."""
    write_id = event.of_write_id if event.operation == "recover" else event.write_id
    if not write_id or event.outcome == "repeated" or event.mode in OF_STAGED:
        return str(uuid4())
    return str(uuid5(NAMESPACE_URL, f"table_writer:{event.table}/{write_id}"))


def _run_facets(event: TableEvent) -> Iterator[tuple[str, Any]]:
    yield (
        "processing_engine",
        processing_engine_run.ProcessingEngineRunFacet(
            version=__version__, name="table_writer", openlineageAdapterVersion=__version__, producer=PRODUCER
        ),
    )
    parent = _named_run(os.environ.get(PARENT_VARIABLE, ""))
    if parent is not None:
        namespace, name, run_id = parent
        root = _named_run(os.environ.get(ROOT_VARIABLE, ""))
        facet = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=run_id), job=parent_run.Job(namespace=namespace, name=name), producer=PRODUCER
        )
        if root is not None:
            facet.root = parent_run.Root(
                run=parent_run.RootRun(runId=root[2]), job=parent_run.RootJob(namespace=root[0], name=root[1])
            )
        yield "parent", facet
    if event.tags:
        fields = [tags_run.TagsRunFacetFields(key=key, value=value, source="USER") for key, value in event.tags.items()]
        yield "tags", tags_run.TagsRunFacet(tags=fields, producer=PRODUCER)
    if event.error is not None:
        message = event.error.message or event.error.type
        yield (
            "errorMessage",
            error_message_run.ErrorMessageRunFacet(message=message, programmingLanguage="python", producer=PRODUCER),
        )


def _named_run(text: str) -> tuple[str, str, str] | None:
    """Read ``namespace/job/run id``; a namespace may have slashes in it. What is none is left out, and logged."""
    namespace, _, run_text = text.rpartition("/")
    namespace, _, name = namespace.rpartition("/")
    try:
        run_id = str(UUID(run_text))
    except ValueError:
        run_id = ""
    if namespace and name and run_id:
        return namespace, name, run_id
    if text:
        logger.warning("no run of OpenLineage: %r; expected namespace/job/run id", text)
    return None


def _inputs(event: TableEvent) -> Iterator[InputDataset]:
    for source in event.sources or ():
        dataset = _source_name(event, source)
        if dataset is not None:
            facets = _symlinks(source.location) if source.table and not source.catalog else {}
            yield InputDataset(namespace=dataset[0], name=dataset[1], facets=facets)


def _source_name(event: TableEvent, source: Source) -> tuple[str, str] | None:
    if source.table and not source.catalog:
        return table_name(event.metastore, source.table)
    place = place_name(source.location) if source.location else None
    return place or ((source.catalog, source.table) if source.catalog else None)


def _outputs(event: TableEvent) -> Iterator[OutputDataset]:
    """Yield the table, if rows of it were published, or checked."""
    is_published = event.outcome == "published"
    if not event.metastore or not (is_published or event.checks):
        return
    namespace, name = table_name(event.metastore, event.table)
    facets: dict[str, Any] = {
        "schema": _schema(event),
        "dataSource": datasource_dataset.DatasourceDatasetFacet(name=namespace, uri=namespace, producer=PRODUCER),
        **_symlinks(event.location),
    }
    statistics: dict[str, Any] = {}
    if event.checks:
        facets["dataQualityAssertions"] = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
            assertions=[_assertion(check, event) for check in event.checks], producer=PRODUCER
        )
    if is_published:
        if event.version is not None:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
                datasetVersion=str(event.version), producer=PRODUCER
            )
        if event.mode in OVERWRITES:
            change = lifecycle_state_change_dataset.LifecycleStateChange.OVERWRITE
            facets["lifecycleStateChange"] = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
                lifecycleStateChange=change, producer=PRODUCER
            )
        statistics["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=event.rows, size=event.bytes, fileCount=event.files, producer=PRODUCER
        )
    yield OutputDataset(namespace=namespace, name=name, facets=facets, outputFacets=statistics)


def table_name(metastore: str, table: str) -> tuple[str, str]:
    """Return namespace and name of a table, by OpenLineage's rules for Hive and AWS Glue.

    Examples
    --------
    >>> table_name("thrift://metastore:9083", "mart.orders")
    ('hive://metastore:9083', 'mart.orders')
    >>> table_name("glue://eu-west-1/123456789012", "mart.orders")
    ('arn:aws:glue:eu-west-1:123456789012', 'table/mart/orders')
    """
    scheme, _, rest = metastore.partition("://")
    if scheme == "glue":
        region, _, account = rest.partition("/")
        return f"arn:aws:glue:{region}:{account}", f"table/{table.replace('.', '/', 1)}"
    return f"hive://{urlsplit(metastore).netloc or rest}", table


def place_name(location: str) -> tuple[str, str] | None:
    """Return namespace and name of a directory, by OpenLineage's rules for stores; ``None`` for what is no URI.

    Examples
    --------
    >>> place_name("s3a://lake/mart/orders/"), place_name("gs://lake/orders"), place_name("file:/tmp/orders")
    (('s3://lake', 'mart/orders'), ('gs://lake', 'orders'), ('file', '/tmp/orders'))
    """
    parsed = Location.parse_any(location)
    if parsed is None:
        return None
    scheme, key = parsed.scheme, parsed.key.rstrip("/")
    kind = known_kind(parsed)
    namespace = kind.lineage if kind else scheme if scheme in KEYS_WITHOUT_SLASH else ""
    if namespace:
        return f"{namespace}://{parsed.bucket}", key or "/"
    return (f"{scheme}://{parsed.bucket}" if parsed.bucket else scheme), f"/{key}"


def _symlinks(location: str) -> dict[str, Any]:
    """Return the facet that says where a table's files are, which is what Spark's own integration calls it."""
    place = place_name(location) if location else None
    if place is None:
        return {}
    identifier = symlinks_dataset.Identifier(namespace=place[0], name=place[1], type="LOCATION")
    return {"symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[identifier], producer=PRODUCER)}


def _schema(event: TableEvent) -> schema_dataset.SchemaDatasetFacet:
    fields = [_field(column) for column in (*event.columns, *event.partition_columns)]
    return schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER)


def _field(column: Column) -> schema_dataset.SchemaDatasetFacetFields:
    """Return a column with its fields; of an array they are ``_element``, of a map ``key`` and ``value``."""
    outer, _, rest = column.type.partition("<")
    inner = _type_parts(rest.rstrip()[:-1]) if rest else []
    kind = outer.strip().lower()
    names = {"array": ("_element",), "map": ("key", "value")}.get(kind, ())
    children: list[Column] = []
    if kind == "struct":
        pairs = (part.partition(":") for part in inner)
        children = [Column(name.strip(" `"), text.strip()) for name, _, text in pairs]
    elif len(names) == len(inner):
        children = [Column(name, text.strip()) for name, text in zip(names, inner, strict=True)]
    return schema_dataset.SchemaDatasetFacetFields(
        name=column.name,
        type=kind if children else column.type,
        description=column.comment or None,
        fields=[_field(child) for child in children],
    )


def _type_parts(text: str) -> list[str]:
    """Split the inside of a type at the commas that are not inside another one.

    Examples
    --------
    >>> _type_parts("a:decimal(9,2),b:map<string,int>")
    ['a:decimal(9,2)', 'b:map<string,int>']
    """
    parts, depth = [""], 0
    for char in text:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _assertion(check: CheckResult, event: TableEvent) -> data_quality_assertions_dataset.Assertion:
    """Return the result of a check; its column is named where the check names one that the schema has."""
    found = CHECK_NAME.match(check.name)
    columns = {column.name.lower(): column.name for column in (*event.columns, *event.partition_columns)}
    column = columns.get(found["column"].strip().lower()) if found else None
    return data_quality_assertions_dataset.Assertion(
        assertion=found["kind"] if found else check.name,
        success=check.passed,
        column=column,
        severity=check.severity,
        name=check.name,
        description=check.message,
        actual=None if check.failed_rows is None else f"{check.failed_rows} wrong rows",
    )
