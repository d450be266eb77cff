"""A client of the board on one thread: set modes, write pins, watch another."""

import contextlib
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns

from looplab.errors import MachineError
from looplab.experiments.asip.board import (
    ANALOG,
    ASK,
    ERROR,
    IDENTITY,
    PORT,
    READY,
    RESET,
    SILENCE,
    Lines,
    set_mode,
    write_pin,
)
from looplab.experiments.asip.transports import Transport

# A boot loader takes up to 2 s.
START_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 5.0


class _NoAnswer(MachineError):
    """The board said nothing in time."""


class Account:
    """Every byte of a session, and what those of the measurement were.

    `sent` and `received` count the bytes of the whole session, the others what came since `begin`.

    `orders` set an output, `notices` are lines of the watched port, `reports` lines of analog pins that came unasked
    (`report_bytes`); whole lines of any other kind are `others`.
    """

    def __init__(self) -> None:
        self.sent = self.received = 0
        self.begin()

    def begin(self) -> None:
        """Count the measurement from now on."""
        self.orders = self.notices = self.reports = self.report_bytes = self.others = 0
        self._began_ns, self._cpu_ns = perf_counter_ns(), process_time_ns()

    def facts(self) -> dict[str, int]:
        """Return the counts since `begin`, with the time and the processor time of this process meanwhile."""
        names = ("orders", "notices", "reports", "report_bytes", "others")
        times = {"elapsed_us": perf_counter_ns() - self._began_ns, "cpu_us": process_time_ns() - self._cpu_ns}
        return {name: getattr(self, name) for name in names} | {name: ns // 1000 for name, ns in times.items()}


class AsipClient:
    """Speaks ASIP over an open transport.

    >>> client = AsipClient(connect(Way("tcp", "asip-bridge:5000"), "me"))
    >>> client.wait_ready()
    >>> client.set_mode(13, OUTPUT)
    >>> client.write(13, 1)
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.errors = 0
        self.account = Account()
        # When the read returned that completed the last message; monotonic ns.
        self.received_ns = 0
        # That of the watched pin; None before the board's first report of it.
        self.level: int | None = None
        self._lines = Lines()
        self._watched = (-1, 0)
        self._on_change: Callable[[int], None] = lambda _level: None
        self._seen: set[int] = set()

    def watch(self, port: int, bit: int, on_change: Callable[[int], None] = lambda _level: None) -> None:
        """Follow the level of an input from now on; `on_change` is called with each further one."""
        self._watched, self._on_change, self.level = (port, bit), on_change, None

    def set_mode(self, pin: int, mode: int) -> None:
        """Set a pin's mode; an input reports its port at once."""
        self._send(set_mode(pin, mode))

    def write(self, pin: int, value: int) -> None:
        order = write_pin(pin, value)
        self.account.orders += len(order)
        self._send(order)

    def serve(self, until_ns: int) -> bool:
        """Handle what arrives first; False if nothing did until then. Raises LabError if the way is gone."""
        data = self.transport.read(until_ns)
        if not data:
            return False
        received_ns = perf_counter_ns()
        account = self.account
        account.received += len(data)
        for kind, size, port, bits in self._lines.take(data):
            self.received_ns = received_ns
            if kind == ANALOG:
                account.reports += 1
                account.report_bytes += size
                continue
            if kind == PORT and port == self._watched[0]:
                account.notices += size
            else:
                account.others += size
            if kind == PORT:
                self._report(port, bits)
            else:
                self.errors += kind == ERROR
                self._seen.add(kind)
        return True

    def _report(self, port: int, bits: int) -> None:
        watched, bit = self._watched
        before, level = self.level, bits >> bit & 1
        if port == watched and level != before:
            self.level = level
            # The first report of a pin is a state, no change.
            if before is not None:
                self._on_change(level)

    def wait_ready(self) -> None:
        """Wait until the board has started and answers. Raises MachineError if it does not.

        One that runs already, because opening its port does not reset it, says nothing before it is asked.
        """
        self._seen.discard(READY)
        with contextlib.suppress(_NoAnswer):
            self._await(READY, START_TIMEOUT_S)
        self.synchronise()

    def reset(self) -> None:
        """Have no pin report unasked, and wait until that is so. Raises MachineError if the board does not answer."""
        self._send(RESET)
        self.synchronise()

    def silence(self) -> dict[str, int]:
        """Return the bytes since `account.begin`; end the session so that nothing more comes, and every byte counts."""
        facts = self.account.facts()
        self._send(SILENCE)
        self.synchronise()
        return {**facts, "sent": self.account.sent, "received": self.account.received}

    def _send(self, data: bytes) -> None:
        self.account.sent += len(data)
        self.transport.write(data)

    def synchronise(self) -> None:
        """Wait until the board has handled everything that was sent. Raises MachineError if it does not."""
        self._seen.discard(IDENTITY)
        self._send(ASK)
        self._await(IDENTITY, ANSWER_TIMEOUT_S)

    def close(self) -> None:
        """Give the board back."""
        self.transport.close()

    def _await(self, kind: int, timeout_s: float) -> None:
        end_ns = perf_counter_ns() + round(timeout_s * 1e9)
        while kind not in self._seen:
            if not self.serve(end_ns):
                raise _NoAnswer(
                    f"The board did not answer within {timeout_s:g} s.",
                    "Is its firmware `firmware/asip`? See `docker compose logs asip-board`.",
                )
