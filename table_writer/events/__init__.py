"""Events: listeners are told of each call once it is over.

=============  ==============================================================================
``event``      the event, a plain frozen object
``listeners``  the protocol of listeners, how they are told, and the listener that logs JSON
=============  ==============================================================================

The listeners for OpenLineage and OpenTelemetry are in ``integrations/``.

Listeners are given as ``TableWriterConfig(listeners=[...])``. Steps note what they do on an announcement
(``jobs/announcing.py``), and nobody is told before the call is over.
"""

from __future__ import annotations

from table_writer.events.event import EventError, EventPartition, Source, StepTime, TableEvent
from table_writer.events.listeners import EventListener, JsonListener

__all__ = ["EventError", "EventListener", "EventPartition", "JsonListener", "Source", "StepTime", "TableEvent"]
