"""The oldest and the newest Compose: each reads every profile alike, and runs a scenario from nothing to nothing.

Building one takes minutes, so only those of LAB_COMPOSE_VERSIONS, e.g. "v2.24.6 v5.6.0", built from Go modules; or
files of plugins by their paths.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.e2e_lab import Lab
from support.places import ROOT
from support.wire import call

pytestmark = pytest.mark.engine

NAMED = os.environ.get("LAB_COMPOSE_VERSIONS", "").split()
CHOICES = {
    "usual": {},
    "robot on USB": {"ROBOT": "usb", "LINK": "wifi", "BROKER_TLS": "on"},
    "robot on a Pi": {"ROBOT": "remote", "GRAFANA": "off", "LAB_PI": "192.0.2.7"},
    "printed": {"CLIENTS": "printed", "BROKER_PATH": "port", "BROKER": "rabbitmq"},
}


def built(version: str, folder: Path) -> Path:
    """Return the plugin of a version, built from its Go module."""
    if shutil.which("go") is None:
        pytest.fail("no Go is here to build Compose with: install golang-go, or name files of plugins")
    module = f"github.com/docker/compose/{version.partition('.')[0]}"
    found = call("go", "mod", "download", "-json", f"{module}@{version}", cwd=folder, timeout_s=600)
    # `go install` refuses a module that replaces others.
    sources, plugin = folder / "sources", folder / "docker-compose"
    shutil.copytree(json.loads(found)["Dir"], sources)
    call("chmod", "-R", "u+w", str(sources))
    flags = ("-trimpath", "-ldflags", f"-s -w -X {module}/internal.Version={version}")
    call("go", "build", *flags, "-o", str(plugin), "./cmd", cwd=sources, timeout_s=1800)
    return plugin


@pytest.fixture(scope="module", params=NAMED or [pytest.param("", marks=pytest.mark.skip("none is named"))])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables by which docker's client takes this plugin."""
    folder = tmp_path_factory.mktemp("compose")
    name = str(request.param)
    plugin = Path(name) if name.startswith("/") else built(name, folder)
    (folder / "client/cli-plugins").mkdir(parents=True)
    shutil.copy(plugin, folder / "client/cli-plugins/docker-compose")
    return {"DOCKER_CONFIG": str(folder / "client")}


def config(**variables: str) -> dict[str, Any]:
    """Return every profile as Compose reads it, without what is a default of its own version."""
    command = ["docker", "compose", "--profile", "*", "config", "--format", "json"]
    environment = {**os.environ, "COMPOSE_ENV_FILES": ".env", **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    services: dict[str, Any] = json.loads(done.stdout)["services"]
    for service in services.values():
        for volume in service.get("volumes", []):
            volume.pop("bind", None)
        if build := service.get("build"):
            # Some versions leave out an argument without a value.
            build["args"] = {name: one for name, one in build.get("args", {}).items() if one is not None}
    return services


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES.keys())
def test_every_profile_is_read_alike(client: dict[str, str], choice: dict[str, str]) -> None:
    assert config(**client, **choice) == config(**choice)


def test_a_scenario_runs_from_nothing_to_nothing(client: dict[str, str], lab: Lab) -> None:
    """By ./lab, and by plain Compose: up, run, down."""
    assert lab.run("run", "scenario0", "--quick", "--allow-invalid", "--json", **client).returncode == 0
    lab.compose("--profile", "scenario1", "up", "--detach", MESSAGES="20", INTERVALS_MS="20", REPETITIONS="1", **client)
    assert lab.wait_for_end("scenario1") in (0, 1)
    assert lab.newest()[1]["cells"][0]["sent"] == 20
    pairing = ("run", "--rm", "--no-deps", "prepare", "pairing", "bridge", "192.0.2.9", "8883")
    assert "BROKER_HOST=192.0.2.9" in lab.compose(*pairing, code=0, **client).stdout
    lab.run("down", code=0, **client)
    assert lab.containers(running=False) == {}
    assert lab.networks() == []
