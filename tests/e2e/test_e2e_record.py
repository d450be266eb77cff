"""The record is what ran: images of the containers, commands of the loads, a Compose file of one's own."""

from pathlib import Path

from support.containers import docker
from support.e2e_lab import Lab

from looplab.system.env_files import read_env

# Without a tag, as progrium/stress is usually named.
OTHER = "looplab-test/other-broker"


def test_the_image_and_the_commands_are_those_that_ran(lab: Lab, tmp_path: Path) -> None:
    """`.env.machine` names another image where no registry answers; the shell's is for this run alone."""
    before = lab.machine_file()
    broker = {**read_env(lab.root / ".env"), **before}["MOSQUITTO_IMAGE"]
    docker("build", "--tag", OTHER, "-", given=f'FROM {broker}\nLABEL looplab.origin="" other=yes\n')
    number = docker("image", "inspect", "--format", "{{.Id}}", OTHER)
    own = tmp_path / "own.yaml"
    own.write_text('services: {stress: {command: "--cpu 2 --timeout 4000s"}}\n')
    words = ("run", "scenario2", "--quick", "--messages", "50", "--busy", "--json")
    run = lab.stored(lab.run(*words, code=1, LAB_OWN=str(own), MOSQUITTO_IMAGE=OTHER).stdout)
    assert any(reason.startswith("stress options: wanted --cpu 3") for reason in run["invalid_because"])
    environment = run["environment"]
    assert environment["lab_own"]["file"] == str(own)
    assert len(environment["lab_own"]["changes"]) == 8
    assert environment["images"]["broker"] == {"reference": OTHER, "id": number, "origin": "local", "own": False}
    assert lab.machine_file() == before
