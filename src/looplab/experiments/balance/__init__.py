"""The control loop as it keeps a robot upright on its two wheels."""

import math
from collections.abc import Mapping

from looplab.experiments.loop import BRIDGE, CLIENTS, ROBOT, LoopCell
from looplab.spec.columns import Figure, Latency
from looplab.spec.experiment import Experiment
from looplab.spec.roles import BROKER, CONTROLLER, LINK

NAME = "balance"
# Each claim on a treatment compares these scenarios; the claim on QoS compares the cells of one.
COMPARED = {
    "balance-stress": ("balance-scenario1", "balance-scenario2"),
    "balance-broker-priority": ("balance-scenario2", "balance-scenario4"),
    "balance-client-priority": ("balance-scenario4", "balance-scenario5"),
    "balance-flood": ("balance-scenario1", "balance-scenario7"),
    "balance-qos-2": ("balance-scenario8",),
}
# How a terminal draws the stick: column of the wheels, columns a line at 45 degrees, its length and tilt when it lies.
MIDDLE, STICK_COLUMNS, LENGTH, LYING_DEGREES = 40, 2, 12, 44.9


class BalanceCell(LoopCell):
    """One interval at one quality of service: the loop's figures, and how well the robot stood."""

    age = Latency(
        "how old the reading was that a command follows from: since its request reached the bridge",
        times=("measured_ns", "sent_ns"),
        heading="age",
        endless=False,
        live=True,
    )
    seconds = Figure("how long it was watched, mean of the repetitions", unit="s")
    upright_s = Figure(
        "how long the robot stood, mean of the repetitions", unit="s", heading="upright", digits=1, live=True
    )
    angle_rms_rad = Figure("RMS of the tilt while it stood", unit="rad", heading="tilt", digits=3, live=True)
    cost = Figure(
        "mean of (tilt / 0.1 rad)² + (voltage / 4 V)²; a fallen robot costs on at 45 degrees",
        heading="cost",
        digits=3,
        live=True,
    )
    age_ms = Figure("age of the newest reading that the controller holds, mean over time", unit="ms")
    misses = Figure(
        "most messages of any 10 in a row without an answer when the next one was due",
        pooled=max,
        heading="misses",
        digits=0,
        live=True,
    )

    @classmethod
    def picture(cls, newest: Mapping[str, float], lines: int) -> str:
        """Return the robot on its wheels as it leans; it lies from 45 degrees on."""
        if (degrees := newest.get("tilt_degrees")) is None:
            return ""
        if lies := abs(degrees) >= LYING_DEGREES:
            stick = [""] * (lines - 3) + [" " * (MIDDLE - (LENGTH if degrees < 0 else 0)) + "#" * LENGTH]
        else:
            way = STICK_COLUMNS * math.tan(math.radians(degrees))
            stick = [" " * (MIDDLE + round(way * height)) + "#" for height in range(lines - 2, 0, -1)]
        words = f"tilt {degrees:.1f} degrees" + (": fallen" if lies else "")
        return "\n".join([words, *stick, " " * (MIDDLE - 1) + "(_)"])


EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios=f"compose/experiments/{NAME}",
    cell=BalanceCell,
    roles=(CONTROLLER, BROKER, BRIDGE, ROBOT, LINK, CLIENTS),
    studies=COMPARED,
    borrows=True,
    judged=("cost",),
)
