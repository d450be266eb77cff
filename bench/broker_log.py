#!/usr/bin/env python3
"""Measure what logging refused topics costs the broker: by the lab's plugin, or by mosquitto's own log of each message.

One client and four brokers with the lab's access list: one quiet, one watched by the plugin (images/refusals), one that
logs all into a file in memory, one into a pipe that another process reads, as an engine does. Each message goes to all
in random order and back to the client: one way through a broker. A round trip of the lab has two.
Prints the medians, and the median of the differences.

    PYTHONPATH=src:tests .venv/bin/python bench/broker_log.py [--seconds 60]
"""

import argparse
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.parts import HOST, LIMIT_S, Broker
from support.places import ROOT

from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target

QUIET, WATCHED, FILE, PIPE = "quiet", "watched", "file", "pipe"
TOPIC, PAYLOAD = "request/", b"T-20261121T161300Z-123456"
KINDS = "".join(f"log_type {kind}\n" for kind in ("error", "warning", "notice", "information"))
PAUSE_S = 0.004
MS = 1_000_000


class Way:
    """A message through one broker and back."""

    def __init__(self, broker: Broker) -> None:
        self.times_us: list[float] = []
        self._back_ns = 0
        target = Target(HOST, broker.port, tcp_nodelay=True)
        self._link = MqttClient(target, f"bench-{broker.port}", ClientOptions([(TOPIC, 0)]), self._back)
        if not self._link.connect(LIMIT_S):
            sys.exit(f"no connection: {self._link.last_error}")
        while not self._link.subscribed:
            self._link.wait(time.perf_counter_ns() + 5 * MS)

    def go(self) -> None:
        self._back_ns, start_ns = 0, time.perf_counter_ns()
        self._link.publish(TOPIC, PAYLOAD)
        while not self._back_ns:
            # With a tuple of others it returns as soon as something arrives.
            self._link.wait(start_ns + 1000 * MS, ())
        self.times_us.append((self._back_ns - start_ns) / 1000)

    def close(self) -> None:
        self._link.close()

    def _back(self, _topic: bytes, _payload: bytes, _qos: int) -> None:
        self._back_ns = time.perf_counter_ns()


def measure(folder: Path, seconds: float) -> dict[str, list[float]]:
    """Return the microseconds of each message by kind of logging, in the same order."""
    pipe, acl = folder / PIPE, folder / "acl"
    os.mkfifo(pipe)
    # The client is anonymous; the rules of the lab's users follow, as in a bridge's list.
    acl.write_text(f"topic readwrite {TOPIC}\n{(ROOT / 'compose/mosquitto/lan/acl').read_text()}")
    make = ["make", "-s", "-C", str(ROOT / "images/refusals"), f"BUILD={folder / 'build'}"]
    subprocess.run(make, check=True)
    settings = {
        QUIET: f"log_dest none\n{KINDS}",
        WATCHED: f"log_dest none\n{KINDS}plugin {folder}/build/refusals.so\nplugin_opt_access_list {acl}\n",
        FILE: f"log_dest file {folder / FILE}\nlog_type debug\n{KINDS}",
        PIPE: f"log_dest file {pipe}\nlog_type debug\n{KINDS}",
    }
    with contextlib.ExitStack() as ended, (folder / "read").open("wb") as read:
        reader = subprocess.Popen(["cat", pipe], stdout=read)
        ended.callback(reader.wait)
        ways = {}
        for name, lines in settings.items():
            # As root, mosquitto would change to a user that may write none of this.
            user = "user root\n" if os.geteuid() == 0 else ""
            broker = Broker(folder, more=f"allow_anonymous true\nacl_file {acl}\n{user}{lines}")
            ended.callback(broker.stop)
            ways[name] = Way(broker)
            ended.callback(ways[name].close)
        end_s = time.monotonic() + seconds
        order = list(ways.values())
        while time.monotonic() < end_s:
            random.shuffle(order)
            for way in order:
                way.go()
                time.sleep(PAUSE_S)
    return {name: way.times_us for name, way in ways.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    # In memory, as a container's tmpfs is.
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        found = measure(folder, parser.parse_args().seconds)
        logged = {name: (folder / file).stat().st_size for name, file in ((FILE, FILE), (PIPE, "read"))} | {WATCHED: 0}
    finally:
        shutil.rmtree(folder)
    medians = {name: statistics.median(times) for name, times in found.items()}
    print(f"{len(found[QUIET])} messages, one way through a broker")
    print(f"{QUIET:>7}: p50 {medians[QUIET]:.0f} us")
    for name in (WATCHED, FILE, PIPE):
        more_us = statistics.median(a - b for a, b in zip(found[name], found[QUIET], strict=True))
        ratio = medians[name] / medians[QUIET]
        each = logged[name] / len(found[name])
        print(f"{name:>7}: p50 {medians[name]:.0f} us, {ratio:.2f} x, {more_us:+.1f} us; {each:.0f} bytes a message")
    return 0


if __name__ == "__main__":
    sys.exit(main())
