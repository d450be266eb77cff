"""A new experiment is its table: a figure added in one line is seen wherever the experiment is shown.

No list beside the registry names it: tests/e2e/test_e2e_table_added.py.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.dashboards import generator
from support.places import ROOT
from support.ports import free_port
from support.run_checks import NO_TREATMENTS, reasons
from support.tables import rows
from support.wire import call

import looplab.experiments
from looplab.exercises.handouts import cell_keys, factor_rows
from looplab.report.samples import measure
from looplab.report.schema import fault
from looplab.report.shell import write_reports
from looplab.report.stored import Selection, StoredRun, read_run
from looplab.run.life import live, run_table
from looplab.run.record import Place
from looplab.run.table import table_words
from looplab.spec.experiment import Experiments

COUNTER = ROOT / "tests/support/counter_experiment"
LINE = '    tail = Figure("p95 over the mean", unit="×", made=lambda c: c.S["p95"] / c.S["avg"], heading="tail")\n'


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Experiments]:
    """The counter with one figure more, as if it were among the lab's experiments."""
    before, last, after = (COUNTER / "counter.py").read_text().partition('heading="ratio", live=True)\n')
    (tmp_path / "counter.py").write_text(before + last + LINE + after)
    monkeypatch.setattr(looplab.experiments, "__path__", [*looplab.experiments.__path__, str(tmp_path)])
    yield Experiments({"counter": "looplab.experiments.counter"}, default="counter")
    del sys.modules["looplab.experiments.counter"]


def test_a_figure_is_one_line(counter: Experiments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREATMENTS_URL", f"http://127.0.0.1:{free_port()}/facts")
    experiment, results = counter["counter"], tmp_path / "results"
    parameters = experiment.read_parameters({"SLEEPS_MS": "1,2", "MESSAGES": "20"})
    place = Place(results, None, lambda *_, **__: None)
    # No treatments service answers, so the run is INVALID.
    assert reasons(live(experiment.part("controller").Controller(parameters, place))) == [NO_TREATMENTS]
    (folder,) = results.iterdir()
    run = json.loads((folder / "run.json").read_text())
    assert all(cell["tail"] > 0 for cell in run["cells"])
    stored = read_run(folder, counter)
    assert isinstance(stored, StoredRun)
    run["cells"][0]["tail"] = "long"
    assert fault(run, stored.layout.schema) == "`cells[0].tail`: 'long' is not of type 'number', 'null'"
    headings = next(line for line in run_table(experiment, run).splitlines() if "asked" in line).split()
    assert headings == ["asked", "sleeps", "S", "avg", "ratio", "tail"]
    assert table_words(experiment.table("counter"))[0]["tail"] == "p95 over the mean"
    cell = measure(Selection([stored]))[0].cells[1.0,]
    intervals = {name: cell.interval(name) for name in cell.figure_names()}
    assert (intervals["tail"].estimate > 0, intervals["answered_share"].estimate) == (True, 1)
    assert "\ttail\tp95 over the mean (×)" in cell_keys(experiment)
    assert "MESSAGES" not in "".join(factor_rows(experiment))
    generator()
    from generator.plain import plain

    assert "CDF of S" in json.dumps(plain(experiment))
    write_reports(results, [], tmp_path / "report", counter)
    assert all(float(row["tail"]) > 0 for row in rows(tmp_path / "report/counter-cells.csv"))
    assert "A sleep takes at least as long as asked" in (tmp_path / "report/counter.html").read_text()


def test_no_module_is_longer_than_a_person_reads_at_once() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "src/looplab").rglob("*.py")}
    assert {path: count for path, count in lines.items() if count > 350} == {}


def test_a_runs_process_imports_no_analysis_and_no_logging() -> None:
    """The hot path runs there; what paho and http.client bring along is not ours. No experiment is imported unasked."""
    program = (
        "import importlib, sys; from looplab.experiments.registry import EXPERIMENTS; names = list(EXPERIMENTS);"
        "print([n for n in sys.modules if n.startswith('looplab.experiments.') and not n.endswith('registry')]);"
        "[importlib.import_module(f'{EXPERIMENTS[name].package}.controller') for name in names];"
        "print([n for n in sys.modules if n.split('.')[0] in ('numpy', 'pandas', 'prometheus_client', 'rich')"
        " or n.startswith(('looplab.exporter', 'looplab.metrics', 'looplab.report', 'looplab.lab'))])"
    )
    assert call(sys.executable, "-c", program, env={"PYTHONPATH": str(ROOT / "src")}) == "[]\n[]"
