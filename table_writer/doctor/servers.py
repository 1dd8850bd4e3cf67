"""Checks of store, bucket and metastore; those that try the store delete their objects and uploads afterwards."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from table_writer.doctor.findings import error, note, ok, warning
from table_writer.doctor.subject import Subject
from table_writer.errors import MetastoreError, PartitionExistsError, TableWriterError, counted
from table_writer.metastore.connection import RefusedError
from table_writer.metastore.protocol import CAUSE, compares_and_sets
from table_writer.metastore.settings import GLUE_BATCH, GLUE_SCHEME
from table_writer.model.units import DAY_SECONDS
from table_writer.protocol.log.history import History
from table_writer.reports.health_reports import Finding
from table_writer.storage.bucket_rules import LifecycleRule, TellsRules
from table_writer.storage.kinds import kind_of
from table_writer.storage.proof import MAX_SKEW_SECONDS, PROBES, TRIALS, Probe, RefutedError, clock_skew_seconds, race

Answer = TypeVar("Answer")
REQUESTS: Final = {  # what is tried, and the kind of request whose permission it takes
    "put an object": "PutObject",
    "get an object": "GetObject",
    "see that an object is not there": "ListObjectsV2",  # without it stores answer 403 instead of 404
    "list objects": "ListObjectsV2",
    "delete an object": "DeleteObject",
    "create an upload": "CreateMultipartUpload",
    "upload a part": "UploadPart",
    "list uploads": "ListMultipartUploads",
    "abort an upload": "AbortMultipartUpload",
}
LEAVES_TRACES: Final = frozenset({"delete an object", "abort an upload"})
WANTED_DAYS: Final = 7
WRITE_ID_TIME: Final = "%Y%m%dT%H%M%S"
SHORT_OF: Final = 2  # a rule shorter than this many times the longest write is too close
SECONDS_PER_PARTITION: Final = {4: 0.0006}  # of one alter; measured on 4.0.1
SLOWEST_SECONDS_PER_PARTITION: Final = 0.0027  # measured on Hive 2.3.10
LONGEST_TIMEOUT_SECONDS: Final = DAY_SECONDS  # of a publish, by TableWriterConfig
ODD_VALUE: Final = "ünïcödé 日本 😀"
ALIKE: Final = {"trailing spaces": ("a", "a "), "case": ("a", "A")}
TEXTS: Final = ("string", "varchar", "char")
STORE_UTF8: Final = (
    "let the database's columns PARTITIONS.PART_NAME, PARTITION_KEY_VALS.PART_KEY_VAL and SDS.LOCATION, and the"
    " metastore's connections to it, store UTF-8; until then write no other values than ASCII"
)
NO_UPLOADS_LISTED: Final = warning(
    "the store lists no uploads below a directory (ListMultipartUploads by prefix): vacuum cannot find what dead writes"
    " leave, and it is paid for",
    'add a lifecycle rule {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}} to the bucket, or use the'
    " store's own setting for stale uploads",
)


def conditional_put(subject: Subject) -> Iterable[Finding]:
    """Let conditional puts race: exactly one must win."""
    with _probe(subject) as probe:
        try:
            answer = race(probe, "claim")
        except RefutedError as refuted:
            trial = TRIALS["conditional put"]
            yield error(f"{refuted} below {subject.opened.layout.root}: {trial.follows}", trial.advice)
        else:
            yield ok(f"{answer}: one of several writers gets the entry")


def permissions(subject: Subject) -> Iterable[Finding]:
    store = subject.opened.store
    findings: list[Finding] = []
    with _probe(subject) as probe:

        def try_request(what: str, request: Callable[[], Answer]) -> Answer | None:
            try:
                return request()
            except TableWriterError as failure:
                trace_note = f" (left behind: {probe.directory})" if what in LEAVES_TRACES else ""
                findings.append(error(f"cannot {what}: {failure}{trace_note}", _advice(subject, what)))
                return None

        directory, key = probe.directory, probe.key("object")
        try_request("put an object", lambda: store.put(key, b"probe"))
        try_request("get an object", lambda: store.get(key))
        try_request("see that an object is not there", lambda: store.get(f"{directory}missing"))
        try_request("list objects", lambda: list(store.list(directory)))
        try_request("delete an object", lambda: store.delete([key]))
        upload_id = try_request("create an upload", lambda: probe.create_upload(key))
        if upload_id is not None:
            try_request("upload a part", lambda: store.upload_part(key, upload_id, 1, b"probe"))
        listed_ids = try_request("list uploads", lambda: [found.upload_id for found in store.list_uploads(directory)])
        if upload_id is not None:
            if listed_ids is not None and upload_id not in listed_ids:
                findings.append(NO_UPLOADS_LISTED)
            try_request("abort an upload", lambda: store.abort_upload(key, upload_id))
    return findings or [ok(f"all {len(REQUESTS)} kinds of request are allowed below {subject.opened.layout.own}")]


def clock(subject: Subject) -> Iterable[Finding]:
    """Compare the store's clock with this machine's. No age depends on it, but signatures do."""
    with _probe(subject) as probe:
        skew_seconds = clock_skew_seconds(probe.store, probe.put("clock", b"tick"))
    if skew_seconds <= MAX_SKEW_SECONDS:
        yield ok("this machine and the store agree on the time")
    else:
        yield note(
            f"this machine's clock is {skew_seconds:,.0f} s away from the store's. No decision depends on it; S3"
            " refuses requests from 900 s on, and times in the history are this machine's",
            "synchronise the clock of this machine (NTP)",
        )


def _advice(subject: Subject, what: str) -> str:
    own = subject.opened.layout.own
    return kind_of(own).permission(own, REQUESTS[what])


@contextmanager
def _probe(subject: Subject) -> Iterator[Probe]:
    """Give a directory below ``_table_writer/`` that nobody else uses, and empty it."""
    store = subject.opened.store
    directory = f"{subject.opened.layout.own.key}{PROBES}{secrets.token_hex(8)}/"
    probe = Probe(store=store, directory=directory, open_other=lambda: store)
    try:
        yield probe
    finally:
        probe.leave()


def lifecycle(subject: Subject) -> Iterable[Finding]:
    store, root = subject.opened.store, subject.opened.layout.root
    if unread := kind_of(root).unread_rules:
        yield note(*unread)
    if not isinstance(store, TellsRules):
        return
    bucket = store.rules()
    rules = bucket.lifecycle(root.key)
    if rules is None:
        allow = kind_of(root).permission(root, "GetBucketLifecycleConfiguration")
        yield note(
            f"the rules of bucket {bucket.bucket} cannot be read, or its store knows none: they are not checked",
            f"{allow}, or ask who owns the bucket",
        )
    else:
        yield from lifecycle_findings(rules, root.key, longest_write(subject.history()))


def lifecycle_findings(rules: Collection[LifecycleRule], root_key: str, longest: timedelta) -> list[Finding]:
    """Judge the rules that meet a table's root, by the duration of its longest write."""
    findings = [*_expiring(rules, root_key), *_aborting(rules, longest)]
    covering = [rule for rule in rules if rule.days and root_key.startswith(rule.prefix) and not rule.is_limited]
    if covering:
        days = min(rule.days or 0 for rule in covering)
        return findings or [ok(f"pending uploads are aborted after {counted(days, 'day')}; no rule expires objects")]
    rule = (
        f'{{"ID": "abort-uploads", "Status": "Enabled", "Filter": {{"Prefix": "{root_key}"}},'
        f' "AbortIncompleteMultipartUpload": {{"DaysAfterInitiation": {WANTED_DAYS}}}}}'
    )
    return [
        *findings,
        warning(
            "no rule aborts pending uploads of the whole table: those of dead executors and drivers are paid for until"
            " a vacuum runs",
            f"add this rule to those of the bucket: {rule}",
        ),
    ]


