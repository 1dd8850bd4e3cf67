"""Settings that change what is in a Parquet file, and what becomes of each: one table.

The planner acts by it, the documentation shows it, and a test compares it with files that Spark has written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from table_writer.errors import InvalidInputError, few
from table_writer.model.table import Table
from table_writer.model.units import MIB
from table_writer.model.upload_spec import PROTECTING, PerColumn

FACTORY: Final = "parquet.crypto.factory.class"
KEYS: Final = ("footer.key", "column.keys", "uniform.key")
KEY_NAMES: Final = frozenset(f"parquet.encryption.{name}" for name in KEYS)
KEYS_INSIDE: Final = "parquet.encryption.key.material.store.internally"
ON_A_RUNNING_SESSION: Final = "spark.hadoop."  # Spark takes it for Hadoop's only when it starts


class Outcome(Enum):
    """The ways in which Arrow can treat a setting."""

    SAME = "follows it"
    NOTE = "ignores it (note)"
    SPARK = "leaves the table to Spark's own writer"
    NOTHING = "nothing: files do not depend on them"


@dataclass(frozen=True, slots=True)
class ParquetSetting:
    """A setting, and what becomes of it; a name that ends in a dot stands for all that begin so."""

    name: str
    outcome: Outcome
    meaning: str
    passed_over: Callable[[str], bool] | None = None
    """The values that are not followed, of a setting that is followed otherwise; ``None``: the outcome is for all."""
    per_column: bool = False  # also as ``name#column``

    def is_passed_over(self, value: str) -> bool:
        """Return whether files are others than Spark's would be, and a note has to say so."""
        if self.passed_over is not None:
            return self.passed_over(value)
        return self.outcome is Outcome.NOTE


def _above_a_mib(value: str) -> bool:
    return value.isdecimal() and int(value) > MIB


def _is_on(value: str) -> bool:
    return value.lower() == "true"


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value.lower() in values


def _is_not(*values: str) -> Callable[[str], bool]:
    return lambda value: value.lower() not in values


def _settings() -> Iterator[ParquetSetting]:
    for prefix in PROTECTING:
        yield ParquetSetting(prefix, Outcome.SPARK, "encryption")
    yield from _followed_settings()
    yield from _settings_passed_over()
    for meaning, names in NOTHING_IN_A_FILE.items():
        yield from (ParquetSetting(name, Outcome.NOTHING, meaning) for name in names)


def _followed_settings() -> Iterator[ParquetSetting]:
    same = Outcome.SAME
    lz4 = "the codec; `lz4` becomes `lz4_raw`, with a note"
    for name in ("compression", "parquet.compression", "spark.sql.parquet.compression.codec"):
        yield ParquetSetting(name, same, lz4, _is("lz4"))
    for name in ("parquet.compression.codec.zstd.level", "compression.brotli.quality"):
        yield ParquetSetting(name, same, "the codec's level")
    yield ParquetSetting("parquet.block.size", same, "bytes of a row group, before encoding")
    yield ParquetSetting("parquet.block.row.count.limit", same, "rows of a row group")
    at_most = "above 1 MiB it is 1 MiB, with a note"
    yield ParquetSetting("parquet.page.size", same, f"bytes of a page; {at_most}", _above_a_mib)
    yield ParquetSetting("parquet.dictionary.page.size", same, f"bytes of a dictionary; {at_most}", _above_a_mib)
    yield ParquetSetting("parquet.enable.dictionary", same, "dictionaries, where they pay", per_column=True)
    yield ParquetSetting("parquet.page.write-checksum.enabled", same, "a checksum of each page, on by default")
    yield ParquetSetting("parquet.writer.version", same, "the version of pages; encodings stay those of version 1")
    yield ParquetSetting("parquet.column.statistics.enabled", same, "smallest and largest value", per_column=True)
    yield ParquetSetting("spark.sql.parquet.outputTimestampType", same, "unit and encoding of TIMESTAMP")
    yield ParquetSetting("spark.sql.parquet.writeLegacyFormat", same, "the form of decimals, not of arrays and maps")
    yield ParquetSetting("spark.sql.parquet.fieldId.write.enabled", same, "ids of columns, from `parquet.field.id`")


