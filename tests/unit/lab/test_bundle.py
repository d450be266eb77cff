"""Bundles: whole or not at all, refused when damaged; the engine is a stand-in that keeps what it was given."""

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support import host_fakes as fakes

from looplab.errors import LabError
from looplab.lab.bundle_file import load_bundle, write_bundle
from looplab.lab.commands.bundle import load, tag_pinned
from looplab.lab.docker.own_images import read_stamps
from looplab.lab.settings import read_machine_file, write_machine_file

PAYLOAD = os.urandom(1_500_000)
IMAGES = ("looplab/robot:1", "eclipse-mosquitto:2")
KNOWN = {IMAGES[1]}
SUMS = {name: hashlib.sha256(f"sha256:{name}".encode()).hexdigest() for name in IMAGES}
LAYER = "0" * 64 + "/layer.tar"


def archive_of(*members: tuple[str | tarfile.TarInfo, object]) -> bytes:
    """A tar archive; a content that is no bytes is written as JSON."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members:
            member = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def listing(*names: str) -> tuple[str, object]:
    """The list of images as every engine writes it: the layers of all, names of some."""
    return "manifest.json", [{"RepoTags": [name]} for name in names] + [{"RepoTags": None}]


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


@pytest.fixture
def docker(docker: fakes.Docker, monkeypatch: pytest.MonkeyPatch) -> fakes.Docker:
    """An engine that has IMAGES and saves PAYLOAD as a layer of an archive, before the real programs."""
    monkeypatch.setenv("PATH", f"{docker.place.parent}:{fakes.REAL_PATH}")
    docker.has(*IMAGES)
    shared = link("1" * 64 + "/layer.tar", f"../{LAYER}")
    # containerd's names are those of the manifest.
    names = ["docker.io/looplab/robot:1", "docker.io/library/eclipse-mosquitto:2"]
    index = {"manifests": [{"annotations": {"io.containerd.image.name": name}} for name in names] + [{"size": 1}]}
    content = archive_of((LAYER, PAYLOAD), shared, listing(*IMAGES), ("index.json", index))
    (docker.place / "payload").write_bytes(content)
    return docker


@pytest.fixture
def file(docker: fakes.Docker, tmp_path: Path) -> Path:
    path = tmp_path / "room.bundle"
    write_bundle(path, IMAGES, {"lab": "0.1.0"})
    return path


def test_the_engine_gets_the_saved_images_behind_the_manifest(docker: fakes.Docker, file: Path) -> None:
    manifest = load_bundle(file, KNOWN)
    assert manifest["images"] == SUMS
    assert manifest["architecture"] == "linux/amd64"
    with tarfile.open(docker.place / "loaded") as archive:
        assert archive.getnames() == ["bundle.json", LAYER, "1" * 64 + "/layer.tar", "manifest.json", "index.json"]
        content = archive.extractfile(LAYER)
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
        load_bundle(file, KNOWN)
    assert error.value.exit_code == 1
    assert not (docker.place / "loaded").exists()


@pytest.mark.parametrize(
    ("change", "word", "code"),
    [
        ({"schema": 2}, "schema 2", 2),
        ({"architecture": "pdp11"}, "images for pdp11", 3),
        ({"images": {**SUMS, IMAGES[0]: "sha256:other"}}, "not the image of the bundle", 3),
        ({"images": {**SUMS, IMAGES[1]: "sha256:other"}}, "another image of the name eclipse-mosquitto:2", 3),
        ({"lab": "1\nx"}, "control characters", 1),
        ({"profiles": ["\x1b[2J"]}, "control characters", 1),
        ({"variables": {"FLOOD_IMAGE\r": ""}}, "control characters", 1),
        ({"stamps": [1]}, "Nothing was loaded", 1),
        ({"profiles": [["x"]]}, "Nothing was loaded", 1),
        ({"profiles": 1}, "Nothing was loaded", 1),
        ({"images": ["a"]}, "Nothing was loaded", 1),
        ({"x": "x" * (1 << 20)}, "Nothing was loaded", 1),
    ],
)
def test_a_bundle_of_another_kind_is_named(
    docker: fakes.Docker, tmp_path: Path, change: dict[str, Any], word: str, code: int
) -> None:
    write_bundle(tmp_path / "x", IMAGES, {"lab": "0.1.0", **change})
    with pytest.raises(LabError, match=word) as error:
        load_bundle(tmp_path / "x", KNOWN)
    assert error.value.exit_code == code
    # The engine itself tells which image it has made.
    assert word == "not the image of the bundle" or not (docker.place / "loaded").exists()


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ([listing(*IMAGES, "postgres:17")], "names other images"),
        ([listing(IMAGES[0])], "names other images"),
        ([listing(*IMAGES), ("repositories", {"debian": {"trixie-slim": "1"}})], "repositories names other"),
        ([listing(*IMAGES), ("index.json", {"manifests": [{"annotations": {
            "io.containerd.image.name": "docker.io/library/debian:trixie-slim"}}]})], "index.json names other"),
        # The engine reads the last one.
        ([listing(*IMAGES), listing(*IMAGES, "postgres:17")], "names other images"),
        ([listing(*IMAGES), ("./manifest.json", [])], "none that an engine writes"),
        ([listing(*IMAGES), ("x/../manifest.json", [])], "none that an engine writes"),
        ([listing(*IMAGES), link("x", "."), ("x/manifest.json", [])], "none that an engine writes"),
        ([link("manifest.json", "blob"), ("blob", [])], "none that an engine writes"),
        ([listing(*IMAGES), link("repositories", LAYER, tarfile.LNKTYPE)], "none that an engine writes"),
        ([listing(*IMAGES), link(LAYER, "/etc/passwd")], "none that an engine writes"),
        ([listing(*IMAGES), ("bundle.json", {})], "none that an engine writes"),
        ([("manifest.json", {"RepoTags": 1})], "no bundle"),
        ([("manifest.json", b"[" * 100_000)], "no bundle"),
    ],
    ids=range(14),
)  # fmt: skip
def test_an_archive_that_names_more_is_not_loaded(
    docker: fakes.Docker, tmp_path: Path, members: list[tuple[Any, object]], word: str
) -> None:
    (docker.place / "payload").write_bytes(archive_of(*members))
    write_bundle(tmp_path / "x", IMAGES, {"lab": "0.1.0"})
    with pytest.raises(LabError, match=word):
        load_bundle(tmp_path / "x", KNOWN)
    assert not (docker.place / "loaded").exists()


def test_no_image_of_another_project_is_replaced(docker: fakes.Docker, file: Path) -> None:
    with pytest.raises(LabError, match="does not use: eclipse-mosquitto:2"):
        load_bundle(file, ["debian:trixie-slim"])
    assert not (docker.place / "loaded").exists()
    # Whatever the archive's lists say: what an engine made of it is undone.
    docker.has("postgres:17")
    docker.load_brings("postgres:17", "debian:trixie-slim")
    with pytest.raises(LabError, match="also named debian:trixie-slim, postgres:17"):
        load_bundle(file, KNOWN)
    assert docker.calls("tag") == ["tag sha256:postgres:17 postgres:17"]
    assert docker.calls("rmi") == ["rmi debian:trixie-slim"]


def test_a_failing_engine_leaves_no_half_bundle(docker: fakes.Docker, file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    docker.fails("save", "cannot save")
    with pytest.raises(LabError, match="cannot save"):
        write_bundle(file, IMAGES, {"lab": "0.1.0"})
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    docker.fails("load", "no space left on device")
    with pytest.raises(LabError, match="no space left") as error:
        load_bundle(file, KNOWN)
    assert "docker system df" in error.value.remedy


def test_what_is_pinned_is_saved_and_named_without_its_digest(docker: fakes.Docker) -> None:
    """An engine saves an image of a digest without any name."""
    digest = "sha256:" + "1" * 64
    broker, name = f"eclipse-mosquitto:2@{digest}", "eclipse-mosquitto:2"
    assert tag_pinned([broker, "looplab/flood:1"]) == [name, "looplab/flood:1"]
    assert docker.calls("tag") == [f"tag {broker} {name}"]


@pytest.fixture
def checkout(docker: fakes.Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose .env names the broker of IMAGES."""
    root = tmp_path / "checkout"
    (root / "compose/scenarios/scenario1").mkdir(parents=True)
    (root / "compose/scenarios/scenario1/params.env").write_text("SCENARIO=scenario1\nTITLE=One\n")
    (root / ".env").write_text(f"MOSQUITTO_IMAGE={IMAGES[1]}\n")
    (root / "results").mkdir()
    monkeypatch.setattr("looplab.lab.commands.bundle.require_compose", lambda _engine: None)
    docker.compose_reads({"broker": {"image": IMAGES[1]}, "bridge": {"image": "looplab/bridge:1", "build": {}}})
    write_machine_file(root, {"GRAFANA": "off", "LAB_UID": "7", "BASE_IMAGE": "b:1", "MOSQUITTO_IMAGE": "x:1"})
    return root


