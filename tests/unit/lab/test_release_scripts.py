"""Pinning changes nothing but digests; what a registry has for one platform is read from an image's index."""

import json
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.errors import LabError, MachineError
from looplab.lab.image_names import NAMES, RELEASES, release_variable
from looplab.lab.release import images_to_pin, own_images_to_pin, pin, pin_own, read_digest, read_index
from looplab.system.env_files import read_env

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def test_upstream_images_are_pinned_by_name_and_our_own_are_not_among_them() -> None:
    found = images_to_pin((ROOT / ".env").read_text())
    assert {"MOSQUITTO_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE", "POSTGRES_IMAGE", "FLOOD_IMAGE"} == set(found)
    assert all("@" not in reference for reference in found.values())


def test_only_the_named_lines_change_and_a_second_time_replaces() -> None:
    text = "# A_IMAGE=no\nA_IMAGE=a/b:1\nB_IMAGE=host:5000/c:2\nOWN_IMAGE=looplab/x:1\nOTHER=a/b:1\n"
    once = pin(text, {"A_IMAGE": ONE})
    assert once == text.replace("\nA_IMAGE=a/b:1\n", f"\nA_IMAGE=a/b:1@{ONE}\n")
    assert images_to_pin(once) == {"A_IMAGE": "a/b:1", "B_IMAGE": "host:5000/c:2"}
    assert pin(once, {"A_IMAGE": TWO}) == once.replace(ONE, TWO)


def test_our_own_get_a_line_each_behind_an_empty_tag(tmp_path: Path) -> None:
    path = tmp_path / "env"
    assert own_images_to_pin({"LAB_REGISTRY": "", "LAB_TAG": "0.1.0"}) == {}
    path.write_text("A=1\nLAB_REGISTRY=house.test/\nLAB_PULL=never\nLAB_TAG=0.1.0\n# B\nB_IMAGE=a/b:1\n")
    wanted = {release_variable(name): f"house.test/looplab/{name}:0.1.0" for name in NAMES}
    assert own_images_to_pin(read_env(path)) == wanted
    before = path.read_text()
    for digest in (ONE, TWO):
        # A second time it replaces, and asks for the release that is pinned.
        path.write_text(pin_own(path.read_text(), dict.fromkeys(RELEASES, f"0.1.0@{digest}")))
        lines = "".join(f"{name}=0.1.0@{digest}\n" for name in RELEASES)
        assert path.read_text() == before.replace(
            "LAB_PULL=never\nLAB_TAG=0.1.0\n", f"LAB_PULL=missing\nLAB_TAG=\n{lines}"
        )
        assert own_images_to_pin(read_env(path)) == wanted
    # The next release is named by LAB_TAG, which stands above what is pinned.
    settings = {**read_env(path), "LAB_TAG": "0.2.0"}
    assert own_images_to_pin(settings)["LINK_RELEASE"] == "house.test/looplab/link:0.2.0"


def test_a_file_without_a_tag_gets_one_and_one_without_a_registry_stays() -> None:
    assert pin_own("A=1\n", {"LINK_RELEASE": f"1@{ONE}"}) == f"A=1\nLAB_PULL=missing\nLAB_TAG=\nLINK_RELEASE=1@{ONE}\n"
    assert pin_own("A=1\n", {}) == "A=1\n"


def test_the_digest_is_that_of_the_repository() -> None:
    assert read_digest("a/b:1", [f"mirror.example/a/b@{TWO}", f"a/b@{ONE}"]) == ONE
    for nothing in ([], [f"other@{ONE}"], ["a/b@sha256:short"]):
        with pytest.raises(LabError, match="no digest"):
            read_digest("a/b:1", nothing)


def entry(digest: str, architecture: str, variant: str = "", system: str = "linux") -> dict[str, object]:
    platform = {"os": system, "architecture": architecture, **({"variant": variant} if variant else {})}
    return {"digest": f"sha256:{digest}", "platform": platform}


# The last is what buildx adds: how it was built.
ENTRIES = [
    entry("1", "amd64"),
    entry("2", "arm64", "v8"),
    entry("3", "arm", "v7"),
    entry("4", "unknown", "", "unknown"),
]
INDEX = json.dumps({"manifests": ENTRIES})


@pytest.mark.parametrize(("platform", "digest"), [("linux/amd64", "1"), ("linux/arm64", "2"), ("linux/arm/v7", "3")])
def test_each_platform_has_its_own_digest(platform: str, digest: str) -> None:
    assert read_index("a/b:1", INDEX, platform) == f"sha256:{digest}"


@pytest.mark.parametrize(
    ("index", "known"),
    [(INDEX, "linux/amd64, linux/arm/v7, linux/arm64"), (json.dumps({"config": {}}), "one kind of machine alone")],
)
def test_a_platform_that_is_not_published_is_told_with_those_that_are(index: str, known: str) -> None:
    with pytest.raises(MachineError, match="not for linux/s390x") as caught:
        read_index("a/b:1", index, "linux/s390x")
    assert known in caught.value.remedy
