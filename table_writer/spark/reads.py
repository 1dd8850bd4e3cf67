"""The files of one table that a query of a classic session reads, as Spark will list them, or has listed them before.

Spark remembers in many places: an unpartitioned table's frame has its files, a cached one its rows, a session lists of
files. What a scan reads stands in the scan itself, ``selectedPartitions``, computed once; a cached frame keeps the
scans that filled it. Where there are only RDDs, their partitions name the files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from typing import Any, Final
from urllib.parse import unquote

from py4j.java_collections import JavaArray
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from table_writer.errors import ConflictError, InvalidInputError
from table_writer.model.location import Location, Place
from table_writer.model.table import PartitionValues
from table_writer.model.table_read import Files, ReadOf, TableRead
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.past import CHANGED
from table_writer.spark.past import PAST_FILES, PAST_ROWS
from table_writer.spark.sql import SPARK_ERRORS, spark_sentence, version_named
from table_writer.storage.object_store import many
from table_writer.storage.table_files import listed_files

FILE_STATUS: Final = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?modification_time=(\d+);", re.DOTALL)
SPLIT: Final = re.compile(r"(.*):(\d+)\+(\d+)", re.DOTALL)  # Hadoop's FileSplit: path, start, length
RANGE: Final = re.compile(r"path: (.*?), range: (\d+)-(\d+), partition values: ", re.DOTALL)  # Spark's PartitionedFile
MOST_RDDS: Final = 1_000  # of one lineage that are looked at
FILE_RDDS: Final = ("FileScanRDD", "DataSourceRDD")
COMET: Final = "org.apache.spark.sql.comet."  # where its RDDs are
COMET_SCAN: Final = "CometScan "  # how it names, in the parts of an RDD, what it reads from files itself
ICEBERG: Final = "org.apache.iceberg.spark."  # the package of its own connector, on which nothing here depends
OF_COMET: Final = {  # its leaves, and which method gives the scan that a job lists by, and keeps: the first there is
    "CometNativeScanExec": ("scan", "originalPlan"),
    "CometIcebergNativeScanExec": ("originalPlan",),
    "CometCsvNativeScanExec": ("originalPlan",),
    "CometInMemoryTableScanExec": ("originalPlan",),
}
KNOWN: Final = re.compile(  # leaves that are looked into, and those that read no files
    "^(FileSourceScan|RowDataSourceScan|BatchScan|HiveTableScan)Exec$"
    "|LocalTableScan|Range|RDDScan|OneRow|Empty|CommandResult"
)
LIKE_SPARKS: Final = {"CometScanExec": "FileSourceScanExec", "CometBatchScanExec": "BatchScanExec"}  # the same methods
PROBED: Final = 10  # partitions of an RDD by which it is known whether it reads the table
logger = logging.getLogger(__name__)


class QueryReads:
    """Finds what one query reads of one table."""

    def __init__(self, spark: SparkSession, opened: OpenTable) -> None:
        self._spark = spark
        self._session: Any = spark._jsparkSession  # noqa: SLF001 - PySpark has no public way to any of this
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - the same
        self._java: Any = spark.sparkContext._jvm  # noqa: SLF001 - the same
        self._opened = opened
        self._name = (opened.table.name.database, opened.table.name.name)
        self._root = opened.layout.root

    def with_listed_anew(self, rows: DataFrame) -> tuple[DataFrame, bool]:
        """Return the query with relations that list their files anew, and whether there is one of this table."""
        found = [leaf for leaf in leaves(rows) if self._is_read(leaf)]
        for leaf in found:
            _refresh(leaf)
        if any(map(self._is_elsewhere, found)) and not _uses_cached_rows(rows):
            rows = self._resolved_again(rows)
        return rows, bool(found)

    def reads_beside_the_table(self, rows: DataFrame) -> bool:
        """Return whether a query reads an older version, or files by their paths, and not the table by its name."""
        return any(self._is_read(leaf) and not _is_named(leaf) for leaf in leaves(rows))

    def of_rdds(self, rows: DataFrame) -> Iterator[TableRead]:
        """Yield what was read by the RDDs that a query begins with; a stream's batch, which is one, has a plan too."""
        rdds = [leaf.rdd() for leaf in leaves(rows) if str(leaf.getClass().getSimpleName()) == "LogicalRDD"]
        for rdd in rdds:
            yield from self._of_rdd(rdd, ReadOf.PATHS, no_cover)
        run = last_run_here(self._spark) if rdds else None
        if run is not None:
            yield from self._reads_of(_scans(run.executedPlan()))

    def table_reads(self, rows: DataFrame, *, strict: bool) -> Iterator[TableRead]:
        """Yield what the physical plan reads of the table; the job that follows lists again, and finds no less.

        Where an engine that is not known here reads it in Spark's place, it is taken for read as a whole, as it is now.
        If it may be older than that, a strict call raises ``InvalidInputError``: it is read by paths, of an older
        version, or from a cache.
        """
        with self._older_rows_kept(CHANGED):
            plan = _execution(rows).executedPlan()  # in which an engine may list already
        scans = list(_scans(plan))
        found = list(self._reads_of(scans))
        unknown = [(leaf, cached) for leaf, cached in scans if not KNOWN.search(kind_of_scan(leaf))] if strict else ()
        if unknown:
            found += self._unseen(rows, unknown, len(found))
        return iter(found)

    def _unseen(self, rows: DataFrame, unknown: Collection[tuple[Any, Any]], found_count: int) -> list[TableRead]:
        """Return what scans that nobody knows read of the table, if fewer reads of it were found than are asked for."""
        asked = [leaf for leaf in leaves_of(_execution(rows).optimizedPlan()) if self._is_read(leaf)]
        links = [leaf.logicalLink() for leaf, cached in unknown if cached is not None]
        is_cached = any(link.isEmpty() or any(map(self._is_read, leaves_of(link.get()))) for link in links)
        if not is_cached and len(asked) <= found_count:
            return []
        if is_cached or not all(map(_is_named, asked)):
            name, kinds = self._opened.table.name, sorted({kind_of_scan(leaf) for leaf, _ in unknown})
            raise InvalidInputError(
                f"the rows are computed from files of {name} by scans that this library does not know"
                f" ({', '.join(kinds)}), so it cannot tell which: read {name} by its name, as it is now and not from a"
                " cache, or let Spark itself run this query",
                table=str(name),
            )
        return [TableRead(of=ReadOf.TABLE, files=_all_files(self._opened), covers=self._cover_of(None))]

    def _reads_of(self, scans: Iterable[tuple[Any, Any]]) -> Iterator[TableRead]:
        for scan, cached in scans:
            kind = kind_of_scan(scan)
            if kind == "FileSourceScanExec":
                of = self._kind(scan)
                if of is not None:
                    is_whole = of is ReadOf.TABLE or (of is ReadOf.VERSION and scan.relation().location().whole())
                    covers = self._cover_of(scan.partitionFilters()) if is_whole else no_cover
                    yield TableRead(of=of, files=self._files_of_scan(scan, of), covers=covers)
            elif kind == "RowDataSourceScanExec" and str(scan.relation().getClass().getName()) == PAST_ROWS:
                covers = self._cover_of(None) if scan.relation().whole() else no_cover
                yield from self._of_rdd(scan.rdd(), ReadOf.VERSION, covers)
            elif kind == "BatchScanExec" and self._names_files(scan.scan()):
                yield from self._of_rdd(scan.inputRDD(), ReadOf.PATHS, no_cover)
            elif kind == "HiveTableScanExec" and self._is_table(scan.relation().tableMeta().identifier()):
                covers = self._cover_of(scan.partitionPruningPred())
                if cached is None:
                    yield TableRead(of=ReadOf.TABLE, files=self._of_hive(scan), covers=covers)
                    continue
                yield from self._of_rdd(cached.cachedColumnBuffers(), ReadOf.TABLE, covers)

    def _files_of_scan(self, scan: Any, of: ReadOf) -> Mapping[Place, Files]:
        with self._older_rows_kept() if of is ReadOf.VERSION else nullcontext():
            return _scanned_files(scan)

    @contextmanager
    def _older_rows_kept(self, words: str = "") -> Iterator[None]:
        """Say of an older version that cannot be read that it is to be read again, if Spark says these words."""
        try:
            yield
        except SPARK_ERRORS as error:
            said = spark_sentence(error)
            if words not in said:
                raise
            raise ConflictError(
                f"the rows were computed from {self._opened.table.name} as it was, and {said} Nothing was published."
                " Read the table again, and write again.",
                table=str(self._opened.table.name),
            ) from error

    def _is_table(self, identifier: Any) -> bool:
        database = str(identifier.database().get()) if identifier.database().isDefined() else ""
        return (database.lower(), str(identifier.table()).lower()) == self._name

    def _is_read(self, leaf: Any) -> bool:
        kind = str(leaf.getClass().getSimpleName())
        if kind == "HiveTableRelation":
            return self._is_table(leaf.tableMeta().identifier())
        if kind == "DataSourceV2Relation":
            return self._is_mirror(leaf.table()) or (
                self._is_file_source(leaf.table(), "FileTable") and self._is_below(leaf.table().fileIndex())
            )
        if kind != "LogicalRelation":
            return False
        if leaf.catalogTable().isDefined() and self._is_table(leaf.catalogTable().get().identifier()):
            return True
        relation = leaf.relation()
        if str(relation.getClass().getName()) == PAST_ROWS:
            return True
        return str(relation.getClass().getSimpleName()) == "HadoopFsRelation" and self._is_below(relation.location())

    def _is_mirror(self, table: Any) -> bool:
        """Return whether a table is one of Iceberg below this table's root: its mirror, whose files are the table's."""
        location = Location.parse_any(str(table.properties().get("location"))) if _is_icebergs(table) else None
        return location is not None and self._root.contains(location)

    def _is_elsewhere(self, leaf: Any) -> bool:
        """Return whether a relation is the unpartitioned table where it was before: each write moves its location."""
        if self._opened.table.partition_columns:
            return False
        kind = str(leaf.getClass().getSimpleName())
        is_hive = kind == "HiveTableRelation"
        if kind == "DataSourceV2Relation" or not (is_hive or leaf.catalogTable().isDefined()):
            return False
        described = leaf.tableMeta() if is_hive else leaf.catalogTable().get()
        if not self._is_table(described.identifier()):
            return False
        was = described.storage().locationUri()
        location = Location.parse_any(str(was.get())) if was.isDefined() else None
        return location is not None and not location.same_place(Location.parse(self._opened.table.location))

    def _resolved_again(self, rows: DataFrame) -> DataFrame:
        """Put the table as it is now in the places of the table as it was; what else the query says stays.

        Only below other nodes: in a subquery of an expression the old one stays, and is refused before readers switch.
        """
        rows.sparkSession.catalog.refreshTable(self._opened.table.name.sql)
        (new,) = leaves(rows.sparkSession.table(self._opened.table.name.sql))

        def rebuilt(node: Any) -> Any:
            if self._is_read(node) and self._is_elsewhere(node) and node.getClass().equals(new.getClass()):
                parts = [new.productElement(0), *(node.productElement(at) for at in range(1, node.productArity()))]
                return node.makeCopy(self._array(parts))
            below = [rebuilt(child) for child in items(node.children())]
            return node.withNewChildren(self._java.PythonUtils.toSeq(below)) if below else node

        kind = str(self._session.getClass().getName()).rpartition(".")[0]  # it moved in Spark 4
        package = self._java.org.apache.spark.sql
        dataset = (package.classic if kind.endswith("classic") else package).Dataset
        try:
            return DataFrame(dataset.ofRows(self._session, rebuilt(_execution(rows).analyzed())), rows.sparkSession)
        except RecursionError:  # a plan of many hundred levels: it is refused later, if it is old
            return rows

    def _array(self, values: list[Any]) -> Any:
        array = self._gateway.new_array(self._java.java.lang.Object, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array

    def _is_file_source(self, source: Any, kind: str) -> bool:
        """Return whether a source of Spark's second API is one of files: which are, a session's settings say."""
        return bool(is_instance_of(self._gateway, source, f"org.apache.spark.sql.execution.datasources.v2.{kind}"))

    def _names_files(self, scan: Any) -> bool:
        """Return whether the parts of a scan of Spark's second API say which files they read."""
        return self._is_file_source(scan, "FileScan") or _is_icebergs(scan)

    def _is_below(self, index: Any) -> bool:
        """Return whether a relation that has no name reads below the table's root, or above it."""
        found = (Location.parse_any(path) for path in str(index.rootPaths().mkString("\n")).split("\n"))
        return any(place is not None and (self._root.contains(place) or place.contains(self._root)) for place in found)

    def _kind(self, scan: Any) -> ReadOf | None:
        index, identifier = scan.relation().location(), scan.tableIdentifier()
        if identifier.isDefined() and self._is_table(identifier.get()):
            return ReadOf.TABLE
        if not self._is_below(index):
            return None
        return ReadOf.VERSION if str(index.getClass().getName()) == PAST_FILES else ReadOf.PATHS

    def _of_hive(self, scan: Any) -> dict[Place, Files]:
        """List what Hive's reader will list when the job begins."""
        described = scan.relation().tableMeta()
        if described.partitionColumnNames().size():
            texts = [str(partition.getDataLocation().toString()) for partition in items(scan.prunedPartitions())]
        else:
            texts = [str(described.storage().locationUri().get())]
        return _listed(self._opened, texts)

    def _of_rdd(
        self, rdd: Any, of: ReadOf, covers: Callable[[Collection[PartitionValues]], frozenset[PartitionValues]]
    ) -> Iterator[TableRead]:
        """Yield what an RDD and those behind it have listed, if that is the table's."""
        files: dict[Place, dict[str, tuple[int, int | None]]] = {}
        for source in islice(_lineage(rdd), MOST_RDDS):
            for path, size in self._paths(source):
                directory, _, name = path.rpartition("/")
                location = Location.parse_any(directory)
                if location is not None and self._root.contains(location):
                    held = files.setdefault(location.place, {})
                    held[name] = (held.get(name, (0, None))[0] + size, None)
        if files or of is not ReadOf.PATHS:
            yield TableRead(of=of, files=files, covers=covers)

    def _paths(self, rdd: Any) -> Iterator[tuple[str, int]]:
        kind = str(rdd.getClass().getSimpleName())
        if kind == "HadoopRDD":
            found = (SPLIT.fullmatch(str(split.inputSplit().value().toString())) for split in rdd.partitions())
        elif kind in FILE_RDDS and self._is_of_table(_file_partitions(rdd)):
            texts = (str(file.toString()) for partition in _file_partitions(rdd) for file in partition.files())
            found = (RANGE.match(text) for text in texts)  # its path is a URL's
        else:
            yield from self._icebergs_paths(rdd) if kind == "DataSourceRDD" else ()
            yield from _comets_paths(self._java, rdd) if _is_of(rdd, COMET) else ()
            return
        for match in found:
            if match is not None and kind == "HadoopRDD":
                yield match[1], int(match[3])
            elif match is not None:
                yield unquote(match[1]), int(match[3]) - int(match[2])

    def _icebergs_paths(self, rdd: Any) -> Iterator[tuple[str, int]]:
        """Yield what a scan of Iceberg reads, whose first files are the table's: the parts of files, by their paths."""
        tasks = chain.from_iterable(map(_icebergs_tasks, _input_partitions(rdd)))
        first_tasks = list(islice(tasks, PROBED))
        found = (Location.parse_any(str(task.file().location())) for task in first_tasks)
        if any(location is not None and self._root.contains(location) for location in found):
            for task in chain(first_tasks, tasks):
                yield str(task.file().location()), int(task.length())

    def _is_of_table(self, partitions: Iterator[Any]) -> bool:
        some = islice(partitions, PROBED)
        firsts = (partition.files()[0].toPath().getParent().toString() for partition in some if len(partition.files()))
        found = (Location.parse_any(str(text)) for text in firsts)
        return any(location is not None and self._root.contains(location) for location in found)

    def _cover_of(self, filters: Any) -> Callable[[Collection[PartitionValues]], frozenset[PartitionValues]]:
        """Return a function that chooses the partitions which filters on their columns leave; ``None``: not known."""
        subquery = self._java.org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION()
        known = (
            []
            if filters is None
            else [condition for condition in items(filters) if not condition.containsPattern(subquery)]
        )

        def covers(values: Collection[PartitionValues]) -> frozenset[PartitionValues]:
            if not known:
                return frozenset(values)
            catalog = self._java.org.apache.spark.sql.catalyst
            option, utils = self._java.scala.Option, self._java.PythonUtils
            described = (
                self._session.sessionState()
                .catalog()
                .getTableMetadata(catalog.TableIdentifier(self._name[1], option.apply(self._name[0])))
            )
            names = [str(name) for name in items(described.partitionColumnNames())]
            make = catalog.catalog.CatalogTablePartition
            none, now = utils.toScalaMap({}), 0
            partitions = [
                make(
                    utils.toScalaMap(dict(zip(names, texts, strict=True))),
                    described.storage(),
                    none,
                    now,
                    now,
                    option.empty(),
                )
                for texts in values
            ]
            left = catalog.catalog.ExternalCatalogUtils.prunePartitionsByFilter(
                described,
                utils.toSeq(partitions),
                utils.toSeq(known),
                self._spark.conf.get("spark.sql.session.timeZone"),
            )
            return frozenset(tuple(str(partition.spec().apply(name)) for name in names) for partition in items(left))

        return covers


def query_id_here(context: SparkContext) -> str | None:
    """Return the id of the streaming query that calls on this thread; threads that its function starts have none."""
    return context.getLocalProperty("sql.streaming.queryId")


def last_run_here(spark: SparkSession) -> Any:
    """Return the batch that a streaming query runs on this thread, as Spark executes it; ``None`` elsewhere."""
    query_id, context = query_id_here(spark.sparkContext), spark.sparkContext
    if not query_id:
        return None
    java: Any = context._jvm  # noqa: SLF001 - PySpark has no public way to any of this
    running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001 - the same
    query = running.get(java.java.util.UUID.fromString(query_id))
    return None if query is None else query.lastExecution()


def no_cover(_: Collection[PartitionValues]) -> frozenset[PartitionValues]:
    """Look into no partition but those that were listed: nobody knows what the query asks for."""
    return frozenset()


def leaves(rows: DataFrame) -> Iterator[Any]:
    """Yield what an analyzed plan reads, its subqueries too."""
    return leaves_of(_execution(rows).analyzed())


def leaves_of(plan: Any) -> Iterator[Any]:
    """Yield what a plan reads, its subqueries too."""
    for tree in chain([plan], items(plan.subqueriesAll())):
        yield from items(tree.collectLeaves())


def past_versions(rows: DataFrame, table: str) -> Iterator[int]:
    """Yield the versions of a table that a query reads by number, from the names that :func:`version_name` gave."""
    plan = _execution(rows).analyzed()
    waiting = [plan, *items(plan.subqueriesAll())]
    while waiting:
        node = waiting.pop()
        if str(node.getClass().getSimpleName()) == "SubqueryAlias":
            version = version_named(str(node.identifier().name()), table)
            yield from () if version is None else (version,)
        waiting += items(node.children())


def items(sequence: Any) -> Iterator[Any]:
    """Yield what a sequence of Scala's holds; each item is a question to Java, asked when its turn comes."""
    return (sequence.apply(position) for position in range(sequence.size()))


def _execution(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution()  # noqa: SLF001 - PySpark has no public way to the plan


def _uses_cached_rows(rows: DataFrame) -> bool:
    kept = items(_execution(rows).withCachedData().collectLeaves())
    return any(str(leaf.getClass().getSimpleName()) == "InMemoryRelation" for leaf in kept)


def _refresh(leaf: Any) -> None:
    """Let a relation forget the files it has listed; one whose files are gone fails in the job, as it would have."""
    kind = str(leaf.getClass().getSimpleName())
    if kind == "DataSourceV2Relation" and _is_icebergs(leaf.table()):
        return  # it is planned anew for each job
    is_listed = kind == "LogicalRelation" and str(leaf.relation().getClass().getSimpleName()) == "HadoopFsRelation"
    if is_listed or kind == "DataSourceV2Relation":
        try:
            (leaf.relation().location() if is_listed else leaf.table().fileIndex()).refresh()
        except SPARK_ERRORS as error:
            logger.warning("the files of a query could not be listed anew: %s", error)


def _is_named(leaf: Any) -> bool:
    kind = str(leaf.getClass().getSimpleName())
    return kind == "HiveTableRelation" or (kind == "LogicalRelation" and bool(leaf.catalogTable().isDefined()))


def _all_files(opened: OpenTable) -> dict[Place, Files]:
    """List all that readers of a table find now."""
    table = opened.table
    partitions = opened.metastore.get_all_partitions(table) if table.partition_columns else {}
    return _listed(opened, [partition.location for partition in partitions.values()] or [table.location])


def _listed(opened: OpenTable, texts: Iterable[str]) -> dict[Place, Files]:
    found = (Location.parse_any(text) for text in texts)
    bucket = opened.layout.root.place[:2]
    in_reach = [location for location in found if location is not None and location.place[:2] == bucket]
    files = many(lambda location: listed_files(opened.store, opened.layout, location), in_reach)
    return {location.place: held for location, held in zip(in_reach, files, strict=True)}


def kind_of_scan(scan: Any) -> str:
    """Name a leaf of a physical plan, one of another engine as that of Spark which has the same methods."""
    kind = str(scan.getClass().getSimpleName())
    return LIKE_SPARKS.get(kind, kind)


def _of_comet(node: Any, methods: Sequence[str]) -> Any:
    """Return the scan in whose place a leaf of Comet stands; versions of Comet differ in which they keep."""
    *others, last = methods
    for method in others:
        try:
            return getattr(node, method)()
        except Py4JError as error:
            if "does not exist" not in str(error):
                raise
    return getattr(node, last)()


def _scans(plan: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the leaves of a physical plan, those of cached frames with what makes the RDD of their rows.

    What was found empty while a plan ran is no longer part of it, and was read: it is in the plan that the run began.
    """
    began: list[tuple[Any, Any]] = []
    known: list[Any] = []
    for leaf, cached in _leaves_run([(plan, None)], began):
        known.append(leaf)
        yield leaf, cached
    if began:
        hashes = {int(leaf.semanticHash()) for leaf in known}
        yield from (found for found in _leaves_run(began, []) if int(found[0].semanticHash()) not in hashes)


def _leaves_run(waiting: list[tuple[Any, Any]], began: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield the leaves of plans as they are; adds to ``began`` the first plan of each that has become another."""
    inside = {"AdaptiveSparkPlanExec": "executedPlan", "ReusedExchangeExec": "child", "ReusedSubqueryExec": "child"}
    while waiting:
        node, cached = waiting.pop()
        kind = str(node.getClass().getSimpleName())
        if kind in OF_COMET:
            node = _of_comet(node, OF_COMET[kind])
            kind = str(node.getClass().getSimpleName())
        if kind == "InMemoryTableScanExec":
            builder = node.relation().cacheBuilder()
            waiting.append((builder.cachedPlan(), builder))
            continue
        if kind == "AdaptiveSparkPlanExec" and not node.executedPlan().equals(node.initialPlan()):
            began.append((node.initialPlan(), cached))
        name = "plan" if kind.endswith("QueryStageExec") else inside.get(kind)
        below = [getattr(node, name)()] if name else list(items(node.children()))
        if not below:
            yield node, cached
        waiting += [(child, cached) for child in (*below, *items(node.subqueries()))]


def _scanned_files(scan: Any) -> Mapping[Place, Files]:
    """Return the files of a scan, which it has listed before or lists now, and keeps."""
    listing = scan.selectedPartitions()
    directories = listing if isinstance(listing, JavaArray) else listing.partitionDirectories()  # before and in Spark 4
    files: dict[Place, dict[str, tuple[int, int | None]]] = {}
    for listed in directories:
        for path, size, milliseconds in FILE_STATUS.findall(str(listed.toString())):
            directory, _, name = path.rpartition("/")
            location = Location.parse_any(directory)
            if location is not None:
                files.setdefault(location.place, {})[name] = (int(size), int(milliseconds) // 1000)
    return files


def _file_partitions(rdd: Any) -> Iterator[Any]:
    """Yield what lists the files of an RDD: by Spark's second API a partition of it may have several."""
    if str(rdd.getClass().getSimpleName()) == "FileScanRDD":
        yield from items(rdd.filePartitions())
        return
    yield from (part for part in _input_partitions(rdd) if str(part.getClass().getSimpleName()) == "FilePartition")


def _input_partitions(rdd: Any) -> Iterator[Any]:
    """Yield what a source of Spark's second API is to read, part by part."""
    partitions = rdd.partitions()
    methods = partitions[0].getClass().getMethods() if len(partitions) else ()
    name = "inputPartitions" if "inputPartitions" in {str(method.getName()) for method in methods} else "inputPartition"
    for partition in partitions:
        yield from items(getattr(partition, name)().toList())  # a sequence; since Spark 4.3 an option


def _is_of(thing: Any, package: str) -> bool:
    return str(thing.getClass().getName()).startswith(package)


def _is_icebergs(source: Any) -> bool:
    """Return whether a table, a scan or a part of one is Iceberg's own."""
    return _is_of(source, ICEBERG)


def _comets_paths(java: Any, rdd: Any) -> Iterator[tuple[str, int]]:
    """Yield what a native query of Comet reads: the parts of files, by their paths; nothing of its other RDDs."""
    message = getattr(java.org.apache.comet.serde, "OperatorOuterClass$NativeScan")
    for partition in rdd.partitions():
        if str(partition.getClass().getSimpleName()) == "CometExecPartition":
            described = partition.planDataByKey()
            for key in filter(lambda key: str(key).startswith(COMET_SCAN), items(described.keys().toSeq())):
                for file in message.parseFrom(described.apply(key)).getFilePartition().getPartitionedFileList():
                    yield unquote(str(file.getFilePath())), int(file.getLength())


def _icebergs_tasks(part: Any) -> Iterator[Any]:
    """Yield the parts of data files that a part of Iceberg's scan reads."""
    if _is_icebergs(part) and "taskGroup" in {str(method.getName()) for method in part.getClass().getMethods()}:
        tasks = part.taskGroup().tasks().iterator()
        while tasks.hasNext():
            task = tasks.next()
            yield from (task,) if "FileScanTask" in str(task.getClass().getSimpleName()) else ()


def _lineage(rdd: Any) -> Iterator[Any]:
    """Yield an RDD and all that it is computed from, each once."""
    known, waiting = {int(rdd.id())}, [rdd]
    while waiting:
        source = waiting.pop()
        yield source
        for dependency in items(source.dependencies()):
            behind = dependency.rdd()
            if int(behind.id()) not in known:
                known.add(int(behind.id()))
                waiting.append(behind)
