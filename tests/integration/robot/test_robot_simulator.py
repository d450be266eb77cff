"""The lab's firmware in the simulated board, through its serial port.

Times are read from the trace's cycle stamps, never from a clock, so a slow machine changes no result.
"""

import csv
import math
import os
import random
import re
import signal
import string
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest
from support.board import IDENTITY, Board, Client, TraceEvent, formula_celsius
from support.places import ROOT

from looplab.experiments.loop.bridge.robot_answers import NUMBERS, parse_numbered

pytestmark = pytest.mark.engine

StartRobot = Callable[..., Board]

CYCLES_PER_US = 16
FRAME_CYCLES = 16008  # 1 ms, 500 ppm slow
MEANINGFUL = b"TLS?" + string.ascii_lowercase.encode()
# After it bytes from 128 on drive the wheels: test_robot_firmware.py.
UPRIGHT = b"U"
# A number changes the answer to an L or S behind it: random bytes have none of them, and no U.
PLAIN = bytes.maketrans(UPRIGHT + bytes(range(1, 27)), b"V" + bytes(26))


def answers(events: list[TraceEvent]) -> list[tuple[TraceEvent, list[TraceEvent]]]:
    """Each request byte with the bytes of its answer."""
    pairs: list[tuple[TraceEvent, list[TraceEvent]]] = []
    for event in events:
        if event.kind == "rx":
            pairs.append((event, []))
        elif event.kind == "tx" and pairs:
            pairs[-1][1].append(event)
    return pairs


def usb_constant(name: str) -> int:
    found = re.search(rf"#define {name} (\d+)", (ROOT / "images/robot/usb_serial.h").read_text())
    assert found, name
    return int(found[1])


# The longest time of each request, from its first bit to the answer's last; ` broken`: its sensor.
with (ROOT / "firmware/worst-cases.tsv").open(encoding="utf-8") as file:
    WORST_US = {
        row["request"][0] + (" broken" if row["sensor"] == "broken" else ""): int(row["at most (us)"])
        for row in csv.DictReader(file, delimiter="\t")
    }


def check_worst_cases(robot: Board, kind: str = "") -> None:
    for request, answer in answers(robot.trace()):
        name = "a" if request.byte in NUMBERS else chr(request.byte)
        took_us = (answer[-1].cycle("wire_end") - request.cycle("wire_start")) / CYCLES_PER_US
        assert took_us <= WORST_US[name + kind] + 5, name


@pytest.mark.parametrize("celsius", [-40.0, -10.25, 25.5, 125.0])
def test_temperature_is_that_of_the_thermistor_by_letter_and_number(start_robot: StartRobot, celsius: float) -> None:
    robot = start_robot("--temperature", str(celsius))
    client = robot.connect_ready()
    answer = client.ask(b"T")
    for letter in NUMBERS:
        numbered = parse_numbered(client.ask(bytes([letter])).encode())
        assert numbered is not None
        assert (numbered.number, numbered.value.decode()) == (letter, answer)
    check_worst_cases(robot)
    # What the converter reads: a divider of 5 V, rounded to mV, 10 bits.
    ohm = 10000 * math.exp(3380 * (1 / (celsius + 273.15) - 1 / 298.15))
    adc = round(5000 * ohm / (ohm + 10000)) * 1023 // 5000
    assert re.fullmatch(r"-?\d+\.\d\d", answer)
    assert float(answer) == pytest.approx(formula_celsius(adc), abs=0.011)
    assert formula_celsius(adc + 1) < celsius < formula_celsius(adc - 1)


def test_a_broken_thermistor_gives_an_error_line(start_robot: StartRobot) -> None:
    robot = start_robot("--temperature", "open")
    client = robot.connect_ready()
    assert client.ask(b"T") == "ERR thermistor"
    client.ask(b"a")
    check_worst_cases(robot, " broken")
    assert client.ask(b"?") == IDENTITY


