"""Adding an experiment: three files and a line in each list, and it runs, is drawn live, reported and marked."""

import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.e2e_lab import Lab, remove_images
from support.places import ROOT
from support.waiting import until

COUNTER = ROOT / "tests/support/counter_experiment"
# Of this checkout's images: those of the lab's own names belong to other labs of the same sources.
TAG = "counter"


def insert(path: Path, line: str, after: str) -> None:
    """Add one line behind the first that contains `after`."""
    lines = path.read_text(encoding="utf-8").splitlines()
    at = next(number for number, text in enumerate(lines) if after in text)
    path.write_text("\n".join([*lines[: at + 1], line, *lines[at + 1 :]]) + "\n", encoding="utf-8")


def add_counter(root: Path) -> None:
    """All that it takes."""
    shutil.copy(COUNTER / "counter.py", root / "src/looplab/experiments/counter.py")
    folder = root / "compose/experiments/counter"
    folder.mkdir()
    for name in ("compose.yaml", "expected.yaml"):
        shutil.copy(COUNTER / name, folder / name)
    registry = root / "src/looplab/experiments/registry.py"
    insert(registry, '        "counter": "looplab.experiments.counter",', after='"qos-delay":')
    insert(root / "compose.yaml", "  - compose/experiments/counter/compose.yaml", after="compose/experiments/qos-delay")


@pytest.fixture
def counting(own_lab: Lab) -> Iterator[Lab]:
    add_counter(own_lab.root)
    own_lab.environment["LAB_TAG"] = TAG
    yield own_lab
    own_lab.down()
    remove_images(TAG)


def test_a_new_experiment_runs_is_drawn_reported_and_marked(counting: Lab) -> None:
    lab = counting
    made = subprocess.run(
        [sys.executable, "grafana/generate.py"], cwd=lab.root, env=lab.environment, text=True, capture_output=True,
        check=True,
    )  # fmt: skip
    # The first page links every experiment's.
    assert {*made.stdout.split()} == {"written:", "grafana/dashboards/counter.json", "grafana/dashboards/home.json"}
    helped = lab.run("run", "--help").stdout
    assert "options of counter:" in helped
    assert "--sleeps" in helped
    run = lab.start("run", "counter", "--quick", "--sleeps", "5,20", "--messages", "400", "--json")
    run.wait_for("of measuring", 500)
    url = f"http://127.0.0.1:{lab.environment['LAB_EXPORTER_PORT']}/metrics"

    def live_page() -> str:
        text = str(urllib.request.urlopen(url, timeout=5).read().decode())
        return text if 'experiment="counter"' in text else ""

    page = until(live_page, "the running run", 60)
    assert re.search(r'lab_latency_seconds_bucket\{.*experiment="counter".*metric="S"', page)
    assert re.search(r'lab_run_active\{.*scenario="counter"\} 1', page)
    document = run.ended()
    assert document["valid"], document["invalid_because"]
    assert (document["experiment"], [cell["sent"] for cell in document["cells"]]) == ("counter", [400, 400])
    reported = lab.run("report")
    assert reported.returncode == 0, reported.stderr
    assert "A sleep takes at least as long as asked" in (lab.root / "report/counter.html").read_text()
    checked = lab.run("check", "counter")
    assert (checked.returncode, "score: 3 of 3" in checked.stdout) == (0, True), checked.stdout + checked.stderr
