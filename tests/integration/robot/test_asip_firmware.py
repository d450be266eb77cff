"""The ASIP firmware on simulated boards: each line against an exact model, its times in cycles of the board."""

import contextlib
import itertools
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.asip_parts import AsipBoard
from support.board import TraceEvent

from looplab.experiments.asip.board import CLOCK_HZ

# Bits of each port by Arduino's number of the pin, as the cores' pins_arduino.h have them: port, then bit.
_MEGA = (
    "E0 E1 E4 E5 G5 E3 H3 H4 H5 H6 B4 B5 B6 B7 J1 J0 H1 H0 D3 D2 D1 D0 A0 A1 A2 A3 A4 A5 A6 A7 C7 C6 C5 C4 C3 C2 C1 C0 "
    "D7 G2 G1 G0 L7 L6 L5 L4 L3 L2 L1 L0 B3 B2 B1 B0 F0 F1 F2 F3 F4 F5 F6 F7 K0 K1 K2 K3 K4 K5 K6 K7"
)
_UNO = "D0 D1 D2 D3 D4 D5 D6 D7 B0 B1 B2 B3 B4 B5 C0 C1 C2 C3 C4 C5"
_PORTS = {letter: number for number, letter in enumerate("-ABCDEFGH-JKL")}
_PWM = {"mega": (*range(2, 14), 44, 45, 46), "uno": (3, 5, 6, 9, 10, 11)}
_CHIPS = {"mega": "ATmega2560", "uno": "ATmega328P"}
ERRORS = {1: "INVALID_SERVICE", 2: "UNKNOWN_REQUEST", 3: "INVALID_PIN", 4: "MODE_UNAVAILABLE", 5: "INVALID_MODE",
          6: "WRONG_MODE"}  # fmt: skip
UNALLOCATED, INPUT, PULL_UP, OUTPUT, ANALOG, PWM, RESERVED = range(7)
_LINE_BYTES = 40
_FORMS = {b"P": 2, b"d": 2, b"a": 2, b"A": 1, b"M": 0, b"m": 0, b"p": 0, b"c": 0}


