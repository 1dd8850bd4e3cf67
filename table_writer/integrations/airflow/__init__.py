"""Airflow (the extra ``airflow``): operators that look after tables, and a sensor that waits for rows of partitions.

Nothing here needs Spark. A task that writes is yours: it stages or publishes with a ``TableWriter`` and hands the
``write_id`` on.
"""

from table_writer.errors import needs_extra

with needs_extra("airflow", "table_writer.integrations.airflow"):
    from table_writer.integrations.airflow.connection import failing_for_good
    from table_writer.integrations.airflow.operators import (
        PublishOperator,
        RecoverOperator,
        RollbackOperator,
        VacuumOperator,
    )
    from table_writer.integrations.airflow.sensor import PartitionSensor, PartitionTrigger

__all__ = [
    "PartitionSensor",
    "PartitionTrigger",
    "PublishOperator",
    "RecoverOperator",
    "RollbackOperator",
    "VacuumOperator",
    "failing_for_good",
]
