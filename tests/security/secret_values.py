"""Made-up secrets that no text holds by chance, and the search for them in every spelling they could have."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

ACCESS_KEY: Final = "AKIAMADEUPACCESSKEY1"
SECRET_KEY: Final = "made/up+Secret/Key2=="
SESSION_TOKEN: Final = "madeUpSessionToken3//=="
PROXY_PASSWORD: Final = "made-up:Proxy@Password4"
METASTORE_PASSWORD: Final = "madeUpMetastorePassword5"
KMS_CONTEXT: Final = "madeUpKmsContext6"
BUCKET_ACCESS_KEY: Final = "AKIAMADEUPBUCKETKEY7"
BUCKET_SECRET_KEY: Final = "made/up+BucketSecret8"
LOGIN_SECRET: Final = "madeUpLoginOfALocation9"
ENDPOINT_PASSWORD: Final = "madeUpEndpointPassword10"
SECRETS: Final = (
    ACCESS_KEY,
    SECRET_KEY,
    SESSION_TOKEN,
    PROXY_PASSWORD,
    METASTORE_PASSWORD,
    KMS_CONTEXT,
    BUCKET_ACCESS_KEY,
    BUCKET_SECRET_KEY,
    LOGIN_SECRET,
    ENDPOINT_PASSWORD,
)
KMS_HEADER: Final = base64.b64encode(json.dumps({"project": KMS_CONTEXT}).encode()).decode()
ENDPOINT: Final = f"http://me:{ENDPOINT_PASSWORD}@127.0.0.1:1"
METASTORE_URI: Final = f"thrift://hive:{METASTORE_PASSWORD}@metastore:9083"


def hadoop_settings(bucket: str) -> dict[str, str]:
    """Return settings as a careless administrator has them: every secret there can be."""
    provider = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
    return {
        "hive.metastore.uris": METASTORE_URI,
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.session.token": SESSION_TOKEN,
        "fs.s3a.aws.credentials.provider": provider,
        f"fs.s3a.bucket.{bucket}.access.key": BUCKET_ACCESS_KEY,
        f"fs.s3a.bucket.{bucket}.secret.key": BUCKET_SECRET_KEY,
        "fs.s3a.encryption.algorithm": "SSE-KMS",
        "fs.s3a.encryption.key": "arn:aws:kms:us-east-1:123456789012:key/1234abcd",
        "fs.s3a.encryption.context": f"project={KMS_CONTEXT}",
    }


PROXY: Final = {
    "fs.s3a.proxy.host": "127.0.0.1",
    "fs.s3a.proxy.port": "1",
    "fs.s3a.proxy.username": "squid",
    "fs.s3a.proxy.password": PROXY_PASSWORD,
}


def spellings() -> Iterable[str]:
    yield KMS_HEADER
    for secret in SECRETS:
        yield secret
        yield quote(secret)
        yield quote(secret, safe="")
        yield base64.b64encode(secret.encode()).decode().rstrip("=")
        yield json.dumps(secret)[1:-1]


def assert_holds_no_secret(texts: Iterable[str | bytes]) -> None:
    joined = "\n".join(one.decode("latin-1") if isinstance(one, bytes) else one for one in texts)
    assert joined.strip(), "nothing was searched"
    found = sorted({one for one in spellings() if one in joined})
    at = joined.find(found[0]) if found else 0
    assert not found, f"{found} in …{joined[max(0, at - 200) : at + 100]}…"
