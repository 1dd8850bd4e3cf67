"""A table in a strict AWS Glue whose calls take one partition each: every switch of two partitions is two calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.doubles.glue import GlueDouble
from tests.publish.world import World


@dataclass
class GlueWorld(World):
    """Steps 1 to 5 over the product's own gateway to Glue."""

    metastore: GlueDouble = field(default_factory=lambda: GlueDouble(change_batch=1))  # type: ignore[assignment]

    def located(self) -> dict[str, str]:
        stored = self.metastore.server.tables[self.name].partitions
        return {"".join(values): one["StorageDescriptor"]["Location"] for values, one in stored.items()}
