"""The handouts as their readers see them: commands, panels."""

import re
import shlex
from functools import cache
from pathlib import Path

from looplab.exercises.exercise import Exercise, read_exercise
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.cli import parser
from looplab.lab.run_options import variables as run_variables
from looplab.lab.scenarios import chosen
from looplab.spec.parameters import RunParameters
from looplab.system.env_files import read_env
from support.places import ROOT

FOLDERS = (ROOT / "compose/scenarios", ROOT / "compose/experiments", ROOT / "docs/exercises")
HANDOUTS = sorted(path for folder in FOLDERS for path in folder.glob("[!_]*/README.md"))


def name_of(handout: Path) -> str:
    return handout.parent.name


@cache
def exercise_of(handout: Path) -> Exercise:
    return read_exercise(ROOT, name_of(handout), EXPERIMENTS)


def commands(handout: Path) -> list[str]:
    """Every line of ./lab in every block of shell commands, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", handout.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if "./lab" in line]


def observed(handout: Path) -> list[str]:
    """What the section Observe names in italics, in order: a dashboard, then panels of it."""
    observe = handout.read_text().split("## Observe")[1].split("\n## ")[0]
    return re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", observe)


def paper_questions(handout: Path) -> list[str]:
    """The numbered questions, which are answered on paper."""
    asked = handout.read_text().split("## Questions")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. .+$", asked, re.MULTILINE)


def words_of(command: str) -> tuple[dict[str, str], list[str]]:
    """Variables set in front, and what follows ./lab."""
    words = shlex.split(command)
    variables = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    assert words.pop(0) == "./lab"
    return variables, words


@cache
def runs_of(command: str) -> list[RunParameters]:
    """What the controllers of a command's runs would be told."""
    variables, words = words_of(command)
    options = parser().parse_args(words)
    if options.command not in ("run", "study"):
        return []
    # A study has two arms of the first scenario of each load.
    names, times = (options.scenarios, 1) if options.command == "run" else (options.names, 2 * options.rounds)
    given = {name: value for name, value in vars(options).items() if name.isupper()}
    scenarios = chosen(ROOT, names)
    settings = {**read_env(ROOT / ".env"), **variables, **run_variables(scenarios, given, options.quick)}
    return [scenario.parameters(settings) for scenario in scenarios] * times
