"""The former ``table_writer.airflow``."""

from table_writer.integrations.airflow import (
    PartitionSensor,
    PartitionTrigger,
    PublishOperator,
    RecoverOperator,
    RollbackOperator,
    VacuumOperator,
    failing_for_good,
)

__all__ = [
    "PartitionSensor",
    "PartitionTrigger",
    "PublishOperator",
    "RecoverOperator",
    "RollbackOperator",
    "VacuumOperator",
    "failing_for_good",
]
