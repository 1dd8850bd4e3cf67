"""Types matched by name, down into structs, arrays and maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from table_writer.model.schema_mode import SchemaMode
from table_writer.plan.limits import NOT_NULL, Expression, Rule, enforced, in_array, in_struct
from table_writer.plan.table_schema import plain_type
from table_writer.plan.type_pairs import Match, match_values

__all__ = ["match"]


def match(given: StructField, wanted: StructField, path: str, mode: SchemaMode) -> Match:
    """Return how a column, field or element of the DataFrame becomes one of the table.

    Parameters
    ----------
    given
        As the DataFrame has it, with strings for ``char(n)`` and ``varchar(n)``.
    wanted
        As the table has it, with ``char(n)`` and ``varchar(n)`` as types.
    path
        How messages name it.
    mode
        Whether fields may be missing.
    """
    inner = _match_types(given.dataType, wanted.dataType, path, mode)
    if wanted.nullable or not given.nullable or inner.problems:
        return inner
    rule = Rule(
        column=path,
        rule=NOT_NULL,
        verdict="are null",
        offender=lambda column: F.when(column.isNull(), F.lit("null")),
    )
    return replace(inner, convert=enforced(rule, inner.convert or _untouched), rules=(rule, *inner.rules))


def _untouched(column: Column) -> Column:
    return column


def _match_types(given: DataType, wanted: DataType, path: str, mode: SchemaMode) -> Match:
    pair = (type(given), type(wanted))
    nested: Callable[[DataType, DataType, str, SchemaMode], Match] | None = NESTED.get(pair)
    return nested(given, wanted, path, mode) if nested is not None else match_values(given, wanted, path)


def _match_structs(given: StructType, wanted: StructType, path: str, mode: SchemaMode) -> Match:
    fields = {field.name.lower(): field for field in given}
    found = {field.name: fields[field.name.lower()] for field in wanted if field.name.lower() in fields}
    absent = [field for field in wanted if field.name not in found]
    matches = {
        field.name: match(found[field.name], field, f"{path}.{field.name}", mode)
        for field in wanted
        if field.name in found
    }
    problems = _field_problems(given, wanted, path, mode) + tuple(
        problem for inner in matches.values() for problem in inner.problems
    )
    filled = tuple(f"{path}.{field.name}" for field in absent) + tuple(
        name for inner in matches.values() for name in inner.filled
    )
    rules = tuple(in_struct(rule, found[name].name) for name, inner in matches.items() for rule in inner.rules)
    untouched = given.names == wanted.names and all(inner.convert is None for inner in matches.values())

    def convert(column: Column) -> Column:
        parts = [
            (matches[field.name].convert or _untouched)(column.getField(found[field.name].name))
            if field.name in found
            else F.lit(None).cast(plain_type(field.dataType))
            for field in wanted
        ]
        named = [part.alias(field.name) for part, field in zip(parts, wanted, strict=True)]
        return F.when(column.isNotNull(), F.struct(*named))

    return Match(convert=None if untouched else convert, rules=rules, problems=problems, filled=filled)


def _field_problems(given: StructType, wanted: StructType, path: str, mode: SchemaMode) -> tuple[str, ...]:
    names = [field.name.lower() for field in given]
    twice = (f"struct {path} has fields that differ only by case",) if len(set(names)) < len(names) else ()
    absent = tuple(
        f"field {path}.{field.name} is missing" + ("" if field.nullable else ", and is NOT NULL in the table")
        for field in wanted
        if field.name.lower() not in names and not (mode.fills and field.nullable)
    )
    known = {field.name.lower() for field in wanted}
    extra = [f"{path}.{field.name}" for field in given if field.name.lower() not in known]
    if extra and mode is SchemaMode.EVOLVE:
        problem = (
            f"column {path} is {given.simpleString()} in the DataFrame and {wanted.simpleString()} in the table:"
            f" fields ({', '.join(extra)}) cannot be added inside a struct of a Hive table; leave them out, or give"
            " them as a column of their own"
        )
        return (*twice, *absent, problem)
    return (*twice, *absent, *(f"field {name} is not in the table" for name in extra))


def _match_arrays(given: ArrayType, wanted: ArrayType, path: str, mode: SchemaMode) -> Match:
    inner = match(_element(given), _element(wanted), f"{path}.element", mode)
    return replace(
        inner,
        convert=None if inner.convert is None else _each(inner.convert),
        rules=tuple(in_array(rule) for rule in inner.rules),
    )


def _element(kind: ArrayType) -> StructField:
    return StructField("element", kind.elementType, kind.containsNull)


def _each(convert: Expression) -> Expression:
    return lambda column: F.transform(column, lambda item: convert(item))  # noqa: PLW0108  # Spark counts parameters


def _match_maps(given: MapType, wanted: MapType, path: str, mode: SchemaMode) -> Match:
    key = match(
        StructField("key", given.keyType, nullable=False),
        StructField("key", wanted.keyType, nullable=False),
        f"{path}.key",
        mode,
    )
    value = match(
        StructField("value", given.valueType, given.valueContainsNull),
        StructField("value", wanted.valueType, wanted.valueContainsNull),
        f"{path}.value",
        mode,
    )
    of_key, of_value = key.convert, value.convert

    def convert(column: Column) -> Column:
        values = column if of_value is None else F.transform_values(column, lambda _, item: of_value(item))
        return values if of_key is None else F.transform_keys(values, lambda item, _: of_key(item))

    return Match(
        convert=None if of_key is None and of_value is None else convert,
        rules=(
            *(in_array(rule, F.map_keys) for rule in key.rules),
            *(in_array(rule, F.map_values) for rule in value.rules),
        ),
        problems=key.problems + value.problems,
        filled=key.filled + value.filled,
    )


NESTED: Final[dict[tuple[type[DataType], type[DataType]], Callable[..., Match]]] = {
    (StructType, StructType): _match_structs,
    (ArrayType, ArrayType): _match_arrays,
    (MapType, MapType): _match_maps,
}