@pytest.mark.parametrize("level", [0, 1, 511, 1023])
def test_light_and_sound_levels(start_robot: StartRobot, level: int) -> None:
    robot = start_robot("--light", str(level), "--sound", str(1023 - level))
    client = robot.connect_ready()
    assert client.ask(b"L") == str(level)
    assert client.ask(b"S") == str(1023 - level)
    assert client.ask(b"?") == IDENTITY
    check_worst_cases(robot)
    for request, shown in ((b"\x03L", level), (b"\x03S", 1023 - level)):
        assert parse_numbered(client.ask(request).encode()) == (ord("c"), b"%d.00" % shown)


def test_random_bytes_get_exactly_the_answers_they_ask_for(start_robot: StartRobot) -> None:
    """In pieces that the receive buffer holds. LOOPLAB_FUZZ_BYTES=1000000 takes eight minutes."""
    count = int(os.environ.get("LOOPLAB_FUZZ_BYTES") or 5000)
    robot = start_robot()
    client = robot.connect_ready()
    one_of_each = {letter: client.ask(bytes([letter])) for letter in MEANINGFUL}
    random_bytes = random.Random(count)
    left = count
    while left:
        piece = random_bytes.randbytes(min(left, random_bytes.randint(1, 63))).translate(PLAIN)
        client.send(piece)
        left -= len(piece)
        for letter in piece:
            if letter in MEANINGFUL:
                assert client.line() == one_of_each[letter], (
                    f"to {chr(letter)} of {piece!r}, {left} bytes before the end"
                )
    # Nothing is left over, and it is still the same robot.
    assert client.ask(b"?") == IDENTITY
    statistics = robot.statistics()
    assert (statistics["resets"], statistics["watchdog_resets"]) == (1, 0)
    assert statistics["bytes_to_robot"] == count + len(MEANINGFUL) + 1


def answers_within(robot: Board, client: Client, simulated_s: float) -> bool:
    """Whether the robot says anything in so much of its own time, however little of it a busy machine gives."""
    end_s = robot.statistics()["simulated_s"] + simulated_s
    while robot.statistics()["simulated_s"] < end_s:
        if client.more_within(0.02):
            return True
    return client.more_within(0)


def test_a_flood_of_random_bytes_costs_answers_but_makes_none(start_robot: StartRobot) -> None:
    """Faster than it can answer, so that its receive buffer overflows."""
    robot = start_robot()
    client = robot.connect_ready()
    one_of_each = {client.ask(bytes([letter])): letter for letter in MEANINGFUL}
    noise = random.Random(4).randbytes(1500).translate(PLAIN)
    client.send(noise)
    answered = []
    while robot.statistics()["bytes_to_robot"] < len(MEANINGFUL) + len(noise) or answers_within(robot, client, 0.5):
        answered.append(one_of_each[client.line()])
    asked = iter(letter for letter in noise if letter in MEANINGFUL)
    assert all(letter in asked for letter in answered), "an answer that nobody asked for, or out of order"
    assert client.ask(b"?") == IDENTITY


def test_bytes_wait_for_the_usb_frame_both_ways(start_robot: StartRobot) -> None:
    robot = start_robot()
    client = robot.connect_ready()
    for _ in range(20):
        client.ask(b"T")
    pairs = answers(robot.trace())
    starts = {request.cycle("wire_start") % FRAME_CYCLES for request, _ in pairs}
    collections = {event.cycle("due") % FRAME_CYCLES for _, answer in pairs for event in answer}
    assert len(starts) == 1
    assert len(collections) == 1
    phase = (collections.pop() - starts.pop()) % FRAME_CYCLES
    assert phase == usb_constant("USB_IN_PHASE_US") * CYCLES_PER_US
    for request, answer in pairs:
        assert 0 <= request.cycle("wire_start") - request.cycle("arrived") < FRAME_CYCLES
        for event in answer:
            later = usb_constant("USB_IN_FRAMES") * FRAME_CYCLES
            assert later <= event.cycle("due") - event.cycle("wire_end") < later + FRAME_CYCLES


