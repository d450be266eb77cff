"""The whole experiment on loopback, and what its parts do when others fail; every part is the real one."""

import contextlib
import os
import random
import socket
import time
import tty
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.asip_parts import AsipParts, asip_files  # noqa: F401
from support.parts import HOST, Broker, Child
from support.ports import free_port
from support.run_checks import NO_TREATMENTS, reasons
from support.tables import rows
from support.waiting import LIMIT_S, until

from looplab.errors import LabError
from looplab.experiments.asip.client import AsipClient
from looplab.experiments.asip.transports import connect
from looplab.experiments.asip.treatments import MOST_LAG_US
from looplab.experiments.asip.workers import WorkerClient

pytestmark = pytest.mark.engine

Start = Callable[..., AsipParts]
# Without a board's wire the bridge passes a million bytes in half a second.
BRIDGE_FUZZ_BYTES = 1_000_000
TRANSPORTS = ("serial", "tcp", "mqtt")
WORDS = {"nodelay": "on", "qos": 0, "reports": "off", "out": 13, "aside": 9, "in": 4, "in_port": 7, "in_bit": 5}


@pytest.fixture
def parts(asip_files: Path, tmp_path: Path, at_end: contextlib.ExitStack) -> Start:  # noqa: F811
    """Start all parts; they end with the test."""
    return lambda *board, **variables: at_end.enter_context(
        contextlib.closing(AsipParts(asip_files, tmp_path, *board, **variables))
    )


@pytest.fixture(scope="module")
def kept(asip_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsipParts]:  # noqa: F811
    """The parts around a Mega, for the tests of a module that leave them as they are."""
    with contextlib.closing(AsipParts(asip_files, tmp_path_factory.mktemp("parts"))) as found:
        yield found


def open_client(parts: AsipParts, transport: str) -> AsipClient:
    """A client of the board that is ready."""
    name = f"test-{transport}-{time.perf_counter_ns()}"
    client = AsipClient(connect(transport, parts.addresses[transport], name))
    client.wait_ready()
    return client


def serves(parts: AsipParts, transport: str) -> bool:
    """Whether a new client gets the board's answer."""
    try:
        client = open_client(parts, transport)
    except LabError:
        return False
    client.close()
    return True


def check_accounts(cell: dict[str, Any], tests: int) -> None:
    """No test is lost; on a busy machine an answer may be late, and a copy come after the next edge."""
    assert cell["tests"] == cell["answered"] + cell["late"] == tests
    assert cell["edge_latency_us"]["n"] + cell["edge_lost"] == tests
    assert cell["edge_latency_us"]["n"] > 0


def test_every_transport_accounts_for_every_test_and_edge(kept: AsipParts) -> None:
    code, run = kept.run(MESSAGES="12", WARMUP_MESSAGES="10", INTERVAL_MS="20", EDGE_HZ="50")
    # No treatments service here: that alone makes the run INVALID.
    assert code == 1
    assert reasons(run) == [NO_TREATMENTS]
    assert [cell["transport"] for cell in run["cells"]] == list(TRANSPORTS)
    for cell in run["cells"]:
        check_accounts(cell, 12)
        # 9 bytes out and 10 back; nothing is faster than its wire.
        assert cell["latency_us"]["min"] > cell["wire_us"] == pytest.approx(3262.5)
        assert cell["edge_latency_us"]["min"] > 3262.5


def test_an_uno_as_published_accounts_for_every_byte(parts: Start) -> None:
    """Its chip holds bytes, and reports come unasked between the tests: every byte is still one that was counted."""
    here = parts("uno", FIDELITY="thesis", ADAPTER="atmega16u2")
    _, run = here.run(MESSAGES="12", WARMUP_MESSAGES="10", INTERVAL_MS="40")
    assert reasons(run) == [NO_TREATMENTS]
    found = {one["what"]: one for one in run["treatments"]}
    assert all(found[what]["verified"] for what in ("board", "USB adapter", "unasked reports"))
    for cell in run["cells"]:
        check_accounts(cell, 12)
        assert cell["reports_per_s"] > 5

    # A wave on pin 2, which an Uno has on the port of pin 4: its notices are no test's.
    scope = here.board.scope
    before = scope.state().count

    def disturb() -> None:
        until(lambda: scope.state().count > before + 10, "tests have begun")
        scope.wave(100, 6)

    # Seconds, because run folders are named by them.
    time.sleep(1)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(disturb)
        _, run = here.run(TRANSPORTS="serial", MESSAGES="50", WARMUP_MESSAGES="20")
    (cell,) = run["cells"]
    assert "bytes of tests were sent and received, expected (1260, 1330)" in cell["invalid_because"][0]


