"""The robot balances: its tilt and the commands as they come, then what its table says."""

from generator import plain
from generator.dashboard import Dashboard
from generator.panels import Panel, graph
from looplab.experiments.balance import EXPERIMENT

NOTHING_YET = "nothing measured yet: ./lab run balance --quick"


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboard by its file name."""
    tilt = _newest(
        "Tilt of the robot",
        "The newest tilt, once a second: much of a push falls between two values. Beyond 45 degrees it has fallen.",
        "balance_tilt_degrees",
        label="tilt",
        unit="degree",
    )
    command = _newest(
        "Command to the wheels",
        "The voltage that the newest request carried, once a second. The motors take 7.4 V at most.",
        "balance_wheel_volts",
        label="voltage of the wheels",
        unit="volt",
    )
    return plain.dashboards(EXPERIMENT, [tilt, command])


def _newest(title: str, about: str, metric: str, **more: str) -> Panel:
    return graph(title, about, {"{{interval_ms}} ms, QoS {{qos}}": metric}, signed=True, no_value=NOTHING_YET, **more)
