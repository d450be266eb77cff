"""The Compose files as written: the published scenarios, one list of profiles, every service hardened."""

import csv
import subprocess
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.hardening import MAY_ADD, role
from support.places import ROOT

from looplab.lab.scenarios import experiments, scenarios
from looplab.system.env_files import expand
from looplab.treatments.loads import loads

COMPOSE = ROOT / "compose"
# Their services are only extended; the scenarios' services are checked.
ABSTRACT = {"parts.yaml", "profiles.yaml", "broker.yaml", "client.yaml", "sidecar.yaml", "listeners.yaml"}
LOADS = {"none": "none", "CPU stress": "stress", "MQTT flood": "flood"}
COMMANDS = {"serial robot": "T", "emulated in the bridge": "E"}
# A sidecar shares the namespace whose link it makes or whose packets it takes; no other service shares one.
SHARED_NETWORKS = {
    "link": "service:bridge",
    "qd-link": "service:qd-controller",
    "qd-capture": "service:qd-controller",
    "qd-link-broker": "service:qd-broker",
    "qd-echo-broker": "service:qd-broker",
    "asip-link": "service:asip-bridge",
    "asip-link-broker": "service:asip-broker",
}
FIFO_BROKER, FIFO_CONTROLLER = 90, 99

Service = dict[str, Any]


@cache
def load(path: Path) -> dict[str, Any]:
    return dict(yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) or {})


def resolve(path: Path, name: str) -> Service:
    """Return a service with all that it extends; `bases` names them, nearest first. Lists add up, as in Compose."""
    own: Service = dict(load(path)["services"][name])
    extends = own.pop("extends", None)
    if extends is None:
        return {**own, "bases": []}
    # Twice: a default may name another variable.
    extends = expand(expand(extends, {}), {})
    source = (path.parent / extends["file"]).resolve() if "file" in extends else path
    base = resolve(source, extends["service"])
    merged = {**base, **own, "bases": [extends["service"], *base["bases"]]}
    for key, value in own.items():
        if isinstance(value, list) and isinstance(base.get(key), list) and key not in ("command", "entrypoint"):
            merged[key] = base[key] + value
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = {**base[key], **value}
    return merged


@pytest.mark.parametrize("path", ["/usr/bin:/bin", "nothing-there"], ids=["with chrt", "without"])
@pytest.mark.parametrize("service", ["exporter", "prometheus"])
def test_an_observer_starts_with_its_arguments_with_and_without_chrt(service: str, path: str) -> None:
    entrypoint = [word.replace("$$", "$") for word in resolve(COMPOSE / "observability.yaml", service)["entrypoint"]]
    command = ["/bin/sh", *entrypoint[1:], "/bin/echo", "a b", "*"]
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout == "a b *\n"
    assert "chrt -o -T 100000000 0" in entrypoint[2]


def concrete() -> list[tuple[str, Service]]:
    files = [path for path in COMPOSE.glob("*.yaml") if path.name not in ABSTRACT]
    files += [*COMPOSE.glob("scenarios/[!_]*/compose.yaml"), *COMPOSE.glob("experiments/*/compose.yaml")]
    return [(name, resolve(path, name)) for path in sorted(files) for name in load(path).get("services") or {}]


SERVICES = concrete()
each_service = pytest.mark.parametrize(("name", "service"), SERVICES, ids=[name for name, _ in SERVICES])
PUBLISHED = list(
    csv.DictReader((resources.files("looplab.experiments.loop.report") / "published/thesis_scenarios.csv").open())
)
assert {"bridge", "robot", "treatments", "prepare", "s0-broker", "s8-flood"} <= {name for name, _ in SERVICES}
assert len(PUBLISHED) == 9
each_scenario = pytest.mark.parametrize("row", PUBLISHED, ids=[f"scenario{row['scenario']}" for row in PUBLISHED])


def test_every_experiment_is_listed_and_included() -> None:
    folders = sorted(path.parent.name for path in COMPOSE.glob("experiments/*/params.env"))
    listed = list(experiments(ROOT))
    assert load(COMPOSE / "profiles.yaml")["services"]["every-run"]["profiles"] == listed
    assert sorted(listed) == folders
    included = load(ROOT / "compose.yaml")["include"]
    assert {f"compose/experiments/{name}/compose.yaml" for name in folders} <= set(included)
    for name in folders:
        path = COMPOSE / "experiments" / name / "compose.yaml"
        # Scenarios of one experiment may share a part.
        profiles = [set(resolve(path, service)["profiles"]) for service in load(path)["services"]]
        assert all({name} <= found <= set(folders) for found in profiles)


