"""What S3 asks a role for each kind of request: advice, the doctor and the documentation read it here."""

from __future__ import annotations

from typing import Final

ACTIONS: Final = {
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CopyObject": "s3:PutObject",
    "UploadPartCopy": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectsV2": "s3:ListBucket",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
    "GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "GetBucketVersioning": "s3:GetBucketVersioning",
    "AssumeRole": "sts:AssumeRole",
}
OF_BUCKET: Final = frozenset(
    {"s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:GetLifecycleConfiguration", "s3:GetBucketVersioning"}
)
"""Actions that are allowed on the bucket, not on what is in it."""

LOOKED_AT: Final = frozenset({"GetBucketLifecycleConfiguration", "GetBucketVersioning"})
"""Requests of the doctor alone, which a write can do without."""

OF_READS: Final = " and s3:ListBucket (without the latter, S3 answers 403 for keys that do not exist)"
OF_COPIES: Final = " (and s3:GetObject on the file that is copied)"
BESIDE: Final = {"GetObject": OF_READS, "HeadObject": OF_READS, "CopyObject": OF_COPIES, "UploadPartCopy": OF_COPIES}


def needed(request: str) -> str:
    """Return the actions that a request needs, for people; of one that is not known, its own name."""
    return f"{ACTIONS.get(request, request)}{BESIDE.get(request, '')}"
