"""How Java runs where a test starts a lakehouse of its own for some seconds."""

from __future__ import annotations

from typing import Final

JAVA_FOR_SHORT_RUNS: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""The second compiler and a parallel collector take a third of the processor time; such a run ends before they pay."""
