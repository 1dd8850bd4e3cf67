"""The former ``table_writer.dbt``, which macros and jobs of dbt projects name; it is a command as well."""

import sys

from table_writer.integrations.dbt import main, publish, publish_sql

__all__ = ["main", "publish", "publish_sql"]

if __name__ == "__main__":
    sys.exit(main())
