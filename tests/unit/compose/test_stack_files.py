"""The two files for `docker stack deploy` beside the Compose files: what they run is the same."""

import os
import subprocess
from dataclasses import asdict
from typing import Any

import pytest
import yaml
from support.compose_files import merged
from support.places import ROOT

from looplab.experiments.registry import EXPERIMENTS
from looplab.system.env_files import expand, read_env

EXPERIMENT_FILES = ROOT / "compose/experiments"
RUNS = {"twin": "twin-brokers", "middleware": "middleware-nodes"}
SAME = (
    "image", "entrypoint", "command", "user", "read_only", "cap_drop", "stop_signal", "stop_grace_period", "ulimits",
)  # fmt: skip
# What a stack cannot have, or what nobody needs there.
LEFT_OUT = {"twin": {"twin-brokers-central-2", "twin-brokers-central-4"}, "middleware": set()}
OTHER_SETTINGS = {
    "twin": {"title", "swarm", "confine", "brokers", "placements", "device_workers"},
    "middleware": {"title", "swarm"},
}
NOT_PASSED = {"twin": {"TITLE"}, "middleware": {"TITLE", "MIDDLEWARE"}}


@pytest.fixture(scope="module", params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def stack(name: str) -> dict[str, Any]:
    """The file as Docker's own client reads it, with no variable set."""
    command = ["docker", "stack", "config", "--compose-file", str(EXPERIMENT_FILES / name / "stack.yaml")]
    try:
        bare = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        done = subprocess.run(command, env=bare, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("docker is not installed")
    if "unknown" in done.stderr:
        pytest.skip("this docker client is too old for `docker stack config`")
    assert done.returncode == 0, done.stderr
    return dict(yaml.safe_load(done.stdout))


@pytest.fixture
def compose(name: str) -> dict[str, Any]:
    """The services of the same run in Compose, with no variable set; a service whose scale is 0 is never started."""
    services = {one: each for one, each in merged(ROOT, {}).items() if RUNS[name] in each.get("profiles", ())}
    return {one: each for one, each in services.items() if each.get("scale") != 0 and one not in LEFT_OUT[name]}


def test_they_start_the_same_programs(name: str, stack: dict[str, Any], compose: dict[str, Any]) -> None:
    assert stack["services"].keys() == compose.keys()
    for service, there in stack["services"].items():
        here = plain(compose[service])
        assert {key: plain(there[key]) for key in SAME if key in there} == {
            key: here[key] for key in SAME if here.get(key)
        }
        assert there["deploy"]["endpoint_mode"] == "dnsrr"
        assert there["deploy"]["placement"]["constraints"]
        assert str(there["deploy"]["resources"]["limits"]["pids"]) == str(here["pids_limit"])
        wanted = {network for network in here.get("networks", {"default": {}}) if network != "control"}
        assert set(there.get("networks", {"default": {}})) == wanted


def plain(value: Any) -> Any:
    """Return a value with its variables' defaults, and numbers as text: `docker stack` types some, Compose others."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return expand({"it": str(value)}, {})["it"] if value is not None else None


def test_a_run_has_the_same_settings(name: str, stack: dict[str, Any], compose: dict[str, Any]) -> None:
    run = RUNS[name]
    written = read_env(EXPERIMENT_FILES / run / "params.env")
    passed = stack["services"][run]["environment"]
    assert written.keys() - passed.keys() == NOT_PASSED[name]
    assert passed.keys() <= written.keys() | compose[run]["environment"].keys() | {"CONFINE"}
    experiment = EXPERIMENTS[name]
    given = {key: one for key, one in passed.items() if one is not None}
    here, there = (
        asdict(experiment.read_parameters({**one, "ORDER_SEED": "1"})) for one in (expand(written, {}), given)
    )
    assert {key for key in here if here[key] != there[key]} == OTHER_SETTINGS[name]
