"""The judgement of treatments over scans as the treatments service answers them."""

from collections.abc import Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

import pytest

from looplab.experiments.loop import treatments as loop
from looplab.experiments.loop.parameters import LoopParameters
from looplab.spec.roles import CONTROLLER
from looplab.treatments.judgement import Treatment
from looplab.treatments.loads import loads

BRIDGE = {
    "tcp_nodelay": True, "framing": "line", "scheduling": "SCHED_FIFO 95", "instance": "ab12", "boot": "cd34",
    "mqtt_version": "3.1.1",
    "reopened": 0, "robot_faults": {"reset": 0},
}  # fmt: skip
Scan = dict[str, Any]


def parameters(**settings: str) -> LoopParameters:
    return LoopParameters.read({"SCENARIO": "scenario5", "FIDELITY": "corrected", **settings})


def process(scheduling: str = "SCHED_OTHER", *, nodelay: bool = True, **changes: Any) -> dict[str, Any]:
    """One process as looplab.system.processes.facts describes it, with an MQTT connection and one of another kind."""
    whole = {
        "pid": 7, "started_ticks": 1000, "cpu_ns": 0, "children_cpu_ns": 0, "cpu_wait_ns": 0, "runs": 0,
        "cpus": [0, 1],
        "threads": [{"tid": 7, "scheduling": scheduling}],
        "rtprio_limit": "0", "sys_nice": "not given",
        "sockets": [
            {"local_port": 1883, "peer": "172.18.0.5", "peer_port": 40000, "tcp_nodelay": nodelay},
            {"local_port": 9100, "peer": "172.18.0.6", "peer_port": 50000, "tcp_nodelay": not nodelay},
        ],
    }  # fmt: skip
    return {**whole, **changes}


def scan(at_s: float = 0.0, idle_s: float = 0.0, **roles: Any) -> Scan:
    """A scan at a plain corrected run without load; `roles` replaces the processes of a role.

    `idle_s` is the time that each of two processors has been idle so far.
    """
    found = {
        "broker": [process()], "controller": [process()], "bridge": [process("SCHED_FIFO 95")],
        "robot": [process("SCHED_FIFO 96", sockets=[])], "stress": [], "flood": [], "link": [], **roles,
    }  # fmt: skip
    return {
        "roles": {role: {"before": there, "processes": there, "refused": []} for role, there in found.items()},
        "processors": {cpu: {"idle_s": idle_s, "steal_s": 0.0} for cpu in ("0", "1")},
        "clock_ns": round(at_s * 1e9),
        "own": 0,
        "elsewhere": loop.elsewhere(BRIDGE),
    }


def lost(seen: Scan, role: str, **before: Any) -> Scan:
    """The same scan, except what was found of a role before anything was applied."""
    one = seen["roles"][role]
    changed = [{**process, **before} for process in one["processes"]]
    return {**seen, "roles": {**seen["roles"], role: {**one, "before": changed}}}


def judged(p: LoopParameters, scans: Sequence[Scan | None], bridge: Scan | None = None) -> dict[str, Treatment]:
    """Every treatment; a load whose processes have no command was started as the parameters have it."""
    scans = deepcopy(scans)
    for load, rules in loads().items():
        shown = ([rule.option, p.load_settings.get(name, "")] for name, rule in rules.settings.items() if rule.option)
        argv = [load, *chain.from_iterable(shown)]
        for one in (one for seen in filter(None, scans) for one in seen["roles"][load]["processes"]):
            one.setdefault("argv", argv)
    usual = {**BRIDGE, "tcp_nodelay": p.tcp_nodelay, "framing": p.robot_framing}
    return {t.what: t for t in loop.judge(p, scans, usual if bridge is None else bridge)}


def wrong(found: dict[str, Treatment]) -> set[str]:
    """What would make the run invalid."""
    return {t.what for t in found.values() if t.required and not t.verified}


