"""Files are compared with the table by their footers: readers of mirrors go by exact names, or by ids.

Hive's and Spark's readers go by names in any case. A file that this library has written has the columns of the table,
as they were spelled then. So footers are read of files of other tools, and of all files where a mirror is made,
compared or mended.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from table_writer.errors import InvalidInputError, few
from table_writer.mirrors.mirror import Mirror, MirrorChange, MirroredFile, MirroredTable
from table_writer.model.message import write_id_in
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.footers import ELEMENT, KEY, VALUE, Names, Path, names_of, paths_of, read_footer
from table_writer.storage.object_store import ObjectInfo, many

BATCH: Final = 64  # of footers, before a look at what they say
SPARKS_ID: Final = "parquet.field.id"  # of a column of a table: this library's files have it, too


class Footers:
    """The footers of one table's files."""

    def __init__(self, opened: OpenTable, mirror: Mirror) -> None:
        self._opened = opened
        self._mirror = mirror

    def read(
        self, change: MirrorChange, listed: Iterable[ObjectInfo], *, of_all: bool, to_the_end: bool = False
    ) -> MirrorChange:
        """Return a change with what the footers of its files say; of our own files, they are read if ``of_all``.

        The first files that cannot be shown are enough, unless ``to_the_end``.
        """
        infos = {info.key: info for info in listed}
        of_all = of_all or SPARKS_ID in json.dumps(change.table.fields)
        files = [file for found in (*change.partitions.values(), *change.added.values()) for file in found]
        unread = [file for file in files if of_all or not self._is_ours(file.key, change.write_id)]
        wanted, seen, paths = _names_in(change.table), dict[str, MirroredFile](), set[Path]()
        for start in range(0, len(unread), BATCH):
            batch = unread[start : start + BATCH]
            for file, (found, others) in zip(batch, many(partial(self._compared, infos, wanted), batch), strict=True):
                seen[file.key] = found
                paths |= others
            if not to_the_end and any(seen[file.key].unfit for file in batch):
                break

        def known(partitions: Mapping[Any, Collection[MirroredFile]]) -> dict[Any, tuple[MirroredFile, ...]]:
            return {key: tuple(seen.get(file.key, file) for file in files) for key, files in partitions.items()}

        return replace(
            change, partitions=known(change.partitions), added=known(change.added), paths=change.paths | paths
        )

    def _is_ours(self, key: str, write_id: str) -> bool:
        """Return whether a file bears the name of a write of this library."""
        own = self._opened.layout.all_data.key
        directory = key.removeprefix(own).partition("/")[0] if key.startswith(own) else write_id
        return write_id_in(key.rpartition("/")[2], (directory, write_id)) is not None

    def _compared(
        self, infos: Mapping[str, ObjectInfo], wanted: Names, file: MirroredFile
    ) -> tuple[MirroredFile, frozenset[Path]]:
        """Return a file with what its footer says, and what is in it and not so in the table."""
        info = infos.get(file.key) or self._opened.store.head(file.key)
        footer = None if info is None else read_footer(self._opened.store, info)
        if footer is None:  # no Parquet, or encrypted: as readers of the table, those of the mirror cannot read it
            return file, frozenset()
        there = names_of(footer.schema)
        why = self._mirror.why_unfit(wanted, there, has_ids=footer.has_ids)
        rows = footer.row_count if file.rows is None else file.rows
        return replace(file, rows=rows, unfit=why), frozenset(paths_of(there)) - frozenset(paths_of(wanted))


def require_fit(opened: OpenTable, kind: str, change: MirrorChange) -> None:
    """Refuse a change with files that a mirror cannot show."""
    unfit = change.unfit
    if not unfit:
        return
    name, file = opened.table.name, next(iter(unfit.values()))[0]
    raise InvalidInputError(
        f"{str(opened.layout.root.beside(file.key)).rstrip('/')} of {name} {file.unfit}."
        f" {advice(opened, kind, change)}: `table-writer mirror {name} --as {kind} --check` names all such files",
        table=str(name),
    )


def advice(opened: OpenTable, kind: str, change: MirrorChange) -> str:
    """Say what to do so that a mirror can show all files of a change."""
    if kind == "iceberg" and SPARKS_ID in json.dumps(change.table.fields):
        return f"Columns of the table have ids ({SPARKS_ID}), so its files do: a Delta mirror goes by their names"
    names = few(opened.partition_names(change.unfit)) if change.table.partition_columns else "the table"
    return f"Overwrite {names} with its own rows by this library"


def names_in_fields(fields: Iterable[Mapping[str, Any]]) -> Names:
    """Return the names of columns in Spark's JSON, and of those inside them.

    Examples
    --------
    >>> names_in_fields([{"name": "a", "type": {"type": "array", "elementType": "long"}}])
    {'a': {'element': {}}}
    """
    return {str(field["name"]): _names_in_type(field["type"]) for field in fields}


def _names_in_type(kind: Any) -> Names:
    if isinstance(kind, str):
        return {}
    if kind["type"] == "struct":
        return names_in_fields(kind["fields"])
    if kind["type"] == "udt":
        return _names_in_type(kind["sqlType"])
    inner = {ELEMENT: "elementType", KEY: "keyType", VALUE: "valueType"}
    return {name: _names_in_type(kind[told]) for name, told in inner.items() if told in kind}


def _names_in(table: MirroredTable) -> Names:
    """Return the names of what files hold: not those of partitions."""
    return names_in_fields(table.fields[: len(table.fields) - len(table.partition_columns)])
