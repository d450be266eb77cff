"""A Compose model as a stack of Swarm: what is refused or ignored is replaced or named, each once."""

import json
from pathlib import Path
from typing import Any

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.errors import LabError, MachineError, UsageError
from looplab.experiments.middleware import SECRETS as MIDDLEWARE_SECRETS
from looplab.experiments.twin import SECRETS
from looplab.lab.commands.stack import stack
from looplab.lab.stack.nodes import Swarm, broker_nodes, can_encrypt, check, check_machines, read_swarm
from looplab.lab.stack.translate import DROPPED, Source, Stack, place_of, translate

FILES = {one.name.replace("/", "-"): Path(f"/lab/secrets/{one.name}") for one in SECRETS}


def stack_of(services: dict[str, Any], *, networks: Any = None, source: Source | None = None) -> Stack:
    model = {"services": services, "networks": networks or {"default": {"name": "looplab_default"}}, "volumes": {}}
    return translate(model, source or Source(("twin",), SECRETS, FILES))


def one(**keys: Any) -> tuple[dict[str, Any], dict[str, str]]:
    stack = stack_of({"twin-broker": {"image": "mosquitto", **keys}})
    return stack.services["twin-broker"], stack.notes


def test_limits_become_resources() -> None:
    service, notes = one(mem_limit="4294967296", cpus=1.5, pids_limit=256, memswap_limit="4294967296")
    assert service["deploy"]["resources"]["limits"] == {"memory": "4294967296", "cpus": "1.5", "pids": 256}
    assert {"mem_limit", "cpus", "pids_limit", "memswap_limit"} <= notes.keys()
    assert not {"mem_limit", "cpus", "pids_limit", "memswap_limit"} & service.keys()


def test_a_set_of_processors_becomes_a_quota_of_as_many() -> None:
    service, _notes = one(cpuset="0,1", mem_limit="0", cpus=0)
    assert service["deploy"]["resources"]["limits"] == {"cpus": "2"}
    assert one(cpuset="")[0]["deploy"].get("resources") is None


@pytest.mark.parametrize("key", DROPPED)
def test_what_swarm_refuses_is_left_out_and_named(key: str) -> None:
    service, notes = one(**{key: "something"})
    assert key not in service
    assert notes[key] == DROPPED[key]


def test_an_unknown_key_is_named_too() -> None:
    service, notes = one(gpus="all")
    assert "gpus" not in service
    assert "not known" in notes["gpus"]


def test_only_the_run_itself_may_end() -> None:
    stack = stack_of({"twin": {"image": "a"}, "twin-instance": {"image": "a", "restart": "unless-stopped"}})
    policies = {name: service["deploy"]["restart_policy"]["condition"] for name, service in stack.services.items()}
    assert policies == {"twin": "none", "twin-instance": "any"}


def test_places_are_labels_and_brokers_take_turns() -> None:
    names = ["twin-brokers", "twin-database", "twin-devices", *(f"twin-brokers-{at}" for at in (1, 2, 3))]
    stack = stack_of({name: {"image": "a"} for name in names}, source=Source(("twin-brokers",), broker_nodes=2))
    found = {name: one["deploy"]["placement"]["constraints"] for name, one in stack.services.items()}
    assert found == {
        "twin-brokers": ["node.labels.looplab.instance == yes"],
        "twin-database": ["node.labels.looplab.database == yes"],
        "twin-devices": ["node.labels.looplab.devices == yes"],
        "twin-brokers-1": ["node.labels.looplab.broker == 1"],
        "twin-brokers-2": ["node.labels.looplab.broker == 2"],
        "twin-brokers-3": ["node.labels.looplab.broker == 1"],
    }
    assert stack.places["looplab.broker"] == {"1", "2"}
    assert place_of("middleware-nodes-devices") == "devices"


