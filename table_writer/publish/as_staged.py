"""Whether the files of a staged write are still exactly those that were staged and checked."""

from __future__ import annotations

from table_writer.errors import StorageError
from table_writer.model.write import StagedFiles
from table_writer.storage import visible_files
from table_writer.storage.object_store import ObjectStore

__all__ = ["require_as_staged"]


def require_as_staged(store: ObjectStore, staged: StagedFiles) -> dict[str, int]:
    """Compare the write's directory with what was staged; costs one request for 1,000 files.

    Returns
    -------
    dict
        Keys and sizes of files that readers would see beside the staged ones: copies that an append has made.

    Raises
    ------
    StorageError
        Staged files are missing or have another size.
    """
    plan = staged.plan
    found = {one.key: one.size_bytes for one in visible_files(store, plan.data_location.key)}
    for partition in staged.partitions:
        sizes = [found.pop(key, None) for key in partition.keys]
        if None in sizes or sum(size for size in sizes if size is not None) != partition.bytes:
            raise StorageError(
                f"staged write {plan.write_id} of {plan.table.name} is not as it was staged: of {len(sizes)} file(s) of"
                f" partition {partition.values} with {partition.bytes:,} bytes, {len(sizes) - sizes.count(None)} with"
                f" {sum(size for size in sizes if size is not None):,} bytes are there. Nothing was published. Discard"
                " it, and stage it again.",
                table=str(plan.table.name),
                write_id=plan.write_id,
            )
    return found
