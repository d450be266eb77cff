"""Bundles: whole or not at all, refused when damaged; the engine is a stand-in that keeps what it was given."""

import gzip
import os
import tarfile
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import LabError, MachineError, UsageError
from looplab.lab.bundle_file import load_bundle, platform_name, read_bundle, write_bundle
from looplab.lab.class_archives import checkout_files
from looplab.lab.commands.bundle import (
    THIS_PYTHON,
    decisions,
    platform_tags,
    read_pythons,
    read_systems,
    tag_pinned,
)

PAYLOAD = os.urandom(1_500_000)
IMAGES = ("looplab/robot:1", "eclipse-mosquitto:2")
PACKAGES = {"one-1.0-py3-none-any.whl": os.urandom(70_001), "two-2.0-py3-none-any.whl": b""}


@pytest.fixture
def docker(docker_beside: fakes.Docker) -> fakes.Docker:
    """An engine that has IMAGES and saves PAYLOAD."""
    docker_beside.has(*IMAGES)
    (docker_beside.place / "payload").write_bytes(PAYLOAD)
    return docker_beside


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder of packages, and something that is none."""
    place = tmp_path / "wheels"
    place.mkdir()
    for name, content in {**PACKAGES, "notes.txt": b"x"}.items():
        (place / name).write_bytes(content)
    return place


@pytest.fixture
def file(docker: fakes.Docker, wheels: Path, tmp_path: Path) -> Path:
    path = tmp_path / "room.bundle"
    write_bundle(path, IMAGES, {"lab": "0.1.0"}, wheels)
    return path


def test_what_was_saved_is_what_the_engine_gets(docker: fakes.Docker, file: Path, tmp_path: Path) -> None:
    manifest = load_bundle(file, tmp_path / "loaded")
    assert gzip.decompress((docker.place / "loaded").read_bytes()) == PAYLOAD
    assert manifest["images"] == {name: f"sha256:{name}" for name in IMAGES}


def test_the_packages_replace_those_of_an_earlier_bundle(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "loaded"
    place.mkdir(parents=True)
    (place / "old-0.9-py3-none-any.whl").write_text("of an earlier bundle")
    load_bundle(file, tmp_path / "loaded")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == PACKAGES


def test_versions_of_python() -> None:
    assert read_pythons(None) == [THIS_PYTHON]
    assert read_pythons("3.11, 3.13,3.11") == ["3.11", "3.13"]
    for text in ("", "3", "3.10", "3.11;3.12", "three"):
        with pytest.raises(UsageError, match="not a Python version"):
            read_pythons(text)


def test_systems() -> None:
    assert read_systems(None) == ["linux"]
    assert read_systems("macos, linux,macos") == ["macos", "linux"]
    with pytest.raises(UsageError, match="'windows' is not a system") as error:
        read_systems("windows")
    assert "WSL" in error.value.remedy
    assert platform_tags("linux", "linux/arm64")[-1] == "manylinux2014_aarch64"
    assert platform_tags("macos", "linux/amd64") == ["macosx_14_0_x86_64"]


def test_a_platform_has_the_name_that_docker_gives_it() -> None:
    assert platform_name("aarch64") == platform_name("arm64") == "linux/arm64"
    assert platform_name("x86_64") == platform_name("linux/amd64") == "linux/amd64"
    assert platform_name("riscv64") == "riscv64"


def test_a_bundle_of_an_earlier_lab_names_the_processor_only(
    docker: fakes.Docker, wheels: Path, tmp_path: Path
) -> None:
    path = tmp_path / "earlier.bundle"
    write_bundle(path, IMAGES, {"lab": "0.1.0", "architecture": os.uname().machine}, wheels)
    load_bundle(path, tmp_path / "loaded")
    assert (docker.place / "loaded").exists()


def test_without_git_an_archive_holds_no_results_and_no_secrets(tmp_path: Path) -> None:
    for name in ("lab", "docs/answers.md", "results/r/run.json", "secrets/key", ".env.machine", "answers/s.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert checkout_files(tmp_path) == ["docs/answers.md", "lab"]


def test_a_bundle_can_be_unpacked_by_hand_and_its_manifest_holds_each_size(file: Path) -> None:
    manifest = read_bundle(file)
    sizes = {"images.tar.gz": manifest["archive"]["bytes"]}
    sizes |= {name: facts["bytes"] for name, facts in manifest["files"].items()}
    assert list(sizes.values())[1:] == [len(content) for content in PACKAGES.values()]
    with tarfile.open(file) as archive:
        assert archive.getnames() == ["images.tar.gz", *(f"wheels/{name}" for name in PACKAGES), "bundle.json"]
        assert {member.name: member.size for member in archive if member.name != "bundle.json"} == sizes
        member = archive.extractfile("images.tar.gz")
        assert member is not None
        assert gzip.decompress(member.read()) == PAYLOAD


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.5, 0.9, 0.978, 0.99])
def test_one_changed_byte_is_refused_and_nothing_is_loaded(
    docker: fakes.Docker, file: Path, tmp_path: Path, share: float
) -> None:
    content = bytearray(file.read_bytes())
    at = int(share * len(content))
    content[at] ^= 1
    file.write_bytes(content)
    with pytest.raises(LabError) as error:
        load_bundle(file, tmp_path / "loaded")
    assert error.value.exit_code == 1
    assert not (docker.place / "loaded").exists()
    assert not (tmp_path / "loaded").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_cut_copy_is_refused(docker: fakes.Docker, file: Path, tmp_path: Path, share: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(LabError, match=r"not a whole bundle|damaged"):
        load_bundle(file, tmp_path / "loaded")
    assert not (docker.place / "loaded").exists()


@pytest.mark.parametrize(
    ("change", "word", "kind"),
    [
        ({"schema": 2}, "schema 2", UsageError),
        ({"architecture": "pdp11"}, "images for pdp11", MachineError),
        ({"images": {IMAGES[0]: "sha256:other"}}, "not the image of the bundle", MachineError),
    ],
)
def test_a_bundle_of_another_kind_is_named(
    docker: fakes.Docker, wheels: Path, tmp_path: Path, change: dict, word: str, kind: type[LabError]
) -> None:
    path = tmp_path / "other.bundle"
    write_bundle(path, IMAGES, {"lab": "0.1.0", **change}, wheels)
    with pytest.raises(kind, match=word):
        load_bundle(path, tmp_path / "loaded")


def test_what_is_no_bundle_at_all(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear bundle")
    with pytest.raises(LabError, match="not a whole bundle"):
        read_bundle(tmp_path / "letter.txt")
    with pytest.raises(LabError, match="There is no file"):
        read_bundle(tmp_path / "nothing")
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(tmp_path / "letter.txt", "bundle.json")
    with pytest.raises(LabError, match="not a whole bundle"):
        read_bundle(tmp_path / "other.tar")


def test_a_failing_engine_leaves_no_half_bundle(docker: fakes.Docker, file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    docker.fails("save", "cannot save")
    with pytest.raises(LabError, match="cannot save"):
        write_bundle(file, IMAGES, {"lab": "0.1.0"}, tmp_path)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    docker.fails("load", "no space left on device")
    with pytest.raises(LabError, match="no space left") as error:
        load_bundle(file, tmp_path / "loaded")
    assert "docker system df" in error.value.remedy


def test_an_image_that_is_not_here_is_named(docker: fakes.Docker, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="missing:1"):
        write_bundle(tmp_path / "x", [*IMAGES, "missing:1"], {}, tmp_path)
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
