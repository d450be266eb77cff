"""Other brokers in the same scenarios: found and treated as mosquitto is, and missed when they die."""

import os
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


def test_a_scenario_with_another_broker_is_found_as_wanted(lab: Lab) -> None:
    words = ("--quick", "--messages", "50", "--broker", "mochi", "--json", "--allow-invalid")
    run = lab.stored(lab.run("run", "scenario8", *words, MQTT_VERSION="5").stdout)
    check_found(run, "mochi")
    assert {treatments(run)[f"{role} MQTT version"]["found"] for role in ("controller", "bridge")} == {"5"}
    assert treatments(run)["answers' correlation data"]["verified"]
    assert treatments(run)["broker process"]["verified"]
    assert all(cell["load"]["broker_publish_per_s"] > 60 for cell in run["cells"])
    assert treatments(run)["broker scheduling policy"]["found"] == "SCHED_OTHER"


@needs_root
def test_a_broker_that_dies_makes_the_run_invalid(lab: Lab) -> None:
    words = ("--intervals", "20", "--messages", "100", "--repetitions", "1", "--order", "published")
    running = lab.start("run", "scenario8", *words, "--broker", "rabbitmq", "--json")
    running.wait_for("20 ms, QoS 0")
    lines = docker("top", lab.container("broker"), "-o", "pid,comm").splitlines()
    (pid,) = [int(line.split()[0]) for line in lines if line.split()[1] == BROKERS["rabbitmq"].comm]
    os.kill(pid, signal.SIGKILL)
    code, output, _said = running.finish()
    run = lab.stored(output)
    assert (code, run["valid"]) == (1, False)
    assert any(reason.startswith("broker process: ") for reason in run["invalid_because"])
    check_found(run, "rabbitmq")


def test_a_broker_that_cannot_start_ends_the_run_at_once(lab: Lab, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("services: {broker: {command: [-c, /nowhere.conf]}}\n")
    # The controller would wait for longer than the test does.
    done = lab.run("run", "scenario1", "--quick", code=3, LAB_OWN=str(own), PARTS_TIMEOUT_S="300")
    assert "its broker ends whenever it is started. Its last lines: " in done.stderr
    assert "/nowhere.conf" in done.stderr
