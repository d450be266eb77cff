"""A message of a device, as the payload carries it: run, device, sequence, time of sending, temperature."""

import math
import re
from typing import NamedTuple

# A payload holds the token of the run, device, sequence, time in ns and °C, padded with spaces.
_FORM = b"%b,%d,%d,%d,%.2f"
_READ = re.compile(rb"([0-9a-f]{8}),([0-9]{1,4}),([0-9]{1,9}),([0-9]{1,19}),(-?[0-9]{1,3}\.[0-9]{2}) *")
# The longest payload of this form before it is padded.
LEAST_BYTES = 8 + 4 + 9 + 19 + 7 + 4
# The instance refuses a longer payload.
MOST_BYTES = 4096


class TwinMessage(NamedTuple):
    """What a payload says of itself."""

    device: int
    sequence: int
    sent_ns: int


def payload(token: bytes, device: int, sequence: int, sent_ns: int, length: int) -> bytes:
    """Return the payload of one message, `length` bytes long; the temperature is emulated, a slow wave about 25 °C."""
    celsius = 25 + 2 * math.sin(sequence / 50 + device)
    return (_FORM % (token, device, sequence, sent_ns, celsius)).ljust(length)


def parse(token: bytes, data: bytes) -> TwinMessage | None:
    """Return what a payload of the run `token` says, None for any other bytes."""
    match = _READ.fullmatch(data)
    if match is None or match[1] != token:
        return None
    return TwinMessage(int(match[2]), int(match[3]), int(match[4]))


def topic(token: str, cell: int, device: str) -> str:
    """Return the topic of a device in a cell; `+` as the device names all of them."""
    return f"twin/{token}/{cell}/{device}"