def _settings_passed_over() -> Iterator[ParquetSetting]:
    note, bloom = Outcome.NOTE, "Bloom filters"
    yield ParquetSetting("parquet.bloom.filter.enabled", note, bloom, _is_on, per_column=True)
    yield ParquetSetting("parquet.bloom.filter.adaptive.enabled", note, bloom, _is_on)
    for name in ("expected.ndv", "fpp"):
        yield ParquetSetting(f"parquet.bloom.filter.{name}", note, bloom, per_column=True)
    for name in ("max.bytes", "candidates.number"):
        yield ParquetSetting(f"parquet.bloom.filter.{name}", note, bloom, per_column=name == "candidates.number")
    of_pages = "length of minimum and maximum of pages"
    yield ParquetSetting("parquet.columnindex.truncate.length", note, of_pages, _is_not("64"))
    in_footer = "length of minimum and maximum in the footer"
    yield ParquetSetting("parquet.statistics.truncate.length", note, in_footer, _is_not(str(2**31 - 1)))
    sizes = ParquetSetting("parquet.size.statistics.enabled", note, "histograms of levels", _is("false"))
    yield ParquetSetting(sizes.name, note, sizes.meaning, sizes.passed_over, per_column=True)
    yield ParquetSetting("parquet.page.row.count.limit", note, "rows of a page", _is_not("20000"))
    for name in ("size.row.check.min", "size.row.check.max", "size.check.estimate", "value.count.threshold"):
        yield ParquetSetting(f"parquet.page.{name}", note, "how often the size of a page is checked")
    yield ParquetSetting("parquet.enable.bytestreamsplit", note, "an encoding", _is_not("false"), per_column=True)
    yield ParquetSetting("parquet.writer.max-padding", note, "gaps before row groups, for HDFS")
    summaries = "files beside the data, `_metadata`"
    yield ParquetSetting("parquet.enable.summary-metadata", note, summaries, _is_on)
    yield ParquetSetting("parquet.summary.metadata.level", note, summaries, _is_not("none"))
    old = "the old calendar for dates and times before 1582"
    for name in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
        for prefix in ("spark.sql.parquet.", "spark.sql.legacy.parquet."):
            yield ParquetSetting(f"{prefix}{name}", note, old, _is("legacy"))


NOTHING_IN_A_FILE: Final[Mapping[str, tuple[str, ...]]] = {
    "memory and threads of Java's writer": (
        *("parquet.memory.pool.ratio", "parquet.memory.min.chunk.size"),
        *("parquet.compression.codec.zstd.bufferPool.enabled", "parquet.compression.codec.zstd.workers"),
    ),
    "set by Spark itself": (
        *("parquet.write.support.class", "parquet.read.support.class", "parquet.read.schema", "parquet.read.filter"),
        *("parquet.private.read.filter.predicate", "parquet.private.read.filter.predicate.human.readable"),
        *("parquet.example.schema", "parquet.validation", "parquet.field.id"),
    ),
    "how files are committed": (
        *("spark.sql.parquet.output.committer.class", "spark.sql.parquet.fs."),  # the second is EMR's
    ),
    "VARIANT, which no table here may have": ("spark.sql.parquet.variant.annotateLogicalType.enabled",),
    "how files are read": (
        *("parquet.filter.", "parquet.benchmark.", "parquet.column.index.access", "parquet.decrypt."),
        *("parquet.hadoop.vectored.io.enabled", "parquet.metadata.read.parallelism", "parquet.split.files"),
        *("parquet.page.verify-checksum.enabled", "parquet.read.allocation.size", "parquet.strict.typing"),
        *("parquet.read.bad.record.threshold", "parquet.strings.signed-min-max.enabled"),
        *("parquet.task.side.metadata", "parquet.thrift.string.size.limit"),
        *("spark.sql.legacy.parquet.datetimeRebaseModeInRead", "spark.sql.legacy.parquet.int96RebaseModeInRead"),
        *("spark.sql.legacy.parquet.nanosAsLong", "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"),
        *("spark.sql.parquet.aggregatePushdown", "spark.sql.parquet.binaryAsString"),
        *("spark.sql.parquet.columnarReaderBatchSize", "spark.sql.parquet.datetimeRebaseModeInRead"),
        *("spark.sql.parquet.enableVectorizedReader", "spark.sql.parquet.enableNestedColumnVectorizedReader"),
        *("spark.sql.parquet.enableNullTypeVectorizedReader", "spark.sql.parquet.fieldId.read."),
        *("spark.sql.parquet.filterPushdown", "spark.sql.parquet.filterPushdown."),
        *("spark.sql.parquet.ignoreVariantAnnotation", "spark.sql.parquet.inferTimestampNTZ.enabled"),
        *("spark.sql.parquet.int64AsTimestampMillis", "spark.sql.parquet.int96AsTimestamp"),
        *("spark.sql.parquet.int96RebaseModeInRead", "spark.sql.parquet.int96TimestampConversion"),
        *("spark.sql.parquet.mergeSchema", "spark.sql.parquet.pushdown.inFilterThreshold"),
        *("spark.sql.parquet.reader.", "spark.sql.parquet.recordLevelFilter.enabled"),
        "spark.sql.parquet.respectSummaryFiles",
    ),
}

SETTINGS: Final = tuple(_settings())
BY_NAME: Final[Mapping[str, ParquetSetting]] = {setting.name.lower(): setting for setting in SETTINGS}


def setting_named(name: str) -> ParquetSetting | None:
    """Return what the table says of a name, which may have a column's after a ``#``; ``None`` if it is unknown."""
    plain, _, column = name.partition("#")
    lower = plain.lower()
    setting = BY_NAME.get(lower)
    if setting is None:
        prefixes = (f"{lower[:end]}." for end, letter in enumerate(lower) if letter == ".")
        setting = next((BY_NAME[prefix] for prefix in prefixes if prefix in BY_NAME), None)
    return setting if setting is None or not column or setting.per_column else None


