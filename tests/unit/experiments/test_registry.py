"""The registry: every experiment is a folder of the same files, and nothing else names one."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.experiments.registry import EXPERIMENTS
from looplab.treatments.loads import loads

SOURCE = ROOT / "src/looplab"
FOLDERS = {name: ROOT / "src" / EXPERIMENTS[name].package.replace(".", "/") for name in EXPERIMENTS}
MOST_LINES = 350
FILES = ("__init__", "parameters", "controller")
# A name that is a common word counts where it is quoted, `own` as a path alone.
COMMON = ("loop", "own")
# The same loop with another request.
BUILT_ON_IT = {"loop": (FOLDERS["balance"],)}
SHARED = ("scripts/*", "compose/*.yaml", "grafana/*.py", "grafana/generator/*.py", ".ci/*")
# Compose has neither profiles with a wildcard nor secrets and data sources that another file could add to Grafana.
PATHS = {"compose/port.yaml", "compose/link.wifi.yaml", "compose/link.custom.yaml"}
NAME_THEIRS = {"compose/loop.yaml", "compose/observe.yaml", "scripts/make-balance-picture", *PATHS}
# The thesis's claims are about its loads; an image and an identity of the broker have a name of their own.
NAMES_OF_OTHERS = (
    "experiments/loop/report", "experiments/balance/report", "experiments/loop/studies.py", "lab/docker",
    "lab/hosts", "lab/image_names.py", "lab/cli.py", "lab/commands/bundle.py", "lab/commands/study.py",
    "lab/checkout.py", "run/identities.py", "system/remedies.py",
)  # fmt: skip


@cache
def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def modules_with(words: re.Pattern[str], *but: Path) -> list[Path]:
    """Return the modules that hold such words, except those in a folder (or at a path) of `but`."""
    return [
        path.relative_to(SOURCE)
        for path, text in texts().items()
        if not any(path.is_relative_to(folder) for folder in but) and words.search(text)
    ]


def test_no_module_is_longer_than_a_person_reads_at_once() -> None:
    assert {path: lines for path, text in texts().items() if (lines := text.count("\n")) > MOST_LINES} == {}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_a_folder_with_the_same_files_as_any(name: str) -> None:
    assert EXPERIMENTS[name].name == name
    missing = [file for file in FILES if not (FOLDERS[name] / f"{file}.py").is_file()]
    assert FOLDERS[name].with_suffix(".py").is_file() or missing == []
    assert list(ROOT.glob(f"{EXPERIMENTS[name].scenarios}/params.env"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_its_folder_and_the_registry_alone_name_an_experiment(name: str) -> None:
    package = FOLDERS[name].name
    quoted = "" if name == "own" else rf"|[\"'`]{name}[\"'`]"
    words = re.compile(rf"experiments[./]{package}\b{quoted}" + ("" if name in COMMON else rf"|\b{name}\b"))
    own = (FOLDERS[name], *BUILT_ON_IT.get(name, ()), SOURCE / "experiments/registry.py")
    assert modules_with(words, *own) == [], "these modules name it; if it is a common word, choose another name"


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != EXPERIMENTS.default])
def test_no_shared_file_names_an_experiment(name: str) -> None:
    shared = {ROOT / "lab", *(path for files in SHARED for path in ROOT.glob(files) if path.is_file())}
    words = re.compile(
        rf"\b({name}|{FOLDERS[name].name})\b" if name not in COMMON else rf"[\"'`]{name}[\"'`]", re.IGNORECASE
    )
    named = {str(path.relative_to(ROOT)) for path in shared if words.search(path.read_text(encoding="utf-8"))}
    assert named - NAME_THEIRS == set()


@pytest.mark.parametrize("name", loads())
def test_a_load_is_one_file(name: str) -> None:
    named = re.compile(rf"[\"']{name}[\"']|\b{name.upper()}_[A-Z]+\b")
    own = (SOURCE / f"treatments/loads/{name}.py", *(SOURCE / other for other in NAMES_OF_OTHERS))
    assert modules_with(named, *own) == []


def printed(program: str) -> str:
    """Return what a fresh interpreter prints."""
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_runs_process_imports_no_analysis_and_no_logging(name: str) -> None:
    """The hot path runs there; what paho and http.client bring along is not ours."""
    program = (
        f"import sys; import {EXPERIMENTS[name].package}.controller;"
        "print([n for n in sys.modules if n.split('.')[0] in ('numpy', 'pandas', 'prometheus_client', 'rich')"
        " or n.startswith(('looplab.exporter', 'looplab.metrics', 'looplab.report', 'looplab.lab'))])"
    )
    assert printed(program) == "[]"


def test_an_experiment_is_imported_when_it_is_asked_for() -> None:
    program = (
        "import sys; from looplab.experiments.registry import EXPERIMENTS; list(EXPERIMENTS);"
        "print([n for n in sys.modules if n.startswith('looplab.experiments.') and not n.endswith('registry')])"
    )
    assert printed(program) == "[]"


def test_a_run_without_a_name_is_the_default_experiments() -> None:
    assert EXPERIMENTS.of({}).name == EXPERIMENTS.default
    with pytest.raises(KeyError):
        EXPERIMENTS.of({"experiment": "nobody's"})
