"""Listeners, operators and commands for other tools: each imports what it is for, and is an extra of its own.

=================  ====================================================================================
``airflow``        operators that look after tables, and a sensor that waits for rows
``dbt``            dbt whose models are published by a ``TableWriter``
``openlineage``    the listener that sends lineage
``opentelemetry``  the listener that makes traces and metrics
``former_paths``   the same under the names that they had before: ``table_writer.airflow``, …
=================  ====================================================================================

Nothing outside this folder imports it, which an import contract says, and executors are not sent it.
"""
