"""Copies inside the store, asked for by executors: for appends to partitions of very many files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from table_writer.storage import SourceChangedError
from table_writer.storage.object_store import ObjectInfo, ObjectStore
from table_writer.upload.on_executors import ITEMS_PER_TASK, Executors, in_one_task

__all__ = ["MANY_COPIES", "ExecutorCopies"]

MANY_COPIES: Final = 2_000  # a Spark job takes as long as some hundred requests
COPIES_PER_TASK: Final = ITEMS_PER_TASK


@dataclass(frozen=True)
class ExecutorCopies:
    """Copies many files by a Spark job, few of them by the driver's own threads.

    Parameters
    ----------
    executors
        Who sends the requests of many copies.
    copy_few
        The driver's way.
    many
        From so many copies on executors do it.
    """

    executors: Executors
    copy_few: Callable[[Mapping[str, ObjectInfo]], None]
    many: int = MANY_COPIES

    def __call__(self, copies: Mapping[str, ObjectInfo]) -> None:
        """Make every copy.

        Raises
        ------
        StorageError
            A copy failed; its subclass ``SourceChangedError`` when an object is not what was listed any more. Some
            copies may exist then.
        """
        if len(copies) < self.many:
            self.copy_few(copies)
            return
        task_count = -(-len(copies) // COPIES_PER_TASK)
        work = _copier(self.executors.store_settings)
        answers = self.executors.run(list(copies.items()), work, task_count=task_count)
        changed = next(filter(None, answers), "")
        if changed:
            raise SourceChangedError(changed, write_id=self.executors.write_id)


def _copier(settings: Any) -> Callable[[Iterable[tuple[str, ObjectInfo]]], Iterator[tuple[Mapping[str, int], str]]]:
    """Return what one task does; it answers with its requests, and with a message if a source has changed."""

    def copy_one(store: ObjectStore, copy: tuple[str, ObjectInfo]) -> str:
        key, source = copy
        try:
            store.copy(source, key)
        except SourceChangedError as changed:
            return changed.message
        return ""

    def copy_all(copies: Iterable[tuple[str, ObjectInfo]]) -> Iterator[tuple[Mapping[str, int], str]]:
        requests, messages = in_one_task(settings, copy_one, copies)
        yield requests, next(filter(None, messages), "")

    return copy_all
