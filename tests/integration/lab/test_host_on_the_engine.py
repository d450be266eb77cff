"""The host side against the real engine of this machine."""

import os
import subprocess
from pathlib import Path

import pytest
from support.containers import base_image, own_image
from support.places import ROOT
from support.wire import call

from looplab.lab.checkout import Lab
from looplab.lab.docker.engine import find_engine
from looplab.lab.image_names import name_of
from looplab.lab.machine.limits import FIFO, MOST_RTPRIO, RTPRIO, probe_limits
from looplab.lab.scenarios import chosen

pytestmark = pytest.mark.engine


def docker(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=120)


def test_a_container_starts_with_the_limits_found(tmp_path: Path) -> None:
    """Whatever was found out must be true: the same flags, as Compose would set them, start a container."""
    engine = find_engine()
    limits = probe_limits(engine, own_image("treatments"), tmp_path / "cache")
    assert not limits.unknown
    options = ["--cap-add=SYS_NICE"]
    if limits.rt_group_sched:
        options.append("--cpu-rt-runtime=20000")
    if limits.grants(RTPRIO):
        options.append(f"--ulimit=rtprio={MOST_RTPRIO}")
    ran = docker("run", "--rm", *options, base_image(), "chrt", "-f", "90", "true")
    assert (ran.returncode == 0) is limits.grants(FIFO), ran.stderr
    if not limits.grants(RTPRIO):
        assert docker("run", "--rm", f"--ulimit=rtprio={MOST_RTPRIO}", base_image(), "true").returncode != 0


@pytest.mark.parametrize(
    ("scenario", "options", "more"),
    [
        ("scenario1", {}, {"controller", "bridge", "robot"}),
        ("scenario1", {"ROBOT": "remote"}, {"controller", "bridge"}),
        ("scenario7", {"BROKER": "mochi", "LINK": "wifi"}, {"controller", "bridge", "robot", "flood", "mochi", "link"}),
        ("scenario2", {"FIDELITY": "printed"}, {"printed", "bridge", "robot", "stress"}),
        ("qos-delay", {}, {"controller", "link", "capture"}),
        ("twin", {}, {"sqlclient"}),
    ],
)
def test_a_run_has_the_images_that_it_starts_alone(scenario: str, options: dict[str, str], more: set[str]) -> None:
    # Where the registry is out of reach, .env.machine has an empty FLOOD_IMAGE.
    usual = {"BROKER": "mosquitto", "LINK": "none", "GRAFANA": "off", "FLOOD_IMAGE": "inovex/mqtt-stresser:latest"}
    lab = Lab(ROOT, {**usual, **options}, chosen(ROOT, [scenario]))
    ours, upstream = lab.images()
    assert {*map(name_of, ours)} == {"prepare", "treatments", "exporter", *more}
    brokers = set() if options.get("BROKER") == "mochi" else {"MOSQUITTO_IMAGE"}
    own = {"FLOOD_IMAGE"} if "flood" in more else {"POSTGRES_IMAGE"} if scenario == "twin" else set()
    assert upstream.keys() == {"PROMETHEUS_IMAGE", *brokers, *own}


def test_compose_out_of_debians_package_runs_here(tmp_path: Path) -> None:
    environment = {**os.environ, "BASE_IMAGE": base_image()}
    subprocess.run([ROOT / "scripts/install-compose", tmp_path], check=True, capture_output=True, env=environment)
    assert call(str(tmp_path / "docker-compose"), "version", "--short").startswith("2.")
    assert "looplab-compose-" not in docker("ps", "--all", "--format", "{{.Names}}").stdout


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