def test_the_include_list_holds_every_scenario_and_nothing_that_is_missing() -> None:
    included = load(ROOT / "compose.yaml")["include"]
    folders = {f"compose/scenarios/{name}/compose.yaml" for name in scenarios(ROOT)}
    assert folders <= set(included)
    settings = {"ROBOT": "virtual", "GRAFANA": "on", "LINK": "none"}
    assert all((ROOT / expand({"path": path}, settings)["path"]).is_file() for path in included)


def test_the_main_file_holds_the_name_and_the_list() -> None:
    assert load(ROOT / "compose.yaml").keys() == {"name", "include"}
    assert load(ROOT / "compose.yaml")["name"] == "looplab"


@each_scenario
def test_a_scenario_is_as_published(row: dict[str, str]) -> None:
    number = row["scenario"]
    name, prefix = f"scenario{number}", f"s{number}"
    path = COMPOSE / "scenarios" / name / "compose.yaml"
    services = {service: resolve(path, service) for service in load(path)["services"]}
    parameters = scenarios(ROOT)[name].parameters({})
    load_kind = LOADS[row["load"]]
    wanted = {f"{prefix}-broker", f"{prefix}-controller"} | ({f"{prefix}-{load_kind}"} - {f"{prefix}-none"})
    assert set(services) == wanted
    assert all(service["profiles"] == [name] for service in services.values())
    for part, published in (("broker", row["broker"]), ("controller", row["controller"])):
        prioritised = f"prioritised-{part}" in services[f"{prefix}-{part}"]["bases"]
        assert prioritised == (published == "prioritised")
    assert parameters.priority_broker == (FIFO_BROKER if row["broker"] == "prioritised" else 0)
    assert parameters.priority_controller == (FIFO_CONTROLLER if row["controller"] == "prioritised" else 0)
    assert parameters.load == load_kind
    assert parameters.command == COMMANDS[row["robot"]]
    assert parameters.intervals_ms == tuple(int(value) for value in row["intervals_ms"].split())
    assert parameters.qos == tuple(int(value) for value in row["qos"].split())
    assert (parameters.messages, parameters.repetitions) == (100, 10)
    assert scenarios(ROOT)[name].title == row["title"]


@pytest.mark.parametrize("path", sorted(COMPOSE.glob("loads/*.yaml")), ids=lambda path: path.stem)
def test_a_load_is_the_one_service_of_its_file(path: Path) -> None:
    assert list(load(path)["services"]) == [path.stem]
    service = resolve(path, path.stem)
    # The treatments service must see its processes; nothing starts it but a scenario.
    assert service["pid"] == "service:treatments"
    assert "profiles" not in service


@each_scenario
def test_a_controller_starts_after_what_it_measures(row: dict[str, str]) -> None:
    prefix = f"s{row['scenario']}"
    path = COMPOSE / "scenarios" / f"scenario{row['scenario']}" / "compose.yaml"
    controller = resolve(path, f"{prefix}-controller")
    needed = controller["depends_on"]
    others = set(load(path)["services"]) - {f"{prefix}-controller"}
    assert others | {"bridge", "treatments"} <= set(needed)
    assert controller["env_file"] == ["params.env"]


def test_every_parameter_stands_once_and_can_be_overridden() -> None:
    fixed = {"SCENARIO", "TITLE", "PUBLISHED", "LOAD", "PRIORITY_BROKER", "PRIORITY_CONTROLLER"}
    for path in COMPOSE.glob("*/*/params.env"):
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        names = [line.partition("=")[0] for line in lines]
        assert len(names) == len(set(names)), path
        for line in lines:
            name, _, value = line.partition("=")
            assert name in fixed or value.startswith("${" + name + ":-"), f"{path}: {line}"


def test_the_template_asks_for_what_the_scenarios_ask_for() -> None:
    names = {
        path.parent.name: {line.partition("=")[0] for line in path.read_text().splitlines() if line[:1].isalpha()}
        for path in COMPOSE.glob("scenarios/*/params.env")
    }
    assert {frozenset(found) for found in names.values()} == {frozenset(names["_template"])}