def test_loading_decides_again_and_takes_over_stamps(
    docker: fakes.Docker, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stamps = {IMAGES[0]: "sources id", "looplab/other:1": "old"}
    facts = {"lab": "0.1.0", "variables": {"PATH": "/not/ours"}, "stamps": stamps}
    facts |= {"profiles": ["x; reboot", "scenario1"]}
    file = tmp_path / "room.bundle"
    write_bundle(file, IMAGES, facts)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    # It is the one that its maker read.
    with pytest.raises(LabError, match="not the bundle of that SHA-256") as error:
        load(checkout, file, digest[:-1])
    assert error.value.exit_code == 1
    assert not (docker.place / "loaded").exists()
    assert load(checkout, file, digest.upper()) == 0
    # Grafana is looked for again: the bundle may have brought its image.
    assert read_machine_file(checkout) == {"LAB_UID": "7", "BASE_IMAGE": "b:1"}
    # By the id of this engine: another stores images otherwise, and calls the same one by another id.
    assert read_stamps(checkout) == {IMAGES[0]: f"sources sha256:{IMAGES[0]}"}
    printed = capsys.readouterr().err
    assert f"SHA-256 {digest}" in printed
    assert "This checkout also needs looplab/bridge:1: the bundle" in printed
    assert printed.endswith("2 images are here. No network is needed from now on: ./lab run scenario1\n")
