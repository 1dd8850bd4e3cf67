"""Defaults of settings and maintenance calls, where ``--help`` can name them before anything else is loaded."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

DIRECTORY_NAME: Final = "_table_writer"
METASTORE_TIMEOUT_SECONDS: Final = 120.0
NEWEST_VERSIONS: Final = 1_000  # of a report, which sends two requests for each
PUBLISH_TIMEOUT_SECONDS: Final = 300.0
SAFE_AGE: Final = timedelta(hours=24)  # calls in flight and running queries must find their files
WORKERS: Final = 8  # tables of a call on many that are worked on at once