class AsipModel:
    """One board after `start`, its first lines; `answer(bytes)` returns its lines, reports of analog values apart."""

    def __init__(self, board: str) -> None:
        names = (_MEGA if board == "mega" else _UNO).split()
        self._pins = [(_PORTS[name[0]], 1 << int(name[1])) for name in names]
        self._analog = range(54, 70) if board == "mega" else range(14, 20)
        self._pwm = _PWM[board]
        self._chip = _CHIPS[board]
        self._line, self._overlong = b"", False
        # What simavr keeps of a pin that nothing drives.
        self._level = [0] * len(names)
        # As the original firmware: every pin is an input, analog ones report.
        self._modes = [ANALOG if pin in self._analog else INPUT for pin in range(len(names))]
        self._modes[:2] = [RESERVED, RESERVED]
        ready = f"!looplab asip 0.1.0 on {self._chip} ready"
        self.start = [ready, *self._lists(b"p"), *self._lists(b"M"), "!ASIP core IO is service I"]

    def answer(self, data: bytes) -> list[str]:
        """Return the lines that these bytes bring about."""
        return [line for byte in data for line in self._byte(bytes([byte]))]

    def _byte(self, byte: bytes) -> Iterator[str]:
        if byte == b"\n":
            line, overlong, self._line, self._overlong = self._line, self._overlong, b"", False
            yield from self._answer(line, overlong)
        elif byte != b"\r":
            self._overlong = self._overlong or len(self._line) == _LINE_BYTES
            self._line = (self._line + byte)[:_LINE_BYTES]

    def _answer(self, line: bytes, overlong: bool) -> Iterator[str]:
        service = line[:1]
        if len(line) < 3 or service == b"!" or not b" " < service <= b"~":
            return
        if service not in (b"#", b"I"):
            yield f"~{service.decode()},?,1{{INVALID_SERVICE}}"
            return
        tagged = line[1:2] == b"," and b" " < line[2:3] <= b"~"
        tag = line[2:3] if tagged else b"?"
        head = f"{service.decode()},{tag.decode()}"
        arguments = self._arguments(service, line) if line[1:2] == b"," and not overlong else None
        if arguments is None:
            yield f"~{head},2{{UNKNOWN_REQUEST}}"
        elif service == b"#":
            yield from self._system(tag)
        else:
            error, lines = self._io(tag, arguments)
            yield from lines
            if error:
                yield f"~{head},{error}{{{ERRORS[error]}}}"

    @staticmethod
    def _arguments(service: bytes, line: bytes) -> list[int] | None:
        """The numbers of a well-formed request, None for any other."""
        tag = line[2:3]
        wanted = (0 if tag in b"?NSR" else -1) if service == b"#" else _FORMS.get(tag, -1)
        if wanted < 0 or not re.fullmatch(rb"(,[0-9]+){%d}" % wanted, line[3:]):
            return None
        found = [int(number) for number in line[3:].split(b",")[1:]]
        return found if all(number <= 65535 for number in found) else None

    def _system(self, tag: bytes) -> list[str]:
        count = len(self._pins)
        if tag == b"R":
            for pin in range(2, count):
                self._apply(pin, UNALLOCATED)
            return []
        services = ",".join("@" if mode == RESERVED else "I" for mode in self._modes)
        return [{
            b"?": f"@#,?,1,0,{self._chip},{count},AsipIO",
            b"N": "@#,N,1,{I:ASIP core IO}",
            b"S": f"@#,S,{count},{{{services}}}",
        }[tag]]  # fmt: skip

    def _io(self, tag: bytes, arguments: list[int]) -> tuple[int, list[str]]:
        known = {b"P": self._mode, b"d": self._write, b"a": self._write_analog}
        if tag in known:
            pin, value = arguments
            return known[tag](pin, value)
        return 0, self._lists(tag)

    def _lists(self, tag: bytes) -> list[str]:
        pins = range(len(self._pins))
        entries = {
            b"A": [],
            b"M": [f"{port}:{mask:X}" for port, mask in self._pins],
            b"m": [f"{pin}:{channel}" for channel, pin in enumerate(self._analog)],
            b"p": [str(mode) for mode in self._modes],
            b"c": [chr(ord("1") + 2 * (pin in self._analog) + 4 * (pin in self._pwm)) for pin in pins],
        }[tag]
        return [f"@I,{tag.decode()},{len(entries)},{{{','.join(entries)}}}"] if entries else []

    def _mode(self, pin: int, mode: int) -> tuple[int, list[str]]:
        if pin >= len(self._pins):
            return 3, []
        if mode > PWM or (mode == ANALOG and pin not in self._analog) or (mode == PWM and pin not in self._pwm):
            return 5, []
        if self._modes[pin] == RESERVED:
            return 4, []
        self._apply(pin, mode)
        return 0, [self._report(pin)] if mode in (INPUT, PULL_UP) else []

    def _apply(self, pin: int, mode: int) -> None:
        if self._modes[pin] in (OUTPUT, PWM) or mode in (OUTPUT, PWM):
            self._level[pin] = 0
        if mode == PULL_UP:
            self._level[pin] = 1
        self._modes[pin] = mode

    def _write(self, pin: int, value: int) -> tuple[int, list[str]]:
        if pin >= len(self._pins):
            return 3, []
        if self._modes[pin] not in (INPUT, PULL_UP, OUTPUT):
            return 6, []
        before = self._level[pin]
        if self._modes[pin] == OUTPUT or value:
            self._level[pin] = 1 if value else 0
        changed = self._modes[pin] != OUTPUT and self._level[pin] != before
        return 0, [self._report(pin)] if changed else []

    def _write_analog(self, pin: int, value: int) -> tuple[int, list[str]]:
        if pin not in self._pwm:
            return 3, []
        if self._modes[pin] != PWM:
            return 6, []
        return (2 if value > 255 else 0), []

    def _report(self, pin: int) -> str:
        """The watched inputs of the pin's port."""
        port = self._pins[pin][0]
        bits = sum(
            mask * self._level[other]
            for other, (where, mask) in enumerate(self._pins)
            if where == port and self._modes[other] in (INPUT, PULL_UP)
        )
        return f"@I,d,{port},{bits:X}"


