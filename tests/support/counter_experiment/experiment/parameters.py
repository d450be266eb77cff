"""The parameters of one run of the counter."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from looplab.spec.parameters import (
    FIDELITY,
    MESSAGES,
    Option,
    Reader,
    RunParameters,
    check_samples,
    read_number,
    setting,
)

OPTIONS = (Option("--sleeps", "SLEEPS_MS", "MS,…", "how long to sleep, one cell each, e.g. 1,5"), MESSAGES, FIDELITY)
QUICK = {"SLEEPS_MS": "5,20", "MESSAGES": "100"}


@dataclass(frozen=True, kw_only=True)
class CounterParameters(RunParameters):
    """What one run does."""

    scenario: str = setting(lambda get: get.choice("SCENARIO", "counter", ("counter",)))
    messages: int = setting(lambda get: get.integer("MESSAGES", 100, 1, 100_000))
    sleeps_ms: tuple[float, ...] = setting(lambda get: get.list("SLEEPS_MS", "1 5", read_number, "numbers, e.g. 1,5"))

    @property
    def cells(self) -> tuple[float, ...]:
        """The sleep of each cell in ms."""
        return self.sleeps_ms

    @property
    def sending_s(self) -> float:
        """How long the sleeps take."""
        return sum(self.sleeps_ms) * self.messages / 1000

    def as_json(self) -> dict[str, Any]:
        """Return the effective parameters as run.json stores them."""
        return {**asdict(self), "intervals_ms": list(self.sleeps_ms)}


def read_parameters(environment: Mapping[str, str] = os.environ) -> CounterParameters:
    """Return the checked parameters. Raises LabError (exit code 2) naming the variable at fault."""
    get = Reader(environment, "compose/experiments/counter")
    parameters = CounterParameters.of(get)
    check_samples(parameters, "MESSAGES or the number of SLEEPS_MS")
    return parameters
