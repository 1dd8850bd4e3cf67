# ruff: noqa: INP001
"""Sphinx: pages in Markdown (MyST), the reference from docstrings, the theme furo. Built by ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout is enough
sys.path.insert(0, str(Path(__file__).parent))

from options import expand_options

from table_writer import __version__

project = "table_writer"
author = "The table_writer contributors"
copyright = "the table_writer contributors, Apache License 2.0"  # noqa: A001  # Sphinx's name
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"table_writer {release.partition('+')[0]}"  # without the commit
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {
    "source_repository": "https://github.com/table-writer/table_writer/",
    "source_branch": "main",
    "source_directory": "docs/",
    "footer_icons": [
        {
            "name": "Repository",
            "url": "https://github.com/table-writer/table_writer",
            "html": "Repository",
            "class": "repository",
        }
    ],
}

autodoc_mock_imports = ["airflow", "asgiref", "dagster", "kedro", "prefect", "pydantic"]  # in environments of their own
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def setup(app: Any) -> None:
    """Register what is made while the site is built."""
    app.connect("autodoc-process-docstring", expand_options, priority=400)  # before numpydoc, at 500
