"""Spark's settings as Spark reads them: sizes and flags."""

from __future__ import annotations

import re
from typing import Final

from table_writer.doctor.patient import Patient
from table_writer.storage.hadoop_values import HadoopValues, bucket_values

__all__ = ["flag", "for_bucket", "number", "setting", "size_bytes"]

MIB: Final = 1024 * 1024
UNITS: Final = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}


def setting(patient: Patient, name: str, default: str = "") -> str:
    """Return a Spark setting, trimmed."""
    return (patient.spark_conf or {}).get(name, default).strip() or default


def flag(patient: Patient, name: str, *, default: bool) -> bool:
    """Return a setting that is true or false."""
    return {"true": True, "false": False}.get(setting(patient, name).lower(), default)


def number(patient: Patient, name: str, default: float) -> float:
    """Return a number, the default where it is none."""
    text = setting(patient, name)
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else default


def size_bytes(patient: Patient, name: str, *, default: int | None, unit: int = 1) -> int | None:
    """Return a size such as ``4m`` or ``512MB``; a bare number counts in ``unit`` bytes."""
    match = re.fullmatch(r"(\d+)([bkmgtp]?)(?:i?b)?", setting(patient, name).lower())
    if match is None:
        return default
    return int(match[1]) * (UNITS[match[2]] if match[2] else unit)


def for_bucket(patient: Patient) -> HadoopValues:
    """Return the ``fs.s3a.*`` settings for the table's bucket."""
    return bucket_values(patient.hadoop, patient.services.layout.root.bucket)
