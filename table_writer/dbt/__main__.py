"""``python -m table_writer.dbt run``: dbt whose Python models run in its own Spark session."""

import sys

from table_writer.dbt import main

sys.exit(main())