def _expiring(rules: Iterable[LifecycleRule], root_key: str) -> Iterator[Finding]:
    for rule in rules:
        if rule.expiration_days is None and rule.expiration_date is None:
            continue
        days = rule.expiration_days
        when_deleted = f"after {counted(days, 'day')}" if days else f"from {rule.expiration_date} on"
        advice = (
            f"remove the expiration of rule {_rule_name(rule)}, or give it a prefix that does not meet {root_key!r}"
        )
        if rule.is_limited:
            yield warning(
                f"rule {_rule_name(rule)} deletes objects with certain tags or sizes {when_deleted}; files of this"
                " table may be among them",
                advice,
            )
        else:
            yield error(
                f"rule {_rule_name(rule)} deletes all objects {when_deleted}: live rows and the log as well, since a"
                " rule knows nothing of partitions",
                advice,
            )


def _aborting(rules: Iterable[LifecycleRule], longest: timedelta) -> Iterator[Finding]:
    for rule in rules:
        if rule.days is None:
            continue
        age = timedelta(days=rule.days)
        advice = (
            f"set DaysAfterInitiation of rule {_rule_name(rule)} to {max(WANTED_DAYS, 1 + SHORT_OF * longest.days)}"
        )
        says = f"rule {_rule_name(rule)} aborts pending uploads after {counted(rule.days, 'day')}"
        took = f"and a write of this table took {longest.total_seconds() / 3600:.1f} h"
        if age < timedelta(days=1):
            yield error(f"{says}: that kills running writes", advice)
        elif age < longest:
            yield error(f"{says}, {took}", advice)
        elif age < SHORT_OF * longest:
            yield warning(f"{says}, {took}: that is close", advice)