def test_services_that_need_other_processes_are_named() -> None:
    stack = stack_of({name: {"image": "a"} for name in ("prepare", "treatments", "grafana", "twin-instance")})
    assert list(stack.services) == ["twin-instance"]
    assert {"service prepare", "service treatments", "service grafana"} <= stack.notes.keys()
    stack = stack_of({"twin-devices": {"image": "a", "scale": 0}})
    assert stack.services == {}
    assert "scale" in stack.notes["service twin-devices"]


def test_files_become_configs_named_by_their_contents(tmp_path: Path) -> None:
    (tmp_path / "start").write_text("exec broker\n")
    (tmp_path / "start").chmod(0o755)
    (tmp_path / "lan").mkdir()
    (tmp_path / "lan/acl").write_text("user a\n")
    mount = {"type": "bind", "source": str(tmp_path), "target": "/mosquitto/lab", "read_only": True}
    stack = stack_of({"twin-broker": {"image": "a", "volumes": [mount]}})
    configs = {one["target"]: one for one in stack.services["twin-broker"]["configs"]}
    assert {target: one["mode"] for target, one in configs.items()} == {
        "/mosquitto/lab/start": 0o555, "/mosquitto/lab/lan/acl": 0o444,
    }  # fmt: skip
    assert stack.configs[configs["/mosquitto/lab/start"]["source"]] == {"file": str(tmp_path / "start")}
    (tmp_path / "start").write_text("exec another\n")
    assert stack_of({"twin-broker": {"image": "a", "volumes": [mount]}}).configs.keys() != stack.configs.keys()
    (tmp_path / "start").write_bytes(bytes(1_000_001))
    with pytest.raises(UsageError, match="1000001 bytes"):
        stack_of({"twin-broker": {"image": "a", "volumes": [mount]}})


def test_each_part_gets_its_own_passwords_as_secrets() -> None:
    identities = {"type": "volume", "source": "identities", "target": "/run/looplab", "read_only": True}
    writer = {"DATABASE_PASSWORD_FILE": "/run/looplab/database/writer"}
    token = {"DEVICE_TOKEN_FILE": "/run/looplab/device-workers"}
    given: dict[str, dict[str, Any]] = {
        "twin-instance": {"user": "1000:1000", "environment": writer, "volumes": [identities]},
        "twin-database": {"user": "999:999", "volumes": [identities]},
        "twin-devices": {"user": "1000:1000", "environment": token, "volumes": [identities]},
        "twin-broker": {"user": "1883:1883"},
    }
    stack = stack_of({name: {"image": "a", **keys} for name, keys in given.items()})
    found = {name: [one["target"] for one in service.get("secrets", ())] for name, service in stack.services.items()}
    assert found["twin-instance"] == ["/run/looplab/database/writer"]
    assert found["twin-database"] == [f"/run/looplab/database/{who}" for who in ("owner", "writer", "reader", "viewer")]
    assert found["twin-devices"] == ["/run/looplab/device-workers"]
    assert found["twin-broker"] == []
    (secret,) = stack.services["twin-instance"]["secrets"]
    assert (secret["uid"], secret["mode"]) == ("1000", 0o400)
    assert "identities" not in stack.volumes


def test_the_user_of_an_image_gets_its_secrets() -> None:
    identities = {"type": "volume", "source": "identities", "target": "/run/looplab", "read_only": True}
    files = {one.name.replace("/", "-"): Path(f"/lab/secrets/{one.name}") for one in MIDDLEWARE_SECRETS}
    source = Source(("middleware",), MIDDLEWARE_SECRETS, files, {"agent": "10021:10021", "devices": "10022:10022"})
    given: dict[str, dict[str, Any]] = {
        "middleware": {"image": "controller", "user": "1000:1000", "volumes": [identities]},
        "middleware-node-1": {"image": "agent", "volumes": [identities]},
        "middleware-devices": {"image": "devices", "volumes": [identities]},
        "middleware-redis": {"image": "other", "volumes": [identities]},
    }
    stack = stack_of(given, source=source)
    found = {name: [one["target"] for one in service.get("secrets", ())] for name, service in stack.services.items()}
    services = [f"/run/looplab/services/{name}" for name in ("postgres", "spicedb", "tokens", "admin")]
    assert found == {
        "middleware": [*services, "/run/looplab/nodes", "/run/looplab/devices"],
        "middleware-node-1": [*services, "/run/looplab/nodes"],
        "middleware-devices": ["/run/looplab/devices"],
        "middleware-redis": [],
    }
    assert {one["uid"] for one in stack.services["middleware-node-1"]["secrets"]} == {"10021"}


