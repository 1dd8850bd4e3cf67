"""fake-gcs-server, an emulator of Google Cloud Storage, in its own process; `make fake-gcs-server` builds it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import requests

from table_writer.model.location import Location
from table_writer.testing.processes import LOCALHOST, LakehouseError, ServerProcess

VARIABLE: Final = "TABLE_WRITER_FAKE_GCS_SERVER"
BESIDE_PYTHON: Final = Path(sys.prefix) / "fake-gcs-server/fake-gcs-server"


class FakeGcsServer(ServerProcess):
    """Google's JSON API on 127.0.0.1 with one bucket, in memory; gone after ``stop``."""

    START_TIMEOUT_SECONDS = 60

    def __init__(self, *, bucket: str = "lake") -> None:
        super().__init__("fake-gcs-server")
        self.bucket: Final = bucket

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT``."""
        return f"http://{LOCALHOST}:{self.port}"

    def location(self, path: str = "") -> Location:
        """Return a location in the bucket, as a metastore has it."""
        return Location.parse(f"gs://{self.bucket}/{path}")

    def hadoop_settings(self) -> dict[str, str]:
        """Return the properties with which Google's connector, and this library, reach the bucket here."""
        return {"fs.gs.storage.root.url": self.url, "fs.gs.auth.type": "UNAUTHENTICATED"}

    def _answers(self) -> bool:
        try:
            made = requests.post(f"{self.url}/storage/v1/b?project=p", json={"name": self.bucket}, timeout=5)
        except requests.RequestException:
            return False
        return made.ok

    def _command(self, _: Path) -> tuple[list[str], dict[str, str]]:
        options = {"scheme": "http", "host": LOCALHOST, "port": self.port, "backend": "memory", "log-level": "error"}
        return [_program(), *(f"-{name}={value}" for name, value in options.items())], dict(os.environ)


def _program() -> str:
    found = os.environ.get(VARIABLE) or shutil.which("fake-gcs-server") or str(BESIDE_PYTHON)
    if not Path(found).is_file():
        raise LakehouseError(f"fake-gcs-server is not at {found}: make fake-gcs-server, or name it by {VARIABLE}")
    return found
