"""The machine of a run: what a container sees, and what ./lab adds."""

import json
import os
import platform

import pytest

from looplab.system.machine_facts import UNKNOWN, describe


def test_the_facts_of_this_machine() -> None:
    found = describe()
    assert found["cores"] == os.cpu_count()
    assert found["kernel"] == platform.release()
    assert found["cgroup"] in ("v1", "v2")
    assert found["cpu"]
    assert found["cpu_model"] != "unknown"
    assert found["governor"]
    assert found["clock_source"] != "unknown"
    assert "note" not in found
    assert "note" not in describe("  ")
    assert len(found["load_before"]) == 3
    assert found["engine"] == found["compose"] == found["revision"] == UNKNOWN
    assert json.loads(json.dumps(found)) == found


def test_what_the_host_knows_is_taken_over() -> None:
    images = {"broker": {"reference": "eclipse-mosquitto:2", "id": "sha256:1", "origin": "built"}}
    found = describe(json.dumps({"engine": "20.10.24", "images": images}))
    assert (found["engine"], found["images"]) == ("20.10.24", images)
    assert found["compose"] == UNKNOWN


@pytest.mark.parametrize("handed_in", ["{", "[1]", "5", '"text"', "null", "true"])
def test_what_is_no_json_object_is_left_out_and_said(handed_in: str) -> None:
    found = describe(handed_in)
    assert "LOOPLAB_ENVIRONMENT" in found["note"]
    assert found["engine"] == UNKNOWN
