"""The Compose files as written: the published scenarios, what a reader must open for one, every service hardened."""

import csv
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.compose_files import LOADER, RESET, Service, files_of, merged, started_conf
from support.hardening import CAPTURES, LINKS
from support.places import ROOT

from looplab.experiments.loop.parameters import PARAMETERS
from looplab.lab.scenarios import ALIASES, experiments, scenarios
from looplab.spec.parameters import FIDELITIES
from looplab.system.env_files import expand
from looplab.treatments.loads import loads

COMPOSE = ROOT / "compose"
LOADS = {"none": "none", "CPU stress": "stress", "MQTT flood": "flood"}
COMMANDS = {"serial robot": "T", "emulated in the bridge": "E"}
FIFO_BROKER, FIFO_CONTROLLER = 90, 99
# In params.env, and no choice of the shell: loop.yaml has the same.
GIVEN = ("SCENARIO", "TITLE", "PUBLISHED", "LOAD", "PRIORITY_BROKER", "PRIORITY_CONTROLLER")
# Nobody sets these for a single run: they are edited in params.env.
CONSTANTS = (
    "EDGE_HZ", "JITTER_SHARE", "REORDER", "DELAY_LIMIT_MS", "PERIOD_MS", "DROP_PROBABILITY", "LOW_HZ", "HIGH_HZ",
    "RESOLUTION", "INTERVAL_MS", "DRAIN_TIMEOUT_S", "LOAD_PROCESSES",
)  # fmt: skip
PUBLISHED = list(
    csv.DictReader((resources.files("looplab.experiments.loop.report") / "published/thesis_scenarios.csv").open())
)
assert len(PUBLISHED) == 9
# What a variable chooses; lab.yaml, direct.yaml and own.yaml are read without one.
OVERLAY_FILES = sorted([*COMPOSE.glob("**/*.*.yaml"), *(COMPOSE / name for name in ("printed.yaml", "port.yaml"))])
COMPOSE_FILES = [ROOT / "compose.yaml", ROOT / "rpi/compose.yaml", *COMPOSE.glob("**/*.yaml")]


@cache
def load(path: Path) -> dict[str, Any]:
    return dict(yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER) or {})


# As the include list puts them together, variables not replaced.
SERVICES = merged(ROOT, {})
ALSO = [
    merged(ROOT, {"ROBOT": "usb", "LINK": "wifi", "BROKER_TLS": "on", "OWN_LINK": "device"}),
    merged(ROOT, {"ROBOT": "remote", "GRAFANA": "off"}),
    merged(ROOT, {"BROKER_TLS": "on"}, "compose/hosts.yaml"),
]


def started(profile: str, services: dict[str, Service] = SERVICES) -> set[str]:
    named = {name: one for name, one in services.items() if profile in one.get("profiles", ())}
    return {name for name, one in named.items() if one.get("scale") != 0}


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def variables(files: Iterable[Path]) -> set[str]:
    return {name for path in files for name in re.findall(r"(?<!\$)\$\{(\w+)", path.read_text(encoding="utf-8"))}


def names_of(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.partition("=")[0] for line in lines if line[:1].isalpha()]


def test_the_files_and_what_a_reader_opens_do_not_grow() -> None:
    folder = COMPOSE / "scenarios"
    opened = [*files_of(ROOT, {}, but="experiments"), folder / "default.env", folder / "scenario5/params.env"]
    # A scenario of one's own has its line, too.
    own = len(scenarios(ROOT)) - len(PUBLISHED)
    sizes = {
        "files for scenario5": (len(opened), 13),
        "their lines": (sum(map(lines_of, opened)), 440),
        "their variables": (len(variables(opened)), 74),
        "lines of compose.yaml": (lines_of(ROOT / "compose.yaml"), 40),
        "lines of loop.yaml": (lines_of(COMPOSE / "loop.yaml") - own, 110),
        "overlays": (len(OVERLAY_FILES), 20),
        "lines of an overlay": (max(map(lines_of, OVERLAY_FILES)), 40),
        "variables": (len(variables([*COMPOSE_FILES, *COMPOSE.glob("**/*.env")])), 130),
        "settings in .env": (len(names_of(ROOT / ".env")), 40),
        "hops": (sum("extends:" in path.read_text() for path in COMPOSE_FILES), 0),
    }
    assert {name: size for name, size in sizes.items() if size[0] > size[1]} == {}


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("given", [{}, {"CLIENTS": "lab"}, {"CLIENTS": "printed"}, {"BROKER_PATH": "direct"}])
def test_fidelity_alone_chooses_the_files_of_its_clients(fidelity: str, given: dict[str, str]) -> None:
    services = merged(ROOT, {"FIDELITY": fidelity, **given})
    wanted = scenarios(ROOT)["scenario5"].parameters({"FIDELITY": fidelity, **given})
    clients = {"printed": "printed", "lab": "controller"}[wanted.clients]
    assert services["scenario5"]["image"].startswith(f"${{LAB_REGISTRY:-localhost/}}looplab/{clients}:")
    assert any("LAB_GATEWAY" in port for port in services["broker"]["ports"]) == (wanted.broker_path == "port")


