"""The robot as `./lab watch` draws it."""

import pytest

from looplab.experiments.balance import BalanceCell


@pytest.mark.parametrize(("degrees", "top"), [(0, 40), (20, 50), (-20, 30), (46, 40), (-46, 28)])
def test_the_stick_leans_as_the_robot_does(degrees: float, top: int) -> None:
    words, *stick, wheels = BalanceCell.picture({"tilt_degrees": degrees}, 16).splitlines()
    drawn = [line for line in stick if line]
    assert drawn[0].index("#") == top
    assert words.endswith("fallen") == (len(drawn) == 1) == (abs(degrees) > 45)
    assert wheels.index("_") == 40
