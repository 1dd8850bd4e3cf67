"""Of what the lakehouse can be made: pytest's options name it, so importing this loads nothing else."""

from __future__ import annotations

from typing import Final, Literal

S3ServerName = Literal["moto", "versitygw"]
HiveVersion = Literal["2.3.10", "3.1.3", "4.0.1", "4.2.0"]
BUILT_IN_HIVE: Final = "2.3.10"  # whose jars pyspark carries, server and client