def fifo(**changes: Any) -> dict[str, Any]:
    return process("SCHED_FIFO 90", **{"rtprio_limit": "90", **changes})


PRIORITY = {"PRIORITY_BROKER": "90"}
THESIS = {"FIDELITY": "thesis", **PRIORITY}
POLICY, NODELAY = "broker scheduling policy", "broker TCP_NODELAY"
ONE_LEFT = [{"tid": 7, "scheduling": "SCHED_FIFO 90"}, {"tid": 8, "scheduling": "SCHED_OTHER"}]
OTHER_PORT = [{"local_port": 9100, "peer": "x", "peer_port": 1, "tcp_nodelay": True}]
BOTH_KINDS = [{"local_port": 1883, "peer": "x", "peer_port": 1, "tcp_nodelay": nodelay} for nodelay in (True, False)]
UNREADABLE = "not readable: Operation not permitted"
STRESS = process(sockets=[])
RESTARTED = {**STRESS, "started_ticks": 2000}
WORKER = {**STRESS, "pid": 9, "started_ticks": 3000}
LOAD, SERVICE = "stress load", "treatments service"
NOT_ALL = "SCHED_FIFO 96, not running"


def far(**changes: Any) -> Scan:
    """A scan at a run whose bridge is on another machine."""
    return {**scan(bridge=[], robot=[]), "elsewhere": loop.elsewhere({**BRIDGE, **changes})}


def permitted(scheduling: str = "SCHED_OTHER", **broker: Any) -> Scan:
    """A scan at a run in thesis fidelity, whose broker may use real-time priority."""
    found = {"rtprio_limit": "90", "sys_nice": "without effect", **broker}
    return scan(broker=[process(scheduling, nodelay=False, **found)], controller=[process(nodelay=False)])


