"""Every service of every choice of parts, as Compose itself resolves it: least privilege."""

from typing import Any

import pytest
from support.containers import compose_services
from support.hardening import judge_configuration, users_of_images

from looplab.lab.machine.limits import AMONG_THE_MEASURED

pytestmark = pytest.mark.engine

USUAL = {"ROBOT": "virtual", "GRAFANA": "", "LINK": ""}
# What differs from USUAL.
CHOICES = {
    "virtual robot": {"LINK": "wifi"},
    "robot on USB, a published port": {"ROBOT": "usb", "BROKER_PATH": "port"},
    "printed clients": {"CLIENTS": "printed"},
    # A run has one of the two; they change different services.
    "own programs": {"CLIENTS": "own", "OWN_CLIENT": "lab", "OWN_BRIDGE": "lab"},
    "own programs in an image": {"CLIENTS": "own", "OWN_CLIENT": "/client", "OWN_BRIDGE": "/bridge", "OWN_IMAGE": "x"},
    "robot on a Pi": {"ROBOT": "remote", "GRAFANA": "off", "LAB_PI": "192.0.2.7"},
}


def judge(found: dict[str, dict[str, Any]], least: set[str]) -> None:
    """Judge each service; these at least are among them."""
    assert least <= found.keys()
    users = users_of_images(found)
    for name, service in found.items():
        judge_configuration(name, service, users)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES.keys())
def test_every_service_is_hardened(choice: dict[str, str]) -> None:
    found = compose_services(**USUAL | choice)
    judge(found, {"prepare", "treatments", "exporter", "prometheus", "broker", "stress", "flood"})
    assert ("profiles" not in found["grafana"]) == (choice.get("GRAFANA") != "off")


def test_the_services_of_other_hosts_are_hardened() -> None:
    """They are those of several hosts, without and with TLS, and of the Pi."""
    for tls in ("off", "on"):
        found = compose_services("--file", "compose/hosts.yaml", BROKER_TLS=tls)
        judge(found, {"prepare", "treatments", "broker", "bridge", "scenario5", "stress", "flood"})
    with pytest.raises(AssertionError, match="write BROKER_HOST="):
        compose_services("--file", "rpi/compose.yaml", BROKER_HOST="")
    judge(compose_services("--file", "rpi/compose.yaml", BROKER_HOST="192.0.2.1"), {"bridge"})


@pytest.mark.parametrize("broker", ["mosquitto", "mochi", "rabbitmq"])
def test_the_prioritised_parts_hold_their_capability_as_root(broker: str) -> None:
    usual, held = (compose_services(**USUAL, BROKER=broker, LAB_PRIORITY_UID=user) for user in ("", "0"))
    judge(usual, {"broker"})
    judge(held, {"broker"})
    changed = {name for name, service in held.items() if service != usual[name]}
    assert changed == {"broker-prioritised", "scenario5", "scenario8"}
    for name in changed:
        user, _, group = usual[name]["user"].partition(":")
        assert (user != "0", held[name]["user"]) == (True, f"0:{group}")
    kept = {word for word in held["scenario5"]["entrypoint"] if "caps" in word}
    assert kept == {"--inh-caps=-all,+sys_nice", "--ambient-caps=-all,+sys_nice"}
    assert not any("sys_nice" in word for word in usual["scenario5"]["entrypoint"])


@pytest.mark.parametrize(
    ("machine", "group", "shares"),
    [({}, "looplab.slice", 128), ({"LAB_WATCH_GROUP": "/"}, "/", 128), (AMONG_THE_MEASURED, "", 0)],
    ids=["before ./lab setup", "as ./lab setup found", "refused"],
)
def test_what_only_looks_on_weighs_little(machine: dict[str, str], group: str, shares: int) -> None:
    found = compose_services(GRAFANA="", **machine)
    for name in ("exporter", "prometheus", "grafana", "pages"):
        assert (found[name].get("cgroup_parent", ""), found[name].get("cpu_shares", 0)) == (group, shares), name