@each_service
def test_least_privilege(name: str, service: Service) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")
    allowed: set[str] = set().union(*(MAY_ADD.get(kind, set()) for kind in (role(name), *service["bases"])))
    assert set(service.get("cap_add", [])) <= allowed
    assert not any("docker.sock" in str(volume) for volume in service.get("volumes", []))
    assert service.get("network_mode", "none") == SHARED_NETWORKS.get(name, "none")
    assert service.get("pid", "service:treatments") == "service:treatments"


@each_service
def test_a_service_keeps_the_rules_of_the_house(name: str, service: Service) -> None:
    # Two labs may live on one machine.
    assert "container_name" not in service
    networks = service.get("networks") or {}
    for attachment in networks.values() if isinstance(networks, dict) else []:
        assert not {"ipv4_address", "ipv6_address", "mac_address"} & set(attachment or {})
    for port in service.get("ports", []):
        assert isinstance(port, str)
        assert port.startswith("${LAB_BIND:-127.0.0.1}:"), port
        assert "${LAB_" in port.removeprefix("${LAB_BIND:-127.0.0.1}:"), f"{port} cannot be moved"
    # No log fills the disk.
    assert {"max-size", "max-file"} <= set(service["logging"]["options"])
    # Without exporter, Prometheus or Grafana every run goes on.
    assert not set(service.get("depends_on", ())) & {"exporter", "prometheus", "grafana"}


def test_no_network_has_a_fixed_address() -> None:
    for path in [ROOT / "compose.yaml", *COMPOSE.glob("*.yaml"), *COMPOSE.glob("*/[!_]*/*.yaml")]:
        for network in (load(path).get("networks") or {}).values():
            assert "ipam" not in (network or {}), path


def configuration(name: str) -> list[str]:
    lines = (COMPOSE / "mosquitto" / name / "mosquitto.conf").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize(("factor", "fidelity"), [("on", "corrected"), ("off", "thesis")])
def test_a_factor_set_alone_is_what_its_fidelity_sets(factor: str, fidelity: str) -> None:
    folders = [COMPOSE / "mosquitto" / name for name in (factor, fidelity)]
    assert [path.name for path in folders[0].iterdir()] == [path.name for path in folders[1].iterdir()]
    assert len({(folder / "mosquitto.conf").read_bytes() for folder in folders}) == 1


def test_only_tcp_nodelay_differs_between_the_fidelities() -> None:
    thesis, corrected = configuration("thesis"), configuration("corrected")
    assert set(thesis) - set(corrected) == {"set_tcp_nodelay false"}
    assert set(corrected) - set(thesis) == {"set_tcp_nodelay true"}
    assert "listener 1883" in thesis


def test_the_broker_reads_the_folder_of_its_factor_or_its_fidelity() -> None:
    volumes = resolve(COMPOSE / "broker.yaml", "broker")["volumes"]
    (mount,) = [volume for volume in volumes if volume.endswith(":/mosquitto/config:ro")]
    reference = mount.removeprefix("./mosquitto/").removesuffix(":/mosquitto/config:ro")
    assert reference == "${TCP_NODELAY:-${FIDELITY:-thesis}}"


def test_every_variable_of_the_files_has_its_default_in_dot_env() -> None:
    names = {
        line.partition("=")[0] for line in (ROOT / ".env").read_text().splitlines() if line and not line.startswith("#")
    }
    assert {"FIDELITY", "TCP_NODELAY", "ROBOT_FRAMING", "APPLY_PRIORITY", "PACING", "ROBOT", "LAB_BIND"} <= names


def test_a_controller_is_handed_what_its_load_is_handed() -> None:
    """A run records the settings of its load: the same variables with the same defaults, as published in Python."""
    handed = resolve(COMPOSE / "client.yaml", "controller")["environment"]
    for name, kind in loads().items():
        command = " ".join(map(str, resolve(COMPOSE / "loads" / f"{name}.yaml", name)["command"]))
        for variable, setting in kind.settings.items():
            assert handed[variable] == f"${{{variable}:-{setting.published}}}"
            assert handed[variable] in command
