from __future__ import annotations

from collections.abc import Iterator

import pytest

from table_writer.testing.servers import S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Run a store that does all right, before which a proxy may stand."""
    with S3Server("versitygw", bucket="outside") as server:
        yield server
