"""Listeners, operators and commands for other tools: each imports what it is for, and is an extra of its own.

=================  ====================================================================================
``airflow``        operators that look after tables, and a sensor that waits for rows
``dagster``        the I/O manager whose assets are tables, and their partitions
``dbt``            dbt whose models are published by a ``TableWriter``
``kedro``          the dataset of a table
``openlineage``    the listener that sends lineage
``opentelemetry``  the listener that makes traces and metrics
``prefect``        tasks that write tables, and vacuum them
``declared``       checks and options that a catalog or an asset declares
``retries``        which failures a scheduler tries again
``settings``       settings of tasks that need no Spark
=================  ====================================================================================

Nothing outside this folder imports it, which an import contract says, and executors are not sent it.
"""
