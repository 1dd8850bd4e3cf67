"""Which ages a vacuum may be asked for: what the table says, what is safe, what must be forced."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from table_writer.checked import require_age
from table_writer.errors import InvalidInputError
from table_writer.model.table import RETENTION_PROPERTY
from table_writer.services import TableServices

__all__ = ["SAFE_AGE", "require_safe", "vacuum_age"]

SAFE_AGE: Final = timedelta(hours=24)  # calls in flight and running queries must find their files


def vacuum_age(services: TableServices, older_than: timedelta | None, *, force: bool) -> timedelta | None:
    """Return the age that is asked for, else the table's; ``None``: each location's own retention."""
    services.require_properties()  # a retention that is spelled wrong would let files go too early
    of_table = services.hours_property(RETENTION_PROPERTY)
    if older_than is None:
        if of_table is not None:
            require_safe(services, of_table, SAFE_AGE, force=force)
        return of_table
    require_safe(services, older_than, max(SAFE_AGE, of_table or SAFE_AGE), force=force)
    return older_than


def require_safe(services: TableServices, age: timedelta, least: timedelta, *, force: bool) -> None:
    """Refuse an age that is too low, unless it is forced."""
    require_age("older_than", age)
    if age < least and not force:
        raise InvalidInputError(
            f"an age of {age} is less than {least}: running queries, and calls that the metastore has not applied yet,"
            f" could lose their files. If none is left of {services.table.name}, force it.",
            table=str(services.table.name),
        )
