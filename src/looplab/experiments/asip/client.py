"""A client of the board on one thread: set modes, write pins, watch another; count every byte."""

from collections import Counter
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns

from looplab.errors import MachineError
from looplab.experiments.asip.board import (
    ANALOG,
    ASK,
    IDENTITY,
    READY,
    RESET,
    SILENCE,
    LineBuffer,
    set_mode,
    write_pin,
)
from looplab.experiments.asip.transports import Transport

# The boot loader of a board takes up to 2 s.
START_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 5.0
# The bytes sent, the bytes of whole lines received, the lines of analog pins among them, and the bytes of those.
COUNTED = ("sent", "received", "reports", "report_bytes")


class AsipClient:
    """Speaks ASIP over an open transport.

    >>> client = AsipClient(connect("tcp", "asip-bridge:5000", "me"))
    >>> client.wait_ready()
    >>> client.set_mode(13, OUTPUT)
    >>> client.write(13, 1)
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        # The monotonic time in ns when the read returned that completed the last line.
        self.received_ns = 0
        # The level of the watched pin, None before the first report of it.
        self.level: int | None = None
        self._lines = LineBuffer()
        self._watched, self._bit = b"no port", 0
        self._on_change: Callable[[int], None] = lambda _level: None
        self._seen: set[bytes] = set()
        self._counts: Counter[str] = Counter()
        self.begin()

    def watch(self, port: int, bit: int, on_change: Callable[[int], None] = lambda _level: None) -> None:
        """Follow the level of an input from now on; `on_change` is called with each further one."""
        self._watched, self._bit, self._on_change, self.level = b"@I,d,%d," % port, bit, on_change, None

    def set_mode(self, pin: int, mode: int) -> None:
        """Set a pin's mode; an input reports its port at once."""
        self._send(set_mode(pin, mode))

    def write(self, pin: int, value: int) -> None:
        self._send(write_pin(pin, value))

    def serve(self, until_ns: int) -> bool:
        """Handle what arrives first; False if nothing did until then. Raises LabError if the way is gone."""
        data = self.transport.read(until_ns)
        if not data:
            return False
        received_ns = perf_counter_ns()
        for line in self._lines.whole(data).splitlines(keepends=True):
            self.received_ns = received_ns
            self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        counts = self._counts
        counts["received"] += len(line)
        if line.startswith(ANALOG):
            counts["reports"] += 1
            counts["report_bytes"] += len(line)
        elif line.startswith(self._watched):
            self._notice(line.removeprefix(self._watched))
        else:
            self._seen.update(head for head in (READY, IDENTITY) if line.startswith(head))

    def _notice(self, bits: bytes) -> None:
        try:
            level = int(bits, 16) >> self._bit & 1
        except ValueError:
            return  # damaged on its way
        before, self.level = self.level, level
        # The first report of a pin shows its state, and is no change.
        if before is not None and level != before:
            self._on_change(level)

    def wait_ready(self) -> None:
        """Wait until the board has started and answers. Raises MachineError if it does not.

        One that runs already, because opening its port does not reset it, says nothing before it is asked.
        """
        self._heard(READY, START_TIMEOUT_S)
        self.synchronise()

    def reset(self) -> None:
        """Free every pin, and wait until the board has done so. Raises MachineError if it does not answer."""
        self._send(RESET)
        self.synchronise()

    def begin(self) -> None:
        """Begin to count a measurement."""
        self._begun = Counter(self._counts), perf_counter_ns(), process_time_ns()

    def silence(self) -> dict[str, int]:
        """Return bytes and reports since `begin`, time and processor time meanwhile, and the bytes of the session.

        The board's reports of analog pins, which come unasked, end with it: every byte is counted.
        """
        before, began_ns, cpu_ns = self._begun
        since = {name: self._counts[name] - before[name] for name in COUNTED}
        facts = {
            "orders": since["sent"],
            "notices": since["received"] - since["report_bytes"],
            "reports": since["reports"],
            "report_bytes": since["report_bytes"],
            "elapsed_us": (perf_counter_ns() - began_ns) // 1000,
            "cpu_us": (process_time_ns() - cpu_ns) // 1000,
        }
        self._send(SILENCE)
        self.synchronise()
        return facts | {name: self._counts[name] for name in ("sent", "received")}

    def _send(self, data: bytes) -> None:
        self._counts["sent"] += len(data)
        self.transport.write(data)

    def synchronise(self) -> None:
        """Wait until the board has handled everything that was sent. Raises MachineError if it does not."""
        self._send(ASK)
        if not self._heard(IDENTITY, ANSWER_TIMEOUT_S):
            raise MachineError(
                f"The board did not answer within {ANSWER_TIMEOUT_S:g} s.",
                "Is its firmware `firmware/asip`? See `docker compose logs asip-board`.",
            )

    def close(self) -> None:
        """Give the board back."""
        self.transport.close()

    def _heard(self, head: bytes, timeout_s: float) -> bool:
        """Return whether a line with that head comes in time."""
        end_ns = perf_counter_ns() + round(timeout_s * 1e9)
        self._seen.clear()
        while head not in self._seen:
            if not self.serve(end_ns):
                return False
        return True
