"""The commands that repeat stored runs: a page names them beside its figures."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Protocol

from looplab.errors import LabError
from looplab.report.samples import Measured
from looplab.report.stored import NO_MATTER, StoredRun, as_text
from looplab.spec.experiment import Experiment
from looplab.spec.parameters import Option, RunParameters, quick_settings
from looplab.system.env_files import expand, read_env

ROOT = Path(os.environ.get("LAB_ROOT") or Path(__file__).resolve().parents[3])


class Parameters(Protocol):
    """The module `parameters` of an experiment, as far as a command needs it."""

    OPTIONS: Sequence[Option]
    QUICK: Mapping[str, str]

    def read_parameters(self, environment: Mapping[str, str], /) -> RunParameters: ...


def run_commands(experiment: Experiment, measured: Iterable[Measured], rounds: int | None = None) -> list[str]:
    """Return `NAME=value ./lab run …` for these runs: one command for scenarios that need the same settings.

    For as many rounds as there are runs, or for `rounds`.
    """
    scenarios: dict[tuple[str, str], list[str]] = {}
    for m in measured:
        variables, options = _settings(m.run, experiment)
        times = rounds or len(m.runs)
        repeated = f" --rounds {times}" if times > 1 else ""
        scenarios.setdefault((variables, repeated + options), []).append(m.run.scenario)
    return [f"{variables}./lab run {' '.join(names)}{options}" for (variables, options), names in scenarios.items()]


def _settings(run: StoredRun, experiment: Experiment) -> tuple[str, str]:
    """Return variables and options of a run; what an earlier lab did not record is left out."""
    own: Parameters = experiment.part("parameters")
    known = run.parameters
    options = {option: _value(known[option.parameter]) for option in own.OPTIONS if option.parameter in known}
    given = {option.variable: value for option, value in options.items()}
    file = _params_env(experiment, run.scenario)
    found = []
    for flag, preset in {"": {}, " --quick": own.QUICK, " --full": getattr(own, "FULL", {})}.items():
        fixed = {"SCENARIO": run.scenario, **quick_settings(preset, own.OPTIONS, given), **given}
        found.append((*_explain(run, own, file, fixed), flag))
    # The settings that leave the fewest parameters unexplained; of those, the shortest.
    _, variables, flag = min(found, key=lambda one: (one[0], len(one[1])))
    shell = "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items())
    return shell, flag + "".join(f" {option.flag} {value}" for option, value in options.items())


def _params_env(experiment: Experiment, scenario: str) -> Mapping[str, str]:
    """Return what params.env of a scenario sets; nothing if this checkout has no such scenario."""
    paths = (path for path in ROOT.glob(f"{experiment.scenarios}/params.env") if path.parent.name == scenario)
    return next(map(read_env, paths), {})


def _explain(
    run: StoredRun, own: Parameters, file: Mapping[str, str], fixed: Mapping[str, str]
) -> tuple[int, dict[str, str]]:
    """Return how many parameters of `run` no setting explains, and the variables that explain more than `fixed` does.

    A variable may be one that params.env lets the shell override, or one of .env that is called like the parameter.
    """
    found: dict[str, str] = {}
    left = _differing(run, own, file, fixed)
    of_file = [name for name, value in file.items() if f"${{{name}:" in value]
    free = dict.fromkeys([*of_file, *(read_env(ROOT / ".env") if file else ())])
    pairs = [
        (name, variable)
        for name, variable in product(left, free)
        if variable not in fixed and (variable in of_file or variable == name.upper())
    ]
    # First the variables called like their parameter.
    for name, variable in sorted(pairs, key=lambda pair: pair[1] != pair[0].upper()):
        if name in left and variable not in found:
            tried = {**found, variable: _value(run.parameters[name])}
            rest = _differing(run, own, file, {**fixed, **tried})
            if name not in rest and len(rest) < len(left):
                found, left = tried, rest
    return len(left), found


def _differing(run: StoredRun, own: Parameters, file: Mapping[str, str], variables: Mapping[str, str]) -> Sequence[str]:
    """Return the parameters that `run` had otherwise than these variables give them."""
    wanted = {name: as_text(value) for name, value in run.parameters.items() if name not in NO_MATTER}
    try:
        asked = own.read_parameters({**variables, **expand(file, variables)}).as_json()
    except LabError:
        # Not valid, or an earlier lab's.
        return list(wanted)
    return [name for name, value in wanted.items() if name in asked and as_text(asked[name]) != value]


def _value(value: object) -> str:
    """Return a parameter as an option has it, e.g. 100,50 or 0-20,2-18 for pairs."""
    if not isinstance(value, list):
        return as_text(value)
    return ",".join("-".join(map(as_text, one)) if isinstance(one, list) else as_text(one) for one in value)