@pytest.mark.parametrize("robot", ["virtual", "usb", "remote"])
@pytest.mark.parametrize("tls", ["", "off", "on"])
def test_the_printed_path_is_published_whatever_the_robot(robot: str, tls: str) -> None:
    broker = merged(ROOT, {"ROBOT": robot, "BROKER_TLS": tls, "BROKER_PATH": "port"})["broker"]
    assert any(port.startswith("${LAB_GATEWAY:-") for port in broker["ports"])


def test_every_run_is_a_service_that_its_profile_starts() -> None:
    runs = {**scenarios(ROOT), **experiments(ROOT)}
    beside = {"treatments", "exporter", "prometheus", "grafana", "pages"}
    for name in runs:
        assert name in started(name)
        assert SERVICES[name]["profiles"] == [name, *(other for other, its in ALIASES.items() if its == name)]
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == {*beside, "prepare"}
    folders = {path.parent.name for path in COMPOSE.glob("*/[!_]*/params.env")}
    assert folders == set(runs)


@pytest.mark.parametrize("services", [SERVICES, *ALSO])
@pytest.mark.parametrize(("name", "scenario"), ALIASES.items())
def test_another_name_of_a_scenario_starts_what_that_does(
    services: dict[str, Service], name: str, scenario: str
) -> None:
    assert started(name, services) == started(scenario, services) != set()


@pytest.mark.parametrize("row", PUBLISHED, ids=[f"scenario{row['scenario']}" for row in PUBLISHED])
def test_a_scenario_is_as_published(row: dict[str, str]) -> None:
    name = f"scenario{row['scenario']}"
    prioritised, load_kind = row["broker"] == "prioritised", LOADS[row["load"]]
    broker = "broker-prioritised" if prioritised else "broker"
    measured = {name, broker, "bridge", "robot"} | ({load_kind} - {"none"})
    assert started(name) == measured
    # The last two change from root, whom LAB_PRIORITY_UID=0 starts, to a user that keeps the first.
    published = ["SYS_NICE", "SETUID", "SETGID"] if row["controller"] == "prioritised" else []
    assert SERVICES[name].get("cap_add", []) == published
    parameters = scenarios(ROOT)[name].parameters({})
    for part, priority, wanted in (
        (broker, FIFO_BROKER if prioritised else 0, parameters.priority_broker),
        (name, FIFO_CONTROLLER if published else 0, parameters.priority_controller),
    ):
        # params.env and loop.yaml say the same.
        limit = SERVICES[part].get("ulimits", {}).get("rtprio", "0")
        assert wanted == priority == int(expand({"it": limit}, {})["it"])
    assert parameters.load == load_kind
    assert parameters.command == COMMANDS[row["robot"]]
    assert parameters.intervals_ms == tuple(int(value) for value in row["intervals_ms"].split())
    assert parameters.qos == tuple(int(value) for value in row["qos"].split())
    assert (parameters.messages, parameters.repetitions) == (100, 10)
    assert scenarios(ROOT)[name].title == row["title"]


@pytest.mark.parametrize("path", sorted(COMPOSE.glob("*/*/params.env")), ids=lambda path: path.parent.name)
def test_a_parameter_stands_once_and_can_be_overridden(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line[:1].isalpha()]
    names = names_of(path)
    assert len(names) == len(set(names))
    for line in lines:
        name, _, value = line.partition("=")
        assert name in (*GIVEN, *CONSTANTS) or value.startswith("${" + name + ":-"), line


