"""What the rest of this library knows of Google Cloud Storage."""

from __future__ import annotations

from typing import Final

from table_writer.model.location import Location
from table_writer.storage.gcs.hadoop import PREFIX, gcs_settings
from table_writer.storage.gcs.settings import GCS_UPLOADS
from table_writer.storage.store_kind import StoreKind

PERMISSIONS: Final = {  # by request, of storage.objects; one role allows all of them
    "PutObject": ("create", "delete"),  # of what it replaces
    "GetObject": ("get",),
    "ListObjectsV2": ("list",),
    "DeleteObject": ("delete",),
    "CreateMultipartUpload": ("create",),
    "UploadPart": ("create",),
    "ListMultipartUploads": ("list",),
    "AbortMultipartUpload": ("list", "delete"),
}


def permission(location: Location, request: str) -> str:
    """Return the role, or the single permissions, that allow a request."""
    permissions = " and ".join(f"storage.objects.{name}" for name in PERMISSIONS[request])
    return (
        f"give the login the role Storage Object User on the bucket of {location}, or {permissions} below the table and"
        f" below {GCS_UPLOADS} in the bucket's root, if this login is to write or to maintain the table"
    )


GCS: Final = StoreKind(
    name="gs://",
    package=__package__,
    schemes=("gs",),
    settings=gcs_settings,
    permission=permission,
    hadoop_prefix=PREFIX,
    secrets=r"fs\.gs\.auth\.(service\.account\.private\.key(\.id)?|client\.secret|refresh\.token)",
    libraries=(("google.auth", 2),),
    requirements=("google-auth[requests]>=2.29",),
    takes_late_parts=True,
    unread_rules=(
        (
            "whether lifecycle rules, soft delete, retention or versioning of the bucket delete or keep files cannot"
            " be read with a role for objects. Soft delete, seven days where nobody has changed it, keeps the parts of"
            " each write"
        ),
        (
            "turn soft delete off for the bucket, or pay for each file twice for these days; let no lifecycle rule"
            f" delete objects below the table, and one delete what is older than a week below {GCS_UPLOADS}"
        ),
    ),
    lineage="gs",
)
