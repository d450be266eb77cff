"""What holds for every test: which may run at the same time, and what is run once more after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
# Their outcome hangs on nothing but the code: a second try would hide a mistake.
NEVER_AGAIN = {"unit"}
# A test that hung would hang for as long again.
HUNG = "from pytest-timeout"
# Where several processes run the tests, one has all of these: a lab is set up once, and the kernel's real-time
# budget is one machine's. Grafana's packages are installed once. Of the others each file is free to run beside them.
TOGETHER = {
    "e2e/": "lab",
    "system/": "lab",
    "integration/link/": "lab",
    "integration/lab/test_host_on_the_engine.py": "lab",
    "integration/observability/": "view",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] not in NEVER_AGAIN:
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except=HUNG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """pytest-xdist's own way by files, but for what stays together."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFiles(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].removeprefix("tests/")
            return next((group for beginning, group in TOGETHER.items() if file.startswith(beginning)), file)

    return ByFiles(config, log)
