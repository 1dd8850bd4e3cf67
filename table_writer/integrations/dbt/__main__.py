"""``python -m table_writer.integrations.dbt run``: dbt whose Python models run in its own Spark session."""

import sys

from table_writer.integrations.dbt import main

sys.exit(main())
