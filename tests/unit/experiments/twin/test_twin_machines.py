"""Machines of twin: sizes by scale, what ./lab gives Compose, and what a run finds of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

from looplab.experiments.twin.database import DatabaseFacts
from looplab.experiments.twin.host import GIGABYTES, VCPUS, host_programs, variables
from looplab.experiments.twin.parameters import PLAIN_SCALE, TwinParameters
from looplab.experiments.twin.treatments import judge
from looplab.system.processes import container_facts, files_of
from looplab.treatments.judgement import NONE_SEEN

FACTS = DatabaseFacts("17.0", "on", "on", "1")
GIB = 1 << 30


@pytest.mark.parametrize(
    ("settings", "processors", "scale", "sets"),
    [
        # In the paper's first experiment the database is on the machine of the broker.
        ({"SCENARIO": "twin"}, range(2), "0.5", {"3": "0,1", "DATABASE": "0,1"}),
        ({"SCENARIO": "twin", "CONFINE": "broker"}, range(2), "0.5", {"DATABASE": ""}),
        ({"SCENARIO": "twin-brokers"}, range(2), "0.5", {"DATABASE": ""}),
        # Two halves of a processor share one.
        ({}, range(2), "0.5", {"BROKER_1": "0", "BROKER_2": "0", "BROKER_3": "1", "BROKER_4": "1"}),
        ({}, range(1), "0.25", {}),
        ({}, range(64), "1", {}),
        (
            {}, (4, 5, 6, 7), "1",
            {"2": "4,5", "3": "4,5,6,7", "BROKER_1": "4", "BROKER_2": "5", "BROKER_3": "6", "BROKER_4": "7"},
        ),
    ],
)  # fmt: skip
def test_each_machine_has_its_set_of_processors(
    settings: dict[str, str], processors: Sequence[int], scale: str, sets: dict[str, str]
) -> None:
    found = variables(settings, processors)
    assert found["MACHINE_SCALE"] == scale
    assert {name: found[f"TWIN_CPUSET_{name}"] for name in sets} == sets


def test_compose_has_the_same_machines_by_itself() -> None:
    text = (ROOT / "compose/experiments/twin/compose.yaml").read_text()
    with host_programs(ROOT, {"SCENARIO": "twin"}, str, print) as given:
        assert all(f"${{{name}:-" in text for name in given.keys() - {"MACHINE_SCALE"})
    found = variables({"SCENARIO": "twin-brokers"}, range(2))
    assert float(found["MACHINE_SCALE"]) == PLAIN_SCALE
    for name in found.keys() - {"MACHINE_SCALE"}:
        assert f"${{{name}:-{found[name]}}}" in text
    for kind in VCPUS:
        assert f"mem_limit: &memory-{kind} {GIGABYTES[kind]}g" in text
        assert f"memswap_limit: *memory-{kind}" in text


def process(host: str, **more: Any) -> dict[str, Any]:
    """Return what a scan finds of one broker: by default a machine of type 3, without persistence."""
    container = {"hostname": host, "memory_limit": more.pop("memory", 8 * GIB)}
    sockets = [
        {"local_port": local, "peer_port": peer, "tcp_nodelay": nodelay}
        for local, peer, nodelay in more.pop("sockets", [(1883, 5000, True)])
    ]
    found = {"pid": 1, "started_ticks": 1, "threads": [{"tid": 1, "scheduling": "SCHED_OTHER"}], "cpus": [0, 1]}
    return {**found, "sockets": sockets, "container": container, "files": [], **more}


def judged(
    brokers: list[dict[str, Any]], workers: Sequence[dict[str, Any]] = (), **settings: str
) -> dict[str, tuple[str, str, bool]]:
    """Return wanted, found and verified of each treatment of a corrected run."""
    other = [{**process("other"), "sockets": [{"local_port": 5000, "peer_port": 1883, "tcp_nodelay": True}]}]
    roles = {
        name: {"before": found, "processes": found, "refused": []}
        for name, found in (
            ("broker", brokers), ("instance", other), ("controller", other), ("stress", []), ("flood", []),
            ("workers", workers), ("database", other),
        )
    }  # fmt: skip
    parameters = TwinParameters.read({"FIDELITY": "corrected", **settings})
    found = judge(parameters, [{"roles": roles}, {"roles": roles}], [FACTS])
    return {one.what: (one.wanted, one.found, one.verified) for one in found}


def test_a_machines_limits_are_read_from_its_container() -> None:
    found = judged([process("broker-1")])
    assert found["broker-1 processors"] == ("set of 2", "set of 2", True)
    assert found["broker-1 memory"] == ("8192 MiB", "8192 MiB", True)
    assert judged([process("broker-1", memory=None)])["broker-1 memory"] == ("8192 MiB", "no limit", False)
    assert judged([process("broker-1", cpus=[0])])["broker-1 processors"] == ("set of 2", "set of 1", False)
    assert judged([], MESSAGES="5")["broker-1 memory"] == ("8192 MiB", NONE_SEEN, False)
    # The search shall find another limit.
    assert "broker-1 memory" not in judged(
        [process("broker-1")], SCENARIO="twin-limit", MAX_RATE_PER_S="10", STEP_S="1"
    )


def test_a_machine_holds_its_broker_and_the_instances_workers() -> None:
    """One that may use a processor more than its broker is on no machine of the run."""
    both = {"CONFINE": "all", "MACHINE_SCALE": "0.25"}
    broker = process("broker-1", cpus=[1])
    within, outside = process("instance", cpus=[1]), process("instance", cpus=[0, 1])
    found = judged([broker], [within], **both)
    assert found["workers within their machine"] == ("processors 1", "processors 1", True)
    assert judged([broker], [within, outside], **both)["workers within their machine"][2] is False
    assert judged([broker], [], **both)["workers within their machine"] == ("processors 1", NONE_SEEN, False)
    assert "workers within their machine" not in judged([broker], [outside], CONFINE="broker")


def test_persistence_is_read_from_the_brokers_file() -> None:
    kept = process("broker-1", files=["mosquitto/data/1883/mosquitto.db"])
    assert judged([kept], PERSISTENCE="on")["broker-1 persistence"] == ("on", "on", True)
    assert judged([kept])["broker-1 persistence"] == ("off", "on", False)
    assert judged([process("broker-1")], PERSISTENCE="on")["broker-1 persistence"] == ("on", "off", False)
    several = {"SCENARIO": "twin-brokers", "BROKERS": "2", "PLACEMENTS": "central", "PERSISTENCE": "on"}
    one = process("central-2", memory=4 * GIB, files=["mosquitto/data/1884/mosquitto.db"])
    assert judged([one], **several)["central-2 persistence"] == ("on", "off, on", False)


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"cpu.max": "max 100000", "memory.max": "1073741824"}, GIB),
        ({"cpu.max": "max 100000", "memory.max": "max"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1", "memory/memory.limit_in_bytes": "1073741824"}, GIB),
        ({"cpu/cpu.cfs_quota_us": "-1", "memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ({}, None),
    ],
)
def test_the_memory_limit_of_both_versions_of_control_groups(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    for name, text in files.items():
        path = tmp_path / "7/root/sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert container_facts(7, tmp_path)["memory_limit"] == limit


def test_files_of_a_container_are_named_from_its_root(tmp_path: Path) -> None:
    for port in (1883, 1884):
        path = tmp_path / f"7/root/mosquitto/data/{port}/mosquitto.db"
        path.parent.mkdir(parents=True)
        path.touch()
    found = files_of(7, ["mosquitto/data/*/mosquitto.db", "absent/*"], tmp_path)
    assert found == ["mosquitto/data/1883/mosquitto.db", "mosquitto/data/1884/mosquitto.db"]
    assert files_of(8, ["mosquitto/*"], tmp_path) == []
