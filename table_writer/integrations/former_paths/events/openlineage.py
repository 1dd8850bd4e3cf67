"""The former ``table_writer.events.openlineage``."""

from table_writer.integrations.openlineage import OpenLineageListener

__all__ = ["OpenLineageListener"]
