"""An S3 endpoint in its own process: moto (the default) or versitygw."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

import boto3
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ParamValidationError,
)

from table_writer.testing.processes import LOCALHOST, ChildProcess, LakehouseError, ReservedPort, ScratchDirectory

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

S3ServerName = Literal["moto", "versitygw"]
REGION: Final = "us-east-1"
START_TIMEOUT_SECONDS: Final = 60
VERSITYGW_VARIABLE: Final = "TABLE_WRITER_VERSITYGW"
VERSITYGW_INSTALL: Final = "go install github.com/versity/versitygw/cmd/versitygw@latest"


class S3Server:
    """A local S3 endpoint with one bucket, gone with all its objects after :meth:`stop`.

    Parameters
    ----------
    server
        ``"moto"`` comes with pip and keeps objects in memory. ``"versitygw"`` is faster and closer to S3 in how
        multipart uploads end; its binary is found through the environment variable ``TABLE_WRITER_VERSITYGW``,
        ``PATH``, or ``~/go/bin``.
    bucket
        Made at the start; 3 or more characters.

    Examples
    --------
    >>> from table_writer.testing import S3Server
    >>> with S3Server(bucket="example") as s3:  # doctest: +SKIP
    ...     s3.client().put_object(Bucket="example", Key="hello", Body=b"world")
    """

    def __init__(self, server: S3ServerName = "moto", *, bucket: str = "lakehouse") -> None:
        if server not in ("moto", "versitygw"):
            raise LakehouseError(f"S3 server {server!r} is unknown: choose moto or versitygw")
        self.server: Final = server
        self.bucket: Final = bucket
        self.access_key: Final = "lakehouse"
        self.secret_key: Final = secrets.token_hex(16)
        self._directories: list[ScratchDirectory] = []
        self._port: ReservedPort | None = None
        self._process: ChildProcess | None = None

    def __repr__(self) -> str:
        where = self.endpoint_url if self._port else "not running"
        return f"S3Server(server={self.server!r}, bucket={self.bucket!r}, {where})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def endpoint_url(self) -> str:
        """``http://127.0.0.1:PORT``."""
        if self._port is None:
            raise LakehouseError("the S3 server is not running")
        return f"http://{LOCALHOST}:{self._port.number}"

    @property
    def pid(self) -> int:
        """The process id of the server."""
        if self._process is None:
            raise LakehouseError("the S3 server is not running")
        return self._process.pid

    def start(self) -> None:
        """Start the server and make the bucket; return when both are there."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the server without waiting for it."""
        if self._process is not None:
            raise LakehouseError("the S3 server is running already")
        try:
            directory = self._scratch("s3")
            self._port = ReservedPort()
            self._process = ChildProcess(f"S3 server {self.server}", directory / "s3.log")
            command, environment = self._moto() if self.server == "moto" else self._versitygw(directory)
            self._process.launch(command, directory=directory, environment=environment)
        except BaseException:  # Ctrl-C as well: no server stays behind
            self.stop()
            raise

    def wait_until_ready(self) -> None:
        """Return when the server answers and the bucket exists; stop it and raise if that takes too long."""
        if self._process is None:
            raise LakehouseError("the S3 server is not running")
        try:
            self._process.wait_until_ready(self._make_bucket, timeout_seconds=START_TIMEOUT_SECONDS)
        except BaseException:  # Ctrl-C as well: no server stays behind
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and forget all objects. Does nothing if it does not run."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._port is not None:
            self._port.release()
            self._port = None
        while self._directories:
            self._directories.pop().remove()

    def client(self) -> S3Client:
        """Return a new boto3 client for this server."""
        return self._client(Config(s3={"addressing_style": "path"}, proxies={}))

    def hadoop_settings(self) -> dict[str, str]:
        """Return the properties with which Hadoop reads ``s3a://`` and ``s3://`` from this server."""
        return {
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "fs.s3a.endpoint": self.endpoint_url,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "fs.s3a.bucket.probe": "0",
        }

    def _client(self, config: Config) -> S3Client:
        session = boto3.session.Session()
        return session.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=config,
        )

    def _make_bucket(self) -> bool:
        once = Config(s3={"addressing_style": "path"}, proxies={}, connect_timeout=5, retries={"total_max_attempts": 1})
        client = self._client(once)
        try:
            client.create_bucket(Bucket=self.bucket)
        except client.exceptions.BucketAlreadyOwnedByYou:
            return True
        except (EndpointConnectionError, ConnectTimeoutError, HTTPClientError):
            return False  # nobody listens yet
        except (ClientError, ParamValidationError) as error:
            raise LakehouseError(f"{self.server} does not make a bucket named {self.bucket!r}: {error}") from error
        finally:
            client.close()
        return True

    def _scratch(self, purpose: str, parent: Path | None = None) -> Path:
        directory = ScratchDirectory(purpose, parent=parent)
        self._directories.append(directory)
        return directory.path

    def _moto(self) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, "-m", "moto.server", "-H", LOCALHOST, "-p", self.endpoint_url.rpartition(":")[2]], dict(
            os.environ
        )

    def _versitygw(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        memory = Path("/dev/shm")  # noqa: S108 - only a parent of a private directory
        data = self._scratch("s3-data", parent=memory if memory.is_dir() else None)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VGW_")}
        environment |= {"ROOT_ACCESS_KEY_ID": self.access_key, "ROOT_SECRET_ACCESS_KEY": self.secret_key}
        port = self.endpoint_url.removeprefix("http://")
        command = [_find_versitygw(), "--port", port, "--keep-alive", "--quiet"]
        return [*command, "--access-log", str(directory / "access.log"), "posix", str(data)], environment


def _find_versitygw() -> str:
    chosen = os.environ.get(VERSITYGW_VARIABLE)
    found = chosen or shutil.which("versitygw") or shutil.which("versitygw", path=Path("~/go/bin").expanduser())
    if found is None or not Path(found).is_file():
        where = f"at {VERSITYGW_VARIABLE}={chosen}" if chosen else f"by {VERSITYGW_VARIABLE}, in PATH or ~/go/bin"
        raise LakehouseError(f"versitygw is not there {where}: {VERSITYGW_INSTALL}")
    return found
