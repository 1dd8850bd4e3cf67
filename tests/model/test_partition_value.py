"""Which texts are one value, without Spark; ``tests/end_to_end/test_spellings.py`` asks Spark about the same texts."""

from __future__ import annotations

import pickle
from collections import defaultdict

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.partition_value import Spellings, canonical, has_spellings
from table_writer.model.table import NULL_PARTITION

from .partition_texts import ONE_VALUE, TEXTS, ZONE


@pytest.mark.parametrize("kind", ONE_VALUE)
def test_texts_are_one_value_as_in_spark(kind: str) -> None:
    found = defaultdict(set)
    for text in TEXTS:
        found[canonical((text,), (kind,), ZONE)].add(text)
    found.pop((NULL_PARTITION,))
    assert set(map(frozenset, found.values())) == set(map(frozenset, ONE_VALUE[kind]))


@pytest.mark.parametrize("kind", ["string", "varchar(5)", "binary", "time(6)", "interval day to second", ""])
def test_each_text_of_other_types_is_a_value_of_its_own(kind: str) -> None:
    assert not has_spellings([kind])
    assert [canonical((text,), (kind,)) for text in TEXTS] == [(text,) for text in TEXTS]


def test_blanks_that_fill_a_char_up_do_not_count() -> None:
    one, other, cut = (canonical((text,), ("char(5)",)) for text in ("ab", "ab   ", "ab    "))
    assert one == other != cut
    assert has_spellings(["string", "char(5)"])


def test_a_time_without_a_zone_needs_no_session_and_one_with_a_zone_does() -> None:
    assert canonical(("2024-1-1",), ("timestamp",)) == ("2024-01-01 00:00:00",)
    for unknown in ("", "Europe/Nowhere"):
        with pytest.raises(InvalidInputError, match="has a time zone"):
            canonical(("2024-01-01 00:00:00Z",), ("timestamp",), unknown)
    assert canonical(("2024-01-01 00:00:00Z",), ("timestamp_ntz",)) == ("2024-01-01 00:00:00",)
    assert canonical(("2024-01-01 00:00:00 x",), ("timestamp",)) == (NULL_PARTITION,)


def test_a_time_of_today_is_one_value_only_with_the_same_time() -> None:
    texts = ("12:00:00", "T12:00", "12:00:00Z", "12:00:00.5", "12:00:00 x", "2024-01-01 12:00:00")
    found = [canonical((text,), ("timestamp",), "UTC") for text in texts]
    assert found[0] == found[1]
    assert len(set(found)) == len(texts) - 1
    assert found[4] == (NULL_PARTITION,)


def test_an_empty_text_is_null() -> None:
    assert canonical(("", NULL_PARTITION), ("string", "int")) == (NULL_PARTITION, NULL_PARTITION)


def test_spellings_find_a_partition_however_it_is_spelled_also_in_another_process() -> None:
    spellings = Spellings.of([("01", "x"), ("2", "x")], ("int", "string"))
    for one in (spellings, pickle.loads(pickle.dumps(spellings))):  # noqa: S301  # our own
        assert one.get(("1", "x"), ("1", "x")) == ("01", "x")
        assert one.get(("1", "y"), ("1", "y")) == ("1", "y")
        assert ("+2", "x") in one
        assert ("3", "x") not in one


def test_only_what_spark_spells_differently_is_kept() -> None:
    existing = [("01", "2024-01-01"), ("2", "2024-01-01"), (NULL_PARTITION, "2024-01-01"), ("3", "2024-1-1")]
    spellings = Spellings.of(existing, ("int", "date")).unusual()
    assert {found for all_of_one in spellings.names.values() for found in all_of_one} == {existing[0], existing[3]}


@pytest.mark.parametrize(
    ("kind", "text"), [("double", "1e+20"), ("double", "double 0x1.0p+0"), ("decimal(9,7)", "0.0000001")]
)
def test_what_spark_may_spell_in_two_ways_is_kept(kind: str, text: str) -> None:
    assert Spellings.of([(text,)], (kind,)).unusual().names


def test_two_partitions_of_one_value_are_refused_and_those_of_null_only_where_they_matter() -> None:
    with pytest.raises(InvalidInputError, match=r"twice, as \('01',\) and \('1',\)"):
        Spellings.of([("01",), ("1",)], ("int",)).require_clear()
    nulls = Spellings.of([("abc",), ("xyz",), ("1",)], ("int",))
    nulls.require_clear()
    assert nulls.get(("1",), ("1",)) == ("1",)
    with pytest.raises(InvalidInputError, match=r"'abc'.*'xyz'"):
        nulls.unusual().get((NULL_PARTITION,), (NULL_PARTITION,))