def longest_write(history: History) -> timedelta:
    """Return how long the longest write took from its plan to its claim, both by its own writer's clock."""
    longest = timedelta(0)
    for record in history.records:
        if record.entry.meaning.brings_rows:
            try:
                time_text = record.entry.write_id.partition("-")[0]
                planned_at = datetime.strptime(time_text, WRITE_ID_TIME).replace(tzinfo=UTC)
            except ValueError:  # an id that the caller gave
                continue
            longest = max(longest, record.entry.created_at - planned_at)
    return longest


def versioning(subject: Subject) -> Iterable[Finding]:
    store = subject.opened.store
    if not isinstance(store, TellsRules):
        return
    rules, root = store.rules(), subject.opened.layout.root
    state = rules.versioning()
    if state == "Unversioned":
        yield ok("the bucket keeps no old versions: what vacuum deletes is gone")
    elif state is None:
        yield note(
            f"whether bucket {rules.bucket} keeps old versions cannot be read, or its store does not know them",
            f"{kind_of(root).permission(root, 'GetBucketVersioning')}, or ask who owns the bucket",
        )
    else:
        yield note(
            f"versioning is {state.lower()}: what vacuum deletes stays as an old version, and is paid for; so do rows"
            " that delete_where(purge=True) erases",
            f'add a rule {{"NoncurrentVersionExpiration": {{"NoncurrentDays": {WANTED_DAYS}}}}}: it takes old versions'
            " only",
        )


def _rule_name(rule: LifecycleRule) -> str:
    return f"{rule.rule_id or '(without an ID)'!r} (prefix {rule.prefix!r})"


def compare_and_set(subject: Subject) -> Iterable[Finding]:
    """Name the metastore and its version, and say whether it protects unpartitioned tables."""
    uri, version = subject.opened.metastore.uri, subject.version()
    partitioned = bool(subject.opened.table.partition_columns)
    if uri.startswith(GLUE_SCHEME):
        yield _glue(subject)
        return
    parts = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    says = f"{uri} is Hive {version}" if version else f"{uri} answers, and does not say its version"
    if not parts:
        yield note(f"{says}; whether alter_table honours a compare-and-set is not known")
    elif compares_and_sets(version):
        yield ok(f"{says}: alter_table honours a compare-and-set")
    elif partitioned:
        yield note(f"{says}: alter_table ignores a compare-and-set in silence. Partitions do not need it")
    else:
        yield warning(
            f"{says}: alter_table ignores a compare-and-set in silence, so only the log protects this unpartitioned"
            " table: an ALTER TABLE of another tool at the same moment can be lost",
            "upgrade the metastore to Hive 2.3.10 or 4, or let no other tool alter this table while it is written",
        )


def _glue(subject: Subject) -> Finding:
    """Name the promise of AWS Glue, which is weaker for partitions."""
    metastore = subject.opened.metastore
    if metastore.switches_at_once(subject.opened.table):
        return ok(f"{metastore.uri} is AWS Glue, which refuses to move a table that was changed since it was read")
    return note(
        f"{metastore.uri} is AWS Glue: each partition switches whole, and partitions {GLUE_BATCH} a call. Readers"
        " of several see some of them switched for a moment; after a crash in between, until the next writer or"
        " `table-writer recover` switches the rest"
    )


def sight(subject: Subject) -> Iterable[Finding]:
    """Say whether the metastore may leave out of its answers what this role may not see, Lake Formation above all."""
    opened = subject.opened
    reason = opened.why_partial()
    if not reason:
        yield ok(f"{opened.metastore.uri} shows all tables, partitions and columns, as far as is known")
        return
    keeps = "a vacuum keeps files of other tools, and where partitions were that are not shown"
    advice = "With a role that sees everything, say so: TableWriterConfig(sees_everything=True), or --sees-everything"
    unproven = opened.metastore.why_unproven(opened.table)
    if unproven:
        yield warning(f"{subject.name} may have columns that this role does not see: {unproven}; {keeps}", advice)
    else:
        yield note(f"{reason}: {keeps}. {advice}")


