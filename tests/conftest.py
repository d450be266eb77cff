"""What holds for every test: those that drive real processes are run once more after a failure, and that is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Their outcome hangs on nothing but the code: a second try would hide a mistake.
NEVER_AGAIN = {"unit", "report"}
# A test that hung would hang for as long again.
HUNG = "from pytest-timeout"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] not in NEVER_AGAIN:
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except=HUNG))
