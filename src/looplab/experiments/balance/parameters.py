"""The parameters of one run: the loop's, and the law that keeps the robot upright."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from looplab.errors import UsageError
from looplab.experiments.balance import NAME, BalanceCell
from looplab.experiments.loop.parameters import LAB, LoopParameters
from looplab.experiments.loop.protocol import COMMAND_EMULATED
from looplab.spec.parameters import (
    AS,
    INTERVALS,
    MESSAGES,
    REPETITIONS,
    Option,
    Param,
    choice,
    integer,
    matching,
    numbers,
    param,
)
from looplab.spec.reader import Reader

# With a gain of this length no product of gain and state overflows.
_NUMBER = r"[-+]?[0-9]{1,6}(\.[0-9]{1,6})?"
GAINS_OPTION = Option("--gains", "GAINS", "V,…", "gains of the control law, e.g. --gains=-3.5,-10,-11.9,-1")


@dataclass(frozen=True, kw_only=True)
class BalanceParameters(LoopParameters):
    """What one run does. A repetition begins with an upright robot; `gains` () are the designed ones."""

    messages: int = integer(3000, 5, 1_000_000, option=MESSAGES, quick="300")
    repetitions: int = integer(1, 1, 10_000, option=REPETITIONS, quick="1")
    intervals_ms: tuple[float, ...] = numbers("100 50 20 10", 0.5, 60_000, option=INTERVALS, quick="20")
    command: str = choice("B", ("B",))
    clients: str = choice(LAB, (LAB,))
    gains: tuple[float, ...] = param(lambda get, name: _gains(get, name), "usual", option=GAINS_OPTION)
    as_scenario: str = matching("", r"[a-z0-9_-]{0,41}", "a scenario of ./lab list", option=AS, matters=False)

    cell = BalanceCell
    no_printed = "FIDELITY=printed: the thesis's publisher hears no answer, so no command can follow from one."

    @classmethod
    def factors(cls) -> dict[str, Param]:
        """Return those that the loop does not have, or has otherwise: docs/factors.tsv has the loop's."""
        others = LoopParameters.factors()
        return {
            name: one
            for name, one in super().factors().items()
            if name not in others or one.default != others[name].default
        }

    @classmethod
    def read(cls, environment: Mapping[str, str], folder: str = "") -> Self:
        """Read and check every parameter. Raises LabError (exit code 2).

        SCENARIO is `balance`, or the scenario of the loop whose parts and treatments it has.
        """
        if environment.get("COMMAND", "").strip() == COMMAND_EMULATED:
            raise UsageError(
                f"COMMAND=E: {environment.get('SCENARIO') or NAME} has no robot, its bridge emulates the answers.",
                "Take one with a robot: scenario1, 2, 4, 5, 7 or 8.",
            )
        return super().read(environment, f"compose/experiments/{NAME}")

    def checked(self, environment: Mapping[str, str]) -> "BalanceParameters":
        name = self.scenario if self.scenario == NAME else f"{NAME}-{self.scenario}"
        return replace(super().checked(environment), scenario=name)  # type: ignore[return-value]


PARAMETERS = BalanceParameters


def _gains(get: Reader, name: str) -> tuple[float, ...]:
    expected = "`usual`, or four numbers of at most six digits, e.g. '-3.5 -10 -11.9 -1'"
    text = get.matching(name, "usual", rf"usual|{_NUMBER}([,\s]+{_NUMBER}){{3}}", expected)
    return () if text == "usual" else tuple(float(part) for part in re.split(r"[,\s]+", text))
