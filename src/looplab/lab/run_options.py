"""The options of `./lab run`: those of every experiment in the registry, and the variables that they set."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from looplab.errors import UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.scenarios import Scenario, check_one_kind
from looplab.spec.parameters import Option

MOST_ROUNDS = 1000
# Each of these parts may run on another host.
PARTS = ("controller", "broker", "bridge")
# With this option, runs beside other programs enter verdicts, too.
BUSY = "LAB_BUSY"


def variables(wanted: Sequence[Scenario], given: Mapping[str, str | None], quick: bool) -> dict[str, str]:
    """Return the options of `run` as the variables that params.env and .env read; `given` is by variable.

    Raises LabError (exit code 2) for scenarios of several experiments, and for an option that means nothing to them.
    """
    own = (experiment := check_one_kind(wanted)).parameters
    # A scenario that runs alone may have a preset of its own.
    scenario = wanted[0].run_name if len(wanted) == 1 else ""
    chosen_ones = {name: value for name, value in given.items() if value is not None}
    options = own.options()
    known = {option.variable for option in options}
    wrong = [option.flag for option in _options() if option.variable in chosen_ones.keys() - known]
    if wrong:
        raise UsageError(
            f"{', '.join(wrong)}: no option of {wanted[0].run_name}.",
            f"Its options are {', '.join(option.flag for option in options)}; see params.env in its folder, too.",
        )
    chosen_ones |= {"EXPERIMENT": experiment.name} if experiment.borrows else {}
    return (own.quick_preset(scenario, chosen_ones) if quick else {}) | chosen_ones


def _options() -> dict[Option, list[str]]:
    """Return each option of `run` with the names of the experiments that have it."""
    known: dict[Option, list[str]] = {}
    for name, experiment in EXPERIMENTS.items():
        for option in experiment.parameters.options():
            known.setdefault(option, []).append(name)
    return known


def add_arguments(run: argparse.ArgumentParser) -> None:
    named = "scenario0 … scenario8 (all: these nine), a profile of another experiment, or your own"
    run.add_argument("scenarios", nargs="+", metavar="SCENARIO", help=named)
    run.add_argument("--rounds", type=_count, default=1, metavar="N", help="repeat them, in a random order each round")
    hosts = run.add_argument_group("on several hosts (docs/many-hosts.md)")
    for part in PARTS:
        hosts.add_argument(
            f"--{part}-on", default="", metavar="NAME", help=f"the {part}'s host (default: this machine)"
        )
    # argparse's own usage, with all options, would fill a terminal.
    run.usage = "%(prog)s [OPTION ...] SCENARIO [SCENARIO ...]"
    _add_options(run)


def add_study_arguments(study: argparse.ArgumentParser) -> None:
    claims = ", ".join(name for experiment in EXPERIMENTS.values() for name in experiment.studies)
    study.add_argument("names", nargs="+", metavar="NAME", help=f"a scenario, all, or a claim: {claims}")
    study.add_argument("--rounds", type=_count, default=5, metavar="N", help="how often each runs (default: 5)")
    study.add_argument("--seed", type=int, metavar="S", help="seed of the random order (default: a new one)")
    study.usage = "%(prog)s [OPTION ...] NAME [NAME ...]"
    _add_options(study)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_ROUNDS:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST_ROUNDS}, not {text!r}")
    return int(text)


def _add_options(run: argparse.ArgumentParser) -> None:
    """Add the options of a run, an experiment's own in a group of their own."""
    groups = {
        name: run.add_argument_group(
            "options of the scenarios" if name == EXPERIMENTS.default else f"options of {name}"
        )
        for name in EXPERIMENTS
    }
    for option, names in _options().items():
        group = groups[names[0]] if len(names) == 1 else run
        form: dict[str, Any] = {"choices": option.choices} if option.choices else {"metavar": option.metavar}
        # argparse would replace what follows a per cent sign.
        group.add_argument(option.flag, dest=option.variable, help=option.help.replace("%", "%%"), **form)
    run.add_argument("--quick", action="store_true", help="a few cells and messages: seconds of sending")
    run.add_argument("--busy", dest=BUSY, action="store_const", const="on", help="let runs beside strangers count")
    run.add_argument("--json", dest="as_json", action="store_true", help="one JSON document on standard output")
    run.add_argument("--allow-invalid", action="store_true", help="exit code 0 for an invalid run, too")
