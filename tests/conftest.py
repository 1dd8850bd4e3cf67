from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs no lakehouse first: most mistakes show in seconds."""
    items.sort(key=lambda item: "lakehouse" in getattr(item, "fixturenames", ()))
