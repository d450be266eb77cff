"""The judgement of treatments over looks as the treatments service answers them."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from looplab.experiments.loop.parameters import Parameters, read_parameters
from looplab.experiments.loop.treatments import applied, client, judge
from looplab.treatments.judgement import Treatment
from looplab.treatments.loads.load import strength
from looplab.treatments.looks import TreatmentsClient, running

BRIDGE = {"tcp_nodelay": True, "framing": "line", "scheduling": "SCHED_FIFO 95"}
Look = dict[str, Any]
# From a body and its announced length to the URL that serves it and the questions asked there.
Serve = Callable[[bytes, int], tuple[str, list[dict[str, Any]]]]


def parameters(**settings: str) -> Parameters:
    return read_parameters({"SCENARIO": "scenario5", "FIDELITY": "corrected", **settings})


def process(scheduling: str = "SCHED_OTHER", *, nodelay: bool = True, **changes: Any) -> dict[str, Any]:
    """One process as looplab.system.processes.facts describes it, with an MQTT connection and one of another kind."""
    whole = {
        "pid": 7, "started_ticks": 1000, "cpu_ticks": 50, "threads": [{"tid": 7, "scheduling": scheduling}],
        "rtprio_limit": "0", "sys_nice_bounding": False, "sys_nice_effective": False,
        "sockets": [
            {"local_port": 1883, "peer": "172.18.0.5", "peer_port": 40000, "tcp_nodelay": nodelay},
            {"local_port": 9100, "peer": "172.18.0.6", "peer_port": 50000, "tcp_nodelay": not nodelay},
        ],
    }  # fmt: skip
    return {**whole, **changes}


def look(**roles: Any) -> Look:
    """A look at a plain corrected run without load; `roles` replaces the processes of a role."""
    found: dict[str, Any] = {
        "broker": [process()], "controller": [process()], "bridge": [process("SCHED_FIFO 95")],
        "robot": [process("SCHED_FIFO 96", sockets=[])], "stress": [], "flood": [], "link": [],
    }  # fmt: skip
    found.update(roles)
    return {
        "roles": {role: {"processes": processes, "refused": []} for role, processes in found.items()},
        "clock_ns": 0,
        "ticks_hz": 100,
    }


def judged(p: Parameters, looks: list[Look | None], bridge: dict[str, Any] | None = None) -> dict[str, Treatment]:
    return {t.what: t for t in judge(p, looks, BRIDGE if bridge is None else bridge)}


def wrong(found: dict[str, Treatment]) -> set[str]:
    """What would make the run invalid."""
    return {t.what for t in found.values() if t.required and not t.verified}


def test_a_plain_run_as_wanted() -> None:
    found = judged(parameters(), [look(), look()])
    assert wrong(found) == set()
    assert all(t.verified for t in found.values())
    assert found["broker scheduling policy"].wanted == "SCHED_OTHER"
    assert "broker may use real-time priority" not in found


def fifo(**changes: Any) -> dict[str, Any]:
    return process("SCHED_FIFO 90", **{"rtprio_limit": "90", **changes})


def mixed_sockets() -> list[dict[str, Any]]:
    return [*process()["sockets"], {"local_port": 1883, "peer": "x", "peer_port": 5, "tcp_nodelay": False}]


PRIORITY = {"PRIORITY_BROKER": "90"}
POLICY, NODELAY = "broker scheduling policy", "broker TCP_NODELAY"
ONE_LEFT = [{"tid": 7, "scheduling": "SCHED_FIFO 90"}, {"tid": 8, "scheduling": "SCHED_OTHER"}]
OTHER_PORT = [{"local_port": 9100, "peer": "x", "peer_port": 1, "tcp_nodelay": True}]
UNREADABLE = "not readable: Operation not permitted"
STRESS = process(sockets=[])
RESTARTED = {**STRESS, "started_ticks": 2000}
WORKER = {**STRESS, "pid": 9, "started_ticks": 3000}
LOAD, SERVICE = "stress load", "treatments service"
# What is wanted, the looks, what makes the run invalid, the treatment to read, how it was found.
CASES: dict[str, tuple[dict[str, str], Sequence[Look | None], set[str], str, str]] = {
    "priority as wanted": (PRIORITY, [look(broker=[fifo(sys_nice_bounding=True)])] * 2, set(), POLICY, "SCHED_FIFO 90"),
    "a thread left behind": (
        PRIORITY, [look(broker=[fifo(threads=ONE_LEFT)])], {POLICY}, POLICY, "SCHED_FIFO 90, SCHED_OTHER",
    ),
    "a broker that came back without its priority": (
        PRIORITY, [look(broker=[one]) for one in (fifo(), process(rtprio_limit="90"), fifo())],
        {POLICY}, POLICY, "SCHED_FIFO 90, SCHED_OTHER",
    ),
    "a broker gone at a look": ({}, [look(), look(broker=[]), look()], {POLICY}, POLICY, "SCHED_OTHER, not running"),
    "neither limit nor capability": (
        {"PRIORITY_CONTROLLER": "99", "APPLY_PRIORITY": "off"}, [look()],
        {"controller may use real-time priority"}, "controller rtprio limit", "0",
    ),
    "no TCP_NODELAY": ({}, [look(broker=[process(nodelay=False)])], {NODELAY}, NODELAY, "off"),
    "TCP_NODELAY on another connection alone": (
        {}, [look(broker=[process(sockets=OTHER_PORT)])], {NODELAY}, NODELAY, "no MQTT connection seen",
    ),
    "one connection of another kind": (
        {}, [look(broker=[process(sockets=mixed_sockets())])], {NODELAY}, NODELAY, "off, on",
    ),
    "sockets that cannot be read": (
        {}, [look(controller=[process(sockets=UNREADABLE)])], {"controller TCP_NODELAY"},
        "controller TCP_NODELAY", UNREADABLE,
    ),
    "a bridge elsewhere": (
        {}, [look(bridge=[], robot=[])], set(), "bridge apart from the load", "not here (SCHED_FIFO 95)",
    ),
    "isolation refused": ({}, [look(robot=[process()])], set(), "robot apart from the load", "SCHED_OTHER"),
    "stress throughout": ({"LOAD": "stress"}, [look(stress=[STRESS])] * 3, set(), LOAD, "running"),
    "stress that died in the middle": (
        {"LOAD": "stress"}, [look(stress=[STRESS])] * 2 + [look()], {LOAD}, LOAD, "seen in 2 of 3 looks",
    ),
    "stress that was started again": (
        {"LOAD": "stress"}, [look(stress=[STRESS]), look(stress=[RESTARTED])], {LOAD}, LOAD, "restarted during the run",
    ),
    "workers that come and go under one stress": (
        {"LOAD": "stress"}, [look(stress=[STRESS]), look(stress=[WORKER, STRESS])], set(), LOAD, "running",
    ),
    "stress that never was": ({"LOAD": "stress"}, [look(), look()], {LOAD}, LOAD, "not running"),
    "a load nobody asked for": ({}, [look(), look(stress=[STRESS])], {LOAD}, LOAD, "running"),
    "a second load": (
        {"LOAD": "stress"}, [look(stress=[STRESS], flood=[STRESS])], {"flood load"}, "flood load", "running",
    ),
    "a flood that pauses": (
        {"LOAD": "flood"}, [look(flood=[process()]), look(), look(flood=[process()])], set(), "flood load", "running",
    ),
    "a flood that is gone": ({"LOAD": "flood"}, [look()] * 3, {"flood load"}, "flood load", "not running"),
    **{
        f"no answer in look {at}": ({}, looks, {SERVICE}, SERVICE, "no answer")
        for at, looks in enumerate(([], [None], [look(), None, look()]))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_was_wanted_is_judged_by_every_look(case: str) -> None:
    settings, looks, faults, what, as_found = CASES[case]
    found = judged(parameters(**settings), list(looks))
    assert (wrong(found), found[what].found) == (faults, as_found)


def test_a_policy_that_did_not_take_says_why() -> None:
    plain = look(broker=[process(rtprio_limit="90", sys_nice_bounding=True)])
    plain["roles"]["broker"]["refused"] = ["SCHED_FIFO 90 for process 7 refused: Operation not permitted"]
    found = judged(parameters(**PRIORITY), [plain, plain])
    assert wrong(found) == {POLICY}
    assert (found[POLICY].wanted, found[POLICY].found) == ("SCHED_FIFO 90", "SCHED_OTHER")
    assert "Operation not permitted" in found[POLICY].note
    assert "./lab doctor" in found[POLICY].note


def test_a_restart_names_what_may_have_ended_it() -> None:
    found = judged(parameters(LOAD="stress"), [look(stress=[STRESS]), look(stress=[RESTARTED])])
    assert "STRESS_TIMEOUT" in found[LOAD].note
    assert judged(parameters(), [look(), look(stress=[STRESS])])[LOAD].wanted == "not running"


def test_thesis_permits_priority_and_applies_none() -> None:
    p = parameters(FIDELITY="thesis", PRIORITY_BROKER="90", PRIORITY_CONTROLLER="99")
    permitted = {"nodelay": False, "sys_nice_bounding": True}
    good = look(broker=[process(rtprio_limit="90", **permitted)], controller=[process(rtprio_limit="99", **permitted)])
    bridge = {"tcp_nodelay": False, "framing": "burst"}
    assert wrong(judged(p, [good], bridge)) == set()
    good["roles"]["broker"]["processes"][0]["threads"][0]["scheduling"] = "SCHED_FIFO 90"
    assert wrong(judged(p, [good], bridge)) == {POLICY}


def test_rtprio_refused_but_sys_nice_given_is_permitted_and_said() -> None:
    found = judged(parameters(**PRIORITY), [look(broker=[fifo(rtprio_limit="0", sys_nice_bounding=True)])])
    assert wrong(found) == set()
    limit = found["broker rtprio limit"]
    assert (limit.verified, limit.required, limit.wanted, limit.found) == (False, False, "90", "0")
    assert "LAB_RTPRIO_BROKER" in limit.note


@pytest.mark.parametrize(("limit", "met"), [("unlimited", True), ("99", True), ("90", True), ("89", False)])
def test_a_limit_is_met_from_the_published_value_on(limit: str, met: bool) -> None:
    broker = fifo(rtprio_limit=limit, sys_nice_bounding=True)
    assert judged(parameters(**PRIORITY), [look(broker=[broker])])["broker rtprio limit"].verified is met


def test_a_bridge_that_is_set_up_otherwise_or_does_not_say_is_invalid() -> None:
    found = judged(parameters(), [look()], {"tcp_nodelay": False, "framing": "burst"})
    assert wrong(found) == {"bridge TCP_NODELAY", "robot framing"}
    assert "FIDELITY" in found["robot framing"].note
    assert wrong(judged(parameters(), [look()], {})) == {"bridge settings"}


def test_isolation_refused_is_said() -> None:
    assert not judged(parameters(), [look(robot=[process()])])["robot apart from the load"].verified


def test_load_strength_counts_what_was_consumed() -> None:
    before, after = look(stress=[STRESS]), look(stress=[{**STRESS, "cpu_ticks": 450}])
    after["clock_ns"] = 2_500_000_000
    assert strength("stress", before, after) == {"seconds": 2.5, "stress_cpu_s": 4.0}


def counted(published: int, seconds: int) -> Look:
    found = look(flood=[process()])
    found.update(published=published, published_clock_ns=seconds * 10**9, clock_ns=seconds * 10**9)
    return found


def test_a_flood_that_only_sits_there_is_no_flood() -> None:
    """The loop's own 2000 messages a cell pass the broker, and hardly any other."""
    flooded = [counted(0, 0), counted(4000, 20), counted(8100, 40)]
    assert wrong(judged(parameters(LOAD="flood"), list(flooded))) == set()
    dried_up = [counted(0, 0), counted(4000, 20), counted(6010, 40)]
    assert wrong(judged(parameters(LOAD="flood"), list(dried_up))) == {"flood in every cell"}


