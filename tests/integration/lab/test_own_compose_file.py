"""What the user's own Compose file changes in a scenario, as Compose reads it."""

from pathlib import Path

import pytest
from support.places import ROOT

from looplab.lab.checkout import Lab
from looplab.lab.scenarios import chosen

pytestmark = pytest.mark.engine


def changes(file: str, profile: str, **settings: str) -> str:
    """What the user's own file changes as Compose reads it."""
    lab = Lab(ROOT, {"LAB_OWN": file, **settings}, chosen(ROOT, [profile]))
    found = lab.model_facts(profile)["lab_own"]
    assert found["file"] == file
    return str(found["changes"])


def test_a_file_of_ones_own_has_a_digest_of_what_it_changes(tmp_path: Path) -> None:
    own, other, empty = (tmp_path / name for name in ("own.yaml", "other.yaml", "empty.yaml"))
    own.write_text('services: {stress: {command: "--cpu 2"}, bridge: {environment: {MINE: "1"}}}\n')
    other.write_text('services: {stress: {command: "--cpu ${MINE:-4}"}}\n')
    empty.write_text("services: {broker: {}}\n")
    digest = changes(str(own), "scenario2")
    assert len(digest) == 8
    # Neither a fidelity nor the load's own settings are a change of that file.
    assert changes(str(own), "scenario5", FIDELITY="corrected", STRESS_CPU="6", BROKER="mochi") == digest
    assert changes(str(own), "scenario1") not in ("", digest)
    assert changes(str(other), "scenario2") not in ("", digest, changes(str(other), "scenario2", MINE="5"))
    assert [changes(str(other), "scenario1"), changes(str(empty), "scenario2")] == ["", ""]
    assert changes("compose/own.yaml", "scenario2") == ""