def test_response_time_is_the_published_one_and_never_ahead_of_real_time(start_robot: StartRobot) -> None:
    """Published: 4.28 ms at the bridge, which itself takes 0.1 to 0.3 ms of it."""
    robot = start_robot()
    client = robot.connect_ready()
    phases = random.Random(57600)
    seen_ms = []
    for _ in range(200):
        sent = time.monotonic()
        client.ask(b"T")
        seen_ms.append(1000 * (time.monotonic() - sent))
        time.sleep(phases.uniform(0.001, 0.003))
    response_ms = [
        (answer[-1].cycle("due") - request.cycle("arrived")) / CYCLES_PER_US / 1000
        for request, answer in answers(robot.trace())
    ]
    assert mean(response_ms) == pytest.approx(4.28 - 0.3, abs=0.2)
    assert all(response <= seen for response, seen in zip(response_ms, seen_ms, strict=True))
    for event in robot.events_of("rx"):
        assert event.cycle("wire_start") >= event.cycle("arrived")
    for event in robot.events_of("tx"):
        assert event.cycle("delivered") >= event.cycle("due") >= event.cycle("wire_end")


def test_it_catches_up_after_the_host_stopped_it(start_robot: StartRobot) -> None:
    robot = start_robot()
    client = robot.connect()
    connected = time.monotonic()
    client.line()
    robot.signal(signal.SIGSTOP)
    client.send(b"T")
    time.sleep(1.0)
    robot.signal(signal.SIGCONT)
    assert client.line().startswith("25.")
    simulated_s = robot.statistics()["simulated_s"]
    elapsed_s = time.monotonic() - connected
    # It had a second of arrears when the request was read: it answered only when none was left.
    assert 1.0 <= simulated_s <= elapsed_s + 0.001


def test_its_lag_behind_real_time_is_counted(start_robot: StartRobot) -> None:
    robot = start_robot()
    client = robot.connect_ready()
    client.send(b"T" * 64)  # 64 answers take 0.2 s, so it is surely in the middle of one
    client.line()
    robot.signal(signal.SIGSTOP)
    time.sleep(0.1)
    robot.signal(signal.SIGCONT)
    for _ in range(20):
        client.line()
    statistics = robot.statistics()
    assert statistics["lags_over_1ms"] >= 1
    assert statistics["lag_max_us"] > 80_000


def test_opening_the_port_resets_the_robot(start_robot: StartRobot) -> None:
    robot = start_robot()
    for _ in range(50):
        client = robot.connect_ready()
        client.send(b"TTTT")  # an answer under way must not reach the next client
        client.close()
    client = robot.connect_ready()
    # A second client is refused, and the first goes on.
    assert robot.connect().socket.recv(1) == b""
    assert client.ask(b"?") == IDENTITY
    statistics = robot.statistics()
    assert (statistics["refused"], statistics["resets"]) == (1, 51)


def test_watchdog_brings_a_hanging_firmware_back(start_robot: StartRobot, hanging_firmware: Path) -> None:
    robot = start_robot(firmware=hanging_firmware)
    client = robot.connect_ready()
    client.send(b"HT")
    assert client.line() == f"{IDENTITY} ready"
    assert client.ask(b"L") == "512"
    hang, reset = robot.events_of("rx")[0], robot.events_of("watchdog_reset")
    assert len(reset) == 1
    assert (reset[0].cycle("cycle") - hang.cycle("wire_end")) / 16e6 == pytest.approx(1.05, abs=0.1)
    assert "watchdog reset the robot" in robot.said()


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_at_once_when_told_to(start_robot: StartRobot, number: signal.Signals, connected: bool) -> None:
    robot = start_robot()
    if connected:
        robot.connect_ready().send(b"T" * 200)
    robot.signal(number)
    assert robot.process.wait(2.0) == 0
    assert "robot: statistics " in robot.said()
