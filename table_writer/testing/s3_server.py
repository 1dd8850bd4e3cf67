"""An S3 endpoint in its own process: moto (the default) or versitygw."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ParamValidationError,
)

from table_writer.testing.processes import LOCALHOST, LakehouseError, ServerProcess

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

S3ServerName = Literal["moto", "versitygw"]
REGION: Final = "us-east-1"
VERSITYGW_VARIABLE: Final = "TABLE_WRITER_VERSITYGW"
VERSITYGW_INSTALL: Final = "go install github.com/versity/versitygw/cmd/versitygw@latest"


class S3Server(ServerProcess):
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

    START_TIMEOUT_SECONDS = 60

    def __init__(self, server: S3ServerName = "moto", *, bucket: str = "lakehouse") -> None:
        if server not in ("moto", "versitygw"):
            raise LakehouseError(f"S3 server {server!r} is unknown: choose moto or versitygw")
        super().__init__(f"S3 server {server}")
        self.server: Final = server
        self.bucket: Final = bucket
        self.access_key: Final = "lakehouse"
        self.secret_key: Final = secrets.token_hex(16)

    def __repr__(self) -> str:
        where = self.endpoint_url if self.running else "not running"
        return f"S3Server(server={self.server!r}, bucket={self.bucket!r}, {where})"

    @property
    def endpoint_url(self) -> str:
        """``http://127.0.0.1:PORT``."""
        return f"http://{LOCALHOST}:{self.port}"

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

    def _answers(self) -> bool:
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

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        if self.server == "moto":
            return [sys.executable, "-m", "moto.server", "-H", LOCALHOST, "-p", str(self.port)], dict(os.environ)
        memory = Path("/dev/shm")  # noqa: S108 - only a parent of a private directory
        data = self._make_directory("s3-data", parent=memory if memory.is_dir() else None)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VGW_")}
        environment |= {"ROOT_ACCESS_KEY_ID": self.access_key, "ROOT_SECRET_ACCESS_KEY": self.secret_key}
        command = [_find_versitygw(), "--port", f"{LOCALHOST}:{self.port}", "--keep-alive", "--quiet"]
        return [*command, "--access-log", str(directory / "access.log"), "posix", str(data)], environment


def _find_versitygw() -> str:
    chosen = os.environ.get(VERSITYGW_VARIABLE)
    found = chosen or shutil.which("versitygw") or shutil.which("versitygw", path=Path("~/go/bin").expanduser())
    if found is None or not Path(found).is_file():
        where = f"at {VERSITYGW_VARIABLE}={chosen}" if chosen else f"by {VERSITYGW_VARIABLE}, in PATH or ~/go/bin"
        raise LakehouseError(f"versitygw is not there {where}: {VERSITYGW_INSTALL}")
    return found
