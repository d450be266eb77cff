"""The broker's image as configured, and the flood against it: what it says it published is what the broker saw."""

import contextlib
import json
import subprocess
import time
from typing import Any

import pytest
from support.containers import docker, own_image
from support.image_harness import HARDENED, Container, Starter, build, configuration, published_at, starter
from support.places import ROOT
from support.waiting import until

from looplab.system import processes

pytestmark = pytest.mark.engine

BROKER = ("-broker", "tcp://127.0.0.1:1883")


@pytest.fixture(scope="session")
def mosquitto_image() -> str:
    return build("looplab-test/mosquitto", "images/mosquitto")


@pytest.fixture
def start(at_end: contextlib.ExitStack) -> Starter:
    return starter(at_end)


@pytest.fixture
def broker(mosquitto_image: str, start: Starter, request: pytest.FixtureRequest) -> Container:
    """A broker, by default as published; join its network to reach it on 127.0.0.1."""
    fidelity = getattr(request, "param", "thesis")
    container = start(mosquitto_image, options=("--user", "1883:1883", *configuration(fidelity)))
    until(lambda: "running" in container.logs(), "the broker")
    return container


@pytest.fixture(scope="module")
def flood_image() -> str:
    """The lab's own program in the image that the set-up made; upstream's may lie beside it."""
    docker(
        "build", "--quiet", "--tag", "looplab-test/flood", "-", given=f"FROM {own_image('flood')}\nENV FLOOD_PROGRAM=\n"
    )
    return "looplab-test/flood"


def test_counts_are_the_brokers(flood_image: str, broker: Container) -> None:
    """300 messages at QoS 2 also show that the flood stays within what the broker holds for a client."""
    options = (*HARDENED, "--network", f"container:{broker.id}")
    for number, qos in enumerate("012", 1):
        arguments = f"-num-clients 10 -num-messages 300 -publisher-qos {qos} -subscriber-qos {qos}"
        output = docker("run", "--rm", *options, flood_image, *BROKER, *arguments.split())
        summary = json.loads(output.splitlines()[-1])
        assert summary["event"] == "summary"
        assert (summary["published"], summary["received"], summary["errors"]) == (3000, 3000, 0), qos
        until(lambda number=number: published_at(broker) == 3000 * number, "the broker's own count of 3000 more")


def test_repeats_until_sigterm_and_then_ends_at_once(flood_image: str, broker: Container, start: Starter) -> None:
    options = ("--network", f"container:{broker.id}", "--env", "FLOOD_REPEAT=true")
    arguments = "-num-clients 5 -num-messages 40 -publisher-qos 1 -status-interval 100ms -repeat-limit 120s"
    running = start(flood_image, *BROKER, *arguments.split(), options=options)
    until(lambda: any(event.get("rounds", 0) >= 3 for event in running.events()), "the third round")
    assert running.stop() < 5
    assert running.state()["ExitCode"] == 0
    events = running.events()
    assert [event["event"] for event in events[:2]] == ["started", "flooding"]
    summary = events[-1]
    assert summary["event"] == "summary"
    assert summary["rounds"] >= 3
    # The broker counts in steps of a second.
    until(lambda: summary["published"] <= published_at(broker), "the broker's count")
    assert published_at(broker) <= summary["attempted"]


def test_repeats_the_program_of_upstream(flood_image: str, broker: Container, start: Starter) -> None:
    """An image with a program of upstream's command line: the lab's own, behind upstream's path."""
    stage = (ROOT / "images/flood/Dockerfile").read_text().partition("FROM flood AS flood-upstream\n")[2]
    lines = f"FROM {flood_image} AS flood\nFROM scratch AS upstream\nCOPY --from=flood /flood /bin/mqtt-stresser\n"
    docker("build", "--quiet", "--tag", "looplab-test/flood-upstream", "-", given=f"{lines}FROM flood\n{stage}")
    options = ("--network", f"container:{broker.id}", "--env", "FLOOD_REPEAT=true")
    arguments = "-num-clients 4 -num-messages 25 -rampup-size 2 -rampup-delay 500ms -timeout 20s"
    running = start("looplab-test/flood-upstream", *BROKER, *arguments.split(), options=options)
    until(lambda: any(event.get("rounds", 0) >= 3 for event in running.events()), "the third round", 30)
    assert {process["name"] for process in running.processes()} <= {"flood", "mqtt-stresser"}
    assert running.stop() < 5
    assert running.state()["ExitCode"] == 0
    until(lambda: published_at(broker) >= 300, "the broker's own count of three rounds")


def test_outlives_a_broker_that_goes_and_comes_back(
    flood_image: str, mosquitto_image: str, start: Starter, at_end: contextlib.ExitStack
) -> None:
    network = docker("network", "create", "--internal", f"looplab-test-{time.time_ns()}")
    at_end.callback(docker, "network", "rm", network)
    broker = start(
        mosquitto_image, options=("--network", network, "--network-alias", "broker", *configuration("thesis"))
    )
    arguments = "-num-clients 3 -num-messages 20 -repeat -repeat-limit 120s -timeout 2s -status-interval 100ms"
    running = start(flood_image, "-broker", "tcp://broker:1883", *arguments.split(), options=("--network", network))
    until(lambda: any(event["event"] == "flooding" for event in running.events()), "the flood")
    broker.stop()
    until(lambda: any(event["event"] == "waiting" for event in running.events()), "waiting for the broker")
    before = running.events()[-1]
    docker("start", broker.id)
    seen = len(running.events())
    until(
        lambda: len({e["published"] for e in running.events()[seen:] if e["event"] == "status"}) > 3,
        f"new messages after {before}",
        30,
    )
    running.stop()
    summary = running.events()[-1]
    assert summary["connect_failures"] > 0
    assert summary["received"] > 0
    assert any("cannot connect" in event.get("error", "") for event in running.events())


def test_no_broker_is_a_clear_error(flood_image: str, start: Starter) -> None:
    lonely = start(flood_image, "-broker", "tcp://127.0.0.1:1883", options=("--network", "none"))
    assert lonely.wait_for_end(20) == 1
    assert "refused" in lonely.logs()
    assert "start the broker" in lonely.logs()


@pytest.mark.engine
@pytest.mark.parametrize(("broker", "wanted"), [("thesis", False), ("corrected", True)], indirect=["broker"])
def test_it_is_silent_and_its_own_sockets_have_nodelay_as_set(broker: Container, wanted: bool) -> None:
    """Read from the live sockets of the broker, as a run's manifest does; other settings: tests/unit/compose."""
    before = broker.logs()
    for word in ("warning", "error", "deprecated", "world", "unable"):
        assert word not in before.lower()
    broker.execute("sh", "-c", "seq 500 | mosquitto_pub -t request/ -q 1 -l")
    assert broker.logs() == before
    listening = ["docker", "exec", broker.id, "mosquitto_sub", "-t", "nothing", "-W", "40"]
    with subprocess.Popen(listening, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        pid = int(broker.state()["Pid"])

        def sockets() -> list[dict[str, Any]] | str:
            found = processes.tcp_sockets(pid)
            # The broker accepts a socket before it sets its options.
            right = isinstance(found, str) or [entry["tcp_nodelay"] for entry in found] == [wanted]
            return found if right else []

        found = until(sockets, f"a client's connection with TCP_NODELAY {wanted}")
        client.kill()
    if isinstance(found, str):
        pytest.skip(f"reading another user's sockets needs root: {found}")
