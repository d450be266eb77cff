"""The record is what ran: images of the containers, commands of the loads, what fell, a Compose file of one's own."""

import re
from pathlib import Path

from support.containers import docker
from support.e2e_lab import Lab, needs_root
from support.run_checks import total, treatments

from looplab.system.env_files import read_env

# Without a tag, as progrium/stress is usually named.
OTHER = "looplab-test/other-broker"


@needs_root
def test_the_record_names_what_ran_and_what_fell(lab: Lab, tmp_path: Path) -> None:
    """`.env.machine` names another image where no registry answers; the shell's is for this run alone.

    Stress and the link's emulator are killed. Who allows it gets 0, and the run is invalid all the same.
    """
    before = lab.machine_file()
    broker = {**read_env(lab.root / ".env"), **before}["MOSQUITTO_IMAGE"]
    docker("build", "--tag", OTHER, "-", given=f'FROM {broker}\nLABEL looplab.origin="" other=yes\n')
    number = docker("image", "inspect", "--format", "{{.Id}}", OTHER)
    own = tmp_path / "own.yaml"
    own.write_text('services: {stress: {command: "--cpu 2 --timeout 4000s"}}\n')
    variables = {"LAB_OWN": str(own), "MOSQUITTO_IMAGE": OTHER, "ROBOT_FRAMING": "line"}
    running = lab.measuring("scenario3", 10, "--link", "wifi", "--allow-invalid", **variables)
    lab.kill_process("stress")
    lab.kill_process("link")
    run = running.ended()
    assert not run["valid"]
    named = {reason.partition(":")[0]: reason for reason in run["invalid_because"]}
    assert named["stress options"].startswith("stress options: wanted --cpu 3")
    assert re.search(r"seen in \d+ of \d+ scans", treatments(run)["stress load"]["found"])
    assert "stress load" in named
    assert named["link"] == "link: wanted wifi, found not emulated to the end"
    # Without its emulator the link is as it was.
    assert total(run, "answered") + total(run, "late") == 1000
    environment = run["environment"]
    assert environment["lab_own"]["file"] == str(own)
    assert len(environment["lab_own"]["changes"]) == 8
    assert environment["images"]["broker"] == {"reference": OTHER, "id": number, "origin": "local", "own": False}
    assert lab.machine_file() == before