def test_the_defaults_are_those_of_the_program() -> None:
    """default.env hands on what is set; beside each name it tells what the program takes where nothing is."""
    params = {one.variable_of(name): one for name, one in PARAMETERS.params().items()}
    lines = [line for line in (COMPOSE / "scenarios/default.env").read_text().splitlines() if line[:1].isalpha()]
    for line in lines:
        found = re.fullmatch(r"(\w+)=\$\{\1:-\}(?: +# (.+))?", line)
        assert found, line
        name, told = found.groups("")
        if "," in told:
            assert told.split(", ") == [params[name].usual(fidelity) for fidelity in FIDELITIES], line
        else:
            assert told == params[name].usual("thesis"), line


def test_a_run_records_the_options_that_a_load_has() -> None:
    for variable, setting in (one for load in loads().values() for one in load.settings.items()):
        # What is no choice has one value.
        if setting.pattern != setting.published:
            assert SERVICES["scenario1"]["environment"][variable] is None


@pytest.mark.parametrize("services", [SERVICES, *ALSO])
def test_a_service_keeps_the_rules_of_the_house(services: dict[str, Service]) -> None:
    """Its privileges are judged as Compose resolves them: tests/integration/lab/test_hardening.py."""
    for name, service in services.items():
        # A sidecar shares the namespace whose link it makes or whose packets it takes; no other service shares one.
        assert ("service:" in service.get("network_mode", "")) == (name in (*LINKS, *CAPTURES)), name
        assert service.get("pid", "service:treatments") == "service:treatments"
        # Two labs may live on one machine.
        assert "container_name" not in service
        networks = service.get("networks") or {}
        for attachment in networks.values() if isinstance(networks, dict) else []:
            assert not {"ipv4_address", "ipv6_address", "mac_address"} & set(attachment or {})
        for port in service.get("ports", []):
            address = re.match(r"\$\{LAB_(?:(?:LAN_)?BIND|GATEWAY|TREATMENTS_AT):-[\d.]+(:\d+)?\}:", port)
            assert address, port
            assert address[1] or "${LAB_" in port[address.end() :], f"{port} cannot be moved"
        # No log fills the disk.
        assert {"max-size", "max-file"} <= set(service["logging"]["options"])
        # The engine starts no part of a lab at boot: one that it would restart joins a process that it does not.
        assert service.get("restart", "no") == "no" or service["pid"] == "service:treatments"
        # Without exporter, Prometheus or Grafana every run goes on.
        assert not set(service.get("depends_on", ())) & {"exporter", "prometheus", "grafana"}


# Of one of the lab's own images, whatever its variables say.
OWN_IMAGE = re.compile(r"\$\{LAB_REGISTRY:-localhost/\}looplab/\w+:\$\{LAB_TAG:-[\d.]+\}")


def test_an_own_image_has_a_name_of_its_own_and_is_never_pulled() -> None:
    built = set()
    for path in [*COMPOSE.glob("**/*.yaml"), ROOT / "rpi/compose.yaml"]:
        for name, service in (load(path).get("services") or {}).items():
            image = str((service or {}).get("image", ""))
            if (service or {}).get("build", RESET) is not RESET:
                assert OWN_IMAGE.fullmatch(image), f"{path}: {name} builds {image}"
                built.add(image)
    every = [*SERVICES.items(), *(one for found in ALSO for one in found.items())]
    for broker in ("mochi", "rabbitmq"):
        every += merged(ROOT, {"BROKER": broker, "CLIENTS": "printed"}).items()
    for name, service in [*every, *load(ROOT / "rpi/compose.yaml")["services"].items()]:
        if "looplab/" in service["image"]:
            assert OWN_IMAGE.search(service["image"]), name
            assert service["pull_policy"] == "${LAB_PULL:-never}", name
    assert len(built) > 10


