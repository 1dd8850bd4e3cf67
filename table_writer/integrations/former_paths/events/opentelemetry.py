"""The former ``table_writer.events.opentelemetry``."""

from table_writer.integrations.opentelemetry import OpenTelemetryListener

__all__ = ["OpenTelemetryListener"]
