"""Submodules of ``table_writer.events`` under their former names."""
