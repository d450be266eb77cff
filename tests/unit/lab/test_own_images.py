"""The lab's own images: names as Compose reads them; pulled where a registry is named and answers, else built."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab import __version__
from looplab.errors import EXIT_USAGE, LabError
from looplab.lab.checkout import Lab
from looplab.lab.commands.doctor import check_own_registry
from looplab.lab.docker import own_images
from looplab.lab.docker.images import Images, Registries, local_images, read_image_fact
from looplab.lab.docker.own_images import STAMP, OwnImages
from looplab.lab.docker.own_names import (
    NAMES,
    RELEASES,
    is_own,
    is_published,
    own_reference,
    release_tag,
    without_digest,
)
from looplab.lab.docker.registry import Registry
from looplab.lab.machine.checks import OK, WARN
from looplab.lab.settings import check_settings

DIGEST = "sha256:" + "1" * 64
REGISTRY = "house.test:5000/lab/"
PINNED = dict.fromkeys(RELEASES, f"0.2.0@{DIGEST}")
PUBLISHED = {"LAB_REGISTRY": REGISTRY, "LAB_TAG": "", **PINNED}
# What Compose does with ${A:-b}, b of the same kind.
_DEFAULT = re.compile(r"\$\{(\w+):-([^${}]*)\}")


def as_compose_reads(text: str, settings: dict[str, str]) -> str:
    while found := _DEFAULT.search(text):
        text = text.replace(found[0], settings.get(found[1]) or found[2])
    return text


@pytest.mark.parametrize(
    ("settings", "tag"),
    [
        ({}, __version__),
        ({"LAB_TAG": "mine"}, "mine"),
        ({"LAB_REGISTRY": REGISTRY, "LAB_TAG": "0.2.0"}, "0.2.0"),
        (PUBLISHED, PINNED["BRIDGE_RELEASE"]),
        ({**PUBLISHED, "LAB_TAG": "mine"}, "mine"),
    ],
)
def test_compose_and_the_host_call_every_image_the_same(settings: dict[str, str], tag: str) -> None:
    found: dict[str, set[str]] = {}
    for path in [*ROOT.glob("compose/**/*.yaml"), ROOT / "rpi/compose.yaml"]:
        for written in re.findall(r"image: (\S*looplab/\S*)", path.read_text()):
            name = re.findall(r"looplab/(\w+)", written)[0]
            found.setdefault(name, set()).add(as_compose_reads(written, settings))
    assert found == {name: {own_reference(name, settings)} for name in NAMES if name != "flood"}
    assert own_reference("bridge", settings) == f"{settings.get('LAB_REGISTRY', '')}looplab/bridge:{tag}"


def test_the_version_stands_in_every_place_alike() -> None:
    assert f'variable "LAB_TAG" {{\n  default = "{__version__}"' in (ROOT / "docker-bake.hcl").read_text()
    assert re.findall(r"release:-([\w.]+)\}", (ROOT / "rpi/install.sh").read_text()) == [__version__]


@pytest.mark.parametrize(
    ("reference", "own", "published"),
    [
        ("looplab/bridge:0.1.0", True, False),
        (f"{REGISTRY}looplab/bridge:0.1.0@{DIGEST}", True, True),
        ("localhost:5000/looplab/bridge", True, True),
        ("prom/prometheus:v3", False, False),
        ("house.test/notlooplab/bridge:1", False, False),
        ("looplab:1", False, False),
    ],
)
def test_what_is_our_own_is_known_by_its_name(reference: str, own: bool, published: bool) -> None:
    assert (is_own(reference), is_published(reference)) == (own, published)


def test_a_release_is_pinned_whole_or_not_at_all() -> None:
    assert release_tag({}) == ""
    assert release_tag(PUBLISHED) == "0.2.0"
    for wrong, said in (
        ({"BRIDGE_RELEASE": ""}, "BRIDGE_RELEASE is not set"),
        ({"BRIDGE_RELEASE": f"0.3.0@{DIGEST}"}, "several releases: 0.2.0, 0.3.0"),
        ({"BRIDGE_RELEASE": "0.2.0"}, "expected tag@sha256"),
    ):
        with pytest.raises(LabError, match=said) as caught:
            check_settings({**PUBLISHED, **wrong})
        assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("text", ["registry.example.org", "https://registry.example.org/", "Registry/", "/"])
def test_a_registry_is_named_with_its_slash(text: str) -> None:
    check_settings({"LAB_REGISTRY": REGISTRY})
    with pytest.raises(LabError, match="LAB_REGISTRY"):
        check_settings({"LAB_REGISTRY": text})


class Engine:
    """Which images are here, which the registry gives; what was pulled and built."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, here: set[str], gives: set[str]) -> None:
        self.here, self._gives = here, gives
        self.pulled: list[str] = []
        self.built: list[str] = []
        monkeypatch.setattr(own_images, "local_images", lambda names: {name: None for name in names if name in here})
        monkeypatch.setattr(own_images, "image_fact", lambda name: name if name in here else None)
        monkeypatch.setattr(own_images, "pull_image", self._pull)
        monkeypatch.setattr(own_images, "build_with_compose", self._build)

    def _build(self, _root: Path, count: int, beside: list[list[str]]) -> None:
        tags = [command[command.index("--tag") + 1] for command in beside]
        self.built += [f"{count - len(tags)} of ours", *tags]

    def _pull(self, reference: str, _asked: Registries) -> bool:
        if reference in self._gives:
            self.pulled.append(reference)
            self.here.add(reference)
        return reference in self._gives