def replication(subject: Subject) -> Iterable[Finding]:
    """Say whether Hive replicates the database: its events name no file of where this library points readers."""
    opened = subject.opened
    policies = opened.metastore.replicated_as(opened.table)
    if not policies:
        yield ok(f"Hive replicates no table of {opened.table.name.database}")
        return
    yield warning(
        f"Hive replicates database {opened.table.name.database} (repl.source.for={policies}): that a partition, or the"
        " table, has moved is told to replicas without its files, so they may miss rows or look where none are; of a"
        " managed table a metastore may refuse the move",
        "leave the table out of the policy, and bring its rows to the other cluster by a write there; or let a mirror"
        " be copied. What is a replica already must not be written",
    )


def addresses(subject: Subject) -> Iterable[Finding]:
    """Remind that several addresses must belong to one database."""
    configured = subject.opened.config.metastore_uris or subject.opened.session.hadoop.get("hive.metastore.uris", "")
    uris = tuple(configured) if isinstance(configured, tuple) else tuple(filter(None, re.split(r"[,\s]+", configured)))
    if len(uris) > 1:
        yield note(
            f"{len(uris)} addresses are configured: {', '.join(uris)}. Only one of them was asked",
            "make sure that all of them work on one database: a second database is a second table on the same files",
        )
    else:
        yield ok("one address is configured")


def switch_time(subject: Subject) -> Iterable[Finding]:
    opened = subject.opened
    config = opened.config
    if not opened.metastore.switches_at_once(opened.table):
        yield ok(
            f"a switch is one call for every {GLUE_BATCH} partitions, each of which may take"
            f" {config.metastore_timeout_seconds:g} s; a claim lasts {config.publish_timeout_seconds:g} s, and what is"
            " not switched by then is left in doubt"
        )
        return
    count = len(opened.metastore.get_partition_names(opened.table.name)) if opened.table.partition_columns else 1
    version = re.match(r"\d+", subject.version())
    measured_seconds = SECONDS_PER_PARTITION.get(int(version[0])) if version else None
    seconds = count * (measured_seconds or SLOWEST_SECONDS_PER_PARTITION)
    call, publish = config.metastore_timeout_seconds, config.publish_timeout_seconds
    says = f"{counted(count, 'partition')}: one switch of all of them takes about {seconds:.1f} s"
    if 2 * seconds <= call:
        yield ok(f"{says}, and may take {call:g} s; a claim lasts {publish:g} s")
        return
    wanted_seconds = min(int(4 * seconds) + 1, (LONGEST_TIMEOUT_SECONDS - 5) // 2)
    yield warning(
        f"{says}, which is close to or above the timeout of {call:g} s: after it the outcome is unknown",
        f"set metastore_timeout_seconds={wanted_seconds} and"
        f" publish_timeout_seconds={max(2 * wanted_seconds + 5, int(publish))}, or write fewer partitions at a time",
    )


def characters(subject: Subject) -> Iterable[Finding]:
    """Look for partitions whose values the metastore's database has lost, and try odd values if that is allowed."""
    opened = subject.opened
    try:
        subject.partitions()
    except MetastoreError as failure:
        if CAUSE not in failure.message:
            raise
        yield error(failure.message, STORE_UTF8)
        return
    if not any(column.type.startswith(TEXTS) for column in opened.table.partition_columns):
        yield ok("no partition column holds text")
        return
    if not subject.scratch_table:
        yield ok("all partitions have the values that they are listed by; other values are tried by --scratch-table")
        return
    with _probe(subject) as probe:
        probe.put("object", b"probe")  # without it the metastore would make the directory
        location = str(opened.layout.root.beside(probe.directory))
        try:
            opened.metastore.try_values(opened.table, location, [ODD_VALUE])
            yield ok(f"the metastore keeps {ODD_VALUE}")
        except MetastoreError as failure:
            if CAUSE not in failure.message:
                raise
            yield error(failure.message, STORE_UTF8)
        for difference, values in ALIKE.items():
            try:
                opened.metastore.try_values(opened.table, location, values)
            except (RefusedError, PartitionExistsError) as failure:
                yield note(f"values that differ only in {difference} are one to the metastore, and refused: {failure}")
