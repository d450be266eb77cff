"""Facts of the boards that the firmware runs on, and of ASIP's lines."""

from dataclasses import dataclass
from typing import NamedTuple

# Modes of a pin (firmware/asip/request.h).
INPUT, OUTPUT = 1, 3
OUTPUT_PIN, WIRED_PIN, WAVE_PIN = 13, 4, 2
CLOCK_HZ = 16_000_000
# The adapter sends at the rate that was asked for; the board's nearest divisor gives another.
BYTE_TO_BOARD_US = 10e6 / 57600
BYTE_TO_CLIENT_US = 170.0


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


BOARDS = {
    "mega": Board("atmega2560", {2: Pin("E4", 5, 4), 4: Pin("G5", 7, 5), 13: Pin("B7", 2, 7)}),
    "uno": Board("atmega328p", {2: Pin("D2", 4, 2), 4: Pin("D4", 4, 4), 13: Pin("B5", 2, 5)}),
}
