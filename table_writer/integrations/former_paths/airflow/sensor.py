"""The former ``table_writer.airflow.sensor``, by which Airflow's database names triggers that wait."""

from table_writer.integrations.airflow.sensor import PartitionSensor, PartitionTrigger

__all__ = ["PartitionSensor", "PartitionTrigger"]
