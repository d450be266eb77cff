"""The published "loss of packets" at 10 ms, cause and cure: answers that meet, and how they are framed."""

from collections.abc import Iterator

import pytest
from support.containers import docker, own_image
from support.loop_lab import LoopLab
from support.mqtt_proxy import TO_BROKER, ImpairmentProxy, Rule
from support.parts import HOST
from support.run_checks import Run

# Jitter with a standard deviation of 5 ms: uniform over sqrt(12) times that, in order, as on a wireless link.
JITTER = Rule(impairment="delay", direction=TO_BROKER, jitter_us=5000 * 12**0.5, seed=7)

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def serial_url() -> Iterator[str]:
    """The lab's firmware on the simulated board, in its container."""
    container = docker("run", "--detach", "--rm", own_image("robot"))
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    yield f"socket://{docker('inspect', '--format', form, container)}:4000"
    docker("kill", container)


@pytest.mark.parametrize("framing", ["burst", "line"])
def test_answers_that_meet(lab: LoopLab, serial_url: str, framing: str) -> None:
    """Burst framing loses the answers that meet, and the bridge counts each as merged; line framing loses none."""
    lab.bridge(SERIAL_URL=serial_url, ROBOT_FRAMING=framing)
    settings = {"COMMAND": "T", "MESSAGES": "500", "REPETITIONS": "1", "WARMUP_MESSAGES": "0"}
    with ImpairmentProxy((HOST, lab.broker.port), [JITTER]) as proxy:
        lab.controller(BROKER_PORT=str(proxy.port), ROBOT_FRAMING=framing, **settings).wait()
    run = Run(lab.run)
    cell, merged = run.cell, run.document["bridge"]["counts"]["merged"]
    assert len(proxy.applied("delay")) == cell["sent"] == 500
    assert cell["lost"] == merged
    assert (merged > 0) == (framing == "burst")
