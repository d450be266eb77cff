"""Bundles: whole or not at all, refused when damaged; the engine is a stand-in that keeps what it was given."""

import io
import os
import tarfile
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import LabError, MachineError, UsageError
from looplab.lab.bundle_file import load_bundle, read_bundle, write_bundle
from looplab.lab.commands.bundle import decisions, load, tag_pinned
from looplab.lab.docker.own_images import read_stamps
from looplab.lab.settings import read_machine_file, write_machine_file

PAYLOAD = os.urandom(1_500_000)
IMAGES = ("looplab/robot:1", "eclipse-mosquitto:2")


@pytest.fixture
def docker(docker_beside: fakes.Docker) -> fakes.Docker:
    """An engine that has IMAGES and saves PAYLOAD as `layer` of an archive."""
    docker_beside.has(*IMAGES)
    with tarfile.open(docker_beside.place / "payload", "w") as archive:
        member = tarfile.TarInfo("layer")
        member.size = len(PAYLOAD)
        archive.addfile(member, io.BytesIO(PAYLOAD))
    return docker_beside


@pytest.fixture
def file(docker: fakes.Docker, tmp_path: Path) -> Path:
    path = tmp_path / "room.bundle"
    write_bundle(path, IMAGES, {"lab": "0.1.0"})
    return path


def test_the_engine_gets_the_saved_images_behind_the_manifest(docker: fakes.Docker, file: Path) -> None:
    manifest = load_bundle(file)
    assert manifest["images"] == {name: f"sha256:{name}" for name in IMAGES}
    assert manifest["architecture"] == "linux/amd64"
    with tarfile.open(docker.place / "loaded") as archive:
        assert archive.getnames() == ["bundle.json", "layer"]
        content = archive.extractfile("layer")
        assert content is not None
        assert content.read() == PAYLOAD


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99, 0.999999])
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "one byte changed"])
def test_a_damaged_copy_is_refused_and_nothing_is_loaded(
    docker: fakes.Docker, file: Path, share: float, cut: bool
) -> None:
    content = bytearray(file.read_bytes())
    at = int(share * len(content))
    content[at] ^= 1
    file.write_bytes(content[:at] if cut else content)
    with pytest.raises(LabError, match=r"is damaged.*Nothing was loaded") as error:
        load_bundle(file)
    assert error.value.exit_code == 1
    assert not (docker.place / "loaded").exists()


@pytest.mark.parametrize(
    ("change", "word", "kind"),
    [
        ({"schema": 3}, "schema 3", UsageError),
        ({"architecture": "pdp11"}, "images for pdp11", MachineError),
        ({"images": {IMAGES[0]: "sha256:other"}}, "not the image of the bundle", MachineError),
    ],
)
def test_a_bundle_of_another_kind_is_named(
    docker: fakes.Docker, tmp_path: Path, change: dict, word: str, kind: type[LabError]
) -> None:
    path = tmp_path / "other.bundle"
    write_bundle(path, IMAGES, {"lab": "0.1.0", **change})
    with pytest.raises(kind, match=word):
        load_bundle(path)


def test_what_is_no_bundle_at_all(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear bundle")
    with pytest.raises(LabError, match="no bundle of this lab"):
        read_bundle(tmp_path / "letter.txt")
    with pytest.raises(LabError, match="There is no file"):
        read_bundle(tmp_path / "nothing")
    with tarfile.open(tmp_path / "other.tar", "w:gz") as archive:
        archive.add(tmp_path / "letter.txt", "bundle.json")
    with pytest.raises(LabError, match="no bundle of this lab"):
        read_bundle(tmp_path / "other.tar")


def test_a_failing_engine_leaves_no_half_bundle(docker: fakes.Docker, file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    docker.fails("save", "cannot save")
    with pytest.raises(LabError, match="cannot save"):
        write_bundle(file, IMAGES, {"lab": "0.1.0"})
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    docker.fails("load", "no space left on device")
    with pytest.raises(LabError, match="no space left") as error:
        load_bundle(file)
    assert "docker system df" in error.value.remedy


def test_an_image_that_is_not_here_is_named(docker: fakes.Docker, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="missing:1"):
        write_bundle(tmp_path / "x", [*IMAGES, "missing:1"], {})
    assert not (tmp_path / "x").exists()


def test_what_is_pinned_is_saved_and_named_without_its_digest(docker: fakes.Docker) -> None:
    """An engine saves an image of a digest without any name."""
    digest = "sha256:" + "1" * 64
    broker, name = f"eclipse-mosquitto:2@{digest}", "eclipse-mosquitto:2"
    assert tag_pinned([broker, "looplab/flood:1"]) == [name, "looplab/flood:1"]
    assert docker.calls("tag") == [f"tag {broker} {name}"]

    chosen = {"GRAFANA": "off", "FLOOD_IMAGE": "looplab/flood:1", "PROMETHEUS_IMAGE": "prom/prometheus:v3"}
    replaced = {"GRAFANA": "off", "FLOOD_IMAGE": "looplab/flood:1"}
    assert decisions({**chosen, "LAB_TAG": "0.1.0"}) == replaced
    assert decisions({**chosen, "MOSQUITTO_IMAGE": broker}) == {**replaced, "MOSQUITTO_IMAGE": name}


def test_loading_takes_over_decisions_and_stamps(
    docker: fakes.Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".env").touch()
    write_machine_file(tmp_path, {"GRAFANA": "off", "LAB_RTPRIO_BROKER": "0"})
    decided = {"FLOOD_IMAGE": "looplab/flood:1", "PATH": "/not/ours"}
    facts = {"lab": "0.1.0", "variables": decided, "stamps": {IMAGES[0]: "sources id"}, "profiles": ["scenario1"]}
    write_bundle(tmp_path / "room.bundle", IMAGES, facts)
    monkeypatch.setattr("looplab.lab.commands.bundle.require_compose", lambda _engine: None)
    assert load(tmp_path, tmp_path / "room.bundle") == 0
    # Grafana is looked for again: the bundle may have brought its image.
    assert read_machine_file(tmp_path) == {"LAB_RTPRIO_BROKER": "0", "FLOOD_IMAGE": "looplab/flood:1"}
    assert read_stamps(tmp_path) == {IMAGES[0]: "sources id"}
    printed = capsys.readouterr().err
    assert "This checkout also needs looplab/" in printed
    assert printed.endswith("2 images are here. No network is needed from now on: ./lab run scenario1\n")
