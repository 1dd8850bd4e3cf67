"""Which files of a location are this library's."""

from __future__ import annotations

import pytest

from table_writer.log.files import is_named_by_us
from table_writer.model.location import Location
from table_writer.model.write import new_write_id

from .test_rules import LAYOUT, THEIRS, at


@pytest.mark.parametrize(
    ("name", "location", "ours"),
    [
        (f"part-00000-{new_write_id()}-0.parquet", THEIRS, True),
        ("part-00000-run-42-0.parquet", at("run-42"), True),
        ("part-00000-run-42-0.parquet", at("run-43"), False),
        ("part-00000-run-42-0.parquet", THEIRS, False),
    ],
)
def test_a_file_is_named_by_us_if_it_bears_an_id_or_the_name_that_a_caller_gave_the_write(
    name: str, location: str, ours: bool
) -> None:
    there = Location.parse(location)
    assert is_named_by_us(f"{there.key}{name}", there, LAYOUT) is ours
