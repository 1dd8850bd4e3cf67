"""Which columns and types go together, told without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    VariantType,
)

from table_writer.jobs.plan.fit import added_field, addition_problems, match
from table_writer.jobs.plan.types import CHAR_VARCHAR, Match, unstorable
from table_writer.model.new_table import SchemaMode

A_AND_B = StructType([StructField("a", IntegerType()), StructField("b", StringType())])
ONLY_A = StructType([StructField("a", IntegerType())])
TABLE = StructType([StructField("id", LongType()), StructField("dt", StringType())])


def matched(given: DataType, wanted: DataType, mode: SchemaMode = SchemaMode.STRICT) -> Match:
    return match(StructField("c", given), StructField("c", wanted), "c", mode)


@pytest.mark.parametrize(
    "kind", [IntegerType(), A_AND_B, ArrayType(A_AND_B), MapType(StringType(), ArrayType(DecimalType(9, 2)))], ids=str
)
def test_a_type_that_fits_is_passed_through_untouched(kind: DataType) -> None:
    assert matched(kind, kind) == Match()


def test_nulls_allowed_in_one_of_two_types_is_no_difference() -> None:
    assert matched(ArrayType(IntegerType(), containsNull=False), ArrayType(IntegerType())).convert is None


@pytest.mark.parametrize("wrap", [lambda kind: kind, ArrayType, lambda kind: MapType(StringType(), kind)])
def test_a_missing_field_is_an_error_unless_asked_to_be_null(wrap: type[ArrayType]) -> None:
    strict = matched(wrap(ONLY_A), wrap(A_AND_B))
    assert len(strict.problems) == 1
    assert strict.problems[0].endswith(".b is missing")
    for mode in (SchemaMode.ALLOW_MISSING, SchemaMode.EVOLVE):
        found = matched(wrap(ONLY_A), wrap(A_AND_B), mode)
        assert found.problems == ()
        assert [name.rpartition(".")[2] for name in found.filled] == ["b"]


@pytest.mark.parametrize("mode", SchemaMode)
def test_a_missing_field_that_is_not_null_is_an_error_in_every_mode(mode: SchemaMode) -> None:
    wanted = StructType([StructField("a", IntegerType()), StructField("b", StringType(), nullable=False)])
    (problem,) = matched(ONLY_A, wanted, mode).problems
    assert problem == "field c.b is missing, and is NOT NULL in the table"


def test_a_new_field_inside_a_struct_is_refused_with_both_types_and_the_way_out() -> None:
    (problem,) = matched(A_AND_B, ONLY_A, SchemaMode.EVOLVE).problems
    assert "struct<a:int,b:string> in the DataFrame and struct<a:int> in the table" in problem
    assert "a column of their own" in problem
    assert matched(A_AND_B, ONLY_A, SchemaMode.ALLOW_MISSING).problems == ("field c.b is not in the table",)


def test_fields_that_differ_only_by_case_are_refused() -> None:
    twice = StructType([StructField("a", IntegerType()), StructField("A", IntegerType())])
    assert matched(twice, ONLY_A).problems == ("struct c has fields that differ only by case",)


def test_a_scale_that_shrinks_is_refused_with_the_way_to_round() -> None:
    (problem,) = matched(DecimalType(10, 4), DecimalType(12, 2)).problems
    assert "decimal(10,4) in the DataFrame and decimal(12,2) in the table" in problem
    assert "F.round('c', 2).cast('decimal(12,2)')" in problem


def test_a_cast_is_advised_only_where_there_is_one() -> None:
    pair = "column c is string in the DataFrame and {} in the table"
    assert matched(StringType(), LongType()).problems == (pair.format("bigint") + "; cast it",)
    assert matched(StringType(), ArrayType(LongType())).problems == (pair.format("array<bigint>"),)


def test_only_what_may_break_a_rule_is_checked() -> None:
    assert matched(DecimalType(10, 2), DecimalType(12, 2)).rules == ()
    assert matched(IntegerType(), DecimalType(12, 2)).rules == ()
    assert [rule.rule for rule in matched(IntegerType(), DecimalType(11, 2)).rules] == ["decimal(11,2)"]
    sure = StructField("c", IntegerType(), nullable=False)
    assert match(sure, sure, "c", SchemaMode.STRICT) == Match()
    assert [rule.rule for rule in match(StructField("c", IntegerType()), sure, "c", SchemaMode.STRICT).rules] == [
        "NOT NULL"
    ]


@pytest.mark.parametrize("kind", [VariantType(), ArrayType(NullType()), MapType(StringType(), VariantType())], ids=str)
def test_a_type_that_no_table_of_ours_holds_is_named(kind: DataType) -> None:
    (problem,) = unstorable(kind, "c")
    assert "column c" in problem


def test_a_new_column_keeps_its_comment_and_text_limit_and_may_be_null() -> None:
    given = StructField("c", StringType(), nullable=False, metadata={"comment": "x", CHAR_VARCHAR: "char", "other": 1})
    plain = added_field(StructField("c", given.dataType, given.nullable, {"comment": "x", "other": 1}))
    assert plain == StructField("c", StringType(), nullable=True, metadata={"comment": "x"})
    inside = ArrayType(StructType([StructField("a", IntegerType(), nullable=False)]), containsNull=False)
    assert added_field(StructField("c", inside)).dataType == ArrayType(ONLY_A)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (StructField("a,b", IntegerType()), "Hive cannot keep"),
        (StructField("", IntegerType()), "Hive cannot keep"),
        (StructField("  ", IntegerType()), "Hive cannot keep"),
        (StructField("a\nb", IntegerType()), "Hive cannot keep"),
        (StructField("a b", IntegerType()), "Hive cannot keep"),
        (StructField("x" * 768, IntegerType()), "Hive cannot keep"),
        (StructField("c", ArrayType(StructType([StructField("a:b", IntegerType())]))), "field 'a:b' inside"),
        (StructField("c", NullType()), "cast it"),
        (StructField("c", VariantType()), "variant"),
        (StructField("c", StringType("UTF8_LCASE")), "collation"),
        (StructField("c", ArrayType(TimestampNTZType())), "cast it to timestamp"),
    ],
    ids=str,
)
def test_a_column_that_a_hive_table_cannot_get_is_refused(field: StructField, reason: str) -> None:
    problems = addition_problems(field, TABLE)
    assert len(problems) == 1
    assert reason in problems[0]


@pytest.mark.parametrize("name", ["c", "Über", "a.b", "a:b", "x" * 767, "1", "日本"])
def test_any_other_name_is_taken(name: str) -> None:
    assert addition_problems(StructField(name, BinaryType()), TABLE) == ()


def test_a_table_with_timestamp_ntz_can_get_another() -> None:
    schema = StructType([StructField("at", TimestampNTZType()), *TABLE])
    assert addition_problems(StructField("c", TimestampNTZType()), schema) == ()
