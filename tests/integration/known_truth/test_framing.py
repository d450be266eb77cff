"""The published "loss of packets" at 10 ms, cause and cure: answers that meet, and how they are framed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import own_image
from support.loop_harness import Run, bridge, broker, measure, robot
from support.mqtt_proxy import ImpairmentProxy, Rule

# Jitter with a standard deviation of 5 ms: uniform over sqrt(12) times that, in order, as on a wireless link.
JITTER = Rule(impairment="delay", direction="to_broker", jitter_us=5000 * 12**0.5, seed=7)

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def serial_url() -> Iterator[str]:
    image = own_image("robot")
    if subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode:
        pytest.skip(f"the image {image} is not here: ./lab setup builds it")
    with robot(image) as url:
        yield url


def run_with(framing: str, serial_url: str, folder: Path, *rules: Rule) -> Run:
    with broker(folder) as port, bridge(port, SERIAL_URL=serial_url, ROBOT_FRAMING=framing):
        time.sleep(0.5)
        with ImpairmentProxy(("127.0.0.1", port), rules) as proxy:
            return measure(folder / "results", proxy.port, COMMAND="T", ROBOT_FRAMING=framing, MESSAGES="500")


def test_burst_framing_merges_answers_that_meet(serial_url: str, tmp_path: Path) -> None:
    run = run_with("burst", serial_url, tmp_path, JITTER)
    assert run.cell["answered"] < run.cell["sent"] == 500
    # Every loss is a merged answer that the bridge counted, and nothing else.
    assert run.cell["lost"] == run.document["bridge"]["counts"]["merged"] > 0


def test_line_framing_loses_none(serial_url: str, tmp_path: Path) -> None:
    run = run_with("line", serial_url, tmp_path, JITTER)
    assert run.cell["answered"] + run.cell["late"] == run.cell["sent"] == 500
    assert run.cell["lost"] == run.document["bridge"]["counts"]["merged"] == 0
