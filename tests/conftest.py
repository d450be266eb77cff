"""Which tests run side by side, which need a flag, and which run a second time after a failure."""

from pathlib import Path
from typing import Any

import pytest
from support.flags import FLAGS

TESTS = Path(__file__).parent
# With several processes, one process runs all tests of a group: a lab is set up once, the kernel has one real-time
# budget, and Grafana's packages are installed once. Other files run beside them, and so does a second lab, of the same
# images, for tests of which none measures a priority or a load's strength; both labs take about as long.
SECOND_LAB = (
    "asip", "attacks", "look_inside", "middleware", "qos_delay", "secrets", "study", "table_added", "twin", "wrong_use",
)  # fmt: skip
TOGETHER = {
    **{f"e2e/test_e2e_{name}.py": "second lab" for name in SECOND_LAB},
    "e2e/": "lab",
    "system/": "lab",
    "integration/link/": "lab",
    "integration/lab/test_host_on_the_engine.py": "lab",
    "integration/observability/": "view",
}
# Every test there needs the engine.
ON_THE_ENGINE = tuple(str(TESTS / folder) + "/" for folder in ("e2e", "system", "integration/link"))
UNIT = str(TESTS / "unit") + "/"
WAITING = pytest.StashKey[dict[str, int]]()


def pytest_itemcollected(item: pytest.Item) -> None:
    if str(item.path).startswith(ON_THE_ENGINE):
        item.add_marker(pytest.mark.engine)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if refused := [why for flag in FLAGS.values() if (why := flag.refusal())]:
        raise pytest.UsageError("; ".join(refused))
    waiting: dict[str, int] = {}
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        missing = [name for marker in item.iter_markers("flag") if not FLAGS[name := marker.args[0]].is_set()]
        for name in missing:
            waiting[name] = waiting.get(name, 0) + 1
        (left_out if missing else kept).append(item)
        # A pause of a shared machine fails a test of real parts once, a defect twice; one that hung would hang again.
        if not str(item.path).startswith(UNIT) and config.pluginmanager.hasplugin("rerunfailures"):
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except="from pytest-timeout"))
    config.stash[WAITING] = waiting
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts from a process of pytest-xdist to the one that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["waiting"] = session.config.stash.get(WAITING, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[WAITING] = getattr(node, "workeroutput", {}).get("waiting", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    waiting = config.stash.get(WAITING, {})
    if waiting:
        terminalreporter.section("tests that need a flag")
    for name, count in sorted(waiting.items()):
        terminalreporter.write_line(FLAGS[name].line(count))
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
