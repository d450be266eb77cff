"""With a listener for the LAN: no secret where the engine shows one, one port on the LAN, and nothing without it."""

import json

import pytest
from support.containers import docker, own_image
from support.e2e_lab import PROJECT, Lab, free_port

PARTS = ("broker", "scenario1", "bridge")
CONTROLLERS = [
    *(f"database/{name}" for name in ("reader", "writer")),
    "plain/controller",
    *(f"services/{name}" for name in ("admin", "postgres", "spicedb", "tokens")),
]


def kept_secrets(lab: Lab) -> list[str]:
    """Every password, and each line of the private key, by an engine's user: nobody else may read them."""
    volume = ["--volume", f"{PROJECT}_identities:/kept:ro", "--entrypoint", "cat", own_image("prepare")]
    kept = json.loads(docker("run", "--rm", "--user", "10009", *volume, "/kept/identities.json"))
    key = [line for line in kept["server"].partition("-----END EC")[0].splitlines() if not line.startswith("-")]
    words = [*kept["passwords"].values(), *kept["plain"].values(), *key]
    assert len(words) > 5
    assert all(len(word) > 20 for word in words)
    return words


def published(lab: Lab, **variables: str) -> dict[str, tuple[str, str]]:
    """What of the broker is published: (address, port) by the port within."""
    said = lab.compose("--profile", "scenario1", "config", "--format", "json", **variables, code=0)
    ports = json.loads(said.stdout)["services"]["broker"]["ports"]
    return {str(port["target"]): (port["host_ip"], str(port["published"])) for port in ports}


def test_the_engine_shows_no_secret(lab: Lab) -> None:
    paired = lab.run("pair", "pi.env", "--address", "192.0.2.5", ROBOT="remote", code=0)
    variables = {"BROKER_TLS": "on"}
    lab.compose("--profile", "scenario1", "up", "--detach", *PARTS, **variables, code=0)
    containers = lab.containers(running=False)
    assert set(PARTS) <= set(containers)
    shown = docker("inspect", *containers.values()) + lab.compose("--profile", "*", "config", **variables).stdout
    for image in set(docker("inspect", "--format", "{{.Image}}", *containers.values()).split()):
        shown += docker("history", "--no-trunc", image) + docker("inspect", image)
    shown += paired.stdout + paired.stderr
    for word in kept_secrets(lab):
        assert word not in shown


def test_each_part_reads_its_own_files_alone(lab: Lab) -> None:
    lab.compose("--profile", "scenario1", "up", "--detach", *PARTS, BROKER_TLS="on", code=0)
    for part, folder, own in (
        ("broker", "/mosquitto/secrets", ["passwords", "server.pem", "plain/mosquitto_sub", "plain/passwords"]),
        # Every experiment's controller is the same user.
        ("scenario1", "/run/looplab", ["controller", "device-workers", "devices", "nodes", "treatments", *CONTROLLERS]),
        ("bridge", "/run/looplab", ["bridge", "plain/bridge"]),
    ):
        look = f"cd {folder} && for file in * */*; do if cat $file >/dev/null 2>&1; then echo $file; fi; done"
        found = docker("exec", lab.container(part), "sh", "-c", look)
        assert found.split() == own, part


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
