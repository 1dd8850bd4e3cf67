"""What a plan reads, asked of doubles of Java's objects: what it costs, and what it must not show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from table_writer.events import Source
from table_writer.spark.classic import MOST_LEAVES, MOST_PATHS, ClassicSpark, _sources


class Sequence:
    """One of Scala's, that counts how often it is asked for an item."""

    def __init__(self, item: Any, count: int) -> None:
        self.item = item
        self.count = count
        self.asked = 0

    def size(self) -> int:
        return self.count

    def apply(self, position: int) -> Any:
        assert position < self.count
        self.asked += 1
        return self.item


def relation_of(paths: Sequence) -> Any:
    """Return a leaf that reads files by their paths."""
    kinds = {
        name: SimpleNamespace(getSimpleName=lambda name=name: name) for name in ("LogicalRelation", "HadoopFsRelation")
    }
    location = SimpleNamespace(rootPaths=lambda: paths)
    relation = SimpleNamespace(getClass=lambda: kinds["HadoopFsRelation"], location=lambda: location)
    return SimpleNamespace(
        getClass=lambda: kinds["LogicalRelation"],
        catalogTable=lambda: SimpleNamespace(isDefined=lambda: False),
        relation=lambda: relation,
    )


def test_a_relation_of_very_many_paths_is_asked_for_a_hundred() -> None:
    paths = Sequence("s3a://lake/in", 100_000)
    assert len(_sources(relation_of(paths))) == MOST_PATHS
    assert paths.asked == MOST_PATHS


def test_a_plan_of_very_many_leaves_is_asked_for_a_thousand() -> None:
    leaves = Sequence(relation_of(Sequence("s3a://lake/in", 1)), 100_000)
    plan = SimpleNamespace(collectLeaves=lambda: leaves, subqueriesAll=lambda: Sequence(None, 0))
    rows: Any = SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: plan)))
    gateway: Any = SimpleNamespace()
    assert ClassicSpark.sources(gateway, rows) == (Source("", "s3a://lake/in"),)
    assert leaves.asked == MOST_LEAVES


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("s3a://AKIA1:hu/sh@lake/in", "s3a://lake/in"),
        ("ftp://me:hush@host/in", "ftp://host/in"),
        ("abfss://box@one.dfs.core.windows.net/in", "abfss://box@one.dfs.core.windows.net/in"),
        ("hdfs://name:8020/a@b:c@d", "hdfs://name:8020/a@b:c@d"),
    ],
)
def test_a_path_is_shown_without_a_password(path: str, shown: str) -> None:
    assert _sources(relation_of(Sequence(path, 1))) == [Source("", shown)]
