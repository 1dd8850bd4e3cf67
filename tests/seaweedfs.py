"""SeaweedFS in a process of its own: an S3 server that nobody here wrote; `make test-stores` builds it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Final

from botocore.exceptions import ClientError

from table_writer.model.location import Location
from table_writer.testing.processes import LOCALHOST, LakehouseError, ReservedPort
from table_writer.testing.servers import S3Server

VARIABLE: Final = "TABLE_WRITER_SEAWEEDFS"
BESIDE_PYTHON: Final = Path(sys.prefix) / "seaweedfs/weed"
PARTS: Final = ("master.port", "volume.port", "filer.port")
INNER_PORTS: Final = (*PARTS, *(f"{part}.grpc" for part in ("s3.port", *PARTS)))


class SeaweedServer(S3Server):
    """Master, volumes, filer and S3 of SeaweedFS on 127.0.0.1; gone after ``stop``."""

    def __init__(self, *, bucket: str = "lake") -> None:
        super().__init__("versitygw", bucket=bucket)  # alike for clients; the process is another
        self._name = "SeaweedFS"
        self._inner: list[ReservedPort] = []

    def location(self, path: str = "") -> Location:
        """Return a location in the bucket, as a metastore has it."""
        return Location.parse(f"s3a://{self.bucket}/{path}")

    def stop(self) -> None:
        super().stop()
        while self._inner:
            self._inner.pop().release()

    def _answers(self) -> bool:
        """Whether it makes the bucket and stores an object: its parts find each other after they listen."""
        try:
            if not super()._answers():
                return False
            self.client().put_object(Bucket=self.bucket, Key="ready", Body=b"ready")
            self.client().delete_object(Bucket=self.bucket, Key="ready")
        except (LakehouseError, ClientError):
            return False  # if for ever, the end of its log is in the error
        return True

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        identity = {
            "name": "lakehouse",
            "credentials": [{"accessKey": self.access_key, "secretKey": self.secret_key}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (directory / "s3.json").write_text(json.dumps({"identities": [identity]}))
        self._inner = self._inner or [ReservedPort() for _ in INNER_PORTS]
        ports = zip(INNER_PORTS, self._inner, strict=True)
        options = {
            "dir": self._make_directory("seaweedfs-data"),
            "ip": LOCALHOST,
            "ip.bind": LOCALHOST,
            "s3.port": self.port,
            "s3.config": directory / "s3.json",
            "s3.allowBackslashInKey": "true",  # else it takes a backslash for a slash
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.localSocket": directory / "s3.sock",
            "filer.localSocket": directory / "filer.sock",
            "master.telemetry": "false",
            "volume.max": 100,
            **{name: port.number for name, port in ports},
        }
        command = [_program(), "server", "-s3", *(f"-{name}={value}" for name, value in options.items())]
        return command, dict(os.environ)


def _program() -> str:
    found = os.environ.get(VARIABLE) or shutil.which("weed") or str(BESIDE_PYTHON)
    if not Path(found).is_file():
        raise LakehouseError(f"SeaweedFS is not at {found}: make seaweedfs, or name its weed by {VARIABLE}")
    return found
