"""Modules under their former names: ``table_writer`` and ``table_writer.events`` look for submodules here too.

So ``import table_writer.airflow`` finds ``airflow`` of this folder, which has the names of
``table_writer.integrations.airflow``.
"""
