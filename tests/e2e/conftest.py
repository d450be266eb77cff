"""The lab under test: copied and made ready once, cleared before and after each test."""

from pathlib import Path

import pytest
from support.lab_fixtures import lab, own_lab, session_lab  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.engine)