def test_a_flood_is_not_judged_by_a_count_that_is_too_coarse() -> None:
    brief = [counted(0, 0), counted(200, 3)]
    assert "flood in every cell" not in judged(parameters(LOAD="flood"), list(brief))


def test_flood_strength_is_the_brokers_own_count() -> None:
    before, after = look(flood=[STRESS]), look(flood=[STRESS])
    before.update(published=1000, published_clock_ns=0)
    after.update(published=5000, published_clock_ns=2_000_000_000)
    assert strength("flood", before, after)["broker_publish_per_s"] == 2000
    after["published"] = 10
    assert "broker_publish_per_s" not in strength("flood", before, after)


def test_running_needs_a_live_process() -> None:
    assert running(look(stress=[STRESS]), "stress")
    assert not running(look(), "stress")
    assert not running(None, "stress")


# --- the client ------------------------------------------------------------------------------------------


@pytest.fixture
def service() -> Iterator[Serve]:
    """Serves one canned answer on a free port; gives its URL and the questions asked."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(body: bytes, announced_bytes: int) -> tuple[str, list[dict[str, Any]]]:
        asked: list[dict[str, Any]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.send_header("Content-Length", str(announced_bytes))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}/facts", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_question_asks_for_priority_only_where_it_is_applied(
    service: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = service(b"{}", 2)
    monkeypatch.setenv("TREATMENTS_URL", url)
    priorities = {"PRIORITY_BROKER": "90", "PRIORITY_CONTROLLER": "99"}
    assert client().look(applied(parameters(**priorities)), "broker:1883") == {}
    client().look(applied(parameters(APPLY_PRIORITY="off", **priorities)))
    given, permitted = ({role: asks["fifo"] for role, asks in question["roles"].items()} for question in asked)
    assert (given["broker"], given["controller"]) == (90, 99)
    assert (permitted["broker"], permitted["controller"]) == (0, 0)
    # Bridge and robot stand for other machines in every run; the load never gets any priority.
    assert given["bridge"] == permitted["bridge"] > 90
    assert given["stress"] == given["flood"] == 0
    assert asked[0]["published_from"] == "broker:1883"
    assert "published_from" not in asked[1]


@pytest.mark.parametrize(
    ("body", "announced_bytes"), [(b"no json", 7), (b"", 0), (b'{"roles": ', 10), (b'{"roles": {}', 4000)]
)
def test_an_answer_that_is_none_or_cut_short_counts_as_no_answer(
    body: bytes, announced_bytes: int, service: Serve
) -> None:
    url, _ = service(body, announced_bytes)
    assert TreatmentsClient([], url).look({}) is None


def test_nobody_there_counts_as_no_answer() -> None:
    assert TreatmentsClient([], "http://127.0.0.1:1/facts").look({}) is None
