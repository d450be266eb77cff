"""The options of `./lab run`: those of every experiment in the registry, and the variables that they set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_USAGE, LabError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.scenarios import check_one_kind, chosen
from looplab.run.parameters import Option, quick_settings


def variables(root: Path, options: argparse.Namespace) -> dict[str, str]:
    """Return the options of `run` as the variables that params.env and .env read.

    Raises LabError (exit code 2) for an option that means nothing to what is run.
    """
    experiment = check_one_kind(chosen(root, options.scenario))
    own = experiment.part("parameters")
    given = {option: getattr(options, option.variable) for option in _options() if getattr(options, option.variable)}
    wrong = [option.flag for option in given if option not in own.OPTIONS]
    if wrong:
        raise LabError(
            f"{', '.join(wrong)}: no option of {options.scenario[0]}.",
            f"Its options are {', '.join(option.flag for option in own.OPTIONS)}; see params.env in its folder, too.",
            EXIT_USAGE,
        )
    variables = {option.variable: value for option, value in given.items()}
    quick = quick_settings(own.QUICK, own.OPTIONS, variables) if options.quick else {}
    return {**quick, **variables}


def _options() -> dict[Option, list[str]]:
    """Return each option of `run` with the names of the experiments that have it."""
    found: dict[Option, list[str]] = {}
    for name, experiment in EXPERIMENTS.items():
        for option in experiment.part("parameters").OPTIONS:
            found.setdefault(option, []).append(name)
    return found


def add_arguments(run: argparse.ArgumentParser) -> None:
    """Add the arguments of `./lab run`, an experiment's own in a group of their own."""
    run.add_argument(
        "scenario", nargs="+", metavar="SCENARIO", help="a scenario, all (scenario0 … scenario8), or your own"
    )
    groups = {
        name: run.add_argument_group(
            "options of the scenarios" if name == EXPERIMENTS.default else f"options of {name}"
        )
        for name in EXPERIMENTS
    }
    for option, names in _options().items():
        group = groups[names[0]] if len(names) == 1 else run
        form: dict[str, Any] = {"choices": option.choices} if option.choices else {"metavar": option.metavar}
        group.add_argument(option.flag, dest=option.variable, help=option.help, **form)
    run.add_argument("--quick", action="store_true", help="a few cells and messages: seconds of sending")
    run.add_argument("--json", action="store_true", help="one JSON document on standard output")
    run.add_argument("--allow-invalid", action="store_true", help="exit code 0 for an invalid run, too")
