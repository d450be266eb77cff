"""Where images come from: here, a registry, or Debian packages; and that a silent registry is asked once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import host_fakes as fakes

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.docker.images import (
    Registries,
    build_command,
    build_with_compose,
    ensure_images,
    image_facts,
    note_layer,
    read_build_step,
    read_image_fact,
)
from looplab.lab.docker.registry import Registry, read_registry, registry_of, repository_of
from looplab.lab.programs import Outcome

HERE = (json.dumps({"Id": "sha256:1", "RepoDigests": ["a@sha256:2"], "Config": {"Labels": None}}), "", 0)
NOT_HERE = ("", "Error response from daemon: No such image: x\n", 1)
DIGEST_PULL = "'pull '*@sha256:0000*"
NO_HOST = (
    "",
    'Error response from daemon: Get "https://registry.test/v2/": dial tcp: lookup registry.test: no such host',
    1,
)
NO_MANIFEST = ("", "Error response from daemon: manifest for debian@sha256:0000 not found: manifest unknown\n", 1)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fakes.Programs:
    programs = fakes.Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(programs.folder))
    return programs


def test_what_is_here_asks_no_registry(programs: fakes.Programs, tmp_path: Path) -> None:
    programs.add("docker", {"'image inspect'*": HERE})
    images = ensure_images(tmp_path, {"MOSQUITTO_IMAGE": "eclipse-mosquitto:2.0.22"})
    assert images.facts["MOSQUITTO_IMAGE"].origin == "registry"
    assert images.variables == {}
    assert not any(call.startswith("pull") for call in programs.calls("docker"))


def test_a_registry_that_answers_is_pulled_from(programs: fakes.Programs, tmp_path: Path) -> None:
    pulled = ("2.0.22: Pulling from library/eclipse-mosquitto\nabc: Pulling fs layer\nabc: Pull complete\n", "", 0)
    programs.add("docker", {"'image inspect'*": NOT_HERE, DIGEST_PULL: NO_MANIFEST, "'pull '*": pulled})
    ensure_images(tmp_path, {"MOSQUITTO_IMAGE": "eclipse-mosquitto:2.0.22"})
    assert "pull eclipse-mosquitto:2.0.22" in programs.calls("docker")
    assert not any(call.startswith("build") for call in programs.calls("docker"))


def test_a_silent_registry_is_asked_once_and_stand_ins_are_built(programs: fakes.Programs, tmp_path: Path) -> None:
    here_is_the_base = {"'image inspect'*debian:trixie-slim": HERE, "'image inspect'*": NOT_HERE}
    built = ("Step 1/2 : FROM debian:trixie-slim\nStep 2/2 : USER 1883\nSuccessfully built 1\n", "", 0)
    programs.add("docker", {**here_is_the_base, DIGEST_PULL: NO_HOST, "'build '*": built})
    references = {
        "MOSQUITTO_IMAGE": "eclipse-mosquitto:2.0.22",
        "PROMETHEUS_IMAGE": "prom/prometheus:v3.7.3",
        "GRAFANA_IMAGE": "grafana/grafana:12.4.0",
        "FLOOD_IMAGE": "inovex/mqtt-stresser:latest",
    }
    images = ensure_images(tmp_path, references, flood_stand_in="looplab/flood:0.1.0")
    calls = programs.calls("docker")
    assert len([call for call in calls if call.startswith("pull")]) == 1
    builds = [call for call in calls if call.startswith("build")]
    assert [call.split()[2] for call in builds] == ["eclipse-mosquitto:2.0.22", "prom/prometheus:v3.7.3"]
    assert builds[0].endswith(str(tmp_path / "images/mosquitto"))
    assert images.variables == {"GRAFANA": "off", "FLOOD_IMAGE": "looplab/flood:0.1.0"}
    assert sum("grafana" in note for note in images.notes) == 1


def test_what_was_settled_is_not_asked_again(programs: fakes.Programs, tmp_path: Path) -> None:
    programs.add("docker", {"'image inspect'*": NOT_HERE})
    references = {"GRAFANA_IMAGE": "grafana/grafana:12.4.0", "FLOOD_IMAGE": "looplab/flood:0.1.0"}
    settled = {"GRAFANA": "off"}
    images = ensure_images(tmp_path, references, flood_stand_in="looplab/flood:0.1.0", settled=settled)
    assert images.variables == {"GRAFANA": "off", "FLOOD_IMAGE": "looplab/flood:0.1.0"}
    assert images.notes == []
    assert not any(call.startswith("pull") for call in programs.calls("docker"))


def test_what_stands_in_for_a_pinned_image_has_no_digest(programs: fakes.Programs, tmp_path: Path) -> None:
    here = {"'image inspect'*debian:trixie-slim": HERE, "'image inspect'*": NOT_HERE}
    built = ("Step 1/1 : FROM debian:trixie-slim\nSuccessfully built 1\n", "", 0)
    programs.add("docker", {**here, DIGEST_PULL: NO_HOST, "'build '*": built})
    pinned = {"MOSQUITTO_IMAGE": "eclipse-mosquitto:2.0.22@sha256:" + "1" * 64}
    first = ensure_images(tmp_path, pinned)
    assert [call.split()[2] for call in programs.calls("docker") if call.startswith("build")] == [
        "eclipse-mosquitto:2.0.22"
    ]
    assert first.variables == {"MOSQUITTO_IMAGE": "eclipse-mosquitto:2.0.22"}
    programs.add("docker", {"'image inspect'*": HERE})
    again = ensure_images(tmp_path, first.variables, settled=first.variables)
    assert again.variables == first.variables


def test_an_image_nobody_has_names_the_bundle(programs: fakes.Programs, tmp_path: Path) -> None:
    programs.add("docker", {"'image inspect'*": NOT_HERE, DIGEST_PULL: NO_HOST})
    with pytest.raises(LabError) as caught:
        ensure_images(tmp_path, {"MOSQUITTO_IMAGE": "somebody/broker:1"})
    assert caught.value.exit_code == EXIT_MACHINE
    assert "no such host" in caught.value.message
    assert "./lab load" in caught.value.remedy


def test_a_failing_build_says_what_the_builder_said(
    programs: fakes.Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = ("Step 2/3 : RUN apt-get update\nErr:1 Temporary failure resolving 'mirror.test'\n", "exit code 100\n", 1)
    programs.add(
        "docker",
        {
            "'image inspect'*debian:trixie-slim": HERE,
            "'image inspect'*": NOT_HERE,
            DIGEST_PULL: NO_HOST,
            "'build '*": failed,
        },
    )
    with pytest.raises(LabError) as caught:
        ensure_images(tmp_path, {"MOSQUITTO_IMAGE": "eclipse-mosquitto:2.0.22"})
    assert "mirror cannot be reached" in caught.value.remedy
    assert "Temporary failure resolving" in capsys.readouterr().err


@pytest.mark.parametrize("failing", ["compose", "flood"])
def test_of_what_is_built_at_once_the_one_that_fails_is_shown(
    programs: fakes.Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str], failing: str
) -> None:
    good, bad = ("Successfully tagged a:1\n", "", 0), ("Step 2/3 : RUN go test\n--- FAIL\n", "", 1)
    programs.add(
        "docker",
        {"'compose '*": bad if failing == "compose" else good, "'build '*": bad if failing == "flood" else good},
    )
    with pytest.raises(LabError) as caught:
        build_with_compose(tmp_path, 2, [build_command(tmp_path / "flood", "looplab/flood:1")])
    assert "--- FAIL" in capsys.readouterr().err
    assert caught.value.remedy.endswith("build" if failing == "compose" else str(tmp_path / "flood"))
    assert sorted(call.split()[0] for call in programs.calls("docker")) == ["build", "compose"]


def test_each_registry_has_its_own_answer() -> None:
    asked: list[str] = []

    def ask(reference: str) -> Registry:
        asked.append(reference)
        return Registry(registry_of(reference), answers="house" in reference)

    registries = Registries(ask)
    for reference in ("a:1", "b/c:2", "house.test:5000/d:1", "house.test:5000/e:2"):
        assert registries.of(reference).answers is ("house" in reference)
    assert asked == ["a:1", "house.test:5000/d:1"]


@pytest.mark.parametrize(
    ("reference", "registry", "repository"),
    [
        ("debian:trixie-slim", "", "debian"),
        ("prom/prometheus:v3.7.3", "", "prom/prometheus"),
        ("house.test:5000/lab/robot:1", "house.test:5000", "house.test:5000/lab/robot"),
        ("localhost/robot", "localhost", "localhost/robot"),
        ("debian@sha256:" + "1" * 64, "", "debian"),
    ],
)
def test_parts_of_a_reference(reference: str, registry: str, repository: str) -> None:
    assert registry_of(reference) == registry
    assert repository_of(reference) == repository


@pytest.mark.parametrize(
    ("code", "said", "answers"),
    [
        (1, NO_MANIFEST[1], True),
        (1, "toomanyrequests: You have reached your pull rate limit", True),
        (1, "Error response from daemon: pull access denied for x, repository does not exist", True),
        (1, NO_HOST[1], False),
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
        (
            "prom/prometheus:1",
            {"Config": {"Labels": {"looplab.origin": "built"}}, "RepoDigests": ["x@sha256:1"]},
            "built",
        ),
        ("looplab/robot:1", {"RepoDigests": ["looplab/robot@sha256:1"]}, "built"),
        ("debian:trixie-slim", {"RepoDigests": [], "Comment": "Imported from -"}, "built"),
    ],
)
def test_origin_of_an_image(reference: str, image: dict[str, Any], origin: str) -> None:
    assert read_image_fact(reference, json.dumps({"Id": "sha256:1", **image})).origin == origin


def test_the_engine_is_asked_once_for_all_images_it_has(programs: fakes.Programs) -> None:
    documents = [{"Id": f"sha256:{n}", "RepoTags": ["other:1", f"image:{n}"]} for n in (1, 2)]
    printed = "".join(json.dumps(document) + "\n" for document in documents)
    programs.add("docker", {"'image inspect'*image:1*gone:1": (printed, NOT_HERE[1], 1), "*": NOT_HERE})
    found = image_facts({"one": "image:1", "two": "image:2", "again": "image:1", "three": "gone:1"})
    assert {name: fact["id"] for name, fact in found.items()} == {
        "one": "sha256:1", "two": "sha256:2", "again": "sha256:1",
    }  # fmt: skip
    # The one that it has not, or not by a tag, is asked for by itself.
    assert len(programs.calls("docker")) == 2


def test_image_facts_leave_out_what_is_not_here(programs: fakes.Programs) -> None:
    programs.add("docker", {"'image inspect'*here:1": HERE, "'image inspect'*": NOT_HERE})
    assert image_facts({"one": "here:1", "two": "gone:1"}) == {
        "one": {"reference": "here:1", "id": "sha256:1", "origin": "registry"}
    }


def test_layers_are_counted_as_they_come() -> None:
    layers: dict[str, bool] = {}
    for line in ("1: Pulling from x", "a: Pulling fs layer", "b: Already exists", "a: Download complete"):
        note_layer(layers, line)
    assert layers == {"a": False, "b": True}
    note_layer(layers, "a: Pull complete")
    assert layers == {"a": True, "b": True}


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Step 3/12 : RUN apt-get update", (3, 12)),
        ("#7 [2/5] RUN apt-get update", (2, 5)),
        ("#9 [build 4/6] COPY . /src", (4, 6)),
        ("#5 [prepare base 2/5] RUN apt-get update", (2, 5)),
        ("#1 [prepare internal] load build definition from Dockerfile", None),
        (" ---> 3a1b2c", None),
        ("#7 DONE 0.3s", None),
    ],
)
def test_steps_of_a_build(line: str, step: tuple[int, int] | None) -> None:
    assert read_build_step(line) == step