pytestmark = pytest.mark.engine

# The receive buffer holds 63 bytes; nothing more is sent before everything is answered.
PIECE_BYTES = 55
# On so many boards, which pytest's workers (-n) run beside each other.
FUZZ_BYTES = int(os.environ.get("LOOPLAB_FUZZ_BYTES") or 6_000)
SEEDS = range(4)
CYCLES_PER_US = CLOCK_HZ // 1_000_000
# Ten bits at the board's divisor of 57600 baud.
BYTE_CYCLES = 2720
REQUESTS = (
    "#,?", "#,N", "#,S", "#,R", "I,P,{pin},{mode}", "I,d,{pin},{bit}", "I,a,{pin},{level}", "I,A,{level}", "I,M",
    "I,m", "I,p", "I,c", "Q,{pin}", "I,{pin}", "!{pin}", "I,P,{pin}", "I,d,{pin},{bit},1", "",
)  # fmt: skip
FILL = {"pin": [0, 1, 2, 4, 5, 7, 13, 14, 19, 20, 41, 54, 69, 70, 65536], "mode": range(9), "bit": [0, 1, 7],
        "level": [0, 255, 256, 65535]}  # fmt: skip
ClientOf = Callable[..., "Serial"]


class Serial:
    """A board's port as a client has it, and the model of the board."""

    def __init__(self, board: AsipBoard, kind: str) -> None:
        self.board, self.client, self.model = board, board.connect(), AsipModel(kind)
        for wanted in self.model.start:
            assert self.line() == wanted
        # From here on no pin is watched, and none reports unasked.
        self.agrees(b"#,R\n#,?\n")

    def line(self) -> str:
        """The next line that is no report of analog values."""
        while (line := self.client.line()).startswith("@I,a,"):
            pass
        return line

    def agrees(self, data: bytes) -> None:
        """Send, and have every answer be the model's."""
        self.client.send(data)
        for wanted in self.model.answer(data):
            assert self.line() == wanted, f"after {data!r}"


@pytest.fixture
def client(asip_files: Path, tmp_path: Path, at_end: contextlib.ExitStack) -> ClientOf:
    """Start a board of a kind and open its port; the board ends with the test."""

    def start(kind: str, *options: str) -> Serial:
        board = AsipBoard(asip_files, tmp_path, kind, "--tcp", "127.0.0.1:0", *options, wired=False)
        return Serial(at_end.enter_context(contextlib.closing(board)), kind)

    return start


def _noise(chance: random.Random) -> bytes:
    """Requests, requests with a byte changed, and bytes at random; no report is asked for while it comes."""
    pieces = []
    while sum(map(len, pieces)) < PIECE_BYTES - 25:
        numbers = {name: chance.choice(values) for name, values in FILL.items()}
        line = bytearray(chance.choice(REQUESTS).format(**numbers).encode() + b"\n")
        if chance.random() < 0.3:
            line[chance.randrange(len(line))] = chance.randrange(256)
        if chance.random() < 0.1:
            line = bytearray(chance.randbytes(chance.randrange(25)))
        pieces.append(bytes(line))
    return b"".join(pieces)


