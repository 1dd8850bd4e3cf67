"""Uploads completed by executors: for writes of very many files.

The one thing that executors complete, and only after the driver has every message: these are the uploads that it
believes. Completing an upload twice is completing it once, so a task may be run again, or twice at a time.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from table_writer.log.removal import batches
from table_writer.model.message import PendingUpload
from table_writer.storage.object_store import ObjectStore
from table_writer.upload.on_executors import ITEMS_PER_TASK, Executors, in_one_task

__all__ = ["ExecutorCompletions", "jobs"]

TASKS_PER_JOB: Final = 40
"""20,000 uploads: a driver that packs all of 100,000 at once holds them twice, and no store takes more at a time."""


@dataclass(frozen=True)
class ExecutorCompletions:
    """Completes uploads by a Spark job.

    Parameters
    ----------
    executors
        Who sends the requests; what attempts sent that failed is not counted.
    """

    executors: Executors

    def __call__(self, uploads: Iterable[PendingUpload]) -> None:
        """Complete every upload; they are read once, and few are held at a time.

        Raises
        ------
        StorageError
            One could not be completed; any part of the others may be. No task runs any more, except on executors that
            have stopped answering.
        """
        work = _completer(self.executors.store_settings)
        for shares in jobs(uploads):
            self.executors.run(shares, work, task_count=len(shares))


def jobs(uploads: Iterable[PendingUpload]) -> Iterator[list[bytes]]:
    """Yield the shares of one job after the other: what each task gets, packed."""
    shares = (zlib.compress(pickle.dumps(batch), level=1) for batch in batches(uploads, ITEMS_PER_TASK))
    return batches(shares, TASKS_PER_JOB)


def _completer(settings: Any) -> Callable[[Iterable[bytes]], Iterator[tuple[Mapping[str, int], None]]]:
    """Return what one task does."""

    def complete_one(store: ObjectStore, upload: PendingUpload) -> None:
        store.complete_upload(upload.key, upload.upload_id, upload.parts)

    def complete_all(shares: Iterable[bytes]) -> Iterator[tuple[Mapping[str, int], None]]:
        for share in shares:
            uploads = pickle.loads(zlib.decompress(share))  # noqa: S301 - packed by the driver, as all of a job is
            requests, _ = in_one_task(settings, complete_one, uploads)
            yield requests, None

    return complete_all
