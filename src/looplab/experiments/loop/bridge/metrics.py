"""The Pi's metrics: serves what the bridge wrote to memory, and its machine's load, to Prometheus on port 9102.

It is a process of its own beside the bridge, so that a scrape never meets the hot path. It needs no broker, so it
reports on the bridge while the network is cut. Names begin with `lab_pi_`: the lab's own exporter reports on the
other machine.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from looplab.errors import EXIT_MACHINE
from looplab.experiments.loop.bridge import state as bridge_state
from looplab.system import own_process

PORT = 9102
_INFO = ("version", "framing", "scheduling", "serial", "robot", "broker")
# Figures of the machine: name, help, file, how many of its units make one.
_MACHINE = (
    ("lab_pi_load1", "Load average over one minute.", "/proc/loadavg", 1),
    (
        "lab_pi_temperature_celsius",
        "The processor's; a Pi slows down from 80.",
        "/sys/class/thermal/thermal_zone0/temp",
        1000,
    ),
)


class PiCollector(Collector):
    """Reads `folder` (the bridge's STATE_DIR) and the kernel's files at each scrape."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """Yield the families of one scrape."""
        state = bridge_state.read(self._folder)
        up = "1 while the bridge on this machine turns its loop."
        yield GaugeMetricFamily("lab_pi_bridge_up", up, state is not None)
        if state is not None:
            yield from _bridge(state)
        for name, text, file, unit in _MACHINE:
            with contextlib.suppress(OSError, ValueError, IndexError):
                yield GaugeMetricFamily(name, text, float(Path(file).read_text().split()[0]) / unit)


def _bridge(state: bridge_state.BridgeState) -> Iterator[Metric]:
    facts = state.facts
    connected, online = bool(facts.get("connected")), bool(facts.get("robot_online"))
    yield GaugeMetricFamily("lab_pi_bridge_connected", "1 while the broker serves the bridge.", connected)
    yield GaugeMetricFamily("lab_pi_robot_online", "1 while the robot answers.", online)
    lost = float(facts.get("disconnects", 0))
    yield CounterMetricFamily("lab_pi_bridge_disconnects", "Connections to the broker that were lost.", lost)
    events = CounterMetricFamily("lab_pi_bridge_events", "What the bridge counts, by event.", labels=["event"])
    for event, count in state.counts.items():
        events.add_metric([event], count)
    yield events
    labels = {name: str(facts.get(name, "")) for name in _INFO}
    yield InfoMetricFamily("lab_pi_bridge", "How the bridge is set up.", labels)


def main() -> int:
    """Serve until asked to stop; STATE_DIR is the bridge's."""
    stop = own_process.stop_event()
    registry = CollectorRegistry()
    registry.register(PiCollector(Path(os.environ.get("STATE_DIR") or "/state")))
    try:
        start_http_server(PORT, registry=registry)
    except OSError as error:
        print(f"bridge_exporter: port {PORT}: {error.strerror}", file=sys.stderr)
        return EXIT_MACHINE
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