def test_the_bisection_ends_beside_the_wires_limit(kept: AsipParts) -> None:
    _, run = kept.run(
        SCENARIO="asip-throughput", TRANSPORTS="serial", STEP_S="1", LOW_HZ="80", HIGH_HZ="640", RESOLUTION="0.2"
    )
    (cell,) = run["cells"]
    assert cell["wire_hz"] == pytest.approx(309.6, abs=0.1)
    assert cell["tracked_hz"] <= 1.03 * cell["wire_hz"]
    # A machine that is late itself ends the search sooner, and the simulated board counts that.
    assert 1.03 * cell["wire_hz"] < cell["untracked_hz"] or cell["board_lag_us"] > MOST_LAG_US
    steps = rows(kept.folder / "results" / run["run_id"] / "samples.csv")
    for step in steps:
        assert int(step["edges_in"]) == 2 * round(float(step["frequency_hz"]))
        assert step["outcome"] == ("answered" if step["edges_out"] == step["edges_in"] else "lost")
    # Far beyond the limit most edges are missing.
    fastest = max(steps, key=lambda step: float(step["frequency_hz"]))
    assert 0 < int(fastest["edges_out"]) < 0.9 * int(fastest["edges_in"])


@pytest.mark.parametrize("qos", ["1", "2"])
def test_more_than_qos_0_carries_every_test(parts: Start, qos: str) -> None:
    _, run = parts(QOS=qos).run(MESSAGES="10", WARMUP_MESSAGES="10", INTERVAL_MS="40", EDGE_HZ="25", TRANSPORTS="mqtt")
    assert reasons(run) == [NO_TREATMENTS]
    (cell,) = run["cells"]
    assert run["parameters"]["qos"] == int(qos)
    check_accounts(cell, 10)


@pytest.mark.parametrize("first", TRANSPORTS)
def test_a_second_client_is_refused_and_the_first_one_goes_on(kept: AsipParts, first: str) -> None:
    client = open_client(kept, first)
    for other in TRANSPORTS:
        assert not serves(kept, other), f"{other} beside {first}"
    client.synchronise()
    client.close()
    assert serves(kept, "tcp")


def test_a_part_that_is_gone_ends_the_session_and_may_return(parts: Start) -> None:
    """Board, broker and bridge go one after the other."""
    here = parts()

    def check_gone(client: AsipClient, said: str = "") -> None:
        with pytest.raises(LabError, match="gone"):
            client.serve(time.perf_counter_ns() + 5 * 10**9)
        client.close()
        until(lambda: said in here.bridge.said(), f"the bridge says {said!r}: {here.bridge.said()}")

    client = open_client(here, "tcp")
    here.board.reset()
    client.wait_ready()
    here.board.kill()
    check_gone(client, "the board's port is gone")
    assert not serves(here, "tcp")
    here.plug_in()
    assert serves(here, "tcp")
    client = open_client(here, "mqtt")
    here.broker.kill()
    check_gone(client, "the broker is gone")
    here.broker.start()
    assert until(lambda: serves(here, "mqtt"), "a session over the broker that is back")
    client = open_client(here, "tcp")
    here.bridge.kill()
    check_gone(client)
    here.bridge = here.start_bridge()
    assert serves(here, "tcp")


def test_a_client_that_dies_leaves_the_board_to_the_next_one(kept: AsipParts) -> None:
    client = open_client(kept, "mqtt")
    # No goodbye: the broker publishes the last will.
    sock = client.transport._client.sock
    sock.shutdown(socket.SHUT_RDWR)
    assert until(lambda: serves(kept, "tcp"), "the board is free again")


