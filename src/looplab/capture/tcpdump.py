"""One capture at a time: tcpdump writes packets to a file in memory and reports at its end what the kernel dropped."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from looplab.capture.segments import Segment, read
from looplab.errors import LabError, MachineError
from looplab.system.own_process import end_child

FOLDER = Path(os.environ.get("CAPTURE_FOLDER") or "/captures")
BUFFER_KIB = 16384
# tcpdump ends by itself at this number: some ten times what 10 000 messages at QoS 2 take.
MOST_PACKETS = 2_500_000
# The kernel hands over packets in blocks, at each second tick of a timer of 1 s; an ended tcpdump leaves the last one.
BLOCKS_S = 2.5
START_TIMEOUT_S, LOOK_S = 15.0, 0.01
STOP_TIMEOUT_S = 30.0
_CAPTURED = re.compile(r"^(\d+) packets? captured$", re.MULTILINE)
_DROPPED = re.compile(r"^(\d+) packets? dropped by kernel$", re.MULTILINE)


class Capture:
    """A running tcpdump, beside clients or `at_broker`. Raises LabError (exit code 3) if it does not begin."""

    def __init__(self, broker_port: int, *, at_broker: bool = False) -> None:
        self._path, self._log = FOLDER / "cell.pcap", FOLDER / "cell.log"
        self._path.unlink(missing_ok=True)
        # With netem, an arriving packet leaves once more by the ifb device: count it only when it arrives.
        wanted = f"tcp port {broker_port} and not (outbound and src port {broker_port})"
        if at_broker:
            # On loopback each packet is seen twice.
            wanted = f"tcp port {broker_port} and not host 127.0.0.1 and not host ::1"
        command = [
            *("tcpdump", "-n", "-p", "-i", "any", "-B", str(BUFFER_KIB), "-c", str(MOST_PACKETS)),
            *("-w", str(self._path), wanted),
        ]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        if not self._begins():
            self.abandon()
            raise MachineError(
                f"tcpdump cannot capture packets: {self._last_line()}.",
                "Give the capture's container cap_add: [NET_RAW, SETUID, SETGID] and start it as root.",
            )

    def figures(self, dissect: Callable[[Iterable[Segment]], dict[str, Any]]) -> dict[str, Any]:
        """End the capture and return what `dissect` finds, with the numbers of `captured` and `dropped` frames.

        Raises LabError (exit code 1) if the capture is not whole.
        """
        ended_early = self._process.poll() is not None
        time.sleep(0 if ended_early else BLOCKS_S)
        end_child(self._process, STOP_TIMEOUT_S)
        output = self._log.read_text()
        captured, dropped = _CAPTURED.search(output), _DROPPED.search(output)
        try:
            if ended_early or captured is None or dropped is None:
                message = f"The capture ended before the cell did: {self._last_line()}."
                raise LabError(message, "Lower MESSAGES, or WATCH_S.")
            figures = dissect(read(self._path))
        finally:
            self._path.unlink(missing_ok=True)
        return {"captured": int(captured[1]), "dropped": int(dropped[1]), **figures}

    def abandon(self) -> None:
        """End it and keep nothing."""
        end_child(self._process, STOP_TIMEOUT_S)
        self._path.unlink(missing_ok=True)

    def _begins(self) -> bool:
        """Return whether it takes packets, which it prints once its socket is open and its filter set."""
        end_s = time.monotonic() + START_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < end_s:
            if "listening on " in self._log.read_text():
                return True
            time.sleep(LOOK_S)
        return False

    def _last_line(self) -> str:
        return self._log.read_text().strip().rpartition("\n")[2].rstrip(".") or "it printed nothing"
