"""A run of twin: its parameters and machines, and run.json of a known service time; every message counted once."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.simulated_twin_runs import PUBLISHED_S, Truth, single, write_twin_run
from support.tables import rows

from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.database import DatabaseFacts
from looplab.experiments.twin.document import queue, rate_per_s
from looplab.experiments.twin.host import GIGABYTES, VCPUS, host_programs, variables
from looplab.experiments.twin.message import MOST_BYTES, TwinMessage, parse, payload
from looplab.experiments.twin.parameters import PLAIN_SCALE, TwinParameters
from looplab.experiments.twin.treatments import judge
from looplab.system.processes import container_facts, files_of
from looplab.treatments.judgement import NONE_SEEN


def test_the_published_way_of_storing_is_the_prototypes() -> None:
    assert TwinParameters.read({"WRITE_MODE": "published,prototype,copy"}).write_modes == ("prototype", "copy")


def test_iterations_follow_each_other_with_all_cells_at_random() -> None:
    """One broker is one cell."""
    settings = {"BROKERS": "1 2", "PLACEMENTS": "central distributed", "INTERVALS_MS": "10", "REPETITIONS": "2"}
    p = TwinParameters.read(settings)
    ways = [(cell.repetition, cell.brokers, cell.placement) for cell in p.published_cells]
    once = [(1, "single"), (2, "central"), (2, "distributed")]
    assert ways == [(0, *way) for way in once] + [(1, *way) for way in once]
    assert p.hosts(p.published_cells[1]) == [("central-2", 1883), ("central-2", 1884)]
    assert p.hosts(p.published_cells[2]) == [("broker-1", 1883), ("broker-2", 1883)]
    cells = TwinParameters.read({"REPETITIONS": "2", "ORDER_SEED": "3"}).cells
    assert [cell.repetition for cell in cells] == [0] * 7 + [1] * 7
    assert sorted(cell.interval_ms for cell in cells[:7]) == [10, 20, 40, 50, 67, 80, 100]


def test_messages_are_spread_over_devices_then_brokers() -> None:
    p = TwinParameters.read({"BROKERS": "2", "DEVICES": "3", "MESSAGES": "12", "INTERVALS_MS": "10"})
    rows = p.rows(0)
    assert [p.device_of(row) for row in rows] == [1, 2, 3] * 4
    assert [p.broker_of(row) for row in rows] == [1, 1, 1, 2, 2, 2] * 2


def test_a_payload_says_which_message_it_is() -> None:
    token = b"0123abcd"
    data = payload(token, 12, 345, 6789, 64)
    assert len(data) == 64
    assert parse(token, data) == TwinMessage(12, 345, 6789)
    assert len(payload(token, 9999, 999_999_999, 1 << 62, 20)) <= 64
    for wrong in (data[:-1] + b"x", data[1:], b"", b"\0" * 64, data.replace(b"12,", b"12345,"), bytes(MOST_BYTES)):
        assert parse(token, wrong) is None
    assert parse(b"deadbeef", data) is None


def cells(results: Path, *truths: Truth, **more: Any) -> list[dict[str, Any]]:
    folder = write_twin_run(results, truths, **more)
    return list(json.loads((folder / "run.json").read_text())["cells"])


def test_the_queue_of_a_known_service_time_is_found(tmp_path: Path) -> None:
    """n messages at 10 ms, one stored each 67 ms: n (1 - 10/67) wait when the last is sent, n (67 - 10) ms long."""
    (cell,) = cells(tmp_path, single(10), messages=200)
    assert cell["queue_max"] == pytest.approx(200 * (1 - 0.010 / PUBLISHED_S), abs=2)
    assert cell["drained_s"] == pytest.approx(200 * (PUBLISHED_S - 0.010), abs=0.02)
    assert cell["rate_in_per_s"] == pytest.approx(100)
    assert cell["rate_out_per_s"] == pytest.approx(14.85)
    assert cell["storage_delay_us"]["max"] == pytest.approx(1e6 * (cell["drained_s"]), rel=0.001)


def test_what_is_not_stored_takes_for_ever(tmp_path: Path) -> None:
    """What is lost stays in the queue; a cell that stored nothing has no rate."""
    (cell,) = cells(tmp_path / "some", single(20, lost=3, refused=2, copies=4))
    assert (cell["sent"], cell["stored"], cell["lost"], cell["refused"], cell["duplicates"]) == (200, 195, 3, 2, 4)
    assert (cell["response_us"]["max"], cell["storage_delay_us"]["n"]) == (None, 195)
    last = rows(next(tmp_path.glob("some/*/samples.csv")))[-5:]
    assert [line["outcome"] for line in last] == ["refused"] * 2 + ["lost"] * 3
    assert {(line["committed_ns"], line["storage_delay_us"]) for line in last} == {("", "")}
    (cell,) = cells(tmp_path / "none", single(10, lost=200))
    assert (cell["stored"], cell["queue_max"], cell["drained_s"], cell["rate_out_per_s"]) == (0, 200, None, None)
    assert cell["per_broker"][0]["operation_s"] is None


def test_each_broker_has_its_own_rate_and_time(tmp_path: Path) -> None:
    truth = Truth(TwinCell.keyed(10, 2, "distributed", "prototype", 1, 3), 0.05, (1.0, 2.0))
    (cell,) = cells(tmp_path, truth)
    assert cell["repetition"] == 3
    first, second = cell["per_broker"]
    assert (first["sent"], first["stored"]) == (100, 100)
    assert first["rate_out_per_s"] == pytest.approx(20)
    assert second["rate_out_per_s"] == pytest.approx(10)
    assert second["operation_s"] == pytest.approx(100 * 0.1, abs=0.001)


def test_queue_and_rates_of_few_messages() -> None:
    # A message that is stored as the next is sent makes no queue.
    assert queue([0, 10, 20], [10, 20, 30]) == ([0, 10, 10, 20, 20, 30], [1, 0, 1, 0, 1, 0])
    assert [rate_per_s(times_ns) for times_ns in ([], [5], [0, 500_000_000])] == [None, None, 2]


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
    sockets = [{"local_port": 1883, "peer_port": 5000, "tcp_nodelay": True}]
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
    assert judged([])["broker-1 memory"] == ("8192 MiB", NONE_SEEN, False)
    # The search shall find another limit.
    assert "broker-1 memory" not in judged([process("broker-1")], SCENARIO="twin-limit")


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
