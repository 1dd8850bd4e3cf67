"""The command line: `table-writer`."""
