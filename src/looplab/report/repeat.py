"""The commands that repeat stored runs: a page names them beside its figures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from looplab.errors import LabError
from looplab.report.samples import Measured
from looplab.report.stored import StoredRun, as_text
from looplab.run.experiment import Experiment
from looplab.run.parameters import Option, RunParameters, quick_settings


class Parameters(Protocol):
    """The module `parameters` of an experiment, as far as a command needs it."""

    OPTIONS: Sequence[Option]
    QUICK: Mapping[str, str]

    def read_parameters(self, environment: Mapping[str, str], /) -> RunParameters: ...


def run_commands(experiment: Experiment, measured: Iterable[Measured]) -> list[str]:
    """Return `./lab run …` for these runs: one command for the scenarios whose options and number of runs agree."""
    own: Parameters = experiment.part("parameters")
    scenarios: dict[tuple[str, str], list[str]] = {}
    for m in measured:
        factors = "".join(f"{factor} " for factor in m.run.factors)
        scenarios.setdefault((factors, _options(m, own)), []).append(m.run.scenario)
    return [f"{factors}./lab run {' '.join(names)}{given}" for (factors, given), names in scenarios.items()]


def _options(m: Measured, own: Parameters) -> str:
    """Return the options of these runs; those that earlier runs did not record are left out."""
    known = m.run.parameters
    given = {option: _value(known[option.parameter]) for option in own.OPTIONS if option.parameter in known}
    variables = {"SCENARIO": m.run.scenario} | {option.variable: value for option, value in given.items()}
    # What has no option, such as a warm-up, was set by --quick or --full if that explains more of the parameters.
    presets = {"": {}, " --quick": own.QUICK, " --full": getattr(own, "FULL", {})}
    settings = {flag: quick_settings(preset, own.OPTIONS, variables) for flag, preset in presets.items()}
    preset = max(settings, key=lambda flag: _agreeing(m.run, own, {**settings[flag], **variables}))
    rounds = f" --rounds {len(m.runs)}" if len(m.runs) > 1 else ""
    options = "".join(f" {option.flag} {value}" for option, value in given.items())
    return f"{rounds}{preset}{options}"


def _agreeing(run: StoredRun, own: Parameters, variables: Mapping[str, str]) -> int:
    """Return how many parameters of `run` these variables give; none if they are not valid (an earlier lab's)."""
    try:
        asked = own.read_parameters(variables).as_json()
    except LabError:
        return 0
    return sum(as_text(asked[name]) == as_text(value) for name, value in run.parameters.items() if name in asked)


def _value(value: object) -> str:
    """Return a parameter as an option has it, e.g. 100,50 or 0-20,2-18 for pairs."""
    if not isinstance(value, list):
        return as_text(value)
    return ",".join("-".join(map(as_text, one)) if isinstance(one, list) else as_text(one) for one in value)
