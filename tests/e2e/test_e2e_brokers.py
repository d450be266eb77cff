"""Other brokers in the same scenarios: found and treated as mosquitto is, and missed when they or their load fall."""

import os
import re
import signal
from pathlib import Path
from typing import Any

from support.containers import docker
from support.e2e_lab import Lab, needs_root
from support.run_checks import treatments

from looplab.spec.brokers import BROKERS


def check_found(run: dict[str, Any], broker: str) -> None:
    """Check what a run of scenario8 says of its broker; priority and its counts: integration/images."""
    found = treatments(run)
    version = run["environment"]["versions"]["broker"]
    assert version
    assert run["parameters"]["broker"] == broker
    assert found["broker"]["found"] == f"{broker} {version}"
    assert found["broker TCP_NODELAY"]["found"] == "off"
    assert {cell["qos"] for cell in run["cells"]} == set(BROKERS[broker].qos)


@needs_root
def test_a_flood_that_is_stopped_is_named_and_another_broker_found(lab: Lab) -> None:
    """As `docker pause` does: its process is there in every scan. Stress that is paused: the controller's test."""
    words = ("--intervals", "20", "--messages", "100", "--repetitions", "2", "--order", "published", "--json")
    running = lab.start("run", "scenario8", *words, "--broker", "mochi", MQTT_VERSION="5")
    # The engine may take seconds to name the process; a flood that is stopped late passes.
    running.wait_for("waiting for the flood")
    flood = lab.process("flood")
    running.wait_for("20 ms, QoS 0")
    os.kill(flood, signal.SIGSTOP)
    run = running.ended(1)
    found = treatments(run)
    assert found["flood load"]["verified"]
    assert not found["flood in every cell"]["verified"]
    assert re.search(r"messages/s in cells? .+ of 3", found["flood in every cell"]["found"])
    assert any(why.startswith("flood in every cell") for why in run["invalid_because"])
    check_found(run, "mochi")
    assert {found[f"{role} MQTT version"]["found"] for role in ("controller", "bridge")} == {"5"}
    assert found["broker process"]["verified"]
    assert run["cells"][0]["load"]["broker_publish_per_s"] > 60
    assert found["broker scheduling policy"]["found"] == "SCHED_OTHER"


@needs_root
def test_a_broker_that_dies_makes_the_run_invalid(lab: Lab) -> None:
    running = lab.measuring("scenario8", 1, "--order", "published", "--broker", "rabbitmq")
    lines = docker("top", lab.container("broker"), "-o", "pid,comm").splitlines()
    (pid,) = [int(line.split()[0]) for line in lines if line.split()[1] == BROKERS["rabbitmq"].comm]
    os.kill(pid, signal.SIGKILL)
    run = running.ended(1)
    assert not run["valid"]
    assert any(reason.startswith("broker process: ") for reason in run["invalid_because"])
    check_found(run, "rabbitmq")


def test_a_broker_that_cannot_start_is_named_with_its_last_lines(lab: Lab, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("services: {broker: {command: [-c, /nowhere.conf]}}\n")
    done = lab.run("run", "scenario1", "--quick", code=3, LAB_OWN=str(own), PARTS_TIMEOUT_S="3")
    assert "broker is not running. Its last lines: " in done.stderr
    assert "/nowhere.conf" in done.stderr
