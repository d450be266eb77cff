"""The robot balances: its tilt and the commands as they come, then what its table says."""

from generator import plain
from generator.dashboard import Dashboard
from generator.panels import graph
from looplab.experiments.balance import EXPERIMENT

NOTHING_YET = "nothing measured yet: ./lab run balance --quick"


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboard by its file name."""
    tilt = graph(
        "Tilt of the robot",
        "The newest tilt that the controller has, once a second. Beyond 45 degrees the robot has fallen.",
        {"{{interval_ms}} ms, QoS {{qos}}": "balance_tilt_degrees"},
        label="tilt",
        unit="degree",
        signed=True,
        no_value=NOTHING_YET,
    )
    command = graph(
        "Command to the wheels",
        "The voltage that the newest request carried, once a second. The motors take 7.4 V at most.",
        {"{{interval_ms}} ms, QoS {{qos}}": "balance_wheel_volts"},
        label="voltage of the wheels",
        unit="volt",
        signed=True,
        no_value=NOTHING_YET,
    )
    return plain.dashboards(EXPERIMENT, [tilt, command])