def own(root: Path, settings: dict[str, str]) -> OwnImages:
    return OwnImages(root, {name: own_reference(name, settings) for name in NAMES})


def silent(reference: str) -> Registry:
    return Registry(reference.partition("/")[0], False, "connection refused")


BASE = "debian:trixie-slim"


def test_without_a_registry_none_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch, {BASE}, set())
    ours, images = own(tmp_path, {}), Images()
    ours.fetch(Registries(silent), images)
    assert ours.must_build()
    ours.build({})
    assert engine.built == ["9 of ours", f"looplab/flood:{__version__}"]
    engine.here.update(ours.references.values())
    assert (ours.must_build(), ours.variables, images.notes) == (False, {}, [])


@pytest.mark.parametrize("settings", [PUBLISHED, {"LAB_REGISTRY": REGISTRY, "LAB_TAG": "0.2.0"}])
def test_what_is_published_is_pulled_and_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    ours = own(tmp_path, settings)
    engine = Engine(monkeypatch, {BASE, ours.references["robot"]}, set(ours.references.values()))
    ours.fetch(Registries(silent), Images())
    assert sorted(engine.pulled) == sorted(set(ours.references.values()) - {ours.references["robot"]})
    assert not ours.must_build()
    assert ours.variables == {}
    # Sources that change are built over what a tag names, never over a digest.
    (tmp_path / STAMP).write_text("other sources")
    assert ours.must_build() == ("LAB_TAG" in settings and bool(settings["LAB_TAG"]))


def test_what_is_pinned_and_not_to_be_had_is_built_without_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, images = own(tmp_path, PUBLISHED), Images()
    names = {name: without_digest(reference) for name, reference in ours.references.items()}
    engine = Engine(monkeypatch, {BASE}, {ours.references["robot"]})
    ours.fetch(Registries(silent), images)
    assert ours.variables == {"LAB_TAG": "0.2.0"}
    assert ours.references == names
    assert "connection refused" in "".join(images.notes)
    assert ours.must_build()
    monkeypatch.delenv("LAB_TAG", raising=False)
    try:
        ours.build(ours.variables)
        assert os.environ["LAB_TAG"] == "0.2.0"
    finally:
        os.environ.pop("LAB_TAG", None)
    assert engine.built == ["9 of ours", f"{REGISTRY}looplab/flood:0.2.0"]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    for name in ("LAB_TAG", "LAB_REGISTRY", "STRESS_IMAGE", *RELEASES):
        monkeypatch.delenv(name, raising=False)
    lines = "".join(f"{name}={value}\n" for name, value in PUBLISHED.items())
    (tmp_path / ".env").write_text(f"{lines}FLOOD_IMAGE=a/b:1@{DIGEST}\nSTRESS_IMAGE=\n")
    return Lab(tmp_path)


