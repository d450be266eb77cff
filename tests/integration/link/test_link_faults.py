"""Bad input, and emulators that end in every way: what is said, and that the link is as it was."""

import os
import signal

import pytest
from support.containers import docker, logs
from support.image_harness import Container
from support.link_pair import PEER, Pair, pids, request, round_trip_ms
from support.waiting import until

from looplab.treatments.judgement import Treatment
from looplab.treatments.link import judge

DELAY = {"peer": PEER, "direction": "egress", "delay_ms": 40}
# Well above the round trip of this machine, well below the delay.
MIDDLE_MS = 20.0


def test_bad_settings_are_refused_and_those_before_stay(pair: Pair) -> None:
    emulator = pair.emulator()
    assert request(emulator, "PUT", "/links", [DELAY])[0] == 200
    for name, value in (("distribution", "gauss"), ("peer", "nobody-here")):
        status, answer = request(emulator, "PUT", "/links", [{**DELAY, name: value}])
        assert status == 400
        assert f"'{value}'" in answer["message"]
        assert answer["remedy"]
    links = request(emulator, "GET", "/links")[1]["links"]
    assert [link["settings"]["delay_ms"] for link in links] == [40]
    docker("kill", emulator)


@pytest.mark.parametrize("victim", ["lab-link", "lab-link-watch", "container"])
def test_whatever_is_killed_the_link_is_restored(pair: Pair, victim: str) -> None:
    emulator = pair.emulator()
    assert request(emulator, "PUT", "/links", [DELAY])[0] == 200
    assert round_trip_ms(pair.target) > MIDDLE_MS
    processes = pids(emulator)
    # With netem the service is the only process.
    held = victim == "lab-link" and "lab-link-watch" in processes
    if victim == "container":
        docker("kill", emulator)
    else:
        os.kill(processes.get(victim, processes["lab-link"]), signal.SIGKILL)
    assert Container(emulator).wait_for_end(20) == (3 if held else 137)
    if held:
        assert "not emulated any more" in logs(emulator)
    until(lambda: round_trip_ms(pair.target) < MIDDLE_MS, "the link as it was", 20)


def test_a_stopped_container_leaves_no_rule(pair: Pair) -> None:
    emulator = pair.emulator()
    assert request(emulator, "PUT", "/links", [DELAY])[0] == 200
    docker("stop", "--time", "10", emulator)
    assert Container(emulator).wait_for_end(10) == 0
    looker = pair.start(
        *("--network", f"container:{pair.target}", "--cap-add", "NET_ADMIN", "--entrypoint", "iptables-nft"),
        *(pair.image, "-S"),
    )
    Container(looker).wait_for_end(20)
    assert "LAB-LINK" not in logs(looker)
    assert "-P OUTPUT ACCEPT" in logs(looker)


@pytest.mark.parametrize("order", [{"reorder": False}, {}])
def test_a_link_of_40_ms_where_4_were_asked_for_is_found(pair: Pair, order: dict[str, object]) -> None:
    """Somebody else's delay comes on top: only the round trips show it."""
    emulator = pair.emulator()
    asked = {"peer": PEER, "delay_ms": 4.4, "jitter_ms": 0.25, "distribution": "normal", **order}
    links = [{**asked, "direction": direction} for direction in ("egress", "ingress")]
    assert request(emulator, "PUT", "/links", links)[0] == 200

    def found() -> Treatment:
        request(emulator, "GET", "/links?ping=20")
        return judge("wifi", [request(emulator, "GET", "/links?ping=20")[1]], True)

    assert found().verified, found()
    other = pair.emulator(pair.peer)
    assert request(other, "PUT", "/links", [{"peer": "target", "direction": "egress", "delay_ms": 35.6}])[0] == 200
    assert not found().verified
    assert "the round trip's mean delay is" in found().note
    for container in (other, emulator):
        docker("stop", "--time", "10", container)


def test_a_moved_peer_is_followed_and_a_vanished_interface_named(own_pair: Pair) -> None:
    emulator = own_pair.emulator()
    assert request(emulator, "PUT", "/links", [DELAY])[0] == 200
    before = request(emulator, "GET", "/links")[1]["links"][0]["addresses"]
    docker("network", "disconnect", own_pair.network, own_pair.peer)
    own_pair.sleeper("takes-its-address")
    docker("network", "connect", "--alias", PEER, own_pair.network, own_pair.peer)

    def addresses() -> list[str]:
        return request(emulator, "GET", "/links")[1]["links"][0]["addresses"]

    until(lambda: addresses() != before, "the new address", 20)
    assert round_trip_ms(own_pair.target) > MIDDLE_MS
    docker("network", "disconnect", own_pair.network, own_pair.target)
    assert Container(emulator).wait_for_end(20) == 3
    assert "vanished" in logs(emulator)


def test_an_emulator_without_links_ends_quietly_with_its_target(own_pair: Pair) -> None:
    emulator = own_pair.emulator()
    assert request(emulator, "PUT", "/links", [DELAY])[0] == 200
    assert request(emulator, "PUT", "/links", [])[0] == 200
    docker("kill", own_pair.target)
    assert Container(emulator).wait_for_end(20) == 0
    assert "the container whose link this was has ended" in logs(emulator)


def test_a_missing_capability_is_named(pair: Pair) -> None:
    emulator = pair.emulator(capabilities=())
    assert Container(emulator).wait_for_end(20) == 3
    assert "NET_ADMIN" in logs(emulator)


def test_a_kernel_without_netem_says_so_where_netem_is_asked_for(pair: Pair) -> None:
    emulator = pair.emulator(LINK_BACKEND="netem")
    if "netem, 0 links" in logs(emulator):
        docker("stop", emulator)
        pytest.skip("this kernel has sch_netem: nothing to refuse")
    assert Container(emulator).wait_for_end(20) == 3
    assert "netem" in logs(emulator)


def test_the_retransmission_time_out_is_raised(pair: Pair) -> None:
    emulator = pair.emulator(LINK_RTO_MIN_MS="60000")
    routes = docker("exec", emulator, "ip", "-4", "route").splitlines()
    assert len(routes) >= 2
    assert all("rto_min lock 60s" in route for route in routes)
    docker("stop", emulator)
