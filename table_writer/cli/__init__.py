"""The command line: `table-writer`. It reads arguments, calls :class:`~table_writer.Maintenance`, prints the report."""
