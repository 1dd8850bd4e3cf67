"""What the rest of this library knows of Azure."""

from __future__ import annotations

from typing import Final

from table_writer.model.location import Location
from table_writer.storage.azure.hadoop import PREFIX, azure_settings
from table_writer.storage.store_kind import StoreKind

PERMISSIONS: Final = {  # by request, the letter of a SAS token; one role of Entra ID allows all of them
    "PutObject": "create and write (cw)",
    "GetObject": "read (r)",
    "ListObjectsV2": "list (l), without which Azure answers 403 for what is not there",
    "DeleteObject": "delete (d)",
    "CreateMultipartUpload": "write (w)",
    "UploadPart": "create and write (cw)",
    "ListMultipartUploads": "read and list (rl)",
    "AbortMultipartUpload": "create, write and delete (cwd)",
}


def permission(location: Location, request: str) -> str:
    """Return the role, or the letters of a SAS token, that allow a request."""
    return (
        f"give the login the role Storage Blob Data Contributor on the container of {location}, or the SAS token the"
        f" permission to {PERMISSIONS[request]}, if this login is to write or to maintain the table"
    )


AZURE: Final = StoreKind(
    name="Azure",
    package=__package__,
    schemes=("abfss", "abfs"),
    settings=azure_settings,
    permission=permission,
    hadoop_prefix=PREFIX,
    secrets=r"fs\.azure\.(account\.key|account\.oauth2\.client\.secret|sas\.fixed\.token)(\..*)?",
    libraries=(("azure.storage.blob", 12),),
    requirements=("azure-storage-blob>=12.24", "azure-identity>=1.17"),
    takes_late_parts=True,
    lists_from_a_key=False,
    iceberg_library="adlfs",
    unread_rules=(
        (
            "Azure discards pending uploads after a week by itself, which ends a write that uploads longer. Whether"
            " lifecycle rules, soft delete or versioning of the account delete or keep files cannot be read through the"
            " Blob service"
        ),
        (
            "let no lifecycle rule delete blobs below the table: it knows nothing of partitions. With soft delete or"
            " versioning what vacuum deletes stays, and is paid for"
        ),
    ),
    lineage="abfss",
)