def test_memory_and_volumes() -> None:
    live = {"type": "volume", "source": "live", "target": "/live", "volume": {}}
    results = {"type": "bind", "source": "/lab/results", "target": "/results", "bind": {"create_host_path": True}}
    service, notes = one(tmpfs=["/tmp", "/run:uid=999"], shm_size="134217728", volumes=[live, results])
    assert {mount["target"]: mount["type"] for mount in service["volumes"]} == {
        "/tmp": "tmpfs", "/run": "volume", "/dev/shm": "tmpfs", "/live": "volume", "/results": "bind",
    }  # fmt: skip
    assert not any("bind" in mount for mount in service["volumes"])
    assert "the node of `twin-broker` needs this folder" in notes["bind /results"]


def test_who_opens_ports_sees_every_host() -> None:
    results = {"type": "bind", "source": "/lab/results", "target": "/results", "read_only": True}
    exporter = {"image": "a", "entrypoint": ["python3"], "volumes": [results], "pid": "service:treatments"}
    given = {"exporter": exporter, "prometheus": {"image": "b"}, "twin-devices": {"image": "c"}}
    closed = stack_of(given)
    assert list(closed.services) == ["twin-devices"]
    assert "--publish" in closed.notes["service exporter"]
    stack = stack_of(given, source=Source((), publish=True))
    assert stack.services["exporter"]["volumes"] == [results]
    hosts = stack.services["hosts"]
    assert (hosts["deploy"]["mode"], hosts["image"], hosts["entrypoint"]) == ("global", "a", ["python3"])
    assert hosts["deploy"]["placement"]["constraints"] == ["node.labels.looplab.devices == yes"]
    assert hosts["environment"] == {"LAB_NODE": "{{.Node.Hostname}}", "BROKER_HOST": "localhost"}
    assert not hosts.keys() & {"volumes", "ports"}


def test_no_port_is_open_unless_it_is_asked_for() -> None:
    port = {"mode": "ingress", "host_ip": "127.0.0.1", "target": 5432, "published": "5432", "protocol": "tcp"}
    assert "ports" not in one(ports=[port])[0]
    stack = stack_of({"twin-database": {"image": "a", "ports": [port]}}, source=Source((), publish=True))
    (made,) = stack.services["twin-database"]["ports"]
    assert made == {"target": 5432, "published": 5432, "mode": "host", "protocol": "tcp"}


def test_networks_are_overlays_and_need_no_ip_vs() -> None:
    given = {"image": "a", "networks": {"default": {"aliases": ["broker"]}, "control": None}}
    networks = {"default": {"name": "looplab_default"}, "control": {"name": "looplab_control", "internal": True}}
    stack = stack_of({"twin-broker": given}, networks=networks, source=Source((), encrypted=True))
    assert stack.networks["control"] == {"driver": "overlay", "internal": True, "driver_opts": {"encrypted": ""}}
    service = stack.services["twin-broker"]
    assert service["networks"] == {"default": {"aliases": ["broker"]}, "control": {}}
    assert service["deploy"]["endpoint_mode"] == "dnsrr"
    assert json.loads(json.dumps(stack.document()))["version"] == "3.9"


