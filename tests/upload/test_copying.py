"""Copies asked for by executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from table_writer.errors import StorageError
from table_writer.protocol.operations.append import CopyFiles
from table_writer.spark import open_gateway
from table_writer.spark.executors import ITEMS_PER_TASK, Executors
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.local.store import LocalStore
from table_writer.storage.object_store import ObjectInfo, SourceChangedError
from table_writer.testing import Lakehouse

FILES = ITEMS_PER_TASK + 20


def listed(directory: Path, count: int) -> dict[str, ObjectInfo]:
    (directory / "old").mkdir()
    for number in range(count):
        (directory / "old" / f"part-{number}").write_text(f"{number}")
    store, prefix = LocalStore(), str(directory)[1:]
    return {found.key.replace("/old/", "/new/"): found for found in store.list(f"{prefix}/old/")}


def copies(spark: SparkSession, counts: Counter[str], *, many: int = 1) -> CopyFiles:
    def never(_: Mapping[str, ObjectInfo]) -> None:
        raise AssertionError("the driver was asked")

    executors = Executors(open_gateway(spark), LocalSettings(), "w-1", counts.update)
    return partial(executors.copy, few=never, many=many)


def test_executors_make_every_copy_and_the_driver_counts_their_requests(lakehouse: Lakehouse, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    wanted = listed(tmp_path, FILES)
    copies(lakehouse.spark, counts)(wanted)
    made = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert made == {f"part-{number}": f"{number}" for number in range(FILES)}
    assert counts["CopyObject"] == FILES


def test_few_copies_stay_on_the_driver(lakehouse: Lakehouse, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the driver was asked"):
        copies(lakehouse.spark, Counter(), many=10)(listed(tmp_path, 9))


def test_a_source_that_changed_is_told_apart_from_a_failure(lakehouse: Lakehouse, tmp_path: Path) -> None:
    wanted = listed(tmp_path, 3)
    (tmp_path / "old" / "part-1").write_text("other rows")
    with pytest.raises(SourceChangedError):
        copies(lakehouse.spark, Counter())(wanted)
    (tmp_path / "old" / "part-1").unlink()
    (tmp_path / "new" / "part-2").unlink(missing_ok=True)
    with pytest.raises(SourceChangedError):
        copies(lakehouse.spark, Counter())(wanted)


def test_a_failing_copy_is_the_store_s_error_on_the_driver_too(lakehouse: Lakehouse, tmp_path: Path) -> None:
    wanted = listed(tmp_path, 2)
    (tmp_path / "new").write_text("a file where a directory is wanted")
    with pytest.raises(StorageError):
        copies(lakehouse.spark, Counter())(wanted)