class FileSettings:
    """The Parquet settings of a table and its session: the table wins, and an option of its SerDe over a property.

    Parameters
    ----------
    table
        Whose options and properties are read.
    session
        What Spark's own writer would be given by the session.
    config
        Further settings of Hadoop, of which Spark's own writer knows nothing; they win over the session's.
    """

    def __init__(self, table: Table, session: Mapping[str, str], config: Mapping[str, str] | None = None) -> None:
        self._table = table
        running = {
            name.removeprefix(ON_A_RUNNING_SESSION): value
            for name, value in session.items()
            if name.startswith(ON_A_RUNNING_SESSION)
        }
        known = _by_name(session) | _by_name(table.parameters) | _by_name(table.serde_parameters)
        self._values = _by_name(running | dict(session) | dict(config or {}))
        self._values |= _by_name(table.parameters) | _by_name(table.serde_parameters)
        elsewhere = {name for name in _by_name(running | dict(config or {})) if name not in known}
        otherwise_spelled = {
            name for name in (*session, *table.parameters, *table.serde_parameters) if name.lower() != name
        }
        self._unseen = sorted(name for name in elsewhere | otherwise_spelled if name.lower().startswith(PROTECTING))

    def text(self, *names: str) -> str:
        """Return what is said under the first of the names that says anything; else an empty text."""
        texts = (self._values.get(_key(name), "").strip() for name in names)
        return next((text for text in texts if text), "")

    def of_table(self, *names: str) -> str:
        """Return what the table alone says, where Spark asks the session elsewhere."""
        said = _by_name(self._table.parameters) | _by_name(self._table.serde_parameters)
        return next((said[name].strip() for name in names if said.get(name, "").strip()), "")

    def number(self, name: str, default: int) -> int:
        """Return a number; ``InvalidInputError`` if it is none, or below 1."""
        text = self.text(name) or str(default)
        if not text.isdecimal() or not int(text):
            raise self._invalid(f"{name}={text!r} is not a number of 1 or more")
        return int(text)

    def switch(self, name: str, *, default: bool) -> PerColumn:
        """Return which columns something is on for."""
        prefix = f"{name.lower()}#"
        columns = {key.removeprefix(prefix): key for key in self._values if key.startswith(prefix)}
        return PerColumn(
            usual=self.is_on(name, default=default),
            others=tuple((column, self.is_on(key, default=default)) for column, key in sorted(columns.items())),
        )

    def is_on(self, name: str, *, default: bool) -> bool:
        """Return whether something is on; ``InvalidInputError`` if it is neither on nor off."""
        text = self.text(name).lower() or str(default).lower()
        if text not in {"true", "false"}:
            raise self._invalid(f"{name}={text!r} is neither true nor false")
        return text == "true"

    @property
    def protection(self) -> list[str]:
        """The names of what asks for encryption; values may be keys, and are shown nowhere."""
        return sorted(name for name in self._values if name.startswith(PROTECTING))

    def require_protection(self) -> None:
        """Refuse files that ask for encryption, and that Spark's own writer would write in plain."""
        if not self.protection:
            return
        if self._unseen:
            raise self._invalid(
                f"{few(self._unseen, most=3)} asks for encryption where Spark's own writer does not see it: it would"
                f" write plain files. Set it in lower case, by spark.conf.set without {ON_A_RUNNING_SESSION!r}, or with"
                " it before the session starts"
            )
        keys = [name for name in self.protection if name in KEY_NAMES]
        if keys and not self.text(FACTORY):
            raise self._invalid(
                f"{few(keys, most=3)} asks for encryption, and without {FACTORY} Spark's own writer would write plain"
                " files: set it (org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory), or take the keys"
                " away"
            )
        if self.text(KEYS_INSIDE).lower() == "false":
            raise self._invalid(
                f"{KEYS_INSIDE}=false keeps the keys in files beside the data, which an append or a compaction would"
                " not take along: leave it out"
            )

    def notes(self) -> tuple[str, ...]:
        """Return what a person should know of files that Arrow writes: what they do not follow; no values."""
        passed_over = sorted(name for name, value in self._values.items() if _is_passed_over(name, value.strip()))
        if not passed_over:
            return ()
        names = few(passed_over, most=5)
        return (f"the files of this write do not follow {names}: those of a write with engine='spark' do",)

    def _invalid(self, message: str) -> InvalidInputError:
        name = str(self._table.name)
        return InvalidInputError(f"table {name}: {message}. Nothing was written.", table=name)


def _is_passed_over(name: str, value: str) -> bool:
    setting = setting_named(name)
    if setting is None:
        return name.startswith(("parquet.", "spark.sql.parquet."))
    return setting.is_passed_over(value)


def _by_name(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by their names in lower case; a column's keeps its case."""
    return {_key(name): value or "" for name, value in settings.items()}


def _key(name: str) -> str:
    plain, mark, column = name.partition("#")
    return f"{plain.lower()}{mark}{column}"