def written(tmp_path: Path, **variables: str) -> Iterator[tuple[str, str]]:
    """Yield what compose/mosquitto/start writes: each setting with its value, in order."""
    for line in started_conf(tmp_path, **variables).splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition(" ")
            yield name, value


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"FIDELITY": "thesis"}, {}), ({"FIDELITY": "printed"}, {}),
        ({"FIDELITY": "corrected"}, {"set_tcp_nodelay": "true"}),
        ({"FIDELITY": "thesis", "TCP_NODELAY": "on"}, {"set_tcp_nodelay": "true"}),
        ({"FIDELITY": "thesis", "TCP_NODELAY": ""}, {}), ({"FIDELITY": "corrected", "TCP_NODELAY": "off"}, {}),
        ({"MAX_INFLIGHT": "0", "MAX_QUEUED": "0"}, {"max_inflight_messages": "0", "max_queued_messages": "0"}),
        ({"FIDELITY": "corrected", "TCP_NODELAY": "off", "MAX_QUEUED": "0", "MAX_INFLIGHT": "7"},
         {"max_inflight_messages": "7", "max_queued_messages": "0"}),
        ({"FIDELITY": "thesis", "MAX_QUEUED": "0"}, {"max_queued_messages": "0"}),
        ({"PORTS": "1999"}, {"listener": "1999"}),
    ],
)  # fmt: skip
def test_the_broker_has_what_a_factor_or_an_experiment_asks_for(
    tmp_path: Path, variables: dict[str, str], wanted: dict[str, str]
) -> None:
    plain = dict(written(tmp_path))
    usual = {"set_tcp_nodelay": "false", "listener": "1883", "persistence": "false"}
    assert {**usual, "max_inflight_messages": "20", "max_queued_messages": "1000"}.items() <= plain.items()
    assert dict(written(tmp_path, **variables)) == {**plain, **wanted}


def test_the_thesiss_broker_knows_every_setting(tmp_path: Path) -> None:
    """MOSQUITTO_IMAGE=eclipse-mosquitto:1.6.9 starts as it is: these are of its conf.c."""
    known = {
        "listener", "allow_anonymous", "set_tcp_nodelay", "max_inflight_messages", "max_queued_messages", "persistence",
        "sys_interval", "log_dest", "log_type", "connection_messages", "user", "password_file", "acl_file",
        "persistence_location", "autosave_interval",
    }  # fmt: skip
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/passwords").write_text("controller:hash\n")
    found = written(tmp_path, PERSISTENCE="on", ACCESS="password", plugins=str(tmp_path), secrets=str(tmp_path))
    assert {name for name, _ in found} <= known


@pytest.mark.parametrize(("uid", "user"), [("0", "root"), ("1883", None)])
def test_a_broker_that_is_root_stays_it(tmp_path: Path, uid: str, user: str | None) -> None:
    """Else mosquitto becomes another user, and SYS_NICE is gone."""
    (tmp_path / "id").write_text(f"#!/bin/sh\necho {uid}\n")
    (tmp_path / "id").chmod(0o755)
    assert dict(written(tmp_path, PATH=f"{tmp_path}:/usr/bin:/bin")).get("user") == user


@pytest.mark.parametrize("plugged", [False, True], ids=["2.0", "2.1"])
@pytest.mark.parametrize("access", ["", "password"])
def test_a_broker_asks_for_passwords_by_what_its_version_knows(tmp_path: Path, access: str, plugged: bool) -> None:
    """2.1 deprecates three options of 2.0, and refuses some day what it does not own or others can read."""
    for name in ("passwords", "plain/passwords", "mosquitto_acl_file.so" if plugged else "other.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("controller:hash\n")
    folders = {"plugins": str(tmp_path), "secrets": str(tmp_path)}
    lines = [*written(tmp_path, TLS="on", ACCESS=access, **folders)]
    rules = {
        port: {name: value for name, value in lines[lines.index(("listener", port)) : end] if "anonymous" in name}
        for port, end in (("1883", lines.index(("listener", "8883"))), ("8883", None))
    }
    deprecated = {"password_file", "acl_file", "per_listener_settings"}
    assert ({name for name, _ in lines} & deprecated == deprecated) is not plugged
    names = ("allow_anonymous", "listener_allow_anonymous") if plugged else ("allow_anonymous", "allow_anonymous")
    assert rules["1883"][names[0]] == ("false" if access else "true")
    assert rules["8883"] == {names[1]: "false"}
    copies = {path.name for path in tmp_path.glob("*.*") if path.suffix in (".passwords", ".acl")}
    assert copies == {"tls.passwords", "tls.acl", *(("1883.passwords", "1883.acl") if access else ())}
    assert {oct(path.stat().st_mode & 0o777) for path in map(tmp_path.joinpath, copies)} == {"0o600"}
