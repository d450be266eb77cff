"""Digests behind the references of .env, and nothing else changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from looplab.errors import LabError
from looplab.host.pinning import images_to_pin, pin, read_digest

ROOT = Path(__file__).resolve().parents[2]
ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def test_upstream_images_are_pinned_and_our_own_are_not() -> None:
    found = images_to_pin((ROOT / ".env").read_text())
    assert {"MOSQUITTO_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE", "FLOOD_IMAGE"} == set(found)
    assert all("@" not in reference for reference in found.values())


def test_only_the_named_lines_change_and_a_second_time_replaces() -> None:
    text = "# A_IMAGE=no\nA_IMAGE=a/b:1\nB_IMAGE=host:5000/c:2\nOWN_IMAGE=looplab/x:1\nOTHER=a/b:1\n"
    once = pin(text, {"A_IMAGE": ONE})
    assert once == text.replace("\nA_IMAGE=a/b:1\n", f"\nA_IMAGE=a/b:1@{ONE}\n")
    assert images_to_pin(once) == {"A_IMAGE": "a/b:1", "B_IMAGE": "host:5000/c:2"}
    assert pin(once, {"A_IMAGE": TWO}) == once.replace(ONE, TWO)


def test_the_digest_is_that_of_the_repository() -> None:
    assert read_digest("a/b:1", [f"mirror.example/a/b@{TWO}", f"a/b@{ONE}"]) == ONE
    for nothing in ([], [f"other@{ONE}"], ["a/b@sha256:short"]):
        with pytest.raises(LabError, match="no digest"):
            read_digest("a/b:1", nothing)
