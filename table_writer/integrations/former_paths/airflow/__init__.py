"""The former ``table_writer.airflow``."""

from table_writer.integrations.airflow import *  # noqa: F403 - the same names, whichever they are
from table_writer.integrations.airflow import __all__ as __all__