def test_a_place_without_a_node_is_named_before_anything_starts() -> None:
    stack = stack_of({"twin-broker": {"image": "a"}, "twin-database": {"image": "a"}})
    nodes = {"alpha": {"looplab.broker": "1"}, "beta": {}}
    with pytest.raises(MachineError, match=r"looplab.database=yes, which twin needs. .*: alpha, beta"):
        check(Swarm(nodes), stack, "twin")
    check(Swarm({**nodes, "beta": {"looplab.database": "yes"}}), stack, "twin")
    with pytest.raises(LabError, match="already runs the stack other"):
        check(Swarm({**nodes, "beta": {"looplab.database": "yes"}}, ["other"]), stack, "twin")
    assert broker_nodes(Swarm({"a": {"looplab.broker": "1"}, "b": {"looplab.broker": "2"}})) == 2
    assert broker_nodes(Swarm({"a": {"looplab.broker": "2"}})) == 1


@pytest.mark.parametrize(
    ("swarm", "message", "remedy"),
    [
        ({"LocalNodeState": "inactive"}, "is in no Swarm", "docker swarm init"),
        (
            {"LocalNodeState": "active", "ControlAvailable": False, "RemoteManagers": [{"Addr": "192.0.2.7:2377"}]},
            "is a worker",
            "192.0.2.7:2377",
        ),
    ],
)
def test_an_engine_that_manages_no_swarm(
    programs: fakes.Programs, swarm: dict[str, Any], message: str, remedy: str
) -> None:
    programs.add("docker", {"info*": (json.dumps(swarm), "", 0)})
    with pytest.raises(MachineError) as caught:
        read_swarm()
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_a_swarm_without_a_leader(programs: fakes.Programs) -> None:
    active = json.dumps({"LocalNodeState": "active", "ControlAvailable": True})
    lost = "Error response from daemon: rpc error: code = Unknown desc = The swarm does not have a leader."
    programs.add("docker", {"info*": (active, "", 0), "node*": ("", lost, 1)})
    with pytest.raises(MachineError) as caught:
        read_swarm()
    assert "--force-new-cluster" in caught.value.remedy


@pytest.mark.parametrize("lacks", [True, False])
def test_a_node_without_an_image_is_named(programs: fakes.Programs, lacks: bool) -> None:
    """A job on each node tells: its container cannot be made without the image, nor started with it."""
    found = "2\tgamma\tRejected 1 second ago\tNo such image: a:1\n" if lacks else "2\tgamma\tFailed\tno such file\n"
    programs.add("docker", job_answers("1\tbeta\tFailed 2 seconds ago\tstarting container failed\n" + found))
    stack = stack_of({"twin-devices": {"image": "a:1"}, "twin-devices-2": {"image": "a:1"}})
    if lacks:
        with pytest.raises(MachineError, match=r"Images are missing: a:1 on gamma\."):
            check_machines(stack, Swarm())
    else:
        check_machines(stack, Swarm())
    created, *_asked, removed = programs.calls("docker")
    assert "--mode global " in created
    assert "--constraint node.labels.looplab.devices == yes" in created
    assert removed == "service rm job1"


