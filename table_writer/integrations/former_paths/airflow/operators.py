"""The former ``table_writer.airflow.operators``."""

from table_writer.integrations.airflow.operators import (
    PublishOperator,
    RecoverOperator,
    RollbackOperator,
    TableWriterOperator,
    VacuumOperator,
)

__all__ = ["PublishOperator", "RecoverOperator", "RollbackOperator", "TableWriterOperator", "VacuumOperator"]
