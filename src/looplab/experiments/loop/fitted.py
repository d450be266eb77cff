"""Constants of the emulation that were fitted to published figures, and which measured figures depend on them.

The only list of them: the table of a run, the report and Grafana's descriptions take their words from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FITTED, PREDICTION = "fitted", "prediction"
# The one cell whose mean O the link was fitted to: at the interval that all nine scenarios have, and the rows of 100
# and 10 ms share one printed O. A constant delay predicts one O for all intervals: 50 and 100 ms confirm no more.
WIFI_CELL = ("scenario0", 20.0, 0)
# The deviation was chosen by the cells of this interval.
JITTER_MS = 10.0


@dataclass(frozen=True)
class Fitted:
    """One sentence on what was fitted to what; the figures that depend on it, named as in run.json without `_us`.

    Lost messages depend on all: answers merge where they meet.
    """

    text: str
    figures: frozenset[str]

    def __str__(self) -> str:
        return self.text


ROBOT = Fitted(
    "The virtual robot's USB frames are fitted to the published mean of R in scenario 1; its sensor takes 3 samples so "
    "that answers can meet, which merged losses depend on.",
    frozenset({"T", "R", "service_R", "response", "lost"}),
)
WIFI = Fitted(
    "The delay of LINK=wifi is fitted to the published mean of O in scenario 0 at 20 ms; in other cells O is a "
    "prediction. Its deviation, 0.25 ms, is fitted to the cells at 10 ms: with more, repetitions lock there.",
    frozenset({"T", "O", "transport_O", "response", "response-R", "lost"}),
)

FITTED_CONSTANTS = (ROBOT, WIFI)


def fitted(parameters: Mapping[str, Any]) -> list[Fitted]:
    """Return the fitted constants that a run with these parameters depends on."""
    robot = parameters.get("robot") == "virtual" and parameters.get("command") in ("T", "L", "S", "B")
    return [ROBOT] * robot + [WIFI] * (parameters.get("link") == "wifi")


def standing(parameters: Mapping[str, Any], figure: str, interval_ms: float, qos: int) -> str:
    """Return FITTED or PREDICTION for a figure of one cell that depends on a fitted constant, "" for any other."""
    constants = [constant for constant in fitted(parameters) if figure in constant.figures]
    if not constants:
        return ""
    cells = interval_ms == JITTER_MS or (parameters.get("scenario"), interval_ms, qos) == WIFI_CELL
    return FITTED if cells or ROBOT in constants else PREDICTION