@pytest.mark.timeout(300 + FUZZ_BYTES // 500)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["mega", "uno"])
def test_requests_and_random_bytes_get_what_the_model_says(client: ClientOf, kind: str, seed: int) -> None:
    """LOOPLAB_FUZZ_BYTES=1000000 takes 40 minutes; one process a seed, four beside each other, 14."""
    board, chance, sent = client(kind), random.Random(16 + seed), 0
    while sent < FUZZ_BYTES // len(SEEDS):
        # The last answer shows that the board has handled all of it.
        piece = _noise(chance) + b"\n#,?\n"
        board.agrees(piece)
        sent += len(piece)
    board.agrees(b"#,?\n")
    # Nothing but what the model said.
    assert not board.client.more_within(0.1)


@pytest.mark.parametrize(("kind", "port"), [("mega", 5), ("uno", 4)])
def test_a_wave_is_reported_and_copied_at_once(client: ClientOf, kind: str, port: int) -> None:
    """All times are cycles of the board: how long this machine takes between report and order does not count."""
    board = client(kind)
    board.client.send(b"I,P,13,3\nI,P,2,1\n")
    assert board.line() == f"@I,d,{port},0"
    first = board.board.scope.state().count
    assert board.board.scope.wave(25, 20) == 25
    for number in range(20):
        high = board.line() != f"@I,d,{port},0"
        assert high == (number % 2 == 0)
        board.client.send(b"I,d,13,%d\n" % high)
    board.client.send(b"#,?\n")
    assert board.line().startswith("@#,?")
    edges = board.board.scope.edges(first)
    board.board.close()
    rows = [(board.board.board.number(pin), level, cycle) for pin, level, cycle in edges]
    wave = [cycle for pin, _, cycle in rows if pin == 2]
    copies = [cycle for pin, _, cycle in rows if pin == 13]
    assert len(wave) == len(copies) == 20
    # The generator's clock is the board's own; an edge waits for the end of an instruction.
    halves = [late - early for early, late in itertools.pairwise(wave)]
    assert all(abs(half - CLOCK_HZ // 50) <= 4 for half in halves)
    # The first byte of a line that ends after this edge, and the last one of the order before this copy.
    starts = [byte.cycle("wire_end") - BYTE_CYCLES for byte in board.board.events_of("tx")]
    ends = [byte.cycle("wire_end") for byte in board.board.events_of("rx")]
    for edge, copy in zip(wave, copies, strict=True):
        firmware = min(at for at in starts if at > edge) - edge + copy - max(at for at in ends if at < copy)
        assert 0 < firmware < 200 * CYCLES_PER_US


def test_the_latency_timer_of_an_adapter_holds_bytes_back(client: ClientOf) -> None:
    # A list fills packets: they wait for no timer.
    sent, _ = _traced(client("mega", "--adapter", "ftdi-16"), [*[b"#,?\n"] * 5, b"I,M\n"])
    waits_ms = [(byte.cycle("due") - byte.cycle("wire_end")) / 16000 for byte in sent]
    assert 10 < max(waits_ms[:200]) <= 18.1
    assert min(waits_ms) >= 1
    # 62 bytes of 170 us: the first of a full packet waits no longer than it takes to fill, and two frames.
    assert max(waits_ms[-300:-70]) < 62 * 0.17 + 2.1


def test_an_unos_usb_chip_hands_over_when_its_timer_overflows(client: ClientOf) -> None:
    """A timer of 8 bits on 16 MHz / 256: 65536 cycles. Nothing else holds a byte, and each waits for the next one."""
    sent, received = _traced(client("uno", "--adapter", "atmega16u2"), [b"I,P,13,3\nI,d,13,1\n#,?\n"] * 40)
    assert {byte.cycle("due") % 65536 for byte in sent} == {sent[0].cycle("due") % 65536}
    waits = [byte.cycle("due") - byte.cycle("wire_end") for byte in sent]
    assert min(waits) >= 0
    assert 60_000 < max(waits) <= 65536
    # Its divisor of 57600 baud is the board's: bytes that follow each other begin 170 us apart.
    starts = [byte.cycle("wire_start") for byte in received]
    assert min(late - early for early, late in itertools.pairwise(starts)) == BYTE_CYCLES


def _traced(board: Serial, orders: list[bytes]) -> tuple[list[TraceEvent], list[TraceEvent]]:
    """Return the bytes from and to a board behind an adapter; each answer to `orders` is the model's."""
    for order in orders:
        board.agrees(order)
    board.board.close()
    return board.board.events_of("tx"), board.board.events_of("rx")
