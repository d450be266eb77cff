"""Which figures are no findings, because a constant behind them was fitted."""

import pytest

from looplab.experiments.loop.fitted import standing

ROBOT = {"scenario": "scenario1", "robot": "virtual", "command": "T", "link": "none"}
EMULATED = {"scenario": "scenario0", "robot": "virtual", "command": "E", "link": "none"}


@pytest.mark.parametrize(
    ("parameters", "cell", "found"),
    [
        (EMULATED, (20, 0), ["", "", ""]),
        (ROBOT, (20, 0), ["fitted", "fitted", ""]),
        ({**ROBOT, "robot": "usb"}, (20, 0), ["", "", ""]),
        ({**EMULATED, "link": "wifi"}, (20, 0), ["fitted", "", "fitted"]),
        ({**EMULATED, "link": "wifi"}, (50, 0), ["prediction", "", "prediction"]),
        # The deviation was chosen so that no repetition locks here.
        ({**EMULATED, "link": "wifi"}, (10, 0), ["fitted", "", "fitted"]),
        ({**ROBOT, "link": "wifi"}, (20, 0), ["fitted", "fitted", "prediction"]),
        ({}, (20, 0), ["", "", ""]),
    ],
)
def test_the_cells_to_which_a_constant_was_fitted(
    parameters: dict[str, str], cell: tuple[float, int], found: list[str]
) -> None:
    assert [standing(parameters, figure, *cell) for figure in ("T", "R", "O")] == found
