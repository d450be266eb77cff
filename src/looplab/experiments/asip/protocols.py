"""What is on the wire: ASIP's lines, or the part of Firmata that sets and reads digital pins."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from looplab.errors import MachineError
from looplab.experiments.asip.board import OUTPUT, Board

# A line of the board is far shorter, except its lists.
LONGEST_LINE = 2000
READY, IDENTITY, PORT, ERROR, OTHER = range(5)


class Message(NamedTuple):
    """A whole message of the board; `port` and `bits` are those of a PORT."""

    kind: int
    port: int = 0
    bits: int = 0


class Protocol(ABC):
    """Messages to the board, and what its bytes mean; one object a connection."""

    # Asks for an IDENTITY.
    ask = b""

    @abstractmethod
    def mode(self, pin: int, mode: int) -> bytes:
        """Return what sets a pin's mode; an input is reported from then on."""

    @abstractmethod
    def write(self, pin: int, value: int) -> bytes:
        """Return what sets an output."""

    @abstractmethod
    def take(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that these bytes complete. Raises LabError (exit code 3) for what is none."""

    @abstractmethod
    def place(self, board: Board, pin: int) -> tuple[int, int]:
        """Return port and bit under which the board reports a pin."""

    @abstractmethod
    def report(self, board: Board, pin: int, level: int) -> bytes:
        """Return what the board sends when a pin that alone is watched has changed."""


class Asip(Protocol):
    """Lines of text."""

    ask = b"#,?\n"

    def __init__(self) -> None:
        self._rest = b""

    def mode(self, pin: int, mode: int) -> bytes:
        return b"I,P,%d,%d\n" % (pin, mode)

    def write(self, pin: int, value: int) -> bytes:
        return b"I,d,%d,%d\n" % (pin, value)

    def take(self, data: bytes) -> Iterator[Message]:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LONGEST_LINE:
            raise MachineError("The board sends bytes that are no lines.", "Is its firmware `firmware/asip`?")
        return map(_line, lines)

    def place(self, board: Board, pin: int) -> tuple[int, int]:
        return board.pins[pin].port, board.pins[pin].bit

    def report(self, board: Board, pin: int, level: int) -> bytes:
        port, bit = self.place(board, pin)
        return b"@I,d,%d,%X\n" % (port, level << bit)


def _line(line: bytes) -> Message:
    if line.startswith(b"@I,d,"):
        port, _, bits = line[5:].partition(b",")
        try:
            return Message(PORT, int(port), int(bits, 16))
        except ValueError:
            return Message(ERROR)
    if line.startswith(b"@#,?,"):
        return Message(IDENTITY)
    return Message(READY if line.startswith(b"!") else ERROR if line.startswith(b"~") else OTHER)


class Firmata(Protocol):
    """Messages of three bytes, seven bits in each but the first; a port is eight pins."""

    ask = b"\xf9"

    def __init__(self) -> None:
        self._rest = b""

    def mode(self, pin: int, mode: int) -> bytes:
        output = mode == OUTPUT
        return bytes((0xF4, pin, int(output))) + (b"" if output else bytes((0xD0 | pin // 8, 1)))

    def write(self, pin: int, value: int) -> bytes:
        return bytes((0xF5, pin, value))

    def take(self, data: bytes) -> Iterator[Message]:
        data = self._rest + data
        at = 0
        while at + 3 <= len(data):
            command, low, high = data[at : at + 3]
            if command < 0x80 or low > 0x7F or high > 0x7F:
                # What is left of a message that was cut off: the next one begins with a byte above 127.
                at += 1
                continue
            at += 3
            if command == 0xF9:
                # The board sends it when it is ready, too.
                yield from (Message(READY), Message(IDENTITY))
            elif command & 0xF0 == 0x90:
                yield Message(PORT, command & 0x0F, low | high << 7)
            else:
                yield Message(OTHER)
        self._rest = data[at:]

    def place(self, board: Board, pin: int) -> tuple[int, int]:
        return pin // 8, pin % 8

    def report(self, board: Board, pin: int, level: int) -> bytes:
        bits = level << pin % 8
        return bytes((0x90 | pin // 8, bits & 0x7F, bits >> 7))


PROTOCOLS: Mapping[str, Callable[[], Protocol]] = {"asip": Asip, "firmata": Firmata}
