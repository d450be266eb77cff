"""Which tests run side by side, which need a flag, and which run a second time after a failure."""

import os
from pathlib import Path
from typing import Any

import pytest
from support.flags import FLAGS, WITHOUT_BUDGET

TESTS = Path(__file__).parent
# With several processes, one process runs all tests of a group: a lab is set up once, the kernel has one real-time
# budget, and Grafana's packages are installed once. Runs that want no budget have a lab of their own beside it.
TOGETHER = {
    **{f"e2e/test_e2e_{name}.py": "without budget" for name in WITHOUT_BUDGET},
    "e2e/": "lab",
    "system/": "lab",
    "integration/images/test_image_brokers.py": "lab",
    "integration/link/": "lab",
    "integration/lab/test_host_on_the_engine.py": "lab",
    "integration/observability/": "view",
}
# Every test there needs the engine.
ON_THE_ENGINE = tuple(str(TESTS / folder) + "/" for folder in ("e2e", "system", "integration/link"))
UNIT = str(TESTS / "unit") + "/"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(ON_THE_ENGINE):
            item.add_marker(pytest.mark.engine)
        # A pause of a shared machine fails a test of real parts once, a defect twice; one that hung would hang again.
        if not str(item.path).startswith(UNIT) and config.pluginmanager.hasplugin("rerunfailures"):
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except="from pytest-timeout"))
    left_out = [item for item in items if not all(map(is_set, item.iter_markers("flag")))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def is_set(marker: pytest.Mark) -> bool:
    """Return whether the flag that a mark names is set."""
    (name,) = marker.args
    assert name in FLAGS, name
    return os.environ.get(name, "0") not in ("", "0")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # A test that passed at its second attempt leaves no other trace of what failed first.
    for report in terminalreporter.stats.get("rerun", ()):
        crash = getattr(report.longrepr, "reprcrash", None)
        terminalreporter.write_line(
            f"RERUN {report.nodeid} ({report.when}): {crash.message if crash else report.longrepr}"
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """pytest-xdist's distribution by files, except the groups of TOGETHER."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFiles(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].removeprefix("tests/")
            return next((group for beginning, group in TOGETHER.items() if file.startswith(beginning)), file)

    return ByFiles(config, log)
