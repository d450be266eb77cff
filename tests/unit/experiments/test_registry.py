"""The registry: nothing else names an experiment; a run's process imports no analysis."""

import re
import sys
from functools import cache
from pathlib import Path

import pytest
from support.places import ROOT
from support.wire import call

from looplab.experiments.registry import EXPERIMENTS

SOURCE = ROOT / "src/looplab"
FOLDERS = {name: ROOT / "src" / EXPERIMENTS[name].package.replace(".", "/") for name in EXPERIMENTS}
MOST_LINES = 350
# A name that is a common word counts where it is quoted, `own` as a path alone.
COMMON = ("loop", "own")
# The same loop with another request.
BUILT_ON_IT = {"loop": (FOLDERS["balance"],)}


@cache
def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def test_no_module_is_longer_than_a_person_reads_at_once() -> None:
    assert {path: lines for path, text in texts().items() if (lines := text.count("\n")) > MOST_LINES} == {}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_its_folder_and_the_registry_alone_name_an_experiment(name: str) -> None:
    package = FOLDERS[name].name
    quoted = "" if name == "own" else rf"|[\"'`]{name}[\"'`]"
    words = re.compile(rf"experiments[./]{package}\b{quoted}" + ("" if name in COMMON else rf"|\b{name}\b"))
    own = (FOLDERS[name], *BUILT_ON_IT.get(name, ()), SOURCE / "experiments/registry.py")
    others = [path for path in texts() if not any(path.is_relative_to(folder) for folder in own)]
    named = [path for path in others if words.search(texts()[path])]
    assert named == [], "these modules name it; if it is a common word, choose another name"


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


def test_a_run_without_a_name_is_the_default_experiments() -> None:
    assert EXPERIMENTS.of({}).name == EXPERIMENTS.default
    with pytest.raises(KeyError):
        EXPERIMENTS.of({"experiment": "nobody's"})
