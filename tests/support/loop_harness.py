"""A real broker, a real bridge and a real controller on loopback, with the impairment proxy in between."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.places import ROOT
from support.ports import free_port

START_LIMIT_S = 20.0
RUN_LIMIT_S = 240.0


@contextmanager
def process(*command: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A child that is ended by its id, whatever happens."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def broker(folder: Path, *, nodelay: bool = True) -> Iterator[int]:
    """Debian's mosquitto on a free port; yields the port."""
    port = free_port()
    configuration = folder / "mosquitto.conf"
    configuration.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay {str(nodelay).lower()}\nlog_type none\n"
    )
    program = "/usr/sbin/mosquitto"
    with process(program, "-c", str(configuration)):
        _wait_for_port(port)
        yield port


@contextmanager
def bridge(port: int, **variables: str) -> Iterator[None]:
    """The real bridge, connected to the broker at `port`; waits for nothing (the controller does)."""
    settings = {"BROKER_HOST": "127.0.0.1", "BROKER_PORT": str(port), "TCP_NODELAY": "on", **variables}
    with process(sys.executable, "-m", "looplab.experiments.loop.bridge.program", **settings):
        yield


@contextmanager
def robot(image: str) -> Iterator[str]:
    """The real firmware on the simulated board, in its container; yields the URL of its serial port."""
    command = ["docker", "run", "--detach", "--rm", image]
    container = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    try:
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        found = subprocess.run(
            ["docker", "inspect", "--format", form, container], capture_output=True, text=True, check=True
        )
        yield f"socket://{found.stdout.strip()}:4000"
    finally:
        subprocess.run(["docker", "kill", container], capture_output=True, check=False)


class Run:
    """A finished run: its document, its samples by sequence."""

    def __init__(self, folder: Path) -> None:
        self.document: dict[str, Any] = json.loads((folder / "run.json").read_text())
        with (folder / "samples.csv").open() as file:
            self.samples = {int(row["sequence"]): row for row in csv.DictReader(file)}

    @property
    def token(self) -> str:
        return str(self.document["token"])

    @property
    def cell(self) -> dict[str, Any]:
        """The first cell, where a run has but one."""
        cell: dict[str, Any] = self.document["cells"][0]
        return cell

    def overhead_us(self, sequence: int) -> float:
        return float(self.samples[sequence]["overhead_us"])


def measure(results: Path, port: int, **variables: str) -> Run:
    """Run the real controller against the broker (or the proxy before it) at `port`."""
    settings = {
        "PYTHONPATH": str(ROOT / "src"),
        "BROKER_HOST": "127.0.0.1",
        "BROKER_PORT": str(port),
        "RESULTS_DIR": str(results),
        "TREATMENTS_URL": "http://127.0.0.1:1/",
        "SCENARIO": "selftest",
        "FIDELITY": "corrected",
        "COMMAND": "E",
        "INTERVALS_MS": "10",
        "MESSAGES": "200",
        "REPETITIONS": "1",
        "WARMUP_MESSAGES": "0",
        **variables,
    }
    before = set(results.glob("*")) if results.exists() else set()
    done = subprocess.run(
        [sys.executable, "-m", "looplab.experiments.loop"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    made = sorted(set(results.glob("*")) - before)
    assert len(made) == 1, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return Run(made[0])


def _wait_for_port(port: int) -> None:
    end_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end_s:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")