def test_what_a_machine_built_in_place_of_a_release_holds_as_long_as_that_is_pinned(lab: Lab) -> None:
    pinned = {name: own_reference(name, PUBLISHED) for name in NAMES}
    assert lab.own_images() == pinned
    (lab.root / ".env.machine").write_text("LAB_TAG=0.2.0\nFLOOD_IMAGE=a/b:1\n")
    assert lab.own_images() == {name: without_digest(reference) for name, reference in pinned.items()}
    assert lab.upstream_images() == {"FLOOD_IMAGE": "a/b:1"}
    # ./lab setup asks again.
    assert lab.own_images(afresh=True) == pinned
    assert lab.upstream_images(afresh=True) == {"FLOOD_IMAGE": f"a/b:1@{DIGEST}"}
    text = (lab.root / ".env").read_text()
    (lab.root / ".env").write_text(text.replace("0.2.0@", "0.3.0@"))
    assert lab.own_images()["bridge"] == f"{REGISTRY}looplab/bridge:0.3.0@{DIGEST}"


@pytest.mark.parametrize(
    ("reference", "digests", "origin"),
    [
        (f"{REGISTRY}looplab/robot:1", [f"{REGISTRY}looplab/robot@{DIGEST}"], "registry"),
        (f"{REGISTRY}looplab/robot:1@{DIGEST}", [f"{REGISTRY}looplab/robot@{DIGEST}"], "registry"),
        (f"{REGISTRY}looplab/robot:1", [], "built"),
        (f"{REGISTRY}looplab/robot:1", [f"other.test/looplab/robot@{DIGEST}"], "built"),
    ],
)
def test_origin_of_an_image_of_ours(reference: str, digests: list[str], origin: str) -> None:
    # The label is its base's, where that was built from packages.
    labels = {"Config": {"Labels": {"looplab.origin": "built"}}}
    image: dict[str, Any] = {"Id": "sha256:1", "RepoDigests": digests, **labels}
    assert read_image_fact(reference, json.dumps(image)).origin == origin


def test_the_engine_is_asked_once_for_what_is_pinned_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = fakes.Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(programs.folder))
    document = {"Id": "sha256:1", "RepoTags": [], "RepoDigests": [f"{REGISTRY}looplab/robot@{DIGEST}"]}
    programs.add("docker", {"*": (json.dumps(document) + "\n", "", 0)})
    reference = f"{REGISTRY}looplab/robot:0.2.0@{DIGEST}"
    assert local_images([reference])[reference].as_dict() == {
        "reference": reference, "id": "sha256:1", "origin": "registry",
    }  # fmt: skip
    assert len(programs.calls("docker")) == 1
    programs.add("docker", {"*": ("\n", "Error: No such image\n", 1)})
    assert local_images([reference]) == {}


def test_doctor_tells_whether_the_registry_that_is_named_answers() -> None:
    assert check_own_registry([own_reference(name, {}) for name in NAMES]) == []
    published = [own_reference(name, PUBLISHED) for name in NAMES]
    (silence,) = check_own_registry(published, silent)
    assert (silence.state, silence.found) == (WARN, "house.test:5000 does not answer (connection refused)")
    (answer,) = check_own_registry(published, lambda reference: Registry(reference.partition("/")[0], True))
    assert (answer.state, answer.found) == (OK, "house.test:5000 answers")
