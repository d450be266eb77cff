"""One title for each scenario: TITLE in its params.env, and wherever else it is shown."""

import pytest
import yaml
from support.places import ROOT

from looplab.exercises.exercise import read_exercise
from looplab.experiments.loop.report import published
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.scenarios import experiments, scenarios
from looplab.run import prepare

TITLES = {name: scenario.title for name, scenario in {**scenarios(ROOT), **experiments(ROOT)}.items()}
FOLDERS = {path.parent.name: path.parent for path in ROOT.glob("compose/*/[!_]*/params.env")}

# An experiment that varies another one has no handout of its own.
HANDOUTS = [name for name in TITLES if (FOLDERS[name] / "README.md").is_file()]


@pytest.mark.parametrize("name", HANDOUTS)
def test_the_handout_and_the_exercise_have_it(name: str) -> None:
    heading = (FOLDERS[name] / "README.md").read_text().splitlines()[0]
    assert heading.partition(": ")[2] == TITLES[name]
    assert read_exercise(ROOT, name, EXPERIMENTS).title == TITLES[name]
    assert "title" not in yaml.safe_load((FOLDERS[name] / "expected.yaml").read_text())


def test_the_report_has_it_and_a_bare_up_names_each_scenario() -> None:
    assert published.titles().items() <= TITLES.items()
    bare = prepare.guide({}, ROOT / "compose").replace("\n ", "")
    assert sorted(bare.partition("Profiles: ")[2].partition("\n")[0].split(", ")) == sorted(TITLES)
