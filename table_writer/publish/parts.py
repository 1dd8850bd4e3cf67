"""The services that writes, recoveries, rollbacks and restores share when they publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from table_writer.log.table_log import TableLog
from table_writer.metastore.protocol import Metastore
from table_writer.model.write import TableLayout
from table_writer.publish.append import CopyFiles
from table_writer.publish.recovery import Recovery
from table_writer.publish.switch import ClaimedEntries
from table_writer.storage.object_store import ObjectStore

__all__ = ["PublishParts"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishParts:
    """Services of one table, and what its entries say.

    Parameters
    ----------
    store, log, metastore, layout
        The table's.
    claimed
        Carries claimed entries out.
    recovery
        Settles what others have left in doubt.
    copy_files
        Copies the files that an append brings along.
    publish_timeout_seconds
        How long a claim is its claimant's alone.
    retention
        How long replaced data stays.
    identity
        Who publishes, for the log.
    """

    store: ObjectStore
    log: TableLog
    metastore: Metastore
    layout: TableLayout
    claimed: ClaimedEntries
    recovery: Recovery
    copy_files: CopyFiles
    publish_timeout_seconds: float
    retention: timedelta
    identity: Mapping[str, str]