# What is wanted, the scans, what makes the run invalid, the treatment to read, how it was found.
CASES: dict[str, tuple[dict[str, str], Sequence[Scan | None], set[str], str, str]] = {
    "nothing": ({}, [scan()] * 2, set(), POLICY, "SCHED_OTHER"),
    "a priority that is permitted alone": (THESIS, [permitted()], set(), POLICY, "SCHED_OTHER"),
    "a priority that shall not be applied": (
        THESIS, [permitted("SCHED_FIFO 90")], {POLICY}, POLICY, "SCHED_FIFO 90",
    ),
    "a thread left behind": (
        PRIORITY, [scan(broker=[fifo(threads=ONE_LEFT)])], {POLICY}, POLICY, "SCHED_FIFO 90, SCHED_OTHER",
    ),
    "a broker that came back without its priority": (
        PRIORITY, [scan(broker=[one]) for one in (fifo(), process(rtprio_limit="90"), fifo())],
        {POLICY}, POLICY, "SCHED_FIFO 90, SCHED_OTHER",
    ),
    "a broker gone at a scan": (
        {}, [scan(), scan(broker=[]), scan()], {POLICY, "broker process"}, POLICY, "SCHED_OTHER, not running",
    ),
    "a priority that was lost and restored by the scan itself": (
        PRIORITY,
        [scan(broker=[fifo()]), lost(scan(broker=[fifo()]), "broker", threads=ONE_LEFT), scan(broker=[fifo()])],
        {POLICY}, POLICY, "SCHED_FIFO 90, SCHED_OTHER",
    ),
    "the first scan finds what it applies": (
        PRIORITY, [lost(scan(broker=[fifo()]), "broker", threads=ONE_LEFT), scan(broker=[fifo()])],
        set(), POLICY, "SCHED_FIFO 90",
    ),
    **{
        f"a restarted {role}": (
            {"COMMAND": "T"}, [scan(), scan(**{role: [process(policy, started_ticks=2000)]})], {f"{role} process"},
            f"{role} process", "restarted 1 x, first seen at scan 2 of 2",
        )
        for role, policy in (
            ("broker", "SCHED_OTHER"), ("controller", "SCHED_OTHER"), ("bridge", "SCHED_FIFO 95"),
            ("robot", "SCHED_FIFO 96"),
        )
    },
    "a restart within a scan": (
        {}, [scan(), lost(scan(), "broker", pid=6), scan()], {"broker process"}, "broker process",
        "restarted 2 x, first seen at scan 2 of 3",
    ),
    **{
        f"a far {part} that was restarted": (
            {"COMMAND": "T"}, [far(), far(**change), far(**change)], {f"{part} process"}, f"{part} process",
            "restarted 1 x, first seen at scan 2 of 3",
        )
        for part, change in (
            ("bridge", {"instance": "ef56"}), ("bridge", {"boot": "ef56"}), ("robot", {"reopened": 1}),
            ("robot", {"robot_faults": {"reset": 1}}),
        )
    },
    "a far bridge and robot that stayed": (
        {"COMMAND": "T"}, [far(), far()], set(), "bridge process", "the same in every scan",
    ),
    "a robot that this run does not need": (
        {"COMMAND": "E"}, [scan(), scan(robot=[])], set(), "robot apart from the load", NOT_ALL,
    ),
    "neither limit nor capability": (
        {"PRIORITY_CONTROLLER": "99", "APPLY_PRIORITY": "off"}, [scan()],
        {"controller may use real-time priority"}, "controller rtprio limit", "0",
    ),
    "TCP_NODELAY on another connection alone": (
        {}, [scan(broker=[process(sockets=OTHER_PORT)])], {NODELAY}, NODELAY, "no MQTT connection seen",
    ),
    "one connection of another kind": (
        {}, [scan(broker=[process(sockets=BOTH_KINDS)])], {NODELAY}, NODELAY, "off, on",
    ),
    "sockets that cannot be read": (
        {}, [scan(controller=[process(sockets=UNREADABLE)])], {"controller TCP_NODELAY"},
        "controller TCP_NODELAY", UNREADABLE,
    ),
    "a bridge elsewhere": (
        {}, [scan(bridge=[], robot=[])], set(), "bridge apart from the load", "not here (SCHED_FIFO 95)",
    ),
    "isolation refused": ({}, [scan(robot=[process()])], set(), "robot apart from the load", "SCHED_OTHER"),
    "stress throughout": ({"LOAD": "stress"}, [scan(stress=[STRESS])] * 3, set(), LOAD, "running"),
    "stress that died in the middle": (
        {"LOAD": "stress"}, [scan(stress=[STRESS])] * 2 + [scan()], {LOAD}, LOAD, "seen in 2 of 3 scans",
    ),
    "stress that was started again": (
        {"LOAD": "stress"}, [scan(stress=[STRESS]), scan(stress=[RESTARTED])], {LOAD}, LOAD, "restarted during the run",
    ),
    "workers that come and go under one stress": (
        {"LOAD": "stress"}, [scan(stress=[STRESS]), scan(stress=[WORKER, STRESS])], set(), LOAD, "running",
    ),
    "stress that never was": ({"LOAD": "stress"}, [scan(), scan()], {LOAD}, LOAD, "not running"),
    "a load nobody asked for": ({}, [scan(), scan(stress=[STRESS])], {LOAD}, LOAD, "running"),
    **{
        f"no answer in scan {at}": ({}, scans, {SERVICE}, SERVICE, "no answer")
        for at, scans in enumerate(([], [None], [scan(), None, scan()]))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_was_wanted_is_judged_by_every_scan(case: str) -> None:
    settings, scans, faults, what, as_found = CASES[case]
    found = judged(parameters(**settings), scans)
    assert (wrong(found), found[what].found) == (faults, as_found)


@pytest.mark.parametrize(
    ("limit", "capability", "attempt", "good"),
    [
        ("90", "without effect", "", True),
        ("0", "effective", "", True),
        ("0", "without effect", "", False),  # `cap_add` of a process that is not root
        ("89", "not given", "", False),
        ("0", "effective", "granted", True),
        # The kernel's budget for real-time tasks may refuse what limit and capability permit.
        ("90", "effective", "refused", False),
    ],
)
def test_permission_is_an_attempt_or_limit_and_capability(
    limit: str, capability: str, attempt: str, good: bool
) -> None:
    """A bounding set permits nothing: a child of such a process was refused every priority."""
    found = judged(parameters(**THESIS), [permitted(rtprio_limit=limit, sys_nice=capability, attempt=attempt)])
    one = found["broker may use real-time priority"]
    assert (wrong(found), one.verified) == (set() if good else {one.what}, good)
    assert one.found == f"{attempt or 'not tried'}: rtprio limit {limit}; SYS_NICE {capability}"
    assert ("LAB_PRIORITY_UID=0" in one.note) is not one.verified


@pytest.mark.parametrize(("attempt", "verified"), [("granted", True), ("refused", False)])
def test_the_controllers_own_attempt_decides(attempt: str, verified: bool) -> None:
    one, _ = loop.judge_permission([scan(controller=[process(rtprio_limit="99")])], "controller", 99, attempt)
    assert one.verified is verified
    # Without a priority there is nothing to permit.
    assert [*loop.judge_permission([scan()], "controller", 0)] == []


def test_a_bridge_that_is_set_up_otherwise_is_invalid() -> None:
    found = judged(parameters(), [scan()], {"tcp_nodelay": False, "framing": "burst", "mqtt_version": "5"})
    assert wrong(found) == {"bridge TCP_NODELAY", "robot framing", "bridge MQTT version"}
    assert "bridge MQTT version" in wrong(judged(parameters(), [scan()], {**BRIDGE, "mqtt_version": ""}))
    for alias, other in (("on", False), ("off", True)):
        five = parameters(MQTT_VERSION="5", TOPIC_ALIAS=alias)
        aliases = judged(five, [scan()], {**BRIDGE, "mqtt_version": "5", "topic_alias": other})
        assert wrong(aliases) == {"bridge topic alias"}
    assert "FIDELITY" in found["robot framing"].note
    assert wrong(judged(parameters(), [scan()], {})) == {"bridge settings"}


OWN, BROKERS_OWN, HOSTS = "172.18.0.4", "172.18.0.3", "172.17.0.1"


@pytest.mark.parametrize(
    ("fidelity", "timer_ms", "wanted", "good"),
    [
        ("thesis", 16, "as its driver sets it", True),
        ("corrected", 1, "1 ms", True),
        ("corrected", 16, "1 ms", False),
        ("corrected", "16", "1 ms", False),
    ],
)
def test_an_adapter_that_holds_answers_back_is_named(fidelity: str, timer_ms: Any, wanted: str, good: bool) -> None:
    bridge = {**BRIDGE, "tcp_nodelay": fidelity == "corrected", "latency_timer_ms": timer_ms}
    one = judged(parameters(FIDELITY=fidelity), [scan()], bridge)["latency timer of the robot's adapter"]
    assert (one.wanted, one.found, one.verified, one.required) == (wanted, f"{timer_ms} ms", good, wanted == "1 ms")
    assert ("SERIAL_LOW_LATENCY=on" in one.note) == (timer_ms != 1)
    assert not any("adapter" in what for what in judged(parameters(), [scan()]))


@pytest.mark.parametrize(
    ("wanted", "peer", "port", "found"),
    [
        ("direct", BROKERS_OWN, 1883, "direct"), ("direct", BROKERS_OWN, 8883, "direct"),
        ("port", BROKERS_OWN, 1883, "direct"), ("port", HOSTS, 1883, "port"), ("direct", HOSTS, 1883, "port"),
    ],
)  # fmt: skip
def test_the_path_is_judged_by_where_it_ends(wanted: str, peer: str, port: int, found: str) -> None:
    for mapped in ("", "::ffff:"):
        # A broker's socket for IPv6 may hold addresses of IPv4.
        controller, broker = (
            process(sockets=[{"local": local, "local_port": own, "peer": there, "peer_port": its}])
            for local, own, there, its in ((OWN, 5000, peer, port), (mapped + BROKERS_OWN, port, mapped + OWN, 5000))
        )
        seen = [scan(controller=[controller], broker=[broker]), None]
        one = loop.judge_path(parameters(BROKER_PATH=wanted), seen, CONTROLLER)
        assert (one.found, one.verified) == (found, found == wanted)
    assert not loop.judge_path(parameters(), [scan(controller=[], broker=[]), None], CONTROLLER).verified


ON_REQUESTS, ON_ALL = {(0, 0), (1, 0), (2, 0)}, {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize(
    ("settings", "controller", "bridge", "answers", "faults"),
    [
        ({"QOS_LEGS": "request"}, 0, 0, ON_REQUESTS, []),
        ({"QOS_LEGS": "all"}, 2, 2, ON_ALL, []),
        ({"QOS_LEGS": "all", "BROKER": "rabbitmq"}, 1, 1, {(0, 0), (1, 1)}, []),  # it grants no more
        ({"QOS_LEGS": "request"}, 2, 2, ON_ALL, ["controller", "bridge", "answers"]),
        ({"QOS_LEGS": "all"}, 2, 0, ON_REQUESTS, ["bridge", "answers"]),
        ({"QOS_LEGS": "all"}, 128, 2, set(), ["controller"]),  # refused
        ({"QOS_LEGS": "request"}, None, None, set(), ["controller", "bridge"]),  # nobody answered
    ],
)
def test_legs_are_judged_by_what_the_broker_granted(
    settings: dict[str, str], controller: int | None, bridge: int | None, answers: set[tuple[int, int]],
    faults: list[str],
) -> None:  # fmt: skip
    granted = {} if controller is None else {"answer/": controller}
    found = list(loop.judge_legs(parameters(QOS="0 1 2", **settings), granted, {"subscription_qos": bridge}, answers))
    assert [t.what.partition("'")[0] for t in found if not t.verified] == faults
    assert len(found) == (3 if answers else 2)


def test_a_publisher_of_its_own_hears_its_requests() -> None:
    two = parameters(CONNECTIONS="two", QOS_LEGS="request")
    for requests, verified in ({"request/": 0}, True), ({}, False):
        found = loop.judge_legs(two, {"answer/": 0, **requests}, {"subscription_qos": 0}, set())
        assert {t.what: t.verified for t in found}["publisher's subscription to request/"] is verified


@pytest.mark.parametrize(
    ("number", "sockets", "found"), [("one", 1, "1"), ("two", 2, "2"), ("two", 1, "1"), ("one", UNREADABLE, UNREADABLE)]
)
def test_the_controllers_connections_are_counted(number: str, sockets: int | str, found: str) -> None:
    seen = sockets if isinstance(sockets, str) else process()["sockets"][:1] * sockets
    one = loop.judge_number(parameters(CONNECTIONS=number), [scan(controller=[process(sockets=seen)]), None])
    assert (one.found, one.verified) == (found, {"one": "1", "two": "2"}[number] == found)
    # run.json requires a word in `found`; an empty one made the run damaged.
    assert [loop.judge_number(parameters(), scans).found for scans in ([], [None])] == ["none seen"] * 2


def stressed(*cells: tuple[float, float], length_s: float = 2.0) -> list[Scan]:
    """Scans at stress on two processors: of each cell, the CPU seconds a second that it got, and those left idle."""
    at_s = cpu_s = idle_s = 0.0
    scans = [scan(0.0, stress=[STRESS])]
    for used, idle in ((2.0, 0.0), *cells):
        at_s, cpu_s, idle_s = at_s + length_s, cpu_s + used * length_s, idle_s + idle * length_s / 2
        # One process for all workers: it waits whenever it does not run.
        busy = {"cpu_ns": round(cpu_s * 1e9), "cpu_wait_ns": round((2 * at_s - cpu_s) * 1e9)}
        scans.append(scan(at_s, idle_s, stress=[{**STRESS, **busy}]))
    return scans


STRENGTH = "stress in every cell"


@pytest.mark.parametrize("length_s", [0.3, 2.0, 60.0])
@pytest.mark.parametrize(
    ("cells", "good"),
    [
        ([(1.5, 0.0), (1.2, 0.1)], True),
        ([(1.5, 0.0), (0.0, 1.8)], False),  # paused: nothing but idle processors
        ([(1.0, 0.9), (1.5, 0.0)], False),  # docker run --cpus 1
        ([(1.5, 0.0), (0.6, 0.0)], True),  # beside another program, the processors as full
        ([(1.5, 0.0), (0.4, 0.0)], False),  # another program took most of them
    ],
)
def test_a_weak_stress_is_found_in_cells_of_any_length(
    cells: list[tuple[float, float]], good: bool, length_s: float
) -> None:
    found = judged(parameters(LOAD="stress"), stressed(*cells, length_s=length_s))
    assert wrong(found) == (set() if good else {STRENGTH})
    if not good:
        weakest = min(range(len(cells)), key=lambda number: cells[number][0])
        assert found[STRENGTH].found.endswith(f"in cell {weakest + 1} of 2")
        assert "paused or limited" in found[STRENGTH].note


@pytest.mark.parametrize(("paused_s", "good"), [(0.0, True), (1.0, True), (4.0, False)])
def test_a_paused_stress_is_found_beside_other_load(paused_s: float, good: bool) -> None:
    """Of a cell of ten seconds; it got a third of the processors, and nothing was idle."""
    scans = stressed((0.7, 0.0), length_s=10.0)
    was, worker = (one["roles"]["stress"]["processes"][0] for one in scans[-2:])
    worker["cpu_wait_ns"] = was["cpu_wait_ns"] + round((10.0 - paused_s) * 1e9) - (worker["cpu_ns"] - was["cpu_ns"])
    assert wrong(judged(parameters(LOAD="stress"), scans)) == (set() if good else {"stress not paused"})
    # A kernel that does not count waits shows nothing.
    worker["cpu_wait_ns"] = None
    assert "stress not paused" not in judged(parameters(LOAD="stress"), scans)


@pytest.mark.parametrize(
    ("role", "cpu_s", "used", "good"),
    [
        # On one processor, half of which goes to robot, bridge and controller.
        ("robot", {"cpu_ns": 1.0}, 0.8, True),
        # A spinning receiver, which began and ended within the cell, had one of two processors.
        ("controller", {"children_cpu_ns": 2.0}, 0.4, True),
        ("controller", {"children_cpu_ns": 0.0}, 0.4, False),
    ],
)
def test_what_the_labs_own_parts_use_is_not_asked_of_stress(
    role: str, cpu_s: dict[str, float], used: float, good: bool
) -> None:
    scans = stressed((used, 0.0))
    (part,) = scans[-1]["roles"][role]["processes"]
    part.update({name: round(seconds * 1e9) for name, seconds in cpu_s.items()})
    assert wrong(judged(parameters(LOAD="stress"), scans)) == (set() if good else {STRENGTH})


def test_stress_with_few_workers_owes_no_more_than_they_can_use() -> None:
    one = parameters(LOAD="stress", STRESS_CPU="1", STRESS_VM="1")
    scans = stressed((1.0, 1.0))
    for seen in scans:
        seen["processors"] = {str(cpu): seen["processors"]["0"] for cpu in range(8)}
        seen["roles"]["stress"]["processes"][0]["cpus"] = list(range(8))
    assert wrong(judged(one, scans)) == {STRENGTH}
    assert wrong(judged(one, scans[:1] + stressed((1.9, 0.0))[1:])) == set()
    # Workers that wait for their disk owe no processor time.
    assert STRENGTH not in judged(parameters(LOAD="stress", STRESS_CPU="0", STRESS_VM="0"), stressed((0.1, 1.8)))


OPTIONS = "stress options"


@pytest.mark.parametrize(
    ("words", "good"),
    [
        ("/usr/bin/stress --cpu 3 --io 3 --vm 5 --vm-bytes 128M --timeout 4000s", True),
        ("stress --verbose --vm 5 --cpu=3 --io 3 --vm-bytes 128M --timeout 4000s", True),
        ("stress --cpu 2 --timeout 4000s", False),
        ("stress --cpu 3 --io 3 --vm 5 --vm-bytes 128M --timeout 4000s --hdd 4", False),
        ("stress 4 --cpu 3", False),
        # Nobody could read its command.
        ("", False),
    ],
)
def test_a_load_with_other_options_than_recorded_is_found(words: str, good: bool) -> None:
    """As by LAB_OWN=FILE with another command of the stress: the settings say 3, 3 and 5."""
    scans = stressed((1.5, 0.0))
    for seen in scans:
        seen["roles"]["stress"]["processes"][0]["argv"] = words.split()
    found = judged(parameters(LOAD="stress"), scans)
    assert wrong(found) == (set() if good else {OPTIONS})
    assert found[OPTIONS].wanted == "--cpu 3 --io 3 --vm 5 --vm-bytes 128M --timeout 4000s"
    if not good:
        assert found[OPTIONS].found in (words or "unknown")
        assert "LAB_OWN" in found[OPTIONS].note


def flooded(*messages: int, length_s: float = 20.0, own: int = 2000) -> list[Scan]:
    """Scans at a flood of which so many messages arrived in each cell, beside the run's own."""
    published, scans = 0, [scan(flood=[process()])]
    scans[0].update(published=0, published_clock_ns=0)
    for number, arrived in enumerate((0, *messages)):
        published += arrived + own
        seen = scan((number + 1) * length_s, flood=[process()])
        seen.update(published=published, published_clock_ns=seen["clock_ns"], own=own * (number + 1))
        scans.append(seen)
    return scans


FLOODED, PAUSED = "flood in every cell", "flood without a pause"


def test_a_flood_may_pause_when_it_is_scanned() -> None:
    scans = flooded(2000, 2000)
    scans[2]["roles"]["flood"] = scan()["roles"]["flood"]
    found = judged(parameters(LOAD="flood"), scans)
    assert (wrong(found), found["flood load"].found) == (set(), "running")


WEAK = {"FLOOD_CLIENTS": "10", "FLOOD_MESSAGES": "1"}
# Here the machine is the limit, not the options.
STRONG = {"FLOOD_MESSAGES": "100000"}


@pytest.mark.parametrize(
    ("options", "messages", "length_s", "good"),
    [
        ({}, [2000, 2100], 20.0, True), ({}, [2000, 10], 20.0, False), ({}, [80, 90, 100, 100, 90, 80], 1.0, True),
        ({}, [80, 90, 100, 0, 0, 0, 0, 0, 0], 1.0, False), ({}, [100], 1.2, True), ({}, [0], 1.2, False),
        (WEAK, [200, 200], 20.0, True), ({}, [200, 200], 20.0, False),
        (STRONG, [200_000, 6000], 20.0, True), (STRONG, [200_000, 4000], 20.0, False),
    ],
)  # fmt: skip
def test_a_flood_that_only_sits_there_is_no_flood(
    options: dict[str, str], messages: list[int], length_s: float, good: bool
) -> None:
    """The run's own messages pass the broker as well; the published options give 100 messages a second beside them."""
    found = judged(parameters(LOAD="flood", **options), flooded(*messages, length_s=length_s))
    assert wrong(found) == (set() if good else {FLOODED})
    assert ("paused or starved" in found[FLOODED].note) != good


def paused(begin_s: float, end_s: float, length_s: float = 60.0) -> list[Scan]:
    """100 messages a second, and as many of the run's; the broker reports each second, and the flood pauses once."""
    counts = [0]
    for second in range(1, round(length_s) + 1):
        counts.append(counts[-1] + 100 + (0 if begin_s < second <= end_s else 100))
    scans = flooded(counts[-1] - round(100 * length_s), length_s=length_s, own=round(100 * length_s))
    base, base_ns = scans[-2]["published"], scans[-2]["published_clock_ns"]
    reports = [[base + count, base_ns + second * 10**9] for second, count in enumerate(counts)]
    # A scan brings what the warm-up's broker reported, too.
    scans[-1]["published_counts"] = [[0, 0], *reports]
    return scans


@pytest.mark.parametrize(("begin_s", "end_s", "good"), [(0, 0, True), (20, 25, True), (20, 33, False), (48, 60, False)])
def test_a_flood_that_pauses_within_a_cell_is_found_by_windows(begin_s: float, end_s: float, good: bool) -> None:
    """The cell on the whole has three quarters of its messages."""
    found = judged(parameters(LOAD="flood"), paused(begin_s, end_s))
    assert wrong(found) == (set() if good else {PAUSED})
    assert found[PAUSED].wanted == "20.00 messages/s at least in any 10 s"


def test_flood_strength_is_the_brokers_own_count() -> None:
    before, after = flooded(4000)[-2:]
    assert loop.strength("flood", before, after) == {
        "seconds": 20.0, "flood_cpu_s": 0.0, "broker_publish_per_s": 300.0, "flood_messages_per_s": 200.0,
    }  # fmt: skip
    # A broker that does not count shows no flood.
    after["published"] = 10
    assert "broker_publish_per_s" not in loop.strength("flood", before, after)
    assert wrong(judged(parameters(LOAD="flood"), [before, before, after])) == {FLOODED}


def test_the_broker_that_answers_must_be_the_one_that_was_wanted() -> None:
    found = loop.judge_broker(parameters(BROKER="rabbitmq", QOS="1 2"), "4.0.5")
    assert (found.verified, found.found) == (True, "rabbitmq 4.0.5")
    other = loop.judge_broker(parameters(BROKER="rabbitmq"), "")
    assert (other.verified, other.required) == (False, True)


TEMPERATURE, EMULATED = (LoopParameters.read({"SCENARIO": "scenario2", "COMMAND": command}) for command in "TE")


def held(bridge_us: float, robot_us: float = 0.0, **changes: Any) -> dict[str, Any]:
    """A cell in which bridge and robot waited so long at each wake-up, on average; idle ones wake up more often."""
    waits = {"bridge": 200 * bridge_us, "robot": 5000 * robot_us, "broker": 9e9}
    return {
        "interval_ms": 20, "qos": 0, "cpu_wait_us": waits,
        "cpu_runs": {"bridge": 200, "robot": 5000, "broker": 1}, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bridge_us", "robot_us", "verified"),
    [(10, 35, True), (10, 45, False), (55, 0, False), (1000, 0, False)],
)
def test_their_own_wait_is_judged_in_absolute_time(bridge_us: float, robot_us: float, verified: bool) -> None:
    quiet = held(5, 5, interval_ms=100)
    (found,) = loop.judge_robot(TEMPERATURE, [quiet, held(bridge_us, robot_us)], virtual=True)
    assert (found.verified, found.required) == (verified, False)
    assert "at 20 ms, QoS 0" in found.found
    assert bool(found.note) != verified


def test_an_emulated_answer_needs_no_robot_and_nothing_is_said_of_a_real_one() -> None:
    (found,) = loop.judge_robot(EMULATED, [held(100, robot_us=1000)], virtual=True)
    assert found.found == "200 us at 20 ms, QoS 0"
    assert loop.judge_robot(TEMPERATURE, [held(5)], virtual=False) == []
    assert loop.judge_robot(TEMPERATURE, [held(5, cpu_wait_us={})], virtual=True) == []
