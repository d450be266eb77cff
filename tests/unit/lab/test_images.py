"""Where images come from: here, a registry, or Debian packages; a silent registry is asked once."""

import json
from pathlib import Path
from typing import Any

import pytest
from support import host_fakes as fakes

from looplab.errors import MachineError
from looplab.lab.docker.images import (
    Images,
    Registry,
    image_facts,
    local_images,
    note_layer,
    read_image_fact,
    read_registry,
)
from looplab.lab.image_names import registry_of
from looplab.lab.programs import Outcome

BASE = "debian:trixie-slim"
BROKER = "eclipse-mosquitto:2.0.22"
BROKER_STAND_IN, BASE_STAND_IN = "looplab/mosquitto:0.1.0", "looplab/debian:0.1.0"
FLOOD = "looplab/flood:0.1.0"
DIGEST = "sha256:" + "1" * 64
REGISTRY = "house.test:5000/lab/"
OWN = f"{REGISTRY}looplab/robot"
LABELLED = {"Config": {"Labels": {"looplab.origin": "built"}}}


def ensured(root: Path, references: dict[str, str], stand_in: str = "", settled: dict | None = None) -> Images:
    images = Images(root)
    images.ensure_upstream(references, stand_in, settled)
    return images


def test_what_is_here_asks_no_registry_and_one_that_answers_is_pulled_from(
    docker: fakes.Docker, tmp_path: Path
) -> None:
    docker.has(BROKER)
    assert ensured(tmp_path, {"MOSQUITTO_IMAGE": BROKER}).variables == {}
    assert docker.calls("pull") == []
    docker.gives("prom/prometheus:v3.7.3")
    ensured(tmp_path, {"PROMETHEUS_IMAGE": "prom/prometheus:v3.7.3"})
    assert "pull prom/prometheus:v3.7.3" in docker.calls()
    assert docker.built() == []


