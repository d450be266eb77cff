"""The parameters of one run of the counter."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from looplab.experiments.counter import EXPERIMENT, SleepCell

from looplab.spec.parameters import (
    MESSAGES,
    Option,
    Reader,
    RunParameters,
    check_samples,
    choice,
    integer,
    listed,
    read_number,
)

SLEEPS = Option("--sleeps", "SLEEPS_MS", "MS,…", "how long to sleep, one cell each, e.g. 1,5")


@dataclass(frozen=True, kw_only=True)
class CounterParameters(RunParameters):
    """What one run does."""

    scenario: str = choice("counter", ("counter",), matters=False)
    messages: int = integer(100, 1, 100_000, option=MESSAGES, quick="100")
    sleeps_ms: tuple[float, ...] = listed("1 5", read_number, "numbers, e.g. 1,5", option=SLEEPS, quick="5,20")

    @property
    def cells(self) -> list[SleepCell]:
        return [SleepCell.keyed(sleep_ms) for sleep_ms in self.sleeps_ms]

    @property
    def sending_s(self) -> float:
        return sum(self.sleeps_ms) * self.messages / 1000


PARAMETERS = CounterParameters


def read_parameters(environment: Mapping[str, str] = os.environ) -> CounterParameters:
    """Read and check every parameter; raises LabError (exit code 2) naming the variable at fault."""
    parameters = CounterParameters.of(Reader(environment, EXPERIMENT.scenarios))
    check_samples(parameters, "MESSAGES or the number of SLEEPS_MS")
    return parameters
