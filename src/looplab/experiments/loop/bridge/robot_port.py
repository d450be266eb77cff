"""The robot's serial port: opened by name or URL, greeted, used, and reopened with back-off.

    CLOSED -> OPENING -> GREETING -> IDENTIFYING -> SETTLING -> READY     online: SETTLING and READY

| state | what happens | leaves it |
|---|---|---|
| CLOSED | nothing | `maintain` starts to open the port |
| OPENING | a helper thread opens it, after a pause if that failed before | open: GREETING; failed: CLOSED |
| GREETING | waits for the ready line of a board that opening has reset | ready line: READY; time over: IDENTIFYING |
| IDENTIFYING | has asked `?` of a board that was not reset | answer: SETTLING; ready line: READY; time over: CLOSED |
| SETTLING | ignores what comes, for it may answer an earlier request | silence or a ready line: READY |
| READY | requests and answers | an answer is missed (`resynchronise`): SETTLING |

From every state with an open port, an error of that port leads to CLOSED.
"""

import enum
import threading
from time import perf_counter_ns

import serial

from looplab.experiments.loop.bridge.robot_answers import SILENT, UNPLUGGED, Answers, Faults, Reply
from looplab.experiments.loop.bridge.serial_device import latency_timer_ms, open_port
from looplab.system.background import Attempt

# Pauses before the port is opened again; longer ones would make the person who plugs the robot in wait for it.
REOPEN_S = (0.0, 0.1, 0.2, 0.5)
# A Mega's boot loader takes up to 2 s after the reset that opening the port causes.
READY_TIMEOUT_NS = 3_000_000_000
IDENTITY_TIMEOUT_NS = 500_000_000
# After a missed answer, silence this long means that nothing of it is still on its way.
QUIET_NS = 20_000_000
READ_BYTES = 4096

State = enum.Enum("State", "CLOSED OPENING GREETING IDENTIFYING SETTLING READY")


