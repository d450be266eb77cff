"""The judgement of treatments over looks as the treatments service answers them."""

import copy
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from looplab.experiments.loop.parameters import Parameters, read_parameters
from looplab.experiments.loop.treatments import applied, client, judge
from looplab.treatments.judgement import Treatment
from looplab.treatments.loads.load import strength
from looplab.treatments.looks import TreatmentsClient, running

BRIDGE = {"tcp_nodelay": True, "framing": "line", "scheduling": "SCHED_FIFO 95"}
Look = dict[str, Any]


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


def test_priority_applied_as_wanted() -> None:
    fifo = process("SCHED_FIFO 90", rtprio_limit="90", sys_nice_bounding=True)
    found = judged(parameters(PRIORITY_BROKER="90"), [look(broker=[fifo])] * 2)
    assert wrong(found) == set()
    assert found["broker scheduling policy"].found == "SCHED_FIFO 90"
    assert found["broker rtprio limit"].verified


def test_a_policy_that_did_not_take_is_invalid_and_says_why() -> None:
    plain = look(broker=[process(rtprio_limit="90", sys_nice_bounding=True)])
    plain["roles"]["broker"]["refused"] = ["SCHED_FIFO 90 for process 7 refused: Operation not permitted"]
    found = judged(parameters(PRIORITY_BROKER="90"), [plain, plain])
    assert wrong(found) == {"broker scheduling policy"}
    entry = found["broker scheduling policy"]
    assert (entry.wanted, entry.found) == ("SCHED_FIFO 90", "SCHED_OTHER")
    assert "Operation not permitted" in entry.note
    assert "./lab doctor" in entry.note


def test_one_thread_left_behind_is_seen() -> None:
    threads = [{"tid": 7, "scheduling": "SCHED_FIFO 90"}, {"tid": 8, "scheduling": "SCHED_OTHER"}]
    found = judged(parameters(PRIORITY_BROKER="90"), [look(broker=[process(threads=threads, rtprio_limit="90")])])
    assert wrong(found) == {"broker scheduling policy"}
    assert found["broker scheduling policy"].found == "SCHED_FIFO 90, SCHED_OTHER"


def test_a_broker_that_came_back_without_its_priority_is_seen() -> None:
    good, bad = process("SCHED_FIFO 90", rtprio_limit="90"), process(rtprio_limit="90")
    looks: list[Look | None] = [look(broker=[good]), look(broker=[bad]), look(broker=[good])]
    assert wrong(judged(parameters(PRIORITY_BROKER="90"), looks)) == {"broker scheduling policy"}


def test_a_broker_that_was_gone_at_a_look_is_seen() -> None:
    found = judged(parameters(), [look(), look(broker=[]), look()])
    assert wrong(found) == {"broker scheduling policy"}
    assert "not running" in found["broker scheduling policy"].found


def test_thesis_permits_priority_and_applies_none() -> None:
    p = parameters(FIDELITY="thesis", PRIORITY_BROKER="90", PRIORITY_CONTROLLER="99")
    permitted = {"nodelay": False, "sys_nice_bounding": True}
    good = look(broker=[process(rtprio_limit="90", **permitted)], controller=[process(rtprio_limit="99", **permitted)])
    bridge = {"tcp_nodelay": False, "framing": "burst"}
    assert wrong(judged(p, [good], bridge)) == set()
    raised = copy.deepcopy(good)
    raised["roles"]["broker"]["processes"][0]["threads"][0]["scheduling"] = "SCHED_FIFO 90"
    assert wrong(judged(p, [raised], bridge)) == {"broker scheduling policy"}


def test_rtprio_refused_but_sys_nice_given_is_permitted_and_said() -> None:
    fifo = process("SCHED_FIFO 90", rtprio_limit="0", sys_nice_bounding=True)
    found = judged(parameters(PRIORITY_BROKER="90"), [look(broker=[fifo])])
    assert wrong(found) == set()
    limit = found["broker rtprio limit"]
    assert (limit.verified, limit.required, limit.wanted, limit.found) == (False, False, "90", "0")
    assert "LAB_RTPRIO_BROKER" in limit.note


def test_neither_limit_nor_capability_is_invalid() -> None:
    found = judged(parameters(PRIORITY_CONTROLLER="99", APPLY_PRIORITY="off"), [look()])
    assert wrong(found) == {"controller may use real-time priority"}


@pytest.mark.parametrize(("limit", "met"), [("unlimited", True), ("99", True), ("90", True), ("89", False)])
def test_a_limit_is_met_from_the_published_value_on(limit: str, met: bool) -> None:
    fifo = process("SCHED_FIFO 90", rtprio_limit=limit, sys_nice_bounding=True)
    assert judged(parameters(PRIORITY_BROKER="90"), [look(broker=[fifo])])["broker rtprio limit"].verified is met


def test_nodelay_is_judged_on_mqtt_connections_alone() -> None:
    assert wrong(judged(parameters(), [look(broker=[process(nodelay=False)])])) == {"broker TCP_NODELAY"}
    only_other = process(sockets=[{"local_port": 9100, "peer": "x", "peer_port": 1, "tcp_nodelay": True}])
    found = judged(parameters(), [look(broker=[only_other])])
    assert wrong(found) == {"broker TCP_NODELAY"}
    assert found["broker TCP_NODELAY"].found == "no MQTT connection seen"


