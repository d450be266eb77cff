"""What a registry has for one platform, read from an image's index."""

from __future__ import annotations

import json

import pytest

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.docker.own_list import read_index


def entry(digest: str, architecture: str, variant: str = "", system: str = "linux") -> dict[str, object]:
    platform = {"os": system, "architecture": architecture, **({"variant": variant} if variant else {})}
    return {"digest": f"sha256:{digest}", "platform": platform}


INDEX = json.dumps(
    {
        "manifests": [
            entry("1", "amd64"),
            entry("2", "arm64", "v8"),
            entry("3", "arm", "v7"),
            # What buildx adds: how it was built.
            entry("4", "unknown", system="unknown"),
        ]
    }
)


@pytest.mark.parametrize(
    ("platform", "digest"), [("linux/amd64", "sha256:1"), ("linux/arm64", "sha256:2"), ("linux/arm/v7", "sha256:3")]
)
def test_each_platform_has_its_own_digest(platform: str, digest: str) -> None:
    assert read_index("a/b:1", INDEX, platform) == digest


@pytest.mark.parametrize(
    ("index", "known"),
    [(INDEX, "linux/amd64, linux/arm/v7, linux/arm64"), (json.dumps({"config": {}}), "one machine's kind alone")],
)
def test_a_platform_that_is_not_published_is_told_with_those_that_are(index: str, known: str) -> None:
    with pytest.raises(LabError, match="not for linux/s390x") as caught:
        read_index("a/b:1", index, "linux/s390x")
    assert caught.value.exit_code == EXIT_MACHINE
    assert known in caught.value.remedy
