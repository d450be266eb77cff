"""Which commands put the parts of the loop on several hosts: plain ones, as a person types them."""

import shlex
from collections.abc import Collection, Mapping
from typing import NamedTuple

from looplab.lab.hosts.contexts import Host
from looplab.run.identities import PLAIN_PORT, PORT, certificate_of
from looplab.treatments.scans import TOKEN

PROJECT = "looplab-hosts"
FILE = "compose/hosts.yaml"
TREATMENTS_PORT = "9110"
BROKER, BRIDGE, CONTROLLER = "broker", "bridge", "controller"
# Each part has services in the order of their start, loads beside it, and roles in a scan.
SERVICES = {BROKER: ("broker", "broker-prioritised"), BRIDGE: ("bridge", "robot"), CONTROLLER: ()}
LOADS = {BROKER: ("stress", "flood"), BRIDGE: (), CONTROLLER: ("stress",)}
ROLES = {BROKER: ("broker",), BRIDGE: ("bridge", "robot"), CONTROLLER: ("controller", "clients")}
# Every host starts these before its parts.
FIRST = ("prepare", "treatments")
PREPARE = f"{PROJECT}-prepare-1"


class EngineCommand(NamedTuple):
    """One command at an engine; with `into`, another that reads what the first prints."""

    words: tuple[str, ...]
    into: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " | ".join(shlex.join(words) for words in self if words)

    @property
    def host(self) -> str:
        """Return the name of the engine's context."""
        return self.words[2]


class HostShare(NamedTuple):
    """What one host has of a scenario: roles of a scan, and services beside FIRST and the controller."""

    host: Host
    roles: list[str]
    services: list[str]

    def described(self, controller: Host) -> str:
        """Return its word of LAB_HOSTS: name, roles, where its treatments service answers."""
        address = "" if self.host.name == controller.name else f"{self.host.address}:{TREATMENTS_PORT}"
        return f"{self.host.name}={','.join(self.roles)}={address}"


class PlacementPlan(NamedTuple):
    """The settings of each host, and the steps that end with the start of the controller."""

    settings: dict[str, dict[str, str]]
    start: list[EngineCommand]


def share_of(host: Host, placed: Mapping[str, Host], services: Collection[str]) -> HostShare:
    """Return the share of a host in a scenario that starts `services`, with each part where it is `placed`."""
    parts = [part for part in SERVICES if placed[part].name == host.name]
    loads = sorted({load for part in parts for load in LOADS[part]} & {*services})
    started = [one for part in parts for one in SERVICES[part] if one in services]
    return HostShare(host, [*(role for part in parts for role in ROLES[part]), *loads], [*started, *loads])


def make_plan(
    placed: Mapping[str, Host],
    scenario: str,
    services: Collection[str],
    common: Mapping[str, str],
    limits: Mapping[str, Mapping[str, str]],
) -> PlacementPlan:
    """Return how `scenario` starts with each part where it is `placed`.

    `services` are those that it starts, `common` the settings of every host, `limits` what each grants.
    """
    controller = placed[CONTROLLER]
    # The broker's host is first: it makes the passwords of all parts.
    shares = {placed[part].name: share_of(placed[part], placed, services) for part in SERVICES}
    settings = {
        name: {**common, **limits.get(name, {}), **_network(share.host, placed, common)}
        for name, share in shares.items()
    }
    hosts = [shares[name] for name in dict.fromkeys(placed[part].name for part in (CONTROLLER, BROKER, BRIDGE))]
    settings[controller.name]["LAB_HOSTS"] = " ".join(share.described(controller) for share in hosts)
    start = []
    for host, _, started in shares.values():
        start += _prepared(host, scenario, placed, settings[host.name])
        start += [_up(host, scenario, "treatments"), *([_up(host, scenario, *started)] if started else [])]
    return PlacementPlan(settings, [*start, _up(controller, scenario, scenario)])


def _network(host: Host, placed: Mapping[str, Host], common: Mapping[str, str]) -> dict[str, str]:
    """Return addresses and ports of one host: open are those that another one needs."""
    broker, tls = placed[BROKER], common["BROKER_TLS"] == "on"
    own = {"LAB_LISTENER": str(PORT if tls else PLAIN_PORT), "LAB_ACCESS": "" if tls else "plain/"}
    asked = {other.name: other.address for other in placed.values() if other.name != placed[CONTROLLER].name}
    if host.name != broker.name:
        own["LAB_BROKER_AT"] = f"broker:{broker.address}"
    elif any(other.name != host.name for other in placed.values()):
        own["LAB_BIND"] = host.address
    if host.name == broker.name and tls and asked:
        own["TREATMENTS_ADDRESSES"] = " ".join(asked.values())
    if host.name not in asked:
        return {**own, "BROKER_PATH": "direct" if host.name == broker.name else "port"}
    if tls:
        own["TREATMENTS_CERTIFICATE"] = certificate_of(host.address)
    return {**own, "LAB_TREATMENTS_AT": f"{host.address}:{TREATMENTS_PORT}"}


def _up(host: Host, scenario: str, *services: str) -> EngineCommand:
    project = ("compose", "--env-file", ".env", "--file", FILE, "--project-name", PROJECT, "--profile", scenario)
    up = ("up", "--no-build", "--pull", "never", "--detach", "--no-deps")
    return EngineCommand(("docker", "--context", host.name, *project, *up, *services))


def _prepared(
    host: Host, scenario: str, placed: Mapping[str, Host], settings: Mapping[str, str]
) -> list[EngineCommand]:
    """Return what fills a host's volumes: the files of its parts, and of the broker's secrets those that they read."""
    copy, broker = ("docker", "--context", host.name, "cp"), placed[BROKER]
    # An attached Compose never ends over ssh.
    steps = [_up(host, scenario, "prepare"), EngineCommand(("docker", "--context", host.name, "wait", PREPARE))]
    if host.name == broker.name:
        return [*steps, EngineCommand((*copy, "compose/mosquitto/.", f"{PREPARE}:/files"))]
    needed = [("", name) for name in (TOKEN, settings.get("TREATMENTS_CERTIFICATE")) if name]
    needed += [(settings["LAB_ACCESS"], part) for part in (CONTROLLER, BRIDGE) if placed[part].name == host.name]
    for folder, name in needed:
        read = ("docker", "--context", broker.name, "cp", f"{PREPARE}:/identities/{folder}{name}", "-")
        steps.append(EngineCommand(read, (*copy, "-", f"{PREPARE}:/identities/{folder}")))
    return steps
