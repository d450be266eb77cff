"""Facts of the boards that the firmware runs on, and ASIP: lines of text to a board and back."""

from dataclasses import dataclass
from typing import NamedTuple

from looplab.errors import MachineError

# The modes of a pin are those of firmware/asip/request.h.
UNALLOCATED, INPUT, OUTPUT = 0, 1, 3
OUTPUT_PIN, WIRED_PIN, WAVE_PIN = 13, 4, 2
CLOCK_HZ = 16_000_000
CYCLE_NS = 62.5
# The board's nearest divisor of 57600 baud; an Uno's USB chip has the same, other adapters send at the rate asked for.
BYTE_TO_CLIENT_US = 170.0
USB_CHIP = "atmega16u2"


class Pin(NamedTuple):
    """`name` is the processor's, as the simulator knows it; `port` and `bit` are those of ASIP's reports."""

    name: str
    port: int
    bit: int


@dataclass(frozen=True)
class Board:
    """`pins` are those that the experiment uses, by Arduino's numbers."""

    processor: str
    pins: dict[int, Pin]

    def number(self, name: str) -> int:
        """Return Arduino's number of the pin that the processor calls `name`."""
        return next(number for number, pin in self.pins.items() if pin.name == name)

    def report(self, pin: int, level: int) -> bytes:
        """Return what the board sends when a pin that alone is watched has changed."""
        return b"@I,d,%d,%X\n" % (self.pins[pin].port, level << self.pins[pin].bit)


def byte_to_board_us(adapter: str) -> float:
    """Return how long a byte to the board takes behind that adapter."""
    return BYTE_TO_CLIENT_US if adapter == USB_CHIP else 10e6 / 57600


BOARDS = {
    "mega": Board("atmega2560", {2: Pin("E4", 5, 4), 4: Pin("G5", 7, 5), 13: Pin("B7", 2, 7)}),
    "uno": Board("atmega328p", {2: Pin("D2", 4, 2), 4: Pin("D4", 4, 4), 13: Pin("B5", 2, 5)}),
}


# Only the board's lists have lines of nearly this length.
LONGEST_LINE = 2000
# Lines begin so when the board has started, answers ASK, or reports the values of analog pins.
READY, IDENTITY, ANALOG = b"!", b"@#,?,", b"@I,a,"
ASK = b"#,?\n"
# RESET frees every pin, so that none reports unasked.
RESET = b"#,R\n"
# SILENCE ends the reports of analog pins.
SILENCE = b"I,A,0\n"


def set_mode(pin: int, mode: int) -> bytes:
    """Return the request that sets a pin's mode; an input is reported from then on."""
    return b"I,P,%d,%d\n" % (pin, mode)


def write_pin(pin: int, value: int) -> bytes:
    """Return the request that sets an output."""
    return b"I,d,%d,%d\n" % (pin, value)


class LineBuffer:
    """Keeps the start of a line of the board until its end has come; one object a connection."""

    def __init__(self) -> None:
        self._rest = b""

    def whole(self, data: bytes) -> bytes:
        """Return the lines that these bytes complete. Raises LabError (exit code 3) for bytes that are no lines."""
        lines, end, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise MachineError("The board sends bytes that are no lines.", "Is its firmware `firmware/asip`?")
        return lines + end