def test_one_connection_of_another_kind_is_seen() -> None:
    mixed = process()
    mixed["sockets"].append({"local_port": 1883, "peer": "x", "peer_port": 5, "tcp_nodelay": False})
    found = judged(parameters(), [look(broker=[mixed])])
    assert (wrong(found), found["broker TCP_NODELAY"].found) == ({"broker TCP_NODELAY"}, "off, on")


def test_sockets_that_cannot_be_read_are_not_taken_for_good() -> None:
    found = judged(parameters(), [look(controller=[process(sockets="not readable: Operation not permitted")])])
    assert wrong(found) == {"controller TCP_NODELAY"}
    assert "not readable" in found["controller TCP_NODELAY"].found


def test_a_bridge_of_another_fidelity_is_invalid() -> None:
    found = judged(parameters(), [look()], {"tcp_nodelay": False, "framing": "burst"})
    assert wrong(found) == {"bridge TCP_NODELAY", "robot framing"}
    assert "FIDELITY" in found["robot framing"].note


def test_a_bridge_that_does_not_say_is_invalid() -> None:
    assert wrong(judged(parameters(), [look()], {})) == {"bridge settings"}


def test_a_bridge_elsewhere_is_no_fault() -> None:
    found = judged(parameters(), [look(bridge=[], robot=[])])
    assert wrong(found) == set()
    assert found["bridge apart from the load"].found == "not here (SCHED_FIFO 95)"


def test_isolation_refused_is_said_but_not_invalid() -> None:
    found = judged(parameters(), [look(robot=[process()])])
    assert wrong(found) == set()
    assert not found["robot apart from the load"].verified


STRESS = process(sockets=[])


def test_stress_throughout() -> None:
    found = judged(parameters(LOAD="stress"), [look(stress=[STRESS])] * 3)
    assert wrong(found) == set()
    assert found["stress load"].found == "running"


def test_stress_that_died_in_the_middle() -> None:
    looks: list[Look | None] = [look(stress=[STRESS]), look(stress=[STRESS]), look()]
    found = judged(parameters(LOAD="stress"), looks)
    assert wrong(found) == {"stress load"}
    assert found["stress load"].found == "seen in 2 of 3 looks"


def test_stress_that_was_started_again() -> None:
    later = {**STRESS, "started_ticks": 2000}
    found = judged(parameters(LOAD="stress"), [look(stress=[STRESS]), look(stress=[later])])
    assert wrong(found) == {"stress load"}
    assert found["stress load"].found == "restarted during the run"
    assert "STRESS_TIMEOUT" in found["stress load"].note


def test_workers_that_come_and_go_under_one_stress_are_no_restart() -> None:
    worker = {**STRESS, "pid": 9, "started_ticks": 3000}
    found = judged(parameters(LOAD="stress"), [look(stress=[STRESS]), look(stress=[worker, STRESS])])
    assert wrong(found) == set()


def test_stress_that_never_was() -> None:
    found = judged(parameters(LOAD="stress"), [look(), look()])
    assert wrong(found) == {"stress load"}
    assert found["stress load"].found == "not running"


def test_a_load_nobody_asked_for() -> None:
    found = judged(parameters(), [look(), look(stress=[STRESS])])
    assert wrong(found) == {"stress load"}
    assert found["stress load"].wanted == "not running"
    assert wrong(judged(parameters(LOAD="stress"), [look(stress=[STRESS], flood=[STRESS])])) == {"flood load"}


def test_the_flood_may_pause_between_rounds_but_not_be_gone() -> None:
    paused: list[Look | None] = [look(flood=[process()]), look(), look(flood=[process()])]
    assert wrong(judged(parameters(LOAD="flood"), paused)) == set()
    gone = judged(parameters(LOAD="flood"), [look(), look(), look()])
    assert wrong(gone) == {"flood load"}
    assert gone["flood load"].found == "not running"


@pytest.mark.parametrize("looks", [[], [None], [look(), None, look()]])
def test_without_an_answer_nothing_is_verified(looks: list[Look | None]) -> None:
    found = judged(parameters(), looks)
    assert wrong(found) == {"treatments service"}
    assert found["treatments service"].found == "no answer"


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
def service() -> Iterator[Callable[[bytes, int], tuple[str, list[dict[str, Any]]]]]:
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
    service: Callable[[bytes, int], tuple[str, list[dict[str, Any]]]], monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.parametrize("body", [b"no json", b"", b'{"roles": '])
def test_an_answer_that_is_none_counts_as_no_answer(
    body: bytes, service: Callable[[bytes, int], tuple[str, list[dict[str, Any]]]]
) -> None:
    url, _ = service(body, len(body))
    assert TreatmentsClient([], url).look({}) is None


def test_an_answer_cut_short_counts_as_no_answer(
    service: Callable[[bytes, int], tuple[str, list[dict[str, Any]]]],
) -> None:
    url, _ = service(b'{"roles": {}', 4000)
    assert TreatmentsClient([], url).look({}) is None


def test_nobody_there_counts_as_no_answer() -> None:
    assert TreatmentsClient([], "http://127.0.0.1:1/facts").look({}) is None
