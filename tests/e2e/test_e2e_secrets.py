"""With a listener for the LAN: no secret where the engine shows one, one port on the LAN, and nothing without it."""

import json
from pathlib import Path

import pytest
from support.containers import docker
from support.e2e_lab import Lab, free_port

from looplab.lab.credentials import certificates, identities
from looplab.lab.credentials.secret_files import write_secret

PARTS = ("s1-broker", "s1-controller", "bridge")


def secrets_of(lab: Lab) -> list[str]:
    """Every password, and each line of every private key."""
    folder = lab.root / identities.LAN
    words = [identities.pairing_of(lab.root, who).password for who in identities.READERS]
    for key in (folder / "ca.key", folder / "broker/server.key"):
        words += [line for line in key.read_text().splitlines() if not line.startswith("-")]
    assert all(len(word) > 20 for word in words[: len(identities.READERS)])
    return words


def published(lab: Lab, **variables: str) -> dict[str, tuple[str, str]]:
    """What of the broker is published: (address, port) by the port within."""
    said = lab.compose("--profile", "scenario1", "config", "--format", "json", **variables, code=0)
    ports = json.loads(said.stdout)["services"]["s1-broker"]["ports"]
    return {str(port["target"]): (port["host_ip"], str(port["published"])) for port in ports}


def test_the_engine_shows_no_secret(lab: Lab) -> None:
    paired = lab.run("pair", "pi.env", ROBOT="remote", code=0)
    variables = {"BROKER_TLS": "on"}
    lab.compose("--profile", "scenario1", "create", **variables, code=0)
    containers = lab.containers(running=False)
    assert set(PARTS) <= set(containers)
    shown = docker("inspect", *containers.values()) + lab.compose("--profile", "*", "config", **variables).stdout
    for image in set(docker("inspect", "--format", "{{.Image}}", *containers.values()).split()):
        shown += docker("history", "--no-trunc", image) + docker("inspect", image)
    shown += paired.stdout + paired.stderr
    for word in secrets_of(lab):
        assert word not in shown
    for part in PARTS:
        mounts = json.loads(docker("inspect", "--format", "{{json .Mounts}}", containers[part]))
        own = [mount for mount in mounts if "/secrets/lan" in mount["Source"]]
        # Each has its own folder and no other, and cannot write there.
        assert [Path(mount["Source"]).name for mount in own] == [part.removeprefix("s1-")]
        assert not any(mount["RW"] for mount in own)


def test_a_run_with_an_ended_certificate_says_so_and_set_up_mends_it(own_lab: Lab) -> None:
    folder = own_lab.root / identities.LAN
    identities.ensure(own_lab.root, [], controller_uid=1000)
    authority = ((folder / "ca.key").read_text(), (folder / "ca.crt").read_text())
    for name, text in zip(("key", "crt"), certificates.make_server(authority, ["broker"], -1), strict=True):
        write_secret(folder / f"broker/server.{name}", text)
    ran = own_lab.run("run", "scenario1", "--quick", BROKER_TLS="on")
    assert ran.returncode == 3
    assert "The broker's certificate expired on" in ran.stderr
    assert "./lab setup" in ran.stderr
    assert own_lab.doctor_says("Certificates", "warn")
    repaired = own_lab.run("setup", code=0)
    assert "Made the broker's certificate" in repaired.stderr
    assert own_lab.doctor_says("Certificates", "ok")


@pytest.mark.parametrize(
    "variables", [{}, {"ROBOT": "usb"}, {"BROKER_TLS": "on"}, {"ROBOT": "remote", "BROKER_TLS": "off"}]
)
def test_nothing_is_on_the_lan_unless_the_robot_is_remote(lab: Lab, variables: dict[str, str]) -> None:
    found = published(lab, LAB_LAN_BIND="0.0.0.0", **variables)
    assert set(found) == {"1883"}
    assert found["1883"][0] == "127.0.0.1"


def test_with_a_remote_robot_tls_alone_is_on_the_lan(lab: Lab) -> None:
    port = str(free_port())
    found = published(lab, ROBOT="remote", LAB_LAN_BIND="192.0.2.1", LAB_TLS_PORT=port)
    assert found["8883"] == ("192.0.2.1", port)
    assert found["1883"][0] == "127.0.0.1"
