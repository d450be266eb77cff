"""The commands that repeat stored runs: a page names them beside its figures."""

from collections.abc import Iterable, Sequence

from looplab.report.samples import Measured
from looplab.report.stored import as_text
from looplab.run.experiment import Experiment
from looplab.run.parameters import Option


def run_commands(experiment: Experiment, measured: Iterable[Measured]) -> list[str]:
    """Return `./lab run …` for these runs: one command for the scenarios whose options and number of runs agree."""
    options = experiment.part("parameters").OPTIONS
    scenarios: dict[str, list[str]] = {}
    for m in measured:
        scenarios.setdefault(_options(m, options), []).append(m.run.scenario)
    return [f"./lab run {' '.join(names)}{given}" for given, names in scenarios.items()]


def _options(m: Measured, options: Sequence[Option]) -> str:
    """Return the options of these runs; those that earlier runs did not record are left out."""
    given = [("--rounds", str(len(m.runs)))] if len(m.runs) > 1 else []
    known = m.run.parameters
    given += [(option.flag, _value(known[option.parameter])) for option in options if option.parameter in known]
    return "".join(f" {flag} {value}" for flag, value in given)


def _value(value: object) -> str:
    """Return a parameter as an option has it, e.g. 100,50 or 0-20,2-18 for pairs."""
    if not isinstance(value, list):
        return as_text(value)
    return ",".join("-".join(map(as_text, one)) if isinstance(one, list) else as_text(one) for one in value)
