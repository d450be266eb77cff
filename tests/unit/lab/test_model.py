"""What a run records of its Compose model: the images of its parts, what the user's own file changes in it."""

from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.errors import MachineError
from looplab.lab.checkout import Lab
from looplab.lab.docker.compose import Compose
from looplab.lab.docker.model import check_images, model_facts, part_of

SERVICES = {
    "scenario5": {"image": "looplab/controller:1", "build": {}},
    "broker-prioritised": {"image": "local/broker"},
    "guide": {"image": "looplab/prepare:1", "build": {}},
    "robot": {"image": "looplab/robot:1", "scale": 0},
    "grafana": {"image": "gone:1"},
}


def test_images_are_those_of_the_parts_that_start(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has("looplab/controller:1", "looplab/prepare:1", "local/broker:latest", "looplab/robot:1")
    docker.compose_reads(SERVICES)
    (tmp_path / "own.yaml").write_text("# mine\n\nservices: {}\n")
    found = model_facts(tmp_path, Compose(tmp_path, {}), "scenario5", "own.yaml")
    assert found["lab_own"] == {"file": "own.yaml", "changes": ""}
    assert {name: (one["reference"], one["own"]) for name, one in found["images"].items()} == {
        "controller": ("looplab/controller:1", True),
        "broker": ("local/broker", False),
    }


def test_a_part_of_another_image_is_found(programs: fakes.Programs, tmp_path: Path) -> None:
    containers = "broker-prioritised id1\nscenario5 id2\nstranger id3\n"
    images = "broker-prioritised sha256:1\nscenario5 sha256:2\nstranger sha256:3\n"
    programs.add("docker", {"ps*": (containers, "", 0), "inspect*": (images, "", 0)})
    known = {name: {"reference": f"{name}:1", "id": f"sha256:{at}"} for at, name in ((1, "broker"), (2, "controller"))}
    check_images(Compose(tmp_path, {}), "scenario5", known)
    assert (part_of("scenario5", "scenario5"), part_of("broker-prioritised", "scenario5")) == ("controller", "broker")
    known["broker"]["id"] = "sha256:4"
    with pytest.raises(MachineError, match="broker-prioritised was started from another image than broker:1") as caught:
        check_images(Compose(tmp_path, {}), "scenario5", known)
    assert "another checkout" in caught.value.remedy


def changes(file: str, profile: str, **settings: str) -> str:
    """What the user's own file changes as Compose reads it."""
    lab = Lab(ROOT, {"LAB_OWN": file, **settings})
    found = lab.model_facts(lab.compose(), profile)["lab_own"]
    assert found["file"] == file
    return str(found["changes"])


@pytest.mark.engine
def test_a_file_of_ones_own_has_a_digest_of_what_it_changes(tmp_path: Path) -> None:
    own, other, empty = (tmp_path / name for name in ("own.yaml", "other.yaml", "empty.yaml"))
    own.write_text('services: {stress: {command: "--cpu 2"}, bridge: {environment: {MINE: "1"}}}\n')
    other.write_text('services: {stress: {command: "--cpu ${MINE:-4}"}}\n')
    empty.write_text("services: {broker: {}}\n")
    digest = changes(str(own), "scenario2")
    assert len(digest) == 8
    # Neither a fidelity nor the load's own settings are a change of that file.
    assert changes(str(own), "scenario5", FIDELITY="corrected", STRESS_CPU="6", BROKER="mochi") == digest
    assert changes(str(own), "scenario1") not in ("", digest)
    assert changes(str(other), "scenario2") not in ("", digest, changes(str(other), "scenario2", MINE="5"))
    assert [changes(str(other), "scenario1"), changes(str(empty), "scenario2")] == ["", ""]
    assert changes("compose/own.yaml", "scenario2") == ""
