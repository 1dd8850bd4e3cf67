"""What the rest of this library knows of S3."""

from __future__ import annotations

from typing import Final

from table_writer.model.location import Location
from table_writer.storage.s3.hadoop import KEY_NAMES, PREFIX, renames, s3_settings, tuning, without_spark
from table_writer.storage.s3.permissions import ACTIONS, LOOKED_AT, OF_BUCKET
from table_writer.storage.store_kind import StoreKind


def permission(location: Location, request: str) -> str:
    """Return the statement of a policy that allows a request below a location, in words."""
    action = ACTIONS[request]
    resource = location.bucket if action in OF_BUCKET else f"{location.bucket}/{location.key}*"
    needed = "" if request in LOOKED_AT else ", if this role is to write or to maintain the table"
    return f"allow {action} on arn:aws:s3:::{resource}{needed}"


S3: Final = StoreKind(
    name="S3",
    package=__package__,
    schemes=("s3", "s3a", "s3n"),
    settings=s3_settings,
    permission=permission,
    hadoop_prefix=PREFIX,
    secrets=r"fs\.s3a\.(bucket\..+\.)?((access|secret|(server-side-)?encryption)\.key|session\.token)",
    keys=tuple(f"{PREFIX}{name}" for name in KEY_NAMES),
    without_spark=without_spark,
    tuning=tuning,
    renames=renames,
    lineage="s3",
)
