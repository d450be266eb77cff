"""A run of an application of one's own: what the capture found, and a load that is judged by p99 of T."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.reports import shown
from support.run_files import edited, write_study
from support.spec_runs import make_runs

from looplab.errors import UsageError
from looplab.experiments.own import OwnCell, in_words
from looplab.experiments.own.causes import NAGLE, causes, refusals
from looplab.experiments.own.controller import address, fates, fill, interval_ms, unmatched
from looplab.experiments.own.parameters import PARAMETERS
from looplab.experiments.own.treatments import judge, priorities, roles
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.cell import STATISTICS
from looplab.report.verdicts import NO_PLAN, NOT_REPRODUCED, NOT_RUN, REPRODUCED
from looplab.run.document import cell_document
from looplab.run.samples import ANSWERED, LATE, NOT_SENT, WAITING, SampleStore
from looplab.treatments.service import check, permitted

MS = 1_000_000
ZERO_NS = 1_700_000_000 * 10**9


def parameters(**variables: str) -> PARAMETERS:
    return PARAMETERS.read({"SCENARIO": "own", **variables}, "compose/experiments/own")


def columns(*rows: tuple[int, int, int, int]) -> dict[str, list[int]]:
    """Four times of each request in ms, -1 for one that is unknown."""
    times = [[-1 if ms < 0 else ZERO_NS + ms * MS for ms in one] for one in zip(*rows, strict=True)]
    more = {"requester": [0] * len(rows), "device": [1] * len(rows), "qos": [1] * len(rows)}
    return {**dict(zip(("in_ns", "out_ns", "back_ns", "received_ns"), times, strict=True)), **more}


def test_each_request_has_its_outcome_and_the_lost_their_fate() -> None:
    store = SampleStore(10, more=("out_ns", "back_ns", "requester", "device", "qos"))
    captured = columns((0, 1, 5, 6), (20, 21, 140, 141), (40, -1, -1, -1), (60, 61, -1, -1), (80, 81, 85, -1))
    rows = fill(store, range(10), captured, ZERO_NS, 100)
    assert list(store["state"]) == [ANSWERED, LATE, *[WAITING] * 3, *[NOT_SENT] * 5]
    assert fates(store, rows) == {"undelivered": 1, "unanswered": 1, "answer_lost": 1}
    assert interval_ms(store, rows) == 20.0
    cell = cell_document(OwnCell.keyed("app/request"), store, range(10), {})
    assert [cell[name] for name in ("sent", "answered", "late", "lost")] == [5, 1, 1, 3]
    parts = ("T", "broker_in", "device", "broker_out")
    assert [cell[f"{part}_us"]["min"] for part in parts] == [6000, 1000, 4000, 1000]
    assert cell["missed_share"] == pytest.approx(0.8)


def test_a_key_that_no_answer_shares_is_a_fault_and_losses_are_in_words() -> None:
    store = SampleStore(10, more=("out_ns", "back_ns", "requester", "device", "qos"))
    rows = fill(store, range(10), columns((0, 1, -1, -1), (20, 21, -1, -1)), ZERO_NS, 100)
    assert unmatched(store, rows, {}, "order") == []
    [fault] = unmatched(store, rows, {"without_key": 2}, "correlation")
    assert fault.startswith("KEY=correlation: no answer has the key of a request (2 messages have none, 0")
    cell = cell_document(OwnCell.keyed("app/request"), store, range(10), {})
    lost = OwnCell({**cell, **fates(store, rows), "without_key": 2})
    assert [*lost.losses()] == ["Lost: 2 passed on, without an answer.", "Is KEY right? 2 without a key."]
    rows = fill(store, range(10), columns((0, 1, 4, 5)), ZERO_NS, 100)
    assert unmatched(store, rows, {"unasked": 1}, "order") == []


def found(**changes: Any) -> dict[str, Any]:
    kinds = ("foreign", "held", "held_by", "zero_windows", "sent_again", "counts")
    return {**{kind: {} for kind in kinds}, "dropped": 0, **changes}


def test_causes_name_who_holds_and_what_cures_it() -> None:
    seen = found(
        held={"asks": [90, 90 * 15 * MS]}, held_by={"device": [4, 4 * MS]}, counts={"together": 10},
        sent_again={"broker": 2, "stranger": 50},
    )  # fmt: skip
    made = causes(seen, 100, "broker", {"asks": "a", "device": "b"})
    assert [(one["cause"], one["where"], one["messages"]) for one in made] == [
        (NAGLE, "in broker, to asks", 90),
        ("answers that left together", "broker", 10),
        ("segments sent again", "broker", 2),
    ]
    assert "set_tcp_nodelay true" in in_words(made[0])
    assert "15.0 ms each" in in_words(made[0])
    # Clients that connect for each request are one cause.
    asks = {f"asks-{number}": [1, 40 * MS] for number in range(60)}
    hosts = {**dict.fromkeys(asks, "lab-sample-1"), "device": "lab-device-1"}
    [made] = causes(found(held_by={**asks, "stranger": [4, 4 * MS]}), 100, "broker", hosts)
    assert (made["where"], made["messages"]) == ("in 60 clients of lab-sample-1, to broker, at most", 60)
    assert made["mean_ms"] == 40


def test_what_is_no_mqtt_is_refused_with_its_remedy() -> None:
    tls, socket, other = refusals(
        found(foreign={"TLS": 2, "WebSocket": 1, "no MQTT packet has type 0": 3}), parameters()
    )
    assert "before the TLS end" in tls
    assert "plain listener" in socket
    assert "3 connections to port 1883 of broker cannot be read as MQTT" in other


def test_a_service_gets_its_priority_by_its_address() -> None:
    p = parameters(OWN_PRIORITY="controller:80")
    assert priorities(p) == {"controller (service)": 80}
    own = roles(p, lambda name: {"controller": "10.0.0.7"}[name])
    question = {"roles": {one.name: one.question(priorities(p).get(one.name, 0)) for one in own}}
    assert question["roles"]["controller (service)"]["address"] == "10.0.0.7"
    check(question, permitted(EXPERIMENTS))
    with pytest.raises(UsageError, match="no-such-service has no address"):
        address("no-such-service", "OWN_PRIORITY", timeout_s=0)


def test_dropped_packets_are_a_treatment_that_failed() -> None:
    thread = [{"scheduling": "SCHED_OTHER"}]
    process = {"pid": 1, "started_ticks": 1, "threads": thread, "sockets": []}
    role = {"before": [process], "processes": [process], "refused": []}
    away = {"before": [], "processes": [], "refused": []}
    scan = {"roles": {"controller": role, "broker": role, "link": away, "stress": away, "flood": away}}
    judged = {one.what: one for one in judge(parameters(), [scan, scan, scan], [], found(dropped=3))}
    lost = judged["packets that the capture lost"]
    assert (lost.found, lost.verified, lost.required) == ("3", False, True)
    assert judged["stress load"].verified
    assert judged["link"].verified
    away_from_it = judge(parameters(OWN_LINK="device"), [scan], [{"fault": "no answer"}], {})
    assert [one.found for one in away_from_it if one.what == "link"] == ["not emulated to the end"]


def test_a_link_is_of_one_container_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="OWN_LINK=mqtt is the broker"):
        parameters(OWN_BROKER_SERVICE="mqtt", OWN_LINK="mqtt")
    assert parameters(OWN_LINK="none").link == parameters().link
    monkeypatch.setattr("socket.gethostbyname_ex", lambda name: (name, [], ["10.0.0.7", "10.0.0.8"]))
    with pytest.raises(UsageError, match="OWN_LINK: device has 2 containers"):
        address("device", "OWN_LINK")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("KEY", "no group"), ("KEY", "(a)(b)"), ("KEY", "(open"), ("OWN_PRIORITY", "mqtt"), ("OWN_PRIORITY", "mqtt:100"),
     ("REQUEST_TOPIC", "a b"), ("OWN_LINK", "two words"), ("OWN_LINK", "broker"), ("LINK_DELAY_MS", "501")],
)  # fmt: skip
def test_a_wrong_value_is_refused(variable: str, value: str) -> None:
    with pytest.raises(UsageError, match=variable):
        parameters(**{variable: value})


@pytest.mark.parametrize(("times", "outcome"), [(100, REPRODUCED), (0.01, NOT_REPRODUCED)])
def test_a_load_that_lengthens_t_is_seen(tmp_path: Path, times: float, outcome: str) -> None:
    for _round in range(6):
        stressed = make_runs(tmp_path, "./lab run own-stress own --quick")[0]
        samples = pd.read_csv(stressed / "samples.csv", dtype={"sequence": "Int64"})
        samples["total_us"] = (samples["total_us"] * times).round(3)
        samples.to_csv(stressed / "samples.csv", index=False)
        values = samples["total_us"].dropna().sort_values().to_numpy()
        with edited(stressed) as run:
            run["cells"][0]["T_us"] |= {name: float(one(values)) for name, one in STATISTICS.items()}
    assert shown(tmp_path, "own").verdict("own-stress").because == NO_PLAN
    write_study(tmp_path, twice=True)
    found = shown(tmp_path, "own")
    verdict = found.verdict("own-stress")
    assert verdict.outcome == outcome, verdict.reason
    # The simulated runs themselves differ by some factor.
    assert times / 4 < 1 + verdict.share.estimate < 4 * times
    assert (verdict.lines[0].compared.change.estimate > 0) == (times > 1)
    assert found.verdict("own-flood").because == NOT_RUN
