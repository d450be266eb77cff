"""What holds for every experiment of the registry: its parameters, its document, its table, its metrics, its page."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.every_experiment import ENDINGS, SMALL
from support.reports import Page, write
from support.tables import rows
from support.terminal import printing_to_a_terminal

from looplab.errors import UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.schema import fault
from looplab.report.shell import page_name
from looplab.report.stored import StoredRun, read_run
from looplab.run.life import run_table
from looplab.spec.experiment import Experiment

WIDTH = 80
# No number, no word, no host; longer than a title may be.
NONSENSE = "?!" * 100
SCENARIO = {"loop": {"SCENARIO": "scenario1"}}
# They follow from others: no variable sets them.
DERIVED = {"QOS_LEFT_OUT", "BRIDGE_TLS", "CELL_ORDER", "LOAD_SETTINGS"}


RUNS: dict[str, Callable[[Path], object]] = {"loop": SMALL["loop"], **ENDINGS}
VARIABLES = [
    pytest.param(experiment, one.variable_of(name), id=f"{experiment.name}-{one.variable_of(name)}")
    for experiment in EXPERIMENTS.values()
    for name, one in experiment.part("parameters").PARAMETERS.params().items()
    if one.read is not None and one.variable_of(name) not in DERIVED
]


@dataclass(frozen=True)
class Stored:
    """Stored runs of one experiment, and the report on them."""

    experiment: Experiment
    results: Path
    out: Path
    said: str

    def runs(self) -> Iterator[StoredRun]:
        for folder in sorted(self.results.iterdir()):
            run = read_run(folder, EXPERIMENTS)
            assert isinstance(run, StoredRun), run
            yield run


@pytest.fixture(scope="module", params=RUNS)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    place = tmp_path_factory.mktemp("stored")
    results, out = place / "results", place / "out"
    RUNS[request.param](results)
    with printing_to_a_terminal() as said:
        assert write(results, out) == 0
    return Stored(EXPERIMENTS[request.param], results, out, said.getvalue())


@pytest.mark.parametrize(("experiment", "variable"), VARIABLES)
def test_a_wrong_value_names_its_variable(experiment: Experiment, variable: str) -> None:
    with pytest.raises(UsageError) as caught:
        experiment.read_parameters({**SCENARIO.get(experiment.name, {}), variable: NONSENSE})
    assert caught.value.message.startswith(variable)
    assert f"{variable} in compose/" in caught.value.remedy
    assert "params.env" in caught.value.remedy


def test_run_json_fits_its_schema(stored: Stored) -> None:
    for run in stored.runs():
        assert fault(run.document, run.layout.schema) == ""
        broken: dict[str, Any] = json.loads(json.dumps(run.document))
        del broken["cells"][0][run.layout.total]
        assert fault(broken, run.layout.schema) == f"`cells[0]`: '{run.layout.total}' is a required property"


def test_the_table_fits_a_terminal(stored: Stored) -> None:
    for run in stored.runs():
        run.document["cells"][0] |= {"valid": False}
        lines = run_table(stored.experiment, run.document).splitlines()
        assert max(map(len, lines)) <= WIDTH
        assert any(line.startswith(run.scenario) for line in lines)


def test_the_report_is_whole_and_asks_for_nothing(stored: Stored) -> None:
    name = stored.experiment.name
    page = Page(stored.out / page_name(stored.experiment))
    assert page.alternatives
    assert all(page.alternatives)
    assert not re.search(r">\s*(?:None|True|False|nan)\s*<", (stored.out / page_name(stored.experiment)).read_text())
    figures = list((stored.out / "figures").iterdir())
    assert {path.suffix for path in figures} == {".svg", ".png"}
    assert max(map(len, stored.said.splitlines()[:-1]), default=0) <= WIDTH
    assert stored.said.splitlines()[-1] == str(stored.out / page_name(stored.experiment))
    files = {path.name for path in stored.out.glob("*.csv")}
    assert {f"{name}-cells.csv", "verdicts.csv" if name == EXPERIMENTS.default else f"{name}-findings.csv"} <= files
    assert {row["run_id"] for row in rows(stored.out / "runs.csv")} == {run.run_id for run in stored.runs()}
