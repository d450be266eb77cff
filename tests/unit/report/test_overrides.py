"""A run with an overridden factor, of any experiment: named by what differs, and no ground for a verdict."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.every_experiment import ENDINGS
from support.reports import Shown, shown
from support.run_files import edited
from support.simulated_runs import nine_scenarios

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.verdicts import NOT_RUN, UNDECIDED

# A factor that a fidelity sets, by experiment, and what it is not at fidelity thesis.
OVERRIDDEN = {**dict.fromkeys(EXPERIMENTS, ("tcp_nodelay", True)), "middleware": ("warm_up", "load")}
OVERRIDDEN["own bridge"] = ("own_bridge", "answers/b.py")
WRITTEN: dict[str, Callable[[Path], object]] = {**ENDINGS, "loop": partial(nine_scenarios, repetitions=3, messages=20)}


def override(folder: Path, name: str) -> None:
    """Make it one of fidelity thesis with an overridden factor."""
    with edited(folder) as run:
        run["run_id"], run["fidelity"] = folder.name, "thesis"
        run["parameters"] |= dict([OVERRIDDEN[name]])


def outcomes(found: Shown) -> dict[tuple[str, str], str]:
    return {
        (claim, fidelity): verdict.because or verdict.outcome
        for claim, answers in found.verdicts.items()
        for fidelity, verdict in answers.items()
    }


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """What the report shows of the nine scenarios as published."""
    results = tmp_path_factory.mktemp("published")
    WRITTEN["loop"](results)
    return shown(results)


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_no_verdict_rests_on_another_set_up(name: str, tmp_path: Path) -> None:
    experiment = name if name in EXPERIMENTS else "loop"
    WRITTEN[experiment](tmp_path)
    before = shown(tmp_path, experiment)
    published = [m.run.path for m in before.measured if m.run.fidelity == "thesis"]
    for path in published:
        override(Path(shutil.copytree(path, tmp_path / path.name.replace("20", "21", 1))), name)
    beside = shown(tmp_path, experiment)
    # A newer one does not displace what is as published.
    assert outcomes(beside) == outcomes(before)
    assert len(beside.measured) == len(before.measured) + len(published)
    words = {"middleware": "WARM_UP=load", "own bridge": "OWN_BRIDGE=answers/b.py"}
    assert f"thesis, {words.get(name, 'TCP_NODELAY=on')}" in beside.text
    for one in before.measured:
        shutil.rmtree(one.run.path)
    assert {*outcomes(shown(tmp_path, experiment)).values()} <= {NOT_RUN, UNDECIDED}


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("lab_own", {"file": "my/stress.yaml", "changes": "30f4d59a"}, "LAB_OWN=my/stress.yaml@30f4d59a"),
        # Of plain Compose the name alone is known.
        ("lab_own", {"file": "my/stress.yaml"}, "LAB_OWN=my/stress.yaml"),
        ("lab_own", {"file": "compose/own.yaml", "changes": "30f4d59a"}, "LAB_OWN=compose/own.yaml@30f4d59a"),
        ("lab_own", {"file": "my/empty.yaml", "changes": ""}, ""),
        ("lab_own", {"file": "compose/own.yaml"}, ""),
        ("load_settings", {"STRESS_CPU": "3", "STRESS_IO": "0"}, "STRESS_IO=0"),
        ("load_settings", {"FLOOD_MESSAGES": "1000", "FLOOD_REPEAT": "true"}, "FLOOD_MESSAGES=1000"),
        ("load_settings", {"STRESS_CPU": "3"}, ""),
    ],
)
def test_a_compose_file_or_a_load_of_ones_own_is_a_set_up_of_its_own(
    place: str, value: dict[str, str], named: str, published: Shown, tmp_path: Path
) -> None:
    for measured in published.measured:
        shutil.copytree(measured.run.path, tmp_path / measured.run.path.name)
    (usual,) = tmp_path.glob("*-scenario2")
    changed = Path(shutil.copytree(usual, tmp_path / usual.name.replace("20", "21", 1)))
    with edited(changed) as run:
        run["run_id"] = changed.name
        run["environment" if place == "lab_own" else "parameters"][place] = value
    after = shown(tmp_path)
    assert [" ".join(m.run.overrides) for m in after.measured if m.run.overrides] == [named] * bool(named)
    # The exercises count runs with other options of a load all the same.
    assert {"".join(m.run.factors) for m in after.measured} == {"", named if place == "lab_own" else ""}
    # What is as published repeats the run that is there.
    assert (outcomes(after) == outcomes(published)) == bool(named)
    if named:
        assert f"thesis, {named}" in after.text
        # Where it is the only run, nothing is judged by it.
        shutil.rmtree(usual)
        assert outcomes(shown(tmp_path))["stress", "thesis"] == UNDECIDED