class RobotPort:
    """A non-blocking serial port to one robot; every method returns at once.

    `fault` explains why the robot is not online; `faults` counts what happened to it in use. `descriptors` are to be
    watched for input; a port without one `must_poll`.
    """

    def __init__(self, url: str, framing: str, *, low_latency: bool = False) -> None:
        self.url = url
        self.framing = framing
        # Of the adapter of a device that is open, if it has one.
        self.latency_timer_ms: int | None = None
        self._low_latency = low_latency
        self.identity = ""
        self.fault = "not opened yet"
        self.faults = Faults()
        self.reopened = -1
        self.descriptors: tuple[int, ...] = ()
        self.must_poll = False
        self._state = State.CLOSED
        self.answers = Answers(framing, self.faults)
        self._opening: Attempt[serial.SerialBase] | None = None
        self._port: serial.SerialBase | None = None
        self._failures = 0
        # GREETING or IDENTIFYING ends at the deadline; a SETTLING port is silent since then.
        self._deadline_ns = self._silent_ns = 0

    @property
    def online(self) -> bool:
        """Whether the robot has identified itself."""
        return self._state in (State.SETTLING, State.READY)

    def write(self, command: bytes) -> bool:
        """Send a command; False if the robot cannot receive it."""
        self._settle()
        return self._state is State.READY and self._put(self.answers.ask(command))

    def read(self) -> list[Reply]:
        """Return what has arrived from the robot."""
        data = self._take()
        if not data:
            return []
        if self._state is State.READY:
            replies, to_send = self.answers.cut(data)
            if to_send:
                self._put(to_send)
            return replies
        if self._state is State.SETTLING:
            self._silent_ns = perf_counter_ns()
            if self.answers.saw_reset(data):
                self._state = State.READY
        else:
            self._hear(data)
        return []

    def resynchronise(self) -> None:
        """Forget half answers after the robot missed its time, and settle."""
        self.faults.note(SILENT, "no answer in time: switched off, hanging, or the request was lost on the wire")
        self.answers.forget()
        if self.online:
            self._state, self._silent_ns = State.SETTLING, perf_counter_ns()

    def maintain(self) -> None:
        """Open, reopen, greet: called now and then while nothing is measured or nothing works."""
        self._settle()
        if self._state is State.CLOSED:
            pause_s = REOPEN_S[min(self._failures, len(REOPEN_S) - 1)]
            self._opening = Attempt(lambda: open_port(self.url, low_latency=self._low_latency), pause_s)
            self._state = State.OPENING
        elif self._opening is not None:
            # Read only once the helper has ended, so that no port is opened twice.
            if not self._opening.is_alive():
                opening, self._opening = self._opening, None
                self._opened(opening)
        elif not self.online:
            self.read()
            if self._state in (State.GREETING, State.IDENTIFYING) and perf_counter_ns() > self._deadline_ns:
                self._time_over()

    def take_restart(self) -> bool:
        """Return True once after the robot or its port went away: requests that wait for it are lost."""
        restarted, self.answers.restarted = self.answers.restarted, False
        return restarted

    def close(self) -> None:
        if self._port is not None:
            self._port.close()

    def _opened(self, opening: Attempt[serial.SerialBase]) -> None:
        """OPENING -> GREETING, or CLOSED if the port could not be opened."""
        if opening.result is None:
            self._failures += 1
            self.fault, self._state = f"cannot open {opening.error}", State.CLOSED
            return
        self._port = opening.result
        self.reopened += 1
        self._state, self._deadline_ns = State.GREETING, perf_counter_ns() + READY_TIMEOUT_NS
        self.fault = "waiting for the robot's ready line"
        self.latency_timer_ms = latency_timer_ms(str(self._port.port))
        try:
            self.descriptors, self.must_poll = (self._port.fileno(),), False
        except (AttributeError, OSError, serial.SerialException):
            self.descriptors, self.must_poll = (), True

    def _hear(self, data: bytes) -> None:
        """GREETING or IDENTIFYING -> READY after a ready line, SETTLING after an answer to `?`."""
        found = self.answers.identity(data, asked=self._state is State.IDENTIFYING)
        if found:
            self.identity, ready = found
            self.fault, self._failures = "", 0
            self.answers.forget()
            self._state = State.READY if ready else State.SETTLING
            self._silent_ns = perf_counter_ns()

    def _time_over(self) -> None:
        """GREETING -> IDENTIFYING: a board that opening did not reset answers `?`. IDENTIFYING -> CLOSED."""
        if self._state is State.IDENTIFYING:
            self._close("the port is open, but no robot of the lab answers on it (is the lab's firmware flashed?)")
            return
        self._state, self._deadline_ns = State.IDENTIFYING, perf_counter_ns() + IDENTITY_TIMEOUT_NS
        self.answers.forget()
        self._put(b"?")

    def _settle(self) -> None:
        """SETTLING -> READY once the port has been silent for QUIET_NS."""
        if self._state is State.SETTLING:
            # Bytes that have arrived but were not read yet are no silence.
            self.read()
            if self._state is State.SETTLING and perf_counter_ns() - self._silent_ns > QUIET_NS:
                self.answers.forget()
                self._state = State.READY

    def _close(self, why: str) -> None:
        """Any state with an open port -> CLOSED."""
        port, self._port = self._port, None
        if self.online:
            self.faults.note(UNPLUGGED, "cable out, or the port gone")
        self._state, self.fault = State.CLOSED, why
        self._failures += 1
        self.descriptors, self.must_poll = (), False
        self.answers.forget()
        self.answers.restarted = True
        if port is not None:
            # A helper thread closes it: pyserial sleeps after closing a network port, up to 7 s for rfc2217://.
            threading.Thread(target=port.close, daemon=True).start()

    def _put(self, data: bytes) -> bool:
        try:
            self._port.write(data)  # type: ignore[union-attr]
        except (OSError, serial.SerialException) as error:
            self._close(f"writing failed: {error}")
            return False
        return True

    def _take(self) -> bytes:
        if self._port is None:
            return b""
        data = b""
        try:
            # rfc2217:// gives one byte at a time.
            while len(data) < READ_BYTES and (more := self._port.read(READ_BYTES)):
                data += more
                if not self.must_poll:
                    break
            if not data and self.descriptors:
                # Some drivers report a port as readable before they fail.
                data = bytes(self._port.read(1))
        except (OSError, serial.SerialException) as error:
            self._close(f"reading failed: {error}")
        return data
