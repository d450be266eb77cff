"""The record is what ran: images of the containers, commands of the loads, a Compose file of one's own."""

from pathlib import Path

from support.containers import docker
from support.e2e_lab import Lab

from looplab.system.env_files import read_env

# Without a tag, as progrium/stress is usually named.
OTHER = "looplab-test/other-broker"


def test_the_image_that_the_shell_names_runs_and_is_recorded(lab: Lab) -> None:
    """`.env.machine` names another one where no registry answers; the shell's is for this run alone."""
    before = lab.machine_file()
    broker = {**read_env(lab.root / ".env"), **before}["MOSQUITTO_IMAGE"]
    docker("build", "--tag", OTHER, "-", given=f'FROM {broker}\nLABEL looplab.origin="" other=yes\n')
    number = docker("image", "inspect", "--format", "{{.Id}}", OTHER)
    ran = lab.run(
        "run", "scenario1", "--quick", "--messages", "20", "--busy", "--allow-invalid", "--json", MOSQUITTO_IMAGE=OTHER
    )
    found = lab.stored(ran.stdout)["environment"]["images"]["broker"]
    assert found == {"reference": OTHER, "id": number, "origin": "local", "own": False}
    assert lab.machine_file() == before


def test_other_stress_than_recorded_is_invalid(lab: Lab, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text('services: {stress: {command: "--cpu 2 --timeout 4000s"}}\n')
    run = lab.stored(
        lab.run("run", "scenario2", "--quick", "--messages", "50", "--busy", "--json", code=1, LAB_OWN=str(own)).stdout
    )
    assert any(reason.startswith("stress options: wanted --cpu 3") for reason in run["invalid_because"])
    assert run["environment"]["lab_own"]["file"] == str(own)
    assert len(run["environment"]["lab_own"]["changes"]) == 8
