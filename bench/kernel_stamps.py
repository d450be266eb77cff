#!/usr/bin/env python3
"""Measure what the kernel's time stamps cost O: none of them (twice), those of arrivals, those of departures as well.

Four brokers, each with a bridge and a client of one kind. Blocks of 25 requests E at 5 ms go to all in random order,
so that each kind meets the same machine. Prints the medians, and the median difference of the blocks' medians.

    PYTHONPATH=src:tests .venv/bin/python bench/kernel_stamps.py [--seconds 60]
"""

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from support.parts import HOST, LIMIT_S, Broker, Child, RobotDouble, until

from looplab.experiments.loop.document import COLUMNS
from looplab.experiments.loop.protocol import ONLINE, TOPIC_ANSWER, TOPIC_BRIDGE_STATUS
from looplab.experiments.loop.request_loop import Measurement, Requests
from looplab.mqtt import kernel_stamps
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target
from looplab.run.samples import ABSENT, SampleStore

# Constants of kernel_stamps that make each kind: an option that no kernel knows; no departures.
NONE = {"SO_TIMESTAMPING": 9999}
KINDS: dict[str, dict[str, int]] = {"none": NONE, "none too": NONE, "arrivals": {"TX_SCHED": 0}, "both": {}}
BRIDGE = "looplab.experiments.loop.bridge.program"
BLOCK, INTERVAL_NS = 25, 5_000_000
MS = 1_000_000


class Loop:
    """A client and a bridge of one kind at a broker of their own."""

    def __init__(self, kind: str, robot: RobotDouble, folder: Path, messages: int, ended: contextlib.ExitStack) -> None:
        broker = Broker(folder)
        ended.callback(broker.stop)
        patch = "".join(f"k.{name} = {value}; " for name, value in KINDS[kind].items())
        code = (
            f"from looplab.mqtt import kernel_stamps as k; {patch}from {BRIDGE} import main; raise SystemExit(main())"
        )
        settings = {"BROKER_HOST": HOST, "BROKER_PORT": str(broker.port), "SERIAL_URL": robot.url}
        bridge = Child([sys.executable, "-c", code], folder / f"{kind}.log", {**settings, "FIDELITY": "corrected"})
        ended.callback(bridge.close)
        self.store = SampleStore(messages, more=COLUMNS)
        self._next = 0
        self._online = False
        options = ClientOptions([(TOPIC_ANSWER, 0), (TOPIC_BRIDGE_STATUS, 0)])
        self._client = MqttClient(Target(HOST, broker.port, tcp_nodelay=True), kind, options, self._received)
        self._loop = Measurement(self._client, self.store, Requests("E", "bench", messages, 1000), self._other)
        # The client's own socket is made in here.
        before = {name: getattr(kernel_stamps, name) for name in KINDS[kind]}
        for name, value in KINDS[kind].items():
            setattr(kernel_stamps, name, value)
        assert self._client.connect(LIMIT_S), self._client.last_error
        for name, value in before.items():
            setattr(kernel_stamps, name, value)
        until(lambda: self._client.wait(time.perf_counter_ns() + MS) or self._online, f"the bridge of {kind}")

    def go(self) -> None:
        """Send a block of requests as the controller does, and wait for the answers."""
        self._loop.repetition(self._next, BLOCK, INTERVAL_NS, 0)
        self._next += BLOCK

    def _received(self, topic: bytes, payload: bytes, qos: int) -> None:
        self._loop.received(topic, payload, qos)

    def _other(self, topic: bytes, payload: bytes) -> None:
        self._online |= payload == ONLINE

    def overheads_us(self) -> list[float]:
        """Return the O of each request."""
        columns = (self.store[name] for name in ("sent_ns", "received_ns", "robot_ns"))
        found = [(sent, received, robot) for sent, received, robot in zip(*columns, strict=True) if sent != ABSENT]
        return [(received - sent - robot) / 1000 for sent, received, robot in found]


def measure(seconds: float) -> dict[str, list[float]]:
    """Return O in us of each message by kind, in the same order."""
    messages = int(seconds * 1e9 / (len(KINDS) * INTERVAL_NS)) // BLOCK * BLOCK
    with contextlib.ExitStack() as ended:
        folder = Path(ended.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        loops = {}
        for kind in KINDS:
            robot = RobotDouble()
            ended.callback(robot.unplug)
            loops[kind] = Loop(kind, robot, folder, messages, ended)
        order, end_s = list(loops.values()), time.monotonic() + seconds
        while time.monotonic() < end_s:
            random.shuffle(order)
            for loop in order:
                loop.go()
        return {kind: loop.overheads_us() for kind, loop in loops.items()}


def medians(times: list[float]) -> list[float]:
    """Return the median of each block."""
    return [statistics.median(times[at : at + BLOCK]) for at in range(0, len(times), BLOCK)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    found = measure(parser.parse_args().seconds)
    none, blocks = found["none"], {kind: medians(times) for kind, times in found.items()}
    print(f"{len(none)} messages of each kind; O at the application layer")
    for kind, times in found.items():
        more_us = statistics.median(a - b for a, b in zip(blocks[kind], blocks["none"], strict=True))
        p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        print(
            f"{kind:>9}: p50 {p50:.0f} us, {p50 / statistics.median(none):.3f} x, {more_us:+.1f} us; p95 {p95:.0f} us"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
