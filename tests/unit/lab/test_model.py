"""The images that a run records are those of its parts, by their containers."""

from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import MachineError
from looplab.lab.docker.model import check_images, is_empty, model_facts, part_of

SERVICES = {
    "scenario5": {"image": "looplab/controller:1", "build": {}},
    "broker-prioritised": {"image": "local/broker"},
    "pages": {"image": "looplab/report:1", "build": {}},
    "stress": {"image": "looplab/stress:1"},
    "stress-image": {"image": "looplab/stress:1", "build": {"args": {"BASE_IMAGE": "base:1"}}, "scale": 0},
    "robot": {"image": "looplab/robot:1", "scale": 0},
    "grafana": {"image": "gone:1"},
}


def test_images_are_those_of_the_parts_that_start(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has("looplab/controller:1", "local/broker:latest", "looplab/robot:1", "looplab/stress:1")
    found = model_facts(SERVICES, SERVICES, "scenario5", "own.yaml", tmp_path)
    assert found["lab_own"] == {"file": "own.yaml", "changes": ""}
    assert {name: (one["reference"], one["own"]) for name, one in found["images"].items()} == {
        "controller": ("looplab/controller:1", True),
        "broker": ("local/broker", False),
        "stress": ("looplab/stress:1", True),
    }


def test_a_file_without_a_service_is_empty(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    assert is_empty(own)
    for text, empty in (("", True), ("# mine\n\nservices: {}\n", True), ("services: {robot: {}}\n", False)):
        own.write_text(text)
        assert is_empty(own) is empty


def test_a_part_of_another_image_is_found(programs: fakes.Programs) -> None:
    programs.add("docker", {"inspect*": ("id1 sha256:1\nid2 sha256:2\nid3 sha256:3\n", "", 0)})
    containers = {"broker-prioritised": "id1", "scenario5": "id2", "stranger": "id3"}
    known = {name: {"reference": f"{name}:1", "id": f"sha256:{at}"} for at, name in ((1, "broker"), (2, "controller"))}
    check_images(containers, "scenario5", known)
    assert (part_of("scenario5", "scenario5"), part_of("broker-prioritised", "scenario5")) == ("controller", "broker")
    known["broker"]["id"] = "sha256:4"
    with pytest.raises(MachineError, match="broker-prioritised was started from another image than broker:1") as caught:
        check_images(containers, "scenario5", known)
    assert "another checkout" in caught.value.remedy
