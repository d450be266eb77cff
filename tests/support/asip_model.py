"""Exactly what firmware/asip answers, in Python: for its tests."""

import re
from collections.abc import Iterator

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

    def reset(self) -> None:
        """As `#,R`."""
        self._modes = [RESERVED, RESERVED, *[UNALLOCATED] * (len(self._pins) - 2)]

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
