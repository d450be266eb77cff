"""The images that a run records are those of its parts, by their containers."""

from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import MachineError
from looplab.lab.docker.compose import Compose
from looplab.lab.docker.model import check_images, model_facts, part_of

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
    docker.has("looplab/controller:1", "looplab/report:1", "local/broker:latest", "looplab/robot:1", "looplab/stress:1")
    docker.compose_reads(SERVICES)
    (tmp_path / "own.yaml").write_text("# mine\n\nservices: {}\n")
    compose = Compose(tmp_path, {})
    compose.leave_out("pages")
    found = model_facts(tmp_path, compose, "scenario5", "own.yaml")
    assert found["lab_own"] == {"file": "own.yaml", "changes": ""}
    assert {name: (one["reference"], one["own"]) for name, one in found["images"].items()} == {
        "controller": ("looplab/controller:1", True),
        "broker": ("local/broker", False),
        "stress": ("looplab/stress:1", True),
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