def job_answers(tasks: str, node_time: str = "2026-11-26T03:00:01.123456789Z") -> dict[str, fakes.Answer]:
    """The answers about a job of these tasks; the manager writes 03:00:01."""
    task = json.dumps([{"Status": {"Timestamp": node_time}, "UpdatedAt": "2026-11-26T03:00:01.2Z"}])
    return {
        "image*": ('["looplab/sqlclient:1"]\t[]\t\tid\tamd64\t\t[x]\n', "", 0), "*create*": ("job1\n", "", 0),
        "service?ps*": (tasks, "", 0), "inspect*": (task, "", 0), "*rm*": ("", "", 0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("there", "way"), [("2026-11-26T03:05:01Z", "ahead of"), ("2026-11-26T03:55:01+01:00", "behind")]
)
def test_a_node_whose_clock_is_wrong_is_named(programs: fakes.Programs, there: str, way: str) -> None:
    programs.add("docker", job_answers("1\tbeta\tFailed\tno such file\n", there))
    with pytest.raises(MachineError, match=rf"The clock of beta is 300 s {way} this machine's\.") as caught:
        check_machines(stack_of({"twin-devices": {"image": "a:1"}}), Swarm())
    assert "set-ntp true" in caught.value.remedy
    assert programs.calls("docker")[-1] == "service rm job1"


def test_a_node_that_needs_other_images_is_named(programs: fakes.Programs) -> None:
    programs.add("docker", job_answers("1\tbeta\tFailed\tno such file\n"))
    swarm = Swarm({"alpha": {}, "beta": {}}, machines={"alpha": ("amd64", "26.1.5"), "beta": ("arm64", "26.1.5")})
    with pytest.raises(MachineError, match="are for amd64, and beta needs those for arm64") as caught:
        check_machines(stack_of({"twin-devices": {"image": "looplab/sqlclient:1"}}), swarm)
    assert "LAB_REGISTRY" in caught.value.remedy
    assert not any("create" in call for call in programs.calls("docker"))
    check_machines(stack_of({"twin-devices": {"image": "registry:5000/looplab/sqlclient:1"}}), swarm)


def node_of(name: str, state: str = "ready", engine: str = "20.10.24", **labels: str) -> dict[str, Any]:
    return {
        "Status": {"State": state},
        "Spec": {"Availability": "active", "Labels": {f"looplab.{label}": value for label, value in labels.items()}},
        "Description": {
            "Hostname": name, "Platform": {"Architecture": "aarch64"}, "Engine": {"EngineVersion": engine},
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("beta", "message", "remedy"),
    [
        (node_of("beta", "down", devices="yes"), r"Nodes do not answer: beta\.", "--availability drain beta"),
        (node_of("beta", engine="19.03.15"), r"The engine 19\.03\.15 of beta is too old", "Docker 20.10 or later"),
        (node_of("beta", "down"), "", ""),
    ],
)
def test_a_node_that_cannot_serve(programs: fakes.Programs, beta: dict[str, Any], message: str, remedy: str) -> None:
    active = json.dumps({"LocalNodeState": "active", "ControlAvailable": True})
    nodes = json.dumps([node_of("alpha", broker="1"), beta])
    programs.add(
        "docker", {"info*": (active, "", 0), "node?ls*": ("1\n2\n", "", 0), "node?inspect*": (nodes, "", 0),
                   "service?ls*": ("", "", 0)},
    )  # fmt: skip
    swarm, stack = read_swarm(), stack_of({"twin-broker": {"image": "a"}})
    assert swarm.machines["alpha"] == ("arm64", "20.10.24")
    if not message:
        # A node without a label takes no part.
        check(swarm, stack, "twin")
        return
    with pytest.raises(MachineError, match=message) as caught:
        check(swarm, stack, "twin")
    assert remedy in caught.value.remedy


def test_tls_that_twin_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_TLS", "on")
    with pytest.raises(UsageError, match="BROKER_TLS=on: twin has no TLS") as caught:
        stack(ROOT, "twin", unchecked=True, shared=False, publish=False)
    assert "--data-path-addr" in caught.value.remedy


def test_an_overlay_is_encrypted_where_the_kernel_has_esp(tmp_path: Path, programs: fakes.Programs) -> None:
    programs.add("uname", {"-r": ("6.1.0\n", "", 0)})
    assert not can_encrypt(tmp_path)
    (tmp_path / "6.1.0").mkdir()
    (tmp_path / "6.1.0/modules.dep").write_text("kernel/net/ipv4/esp4.ko.xz: kernel/net/xfrm/xfrm_algo.ko.xz\n")
    assert can_encrypt(tmp_path)
