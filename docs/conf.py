# ruff: noqa: INP001
"""Sphinx: pages in Markdown (MyST), the reference from docstrings, the theme furo. Built by ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout is enough

from table_writer import __version__

project = "table_writer"
author = "The table_writer developers"
copyright = "the table_writer developers, Apache License 2.0"  # noqa: A001  # Sphinx's name
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["_build", "changes"]
myst_heading_anchors = 3
nitpicky = False

html_theme = "furo"
html_title = f"table_writer {release}"
html_static_path = ["_static"]

autodoc_mock_imports = ["airflow", "asgiref"]  # installed by `make test-airflow` alone
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
