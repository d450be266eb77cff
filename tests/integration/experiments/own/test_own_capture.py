"""The capture beside a real broker in a network namespace of its own, against what paho's clients saw themselves."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import pytest
import support.own_application as application
from support.parts import Broker, Child
from support.ports import free_port
from support.waiting import until
from support.wire import Lan, call

from looplab.capture import Application, client
from looplab.errors import LabError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
long = pytest.mark.flag("LAB_OWN_LONG")


class Watched:
    """A broker with its capture in a namespace of its own."""

    def __init__(self, lan: Lan, folder: Path) -> None:
        within = ("nsenter", f"--net=/run/netns/{lan.namespace('broker')}")
        self.host, self._folder = lan.addresses["broker"], folder
        self.broker = Broker(folder, host=self.host, within=within)
        port = free_port()
        self.url = f"http://{self.host}:{port}"
        variables = {
            "CAPTURE_BIND": self.host, "CAPTURE_CONTROL": lan.here, "CAPTURE_PORT": str(port),
            "CAPTURE_PORT_FROM_START": str(self.broker.port), "CAPTURE_FOLDER": str(folder),
        }  # fmt: skip
        # As root tcpdump would become a user who may not write here.
        tool = folder / "tcpdump"
        tool.write_text(f'#!/bin/sh\nexec {shutil.which("tcpdump")} -Z root "$@"\n')
        tool.chmod(0o755)
        variables["PATH"] = f"{folder}:{os.environ['PATH']}"
        self._command, self._variables = [*within, sys.executable, "-m", "looplab.capture"], variables
        self.begin()

    def begin(self) -> None:
        """Start the capture."""
        self.capture = Child(self._command, self._folder / "capture.log", self._variables)
        until(self._answers, f"the capture answers: {self.capture.said()}")
        self.since_s = time.time()

    def _answers(self) -> bool:
        try:
            client.check(self.url)
        except LabError:
            return False
        return True

    def run(self, **asked: Any) -> dict[str, float]:
        """Run the application to its end; return by client and number how long each request took in ms."""
        document = json.dumps({"host": self.host, "port": self.broker.port, **asked})
        command = [sys.executable, str(Path(application.__file__))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, "device", document], **pipes) as device:  # type: ignore[call-overload]
            assert device.stdout.readline() == "ready\n"
            return dict(json.loads(call(*command, "requesters", document, timeout_s=300)))

    def found(self, most: int = 1000) -> dict[str, Any]:
        asked = Application("app/+/ask", "app/+/answer", "topic+json:n", self.since_s, time.time(), 5.0, most)
        return client.stop_application(asked, self.url)


@pytest.fixture
def watched(tmp_path: Path, at_end: contextlib.ExitStack) -> Watched:
    made = Watched(at_end.enter_context(Lan(7, ("broker",))), tmp_path)
    at_end.callback(made.broker.kill)
    at_end.callback(lambda: made.capture.close())
    return made


def taken_ms(found: dict[str, Any]) -> list[float]:
    columns = found["columns"]
    return [(end - start) / 1e6 for start, end in zip(columns["in_ns"], columns["received_ns"], strict=True)]


def test_capture_and_client_agree(watched: Watched) -> None:
    """One capture of an application by each version of MQTT at each QoS, one after the other."""
    took: dict[str, float] = {}
    versions: dict[str, str] = {}
    for version, qos in product(application.VERSIONS, (0, 1, 2)):
        name = f"{version}-{qos}-"
        took |= watched.run(name=name, version=version, qos=qos, clients=3, requests=60, interval_s=0.01)
        versions |= dict.fromkeys([f"{name}{one}" for one in ("asks-0", "asks-1", "asks-2", "device")], version)
    found = watched.found()
    columns, names = found["columns"], [one["client"] for one in found["clients"]]
    assert found["dropped"] == 0
    assert len(took) == 360 == len(columns["in_ns"])
    assert {one["client"]: one["version"] for one in found["clients"]} == versions
    # The rows of one requester are in the order of its numbers.
    own: dict[str, list[float]] = {name: [] for name in names if not name.endswith("device")}
    for requester, ms in zip(columns["requester"], taken_ms(found), strict=True):
        own[names[requester]].append(ms)
    more = [took[f"{name} {int(name[-1]) + 3 * at}"] - ms for name, each in own.items() for at, ms in enumerate(each)]
    assert min(more) > 0
    print(f"the client has {median(more):.3f} ms more than the capture")
    assert median(more) < 0.5 or os.environ.get("LAB_OWN_LONG", "0") == "0", "on a quiet machine"


@long
def test_a_hundred_thousand_requests_are_accounted_for(watched: Watched) -> None:
    took = watched.run(version="5", qos=0, clients=20, requests=100_000, interval_s=0.001)
    found = watched.found(most=100_000)
    assert found["dropped"] == 0
    assert len(found["columns"]["in_ns"]) == 100_000
    assert sum(one >= 0 for one in taken_ms(found)) == len(took)


@long
def test_the_application_is_hardly_slower_for_the_capture(watched: Watched) -> None:
    """Paired: the client's median with the capture over that without it, each of them first in half of the pairs."""
    ratios = []
    asked = {"version": "3.1.1", "qos": 0, "clients": 4, "requests": 1000, "interval_s": 0.002}
    watched.capture.close()
    for number in range(16):
        medians = {}
        for captured in (number % 2 == 0, number % 2 == 1):
            if captured:
                watched.begin()
                # What the start of a program costs is over.
                time.sleep(1.0)
            medians[captured] = median(watched.run(**asked).values())
            if captured:
                watched.capture.close()
        ratios.append(medians[True] / medians[False])
    watched.begin()
    print(f"with the capture over without it: {geometric_mean(ratios):.3f} of {[round(one, 2) for one in ratios]}")
    assert geometric_mean(ratios) <= 1.05