def test_a_silent_registry_is_asked_once_and_stand_ins_are_built(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has(BASE)
    references = {
        "MOSQUITTO_IMAGE": BROKER,
        "PROMETHEUS_IMAGE": "prom/prometheus:v3.7.3",
        "GRAFANA_IMAGE": "grafana/grafana:12.4.0",
        "FLOOD_IMAGE": "inovex/mqtt-stresser:latest",
    }
    images = ensured(tmp_path, references, FLOOD)
    assert len(docker.calls("pull")) == 1
    assert docker.built() == [BROKER_STAND_IN, "looplab/prometheus:0.1.0"]
    assert docker.calls("build")[0].endswith(str(tmp_path / "images/mosquitto"))
    stand_ins = {"MOSQUITTO_IMAGE": BROKER_STAND_IN, "PROMETHEUS_IMAGE": "looplab/prometheus:0.1.0"}
    assert images.variables == {**stand_ins, "GRAFANA": "off", "FLOOD_IMAGE": FLOOD}
    assert sum("grafana" in note for note in images.notes) == 1


def test_what_was_settled_is_not_asked_again(docker: fakes.Docker, tmp_path: Path) -> None:
    references = {"GRAFANA_IMAGE": "grafana/grafana:12.4.0", "FLOOD_IMAGE": FLOOD}
    images = ensured(tmp_path, references, FLOOD, {"GRAFANA": "off"})
    assert images.variables == {"GRAFANA": "off", "FLOOD_IMAGE": FLOOD}
    assert images.notes == docker.calls("pull") == []


def test_what_stands_in_has_a_name_of_its_own_and_is_built_again_once_it_is_gone(
    docker: fakes.Docker, tmp_path: Path
) -> None:
    docker.has(BASE)
    first = ensured(tmp_path, {"MOSQUITTO_IMAGE": f"{BROKER}@{DIGEST}"})
    assert docker.built() == [BROKER_STAND_IN]
    assert first.variables == {"MOSQUITTO_IMAGE": BROKER_STAND_IN}
    assert ensured(tmp_path, first.variables, settled=first.variables).variables == first.variables
    assert docker.built() == [BROKER_STAND_IN]
    docker.lost(BROKER_STAND_IN)
    assert ensured(tmp_path, first.variables, settled=first.variables).variables == first.variables
    assert docker.built() == [BROKER_STAND_IN] * 2


def test_a_pinned_image_that_is_here_by_its_tag_was_loaded_from_a_bundle(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has(BROKER)
    assert ensured(tmp_path, {"MOSQUITTO_IMAGE": f"{BROKER}@{DIGEST}"}).variables == {"MOSQUITTO_IMAGE": BROKER}


def test_images_are_built_upon_the_base_that_stands_in(
    docker: fakes.Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("looplab.lab.docker.images.make_base_image", docker.has)
    images = ensured(tmp_path, {"MOSQUITTO_IMAGE": BROKER})
    assert images.variables == {"BASE_IMAGE": BASE_STAND_IN, "MOSQUITTO_IMAGE": BROKER_STAND_IN}
    assert f"--build-arg BASE_IMAGE={BASE_STAND_IN}" in docker.calls("build")[0]
    # The next set-up takes what this one has chosen, and asks nobody.
    asked = docker.calls("pull")
    again = Images(tmp_path, base=BASE_STAND_IN)
    again.ensure_base()
    assert again.variables == {"BASE_IMAGE": BASE_STAND_IN}
    assert docker.calls("pull") == asked


def test_an_image_nobody_has_names_the_bundle(docker: fakes.Docker, tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        ensured(tmp_path, {"MOSQUITTO_IMAGE": "somebody/broker:1"})
    assert "no such host" in caught.value.message
    assert "./lab load" in caught.value.remedy


def test_each_registry_has_its_own_answer(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(reference: str) -> Registry:
        asked.append(reference)
        return Registry(registry_of(reference), answers="house" in reference)

    images = Images(tmp_path, ask)
    for reference in ("a:1", "b/c:2", "house.test:5000/d:1", "house.test:5000/e:2"):
        assert images.registry(reference).answers is ("house" in reference)
    assert asked == ["a:1", "house.test:5000/d:1"]


@pytest.mark.parametrize(
    ("code", "said", "answers"),
    [
        (1, fakes.ANSWERS, True),
        (1, "toomanyrequests: You have reached your pull rate limit", True),
        (1, "Error response from daemon: pull access denied for x, repository does not exist", True),
        (1, fakes.SILENT, False),
        (1, 'Get "https://registry.test/v2/": x509: certificate signed by unknown authority', False),
        (1, 'Get "https://registry.test/v2/": net/http: request canceled (Client.Timeout exceeded)', False),
        (1, 'Get "https://registry.test/v2/": dial tcp 192.0.2.1:443: connect: network is unreachable', False),
        (124, "docker: no answer within 15 s", False),
    ],
)
def test_a_refusal_is_an_answer_and_silence_is_none(code: int, said: str, answers: bool) -> None:
    assert read_registry("", Outcome(("docker", "pull"), code, "", said)).answers is answers


@pytest.mark.parametrize(
    ("reference", "image", "origin"),
    [
        ("prom/prometheus:1", {"RepoDigests": ["prom/prometheus@sha256:1"]}, "registry"),
        ("prom/prometheus:1", {"RepoDigests": []}, "registry"),  # loaded from a bundle
        ("prom/prometheus:1", {"RepoDigests": ["x@sha256:1"], **LABELLED}, "built"),
        ("looplab/robot:1", {"RepoDigests": ["looplab/robot@sha256:1"]}, "built"),
        ("debian:trixie-slim", {"RepoDigests": [], "Comment": "Imported from -"}, "built"),
        # Of the lab's own: labels are those of the base.
        (f"{OWN}:1", {"RepoDigests": [f"{OWN}@{DIGEST}"], **LABELLED}, "registry"),
        (f"{OWN}:1@{DIGEST}", {"RepoDigests": [f"{OWN}@{DIGEST}"], **LABELLED}, "registry"),
        (f"{OWN}:1", {"RepoDigests": [], **LABELLED}, "built"),
        (f"{OWN}:1", {"RepoDigests": [f"other.test/looplab/robot@{DIGEST}"], **LABELLED}, "built"),
    ],
)
def test_origin_of_an_image(reference: str, image: dict[str, Any], origin: str) -> None:
    assert read_image_fact(reference, json.dumps({"Id": "sha256:1", **image})).origin == origin


def test_the_engine_is_asked_once_for_all_images_it_lists(docker: fakes.Docker) -> None:
    pinned = f"{REGISTRY}looplab/robot:0.2.0@{DIGEST}"
    docker.has("image:1", "image:2")
    docker.has(pinned, RepoTags=[], RepoDigests=[f"{OWN}@{DIGEST}"])
    found = image_facts({"one": "image:1", "two": "image:2", "again": "image:1", "pinned": pinned})
    assert {name: (fact["id"], fact["origin"]) for name, fact in found.items()} == {
        "one": ("sha256:image:1", "registry"), "two": ("sha256:image:2", "registry"),
        "again": ("sha256:image:1", "registry"), "pinned": (f"sha256:{pinned}", "registry"),
    }  # fmt: skip
    assert len(docker.calls()) == 1
    # An image that it does not list is asked for by itself.
    assert local_images(["image:1", "gone:1"]).keys() == {"image:1"}
    assert len(docker.calls()) == 3


def test_layers_are_counted_as_they_come() -> None:
    layers: dict[str, bool] = {}
    for line in ("1: Pulling from x", "a: Pulling fs layer", "b: Already exists", "a: Download complete"):
        note_layer(layers, line)
    assert layers == {"a": False, "b": True}
    note_layer(layers, "a: Pull complete")
    assert layers == {"a": True, "b": True}
