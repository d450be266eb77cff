"""With a listener for the LAN: no secret where the engine shows one, one port on the LAN, and nothing without it."""

import json

from support.containers import docker, own_image
from support.e2e_lab import PROJECT, Lab, free_port
from support.run_checks import treatments

TLS = {"BROKER_TLS": "on"}
CONTROLLERS = [
    *(f"database/{name}" for name in ("reader", "writer")),
    "plain/controller",
    *(f"services/{name}" for name in ("admin", "postgres", "spicedb", "tokens")),
]
# What each part may read, of all files in its folder: `machine` is no secret. Every experiment's controller is the same
# user.
READS = {
    "broker": ("/mosquitto/secrets", ["passwords", "server.pem", "plain/mosquitto_sub", "plain/passwords"]),
    "scenario1": (
        "/run/looplab",
        ["controller", "device-workers", "machine", "nodes", "treatments", *CONTROLLERS],
    ),
    "bridge": ("/run/looplab", ["bridge", "plain/bridge"]),
}


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


def test_a_run_over_tls_shows_no_secret(lab: Lab) -> None:
    """Looked at while it sends: the engine's own words on its containers and images, and each part's files."""
    paired = lab.run("pair", "pi.env", "--address", "192.0.2.5", ROBOT="remote", code=0)
    running = lab.measuring("scenario1", 4, **TLS)
    for part, (folder, own) in READS.items():
        look = f"cd {folder} && for file in * */*; do if cat $file >/dev/null 2>&1; then echo $file; fi; done"
        assert docker("exec", lab.container(part), "sh", "-c", look).split() == own, part
    containers = lab.containers(running=False)
    shown = docker("inspect", *containers.values()) + lab.compose("--profile", "*", "config", **TLS).stdout
    for image in set(docker("inspect", "--format", "{{.Image}}", *containers.values()).split()):
        shown += docker("history", "--no-trunc", image) + docker("inspect", image)
    shown += paired.stdout + paired.stderr
    for word in kept_secrets(lab):
        assert word not in shown
    found = treatments(running.ended())
    for role in ("controller", "bridge"):
        assert found[f"{role} TLS"]["found"].startswith("TLSv1.")


def test_with_a_remote_robot_tls_alone_is_on_the_lan(lab: Lab) -> None:
    remote = {"ROBOT": "remote"}
    for variables in ({}, {"ROBOT": "usb"}, TLS, {**remote, "BROKER_TLS": "off"}):
        found = published(lab, LAB_LAN_BIND="0.0.0.0", **variables)
        assert (found.keys(), found["1883"][0]) == ({"1883"}, "127.0.0.1")
    port = str(free_port())
    found = published(lab, **remote, LAB_LAN_BIND="192.0.2.1", LAB_TLS_PORT=port)
    assert (found["8883"], found["1883"][0]) == (("192.0.2.1", port), "127.0.0.1")