def test_a_client_that_never_reads_is_disconnected(kept: AsipParts) -> None:
    before = kept.bridge.said().count("session ended")
    with socket.create_connection((HOST, kept.bridge_port)) as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.settimeout(LIMIT_S)
        # Far more requests than the wire takes: they wait at the bridge, at most 64 KiB of them.
        with pytest.raises(OSError, match=r"reset|pipe"):
            greedy.sendall(b"I,M\n" * 10_000_000)
    assert until(lambda: kept.bridge.said().count("session ended") > before, "the bridge ends the session")
    assert until(lambda: serves(kept, "serial"), "the board is free")


def _noise_in_lines(chance: random.Random, size: int) -> bytes:
    """Bytes at random, among them line feeds, and none in a row longer than a line may be."""
    return bytes(10 if chance.random() < 0.01 else byte for byte in chance.randbytes(size)) + b"\n"


@pytest.mark.timeout(120)
def test_random_bytes_pass_the_bridge_unchanged_both_ways(broker: Broker, start_child: Callable[..., Child]) -> None:
    """A port that sends noise as fast as the bridge takes it; what comes out is what went in."""
    chance, sent = random.Random(16), 0
    board, port = os.openpty()
    tty.setraw(port)
    number = free_port()
    variables = {
        "ASIP_DEVICE": os.ttyname(port), "BROKER_HOST": HOST, "BROKER_PORT": str(broker.port),
        "BRIDGE_PORT": str(number), "FIDELITY": "corrected",
    }  # fmt: skip
    bridge = start_child("looplab.experiments.asip.bridge", **variables)
    until(lambda: "waits" in bridge.said(), "the bridge waits")
    client = socket.create_connection((HOST, number), LIMIT_S)
    with client, open(board, "rb") as below, client.makefile("rb") as above, ThreadPoolExecutor(2) as pool:
        # The port is open once the bridge passes a byte.
        client.sendall(b"\n")
        assert below.read(1) == b"\n"
        while sent < BRIDGE_FUZZ_BYTES:
            down, up = (_noise_in_lines(chance, chance.randrange(1, 3000)) for _ in range(2))
            pool.submit(client.sendall, down)
            pool.submit(os.write, board, up)
            assert (below.read(len(down)), above.read(len(up))) == (down, up)
            sent += len(down)
    assert "Traceback" not in bridge.said()
    os.close(port)


def test_the_worker_answers_nonsense_with_errors_and_goes_on(kept: AsipParts) -> None:
    chance = random.Random(16)
    address = f"{HOST}:{kept.worker_port}"
    for _ in range(20):
        with socket.create_connection((HOST, kept.worker_port)) as sock:
            sock.settimeout(LIMIT_S)
            sock.sendall(chance.randbytes(200).replace(b"\n", b" ") + b"\n")
            assert sock.recv(1000).startswith(b"error ")
    with contextlib.closing(WorkerClient("python", address, LIMIT_S)) as worker:
        for words in ({}, {"transport": "serial"}, {**WORDS, "transport": "serial", "address": "/nowhere"}):
            with pytest.raises(LabError, match="client"):
                worker.ask("latency", **words)
        assert worker.runtime().startswith("CPython")
    assert "Traceback" not in kept.worker.said()


def test_a_real_board_is_measured_by_the_clients_clock_alone(kept: AsipParts) -> None:
    """Its port here is the simulated board's, but nobody asks for an oscilloscope."""
    _, run = kept.run(ROBOT="usb", ASIP_BOARD=f"{HOST}:9", MESSAGES="5", WARMUP_MESSAGES="10", INTERVAL_MS="20")
    assert reasons(run) == [NO_TREATMENTS]
    for cell in run["cells"]:
        assert cell["answered"] + cell["late"] + cell["lost"] == cell["tests"] == 5
        assert cell["answered"] > 0
        assert cell["edge_latency_us"]["n"] == 0
        assert cell["board_lag_us"] is None
    code, _ = kept.run(ROBOT="usb", SCENARIO="asip-throughput")
    assert code == 2, "there is no generator"
